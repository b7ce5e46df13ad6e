"""Kind <-> frozen dataclass <-> JSON <-> run key: every component is declared once, by its class.

A component is a frozen dataclass that says what to do and holds no state: a conversion, a bonus, an environment, a
learner, or a part of one of these. Its ``kind`` is the word for it on the command line, in studies and in files. Ours
declare it; anybody else's class is named by its import path, ``package.module:Class``.
"""

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib import import_module
from types import FunctionType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from pbim.errors import InputError, InputTypeError, MissingExtraError, RepaymentWarning, choose

Family = Literal["shaping", "intrinsic", "env", "learner", "method"]
"""The families of components."""
JSON = Any
"""What ``json`` reads and writes: numbers, strings, booleans, None, lists and mappings of them."""

HOMES: dict[Family, str] = {
    "shaping": "pbim.shaping",
    "intrinsic": "pbim.intrinsic",
    "env": "pbim.envs",
    "learner": "pbim.agents",
    "method": "pbim.agents",
}
"""The package whose public names are the components of a family."""

MARKS: dict[Family, str] = {
    "shaping": "guarantee",
    "intrinsic": "reward",
    "env": "obs_shape",
    "learner": "metrics",
    "method": "lesson",
}
"""What a class of a family has, and a part of one (a centring, an encoding) has not."""

_BOOL = (True, False)
"""The choices of a bool."""

SCHEMA = 2
"""The version of a run's configuration; part of its key."""

OLD_DEFAULT = "old default"
"""The metadata of a field whose default has changed: documents still leave the old one out, so no key changes."""

T = TypeVar("T")


class Component:
    """What every component of ours derives from: a ``kind``, and Literal fields checked on construction.

    A subclass is a frozen keyword-only dataclass. One with a ``__post_init__`` of its own calls this one.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_choices(self)


def check_choices(component: Any) -> None:
    """Refuse a value that its field's ``Literal`` does not name, and what is no bool where one is needed.

    Raises:
        InputError: With the field, the choices, what was received and the nearest choice.

    """
    cls: Any = type(component)
    for name, choices in _choices(cls).items():
        value = getattr(component, name)
        if choices == _BOOL and not isinstance(value, bool | np.bool_):
            raise InputTypeError(f"{name} must be True or False, received {value!r}: pass one of the two")
        if isinstance(value, str) or value not in choices:
            choose(name, value, [choice for choice in choices if isinstance(choice, str)])


def kind_of(component: Any) -> str:
    """Return the word for a component or its class: its ``kind``, or its import path if it is not ours.

    >>> import pbim
    >>> kind_of(pbim.GRM(gamma=0.99)), kind_of(Fraction)
    ('grm', 'fractions:Fraction')
    """
    cls: Any = component if isinstance(component, type) else type(component)
    if cls.__module__.split(".")[0] == "pbim" and "kind" in vars(cls):
        return str(cls.kind)
    if "<locals>" in cls.__qualname__:
        raise InputTypeError(
            f"a component must be a class that can be imported by its name, received {cls.__qualname__}: define it at "
            "the top of a module"
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def components(family: Family) -> Iterator[type[Any]]:
    """Yield the classes of a family in its package's order of public names, without those of a missing extra."""
    for cls in _parts(family):
        if hasattr(cls, MARKS[family]):
            yield cls


def _parts(family: Family) -> Iterator[type[Any]]:
    package = import_module(HOMES[family])
    for name in package.__all__:
        try:
            found = getattr(package, name)
        except MissingExtraError:
            continue
        if isinstance(found, type) and dataclasses.is_dataclass(found) and "kind" in vars(found):
            yield found


def find(family: Family, name: str) -> type[Any]:
    """Return the class that a kind or an import path names; names resolve exactly, a near miss only suggests.

    Args:
        family: Which components to look among.
        name: A kind such as ``geometric``, or an import path such as ``my_package.my_module:MyConversion``.

    Raises:
        InputError: If there is no such class, with the nearest kind; or if it is not a frozen dataclass.

    >>> find("shaping", "geometric").__name__
    'Geometric'

    """
    if ":" in name:
        return _imported(family, name)
    for cls in components(family):
        if cls.kind == name:
            return cls
    known = [cls.kind for cls in components(family)]
    choose(family, name, [*known, "package.module:Class"])
    raise AssertionError("choose refuses what is not known")


