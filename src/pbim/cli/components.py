"""Components on the command line: ``--shaping NAME`` picks a class, and its fields become options by themselves.

NAME is a kind (``pbim list`` shows them) or the import path of your own class, ``package.module:Class``. A field of the
chosen class is ``--shaping.field``, or ``--field`` for short where no other option has that name.
"""

import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import MISSING, fields
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import zip_longest
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import tyro

from pbim.config import Family, components as known, decode, find
from pbim.errors import InputError, InputTypeError, choose
from pbim.shaping import Centring, Shaping, recommended
from pbim.verification.numbers import parse

STYLE = (tyro.conf.SuppressFixed, tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff)

TAKEN = ("--shaping", "--intrinsic", "--method", "--skills", "--alpha", "--frames")
"""Options that are read before tyro reads the others, so that it cannot name them where one is mistyped."""

_Command = TypeVar("_Command")


def read(
    cls: type[_Command], name: str, words: Sequence[str], default: _Command | None = None, *, exact: bool = False
) -> _Command:
    """Return the command that the words after ``pbim NAME`` ask for.

    Raises:
        InputError: If tyro does not understand them; its box of several lines becomes one sentence.

    """
    given: dict[str, Any] = {} if default is None else {"default": default}
    said, page = io.StringIO(), _Page()
    try:
        with registry(exact=exact), redirect_stderr(said), redirect_stdout(page):
            made: _Command = tyro.cli(cls, prog=f"pbim {name}", args=words, config=STYLE, **given)
    except SystemExit as stop:
        if stop.code:
            raise InputError(f"{_sentence(said.getvalue())}; see pbim {name} --help") from None
        print(_folded(page.getvalue(), min(shutil.get_terminal_size().columns, 110)))
        raise
    sys.stderr.write(said.getvalue())
    return made


class _Page(io.StringIO):
    """What tyro prints, coloured where our own output is."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def _folded(page: str, width: int) -> str:
    r"""Return a help page as a terminal shows it best.

    Paragraphs are folded (tyro leaves one line each). Double empty lines and the quotes of reStructuredText go.

    >>> print(_folded("Set --max-steps to ``n``.\n\n\n│ a box stays as it is   │\n", 16))
    Set --max-steps
    to n.
    <BLANKLINE>
    │ a box stays as it is   │
    """
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_shown(line, width) for line in page.splitlines())).rstrip()


def _shown(line: str, width: int) -> str:
    if "│" in line or "─" in line:
        return line
    line = line.replace("``", "").rstrip()
    bare = _plain(line)
    return line if len(bare) <= width else textwrap.fill(bare, width, break_on_hyphens=False, break_long_words=False)


def _plain(text: str) -> str:
    """Return a text without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _sentence(box: str) -> str:
    r"""Return what a box of tyro says, as one sentence.

    >>> _sentence("╭─ Required options ─╮\n│ Missing from pbim report: │\n│ FOLDER │\n│ A folder. (required) │\n╰─╯")
    'FOLDER is missing: a folder'
    >>> _sentence("title\n│ invalid choice 'slurm' for argument '--engine'. Expected one of ('local', 'ray'). │")
    "--engine must be one of local, ray, received 'slurm'"
    """
    lines = [_plain(line).strip("│╭╮╰╯ ") for line in box.splitlines()]
    text = " ".join(lines[1:])  # the first is the title
    first, *others = filter(None, (" ".join(part.split()) for part in re.split("─{3,}|-{3,}", text)))
    missing = re.match(r"Missing from pbim [\w-]+: (\S+) (.*?)\.? \(required\)", first)
    if missing:
        return f"{missing[1]} is missing: {missing[2][0].lower()}{missing[2][1:].partition('. ')[0]}"
    if empty := re.match(r"Missing value for argument '(\S+)'", first):
        return f"{empty[1]} must be followed by a value, received nothing"
    if choice := re.match(r"invalid choice ('.*') for argument '(\S+)'. Expected one of \((.*?),?\)", first):
        known = choice[3].replace("'", "")
        return f"{choice[2]} must be one of {known}, received {choice[1]}"
    if ours := re.match(r"Error parsing [\w.]+: (\w+ must .*)", first):  # an InputError of the component itself
        return ours[1].rstrip(".")
    word = re.match(
        r"Error parsing (\S+): (invalid literal|could not convert|Invalid literal for Fraction).*?: ('.*')", first
    )
    if word:  # Python's words for a text that is no int, float or fraction
        return f"{word[1]} must be a {'whole ' * word[2].startswith('invalid')}number, received {word[3]}"
    near = next((re.search(r"--[\w.-]+", part) for part in others if part.startswith("Perhaps")), None)
    names = [near[0]] if near else get_close_matches(first.partition(": ")[2].split(",")[0], TAKEN, n=1)
    return first.rstrip(".") + "".join(f": did you mean {name}?" for name in names)


