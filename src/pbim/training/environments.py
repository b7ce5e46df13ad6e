"""Environments by name; a name resolves exactly, and a near miss only suggests."""

from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from pbim.config import find
from pbim.envs import ENVIRONMENTS, Flattened, Interface
from pbim.envs.catalogue import gymnasium_id
from pbim.envs.protocol import SMALLEST_IMAGE
from pbim.errors import InputError, InputTypeError

LIBRARIES = ("gymnax", "craftax", "navix", "xminigrid", "gymnasium")
"""The kinds of environments that are named by an id of their library, KIND:ID."""


def environment(name: str) -> Interface:
    """Return the environment of that name; one whose views are too small to convolve comes flattened.

    Args:
        name: One of ``pbim.envs.ENVIRONMENTS`` or its Gymnasium id, which stands for the compiled one; ``KIND:ID`` of
            gymnax, craftax, navix, xminigrid or gymnasium; an id that is registered with Gymnasium; or an import path
            ``package.module:Class`` of a frozen dataclass, which is made without arguments.

    Raises:
        InputError: If there is no such environment, with the nearest name.

    >>> environment("pbim/DoorKey-8x8-v0") == environment("DoorKey-8x8")
    True

    """
    ours = {**ENVIRONMENTS, **{gymnasium_id(short): env for short, env in ENVIRONMENTS.items()}}
    if name in ours:
        return ours[name]
    kind, _, rest = name.partition(":")
    if kind in LIBRARIES and rest:
        return _plain(find("env", kind)(id=rest))
    if rest:
        return _plain(_user_env(name))
    registered = _registered(name)
    if name in registered:
        return _plain(find("env", "gymnasium")(id=name))
    forms = [*ENVIRONMENTS, *(f"{library}:ID" for library in LIBRARIES), "a Gymnasium id", "package.module:Class"]
    near = get_close_matches(name, [*ours, *registered], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "choose one of these"
    raise InputError(f"env must be one of {', '.join(forms)}, received {name!r}: {hint}")


def _registered(name: str) -> list[str]:
    if find_spec("gymnasium") is None:
        return []
    import gymnasium

    from pbim.envs.gymnasium_host import register_minigrid

    register_minigrid(name)
    return list(gymnasium.registry)


def _user_env(path: str) -> Any:
    cls = find("env", path)
    try:
        env = cls()
    except TypeError as error:
        raise InputTypeError(
            f"env {path} must be made without arguments ({error}): give every field a default"
        ) from None
    missing = [part for part in ("reset", "step", "observe", "num_actions", "obs_shape") if not hasattr(env, part)]
    if missing:
        raise InputTypeError(f"env {path} must be a pbim.envs.Environment, it lacks {', '.join(missing)}: add them")
    return env


def _plain(env: Any) -> Interface:
    """Return the environment, flattened if its observations are neither indices, vectors nor images to convolve."""
    shape = env.obs_shape
    fits = len(shape) < 2 or (len(shape) == 3 and min(shape[:2]) >= SMALLEST_IMAGE)
    plain: Interface = env if fits else Flattened(env=env)
    return plain