def _imported(family: str, path: str) -> type[Any]:
    module, _, name = path.partition(":")
    try:
        cls: Any = import_module(module)
        for part in name.split("."):
            cls = getattr(cls, part)
    except MissingExtraError:
        raise
    except Exception as error:  # the module is the user's, and may raise anything
        raise InputError(
            f"{family} must be a kind or an import path package.module:Class, received {path!r} "
            f"({type(error).__name__}: {error}): check the spelling, and that Python finds and imports the module from "
            "here"
        ) from None
    parameters = getattr(cls, "__dataclass_params__", None)
    if not isinstance(cls, type) or parameters is None or not parameters.frozen:
        raise InputTypeError(
            f"{family} must name a frozen dataclass, received {path!r}, which is {type(cls).__name__} {name}: "
            "decorate it with @dataclass(frozen=True, kw_only=True)"
        )
    return cls


def encode(value: Any) -> JSON:
    """Return a component, with everything in it, as plain JSON; ``decode`` is the inverse.

    Raises:
        InputTypeError: If it holds what has no name, such as a lambda or an open file.

    >>> import pbim
    >>> encode(pbim.GRM(gamma=0.99, delay=8))
    {'kind': 'grm', 'gamma': 0.99, 'normalize': True, 'max_steps': None, 'delay': 8}

    """
    return _encoded(value, "", {})


def encode_short(value: Any) -> tuple[JSON, dict[str, JSON]]:
    """Return a component as JSON without the fields that have their default, and these by dotted path.

    >>> import pbim
    >>> encode_short(pbim.GRM(gamma=0.99, delay=8))
    ({'kind': 'grm', 'gamma': 0.99, 'delay': 8}, {'normalize': True, 'max_steps': None})
    """
    defaults: dict[str, JSON] = {}
    return _encoded(value, "", defaults, short=True), defaults


def decode(data: JSON) -> Any:
    """Return the component that ``encode`` or ``encode_short`` wrote.

    >>> import pbim
    >>> decode({"kind": "grm", "gamma": 0.99, "delay": 8}) == pbim.GRM(gamma=0.99, delay=8)
    True
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepaymentWarning)  # who made it first was warned
            return _decoded(data)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, ImportError, AttributeError) as error:
        raise InputError(
            f"data must be what encode wrote, received {str(data)[:80]} ({error}): use the pbim that wrote it"
        ) from None


def _decoded(data: JSON) -> Any:
    if isinstance(data, list):
        return tuple(map(_decoded, data))
    if not isinstance(data, Mapping):
        return data
    if data.keys() == {"fraction"}:
        return Fraction(data["fraction"])
    if data.keys() == {"float"}:
        return float(data["float"])
    if data.keys() == {"function"}:
        return _function(data["function"])
    if "kind" not in data:
        return {name: _decoded(part) for name, part in data.items()}
    cls = _class_of(str(data["kind"]))
    fields = dataclasses.fields(cls)
    absent = {field.name: field.metadata[OLD_DEFAULT] for field in fields if OLD_DEFAULT in field.metadata}
    return cls(**absent | {name: _decoded(part) for name, part in data.items() if name != "kind"})


def canonical(data: JSON) -> str:
    """Return the one text of JSON data: sorted names, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.5, None]})
    '{"a":[0.5,null],"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def run_document(learner: Any, seed: int) -> dict[str, JSON]:
    """Return everything that determines a run, as its ``config.json`` holds it.

    ``learner`` has only what differs from the defaults, which stand beside it: a new field with a default changes no
    key, and the row still says every setting.
    """
    short, defaults = encode_short(learner)
    return {"schema": SCHEMA, "learner": short, "defaults": defaults, "seed": seed}