def import_from_here() -> None:
    """Let Python find modules in the current folder, as ``python -m`` does."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def take(arguments: Sequence[str], option: str, default: str) -> tuple[str, list[str]]:
    """Return the value of ``--option VALUE`` or ``--option=VALUE``, the last if given twice, and the other words.

    >>> take(["DoorKey-8x8", "--shaping", "grm", "--gamma=0.9"], "--gamma", "0.99")
    ('0.9', ['DoorKey-8x8', '--shaping', 'grm'])
    """
    value, rest, words = default, list[str](), iter(arguments)
    for word in words:
        name, equals, text = word.partition("=")
        if name != option:
            rest.append(word)
            continue
        value = text if equals else next(words, "")
        if not value or value.startswith("--"):
            raise InputError(f"{option} must be followed by a value, received {value or 'nothing'}: add one")
    return value, rest


def make(family: Family, name: str, **offered: Any) -> Any:
    """Return the component that a name means, made with what is offered for its fields and else with its defaults.

    Raises:
        InputError: If the name is unknown, or the class needs what the command line cannot give.

    """
    if ":" in name:
        import_from_here()
    cls = find(family, name)
    known = [field.name for field in fields(cls) if field.init]
    given = {field: value for field, value in offered.items() if field in known}
    needed = [
        field.name
        for field in fields(cls)
        if field.init and field.default is MISSING and field.default_factory is MISSING and field.name not in given
    ]
    if needed:
        raise InputError(
            f"{family} {name} needs {', '.join(needed)}, which the command line cannot give: use it from Python, or "
            "give your own class defaults and name it by its import path"
        )
    return cls(**given)


def conversion(name: str, gamma: Any, gae_lambda: float = 0.95, frames: int = 2_000_000) -> Shaping[Any]:
    """Return the conversion that a name means, with what is recommended for a learner.

    A rate or a delay is that of its gamma and lambda; a bonus that fades is gone after half of its frames.
    """
    known = gae_lambda if 0 <= gae_lambda < 1 else 0.95  # at 1 none guides, which is said when training starts
    halves = {"geometric": recommended(gamma, known), "grm": recommended(gamma, known, "grm")}
    if name in halves:
        return halves[name]
    members = tuple(halves.values())
    made: Shaping[Any] = make(
        "shaping", name, gamma=gamma, decay_steps=max(1, frames // 2), members=members, discount="start"
    )
    return made


def is_method(name: str) -> bool:
    """Tell whether a word of ``--shaping`` means a method: the answer to the same question as a conversion.

    Raises:
        InputError: If it means neither, with the nearest name.

    """
    from pbim.agents import Method

    if ":" in name:
        import_from_here()
        return issubclass(find("shaping", name), Method)
    methods = [cls.kind for cls in known("method")]
    choose("shaping", name, [*(cls.kind for cls in known("shaping")), *methods, "package.module:Class"])
    return name in methods


def method(name: str, **given: Any) -> Any:
    """Return the method that a name means; None for none."""
    from pbim.agents import Method

    made = None if name == "none" else make("method", name, **given)
    if made is not None and not (isinstance(made, Method) and hasattr(made, "guarantee")):
        raise InputTypeError(
            f"method must name a class derived from pbim.agents.Method with a guarantee, received {name!r}: pass one "
            "that pbim list shows"
        )
    return made


def lengthen(arguments: Sequence[str], own: Sequence[str], components: dict[str, Any]) -> list[str]:
    """Return the words with the short names of components' fields written out.

    Args:
        arguments: What was typed.
        own: The names of the command's own options, which come first.
        components: The chosen components by prefix.

    >>> from pbim.shaping import Geometric
    >>> lengthen(["--rate", "0.1", "--no-normalize"], ["gamma"], {"shaping": Geometric(gamma=0.99)})
    ['--shaping.rate', '0.1', '--shaping.normalize', 'False']

    """
    homes: dict[str, list[str]] = {}
    for prefix, component in components.items():
        for field in fields(component) if component is not None else ():
            homes.setdefault(_option(field.name), []).append(prefix)
    words = []
    for word, following in zip_longest(arguments, arguments[1:], fillvalue="--"):
        name, equals, text = word.removeprefix("--").partition("=")
        bare = name.removeprefix("no-")
        home = homes.get(name if name in homes else bare, [])
        family, dot, _ = name.partition(".")
        if word.startswith("--") and dot and components.get(family, own) is None:
            raise InputError(f"--{name} must go with --{family}, received it without: name one, or leave it out")
        if word.startswith("--") and not home and name not in own and bare not in own:
            _refuse_foreign(name, bare)
        if not word.startswith("--") or name in own or bare in own or len(home) != 1:
            words.append(word)
        elif bare == "normalize" and not equals and home == ["shaping"] and following.startswith("--"):
            words += [f"--shaping.{bare}", str(bare == name)]
        else:
            words.append(f"--{home[0]}.{name}{equals}{text}")
    return words


def _refuse_foreign(*names: str) -> None:
    """Refuse the option of a component that was not chosen; what nobody has is for tyro to refuse."""
    families: tuple[Family, ...] = ("shaping", "intrinsic", "method")
    owners = {
        family: [cls.kind for cls in known(family) if set(names) & set(options_of(cls))]
        for family in families
        if family != "method" or find_spec("jax") is not None
    }
    named = " or ".join(f"--{family} {' or '.join(kinds)}" for family, kinds in owners.items() if kinds)
    if named:
        converts = ", and the bonus that it converts" if owners["shaping"] else ""
        raise InputError(f"--{names[0]} must go with {named}, received it without: name one of them{converts}")


def registry(*, exact: bool = False) -> tyro.constructors.ConstructorRegistry:
    """Return how tyro reads what our fields hold: numbers (Fractions if ``exact``), centrings, None as none."""
    made = tyro.constructors.ConstructorRegistry()

    @made.primitive_rule
    def real(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if info.type not in (Real, Real | float) and not (exact and info.type is float):
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="NUMBER",
            instance_from_str=lambda words: parse(words[0]) if exact else float(parse(words[0])),
            is_instance=lambda value: isinstance(value, Real),
            str_from_instance=lambda value: [str(value)],
        )

    @made.primitive_rule
    def optional(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        cls = next((each for each in (int, float, str, Path) if info.type == each | None), None)
        if cls is None:
            return None
        number = cls in (int, float)  # a text or a path is left out instead: "none" may be its name
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar=f"{cls.__name__.upper()}|none" if number else cls.__name__.upper(),
            instance_from_str=lambda words: None if number and words[0].lower() == "none" else cls(words[0]),
            is_instance=lambda value: value is None or isinstance(value, cls),
            str_from_instance=lambda value: ["none" if value is None else str(value)],
        )

    @made.primitive_rule
    def absent(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if info.type is not type(None):  # a component that was not named; `take` reads its name before tyro does
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="NAME",
            instance_from_str=_none,
            is_instance=lambda value: value is None,
            str_from_instance=lambda _: ["none"],
        )

    @made.primitive_rule
    def centring(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if info.type not in (Centring, bool | Centring):
            return None
        switch = {"true": True, "false": False}
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="true|false|CENTRING",
            instance_from_str=lambda words: (
                switch[words[0].lower()] if words[0].lower() in switch else decode({"kind": words[0]})
            ),
            is_instance=lambda value: isinstance(value, bool | Centring),
            str_from_instance=lambda value: [str(value).lower() if isinstance(value, bool) else value.kind],
        )

    return made


def options_of(cls: type[Any]) -> list[str]:
    """Return the names of a dataclass's fields as options."""
    return [_option(field.name) for field in fields(cls)]


def check_seed(seed: int) -> None:
    """Refuse a seed that not every random generator takes."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, received {seed}: 0 is the first")


def _none(words: Sequence[str]) -> None:
    """Read ``none`` alone: any other text is for the other types of a field that may be None."""
    if words[0].lower() != "none":
        raise ValueError(f"{words[0]!r} is not none")


def _option(field: str) -> str:
    """Return a field's name as the command line writes it."""
    return field.replace("_", "-")