def key_of(document: Mapping[str, JSON]) -> str:
    """Return the name of a run: 16 hexadecimal digits, of its configuration without the defaults.

    >>> one = {"schema": 2, "learner": {"kind": "ppo"}, "defaults": {}, "seed": 0}
    >>> key_of(one) == key_of({**one, "seed": 1})
    False
    """
    named = {name: value for name, value in document.items() if name != "defaults"}
    return hashlib.sha256(canonical(named).encode()).hexdigest()[:16]


def strict(data: JSON) -> JSON:
    """Return JSON data with None in place of NaN and infinity, which strict readers refuse.

    >>> strict({"worst": float("inf"), "episodes": 3})
    {'worst': None, 'episodes': 3}
    """
    if isinstance(data, Mapping):
        return {name: strict(part) for name, part in data.items()}
    if isinstance(data, list | tuple):
        return [strict(part) for part in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _encoded(value: Any, path: str, defaults: dict[str, JSON], *, short: bool = False) -> JSON:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, tuple | list):
        return [_encoded(part, f"{path}.{index}", defaults, short=short) for index, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encoded_fields(value, path, defaults, short=short)
    if isinstance(value, FunctionType):
        return {"function": _path_of(value, path)}
    raise InputTypeError(
        f"{path.lstrip('.') or 'a component'} must be numbers, texts, tuples, frozen dataclasses or functions of a "
        f"module to be stored, received {type(value).__name__}: write it as one of these"
    )


def _encoded_fields(value: Any, path: str, defaults: dict[str, JSON], *, short: bool) -> dict[str, JSON]:
    found: dict[str, JSON] = {"kind": kind_of(value)}
    cls: Any = type(value)
    hints = _hints(cls)
    for field in dataclasses.fields(value):
        if not field.init:
            continue
        place, hint = f"{path}.{field.name}", hints[field.name]
        part, default = _number(getattr(value, field.name), hint), _number(_default(field), hint)
        if short and type(part) is type(default) and part == default:
            defaults[place.lstrip(".")] = _encoded(part, place, {})
        else:
            found[field.name] = _encoded(part, place, defaults, short=short)
    return found


def _number(value: Any, hint: Any) -> Any:
    """Return a setting as its field means it: 1 and 1.0 are one setting of a float."""
    value = value.item() if isinstance(value, np.generic) else value
    return float(value) if type(value) is int and _wants_float(hint) else value


def _default(field: "dataclasses.Field[Any]") -> Any:
    """Return the value that documents leave out."""
    if OLD_DEFAULT in field.metadata:
        return field.metadata[OLD_DEFAULT]
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _path_of(function: FunctionType, path: str) -> str:
    """Return the shortest public import path of a function."""
    parts = function.__module__.split(".")
    for end in range(1, len(parts) + 1):
        module = ".".join(parts[:end])
        if getattr(import_module(module), function.__name__, None) is function:
            return f"{module}:{function.__name__}"
    raise InputTypeError(
        f"{path.lstrip('.') or 'a component'} must be a function that can be imported by its name, received "
        f"{function.__qualname__}: define it at the top of a module"
    )


def _function(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _class_of(kind: str) -> type[Any]:
    if ":" in kind:
        return _imported("kind", kind)
    for family in HOMES:
        for cls in _parts(family):
            if cls.kind == kind:
                return cls
    near = get_close_matches(kind, [cls.kind for family in HOMES for cls in _parts(family)], n=1)
    raise InputError(
        f"kind must name a component of pbim, received {kind!r}: "
        + (f"did you mean {near[0]!r}?" if near else "use the pbim that wrote it")
    )


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _choices(cls: Any) -> dict[str, tuple[Any, ...]]:
    """Return the choices of every field that is a bool, a Literal, or a Literal or None."""
    found = {}
    for field in dataclasses.fields(cls):
        parts = _alternatives(_hints(cls)[field.name])
        if parts == (bool,):
            found[field.name] = _BOOL
        if any(get_origin(part) is Literal for part in parts):
            options = [get_args(part) if get_origin(part) is Literal else (None,) for part in parts]
            if all(get_origin(part) is Literal or part is type(None) for part in parts):
                found[field.name] = tuple(option for group in options for option in group)
    return found


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _wants_float(hint: Any) -> bool:
    return float in _alternatives(hint) and int not in _alternatives(hint)
