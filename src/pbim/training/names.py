"""Environments, bonuses and conversions by the names the command line knows them by."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pbim.agents._correct import Adops
from pbim.agents._networks import SMALLEST_IMAGE
from pbim.envs import CLIFF_WALK, CLIFF_WALK_LONG, DoorKey
from pbim.errors import InputError, choose
from pbim.shaping import GRM, PBIM, PIES, Bounded, Geometric, Mixture, NoBonus, Raw, Shaping

ENVIRONMENTS: dict[str, Any] = {
    "CliffWalk": CLIFF_WALK,
    "CliffWalkLong": CLIFF_WALK_LONG,
    "DoorKey-5x5": DoorKey(size=5),
    "DoorKey-6x6": DoorKey(size=6),
    "DoorKey-8x8": DoorKey(size=8),
    "DoorKey-16x16": DoorKey(size=16),
}
"""Our compiled environments; ``pbim/NAME-v0``, their Gymnasium ids, are understood too."""


def environment(name: str) -> Any:
    """Return the environment of that name: ours, another library's behind its prefix, or any Gymnasium id."""
    library, _, theirs = name.partition(":")
    if library in FOREIGN and theirs:
        return _foreign(library, theirs)
    short = name.removeprefix("pbim/").removesuffix("-v0")
    if short not in ENVIRONMENTS:
        near = _nearest_id(name)
        if near == name or (near and not get_close_matches(short, ENVIRONMENTS)):
            return _foreign("gymnasium", name)
    prefixes = [f"{library}:ID" for library in FOREIGN]
    return ENVIRONMENTS[choose("env", short, [*ENVIRONMENTS, *prefixes, "a Gymnasium id"])]


def _nearest_id(name: str) -> str | None:
    """Return the Gymnasium id that is most like ``name``, itself if it is one."""
    try:
        import gymnasium
    except ImportError:
        return None
    if name.startswith(("MiniGrid-", "BabyAI-")) and find_spec("minigrid") is not None:
        import_module("minigrid")  # registers them
    if ":" in name or name in gymnasium.registry:  # "module:id" registers its id when it is made
        return name
    return next(iter(get_close_matches(name, gymnasium.registry, n=1)), None)


def _foreign(library: str, name: str) -> Any:
    try:
        env = FOREIGN[library](name)
    except ImportError as error:
        raise InputError(
            f"env {library}:{name} needs a package that is not installed ({error}): pip install it"
        ) from None
    except InputError:
        raise
    except (KeyError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"env {library}:{name} cannot be made by {library} ({error}): use another of its names"
        ) from None
    shape = env.obs_shape
    if len(shape) < 2 or (len(shape) == 3 and min(shape[:2]) >= SMALLEST_IMAGE):
        return env
    from pbim.envs.foreign import Flattened

    return Flattened(env=env)


def _gymnax(name: str) -> Any:
    import gymnax  # type: ignore[import-not-found,unused-ignore]

    from pbim.envs.foreign import Gymnax

    env, params = gymnax.make(name)
    return Gymnax(env=env, params=params)


def _navix(name: str) -> Any:
    import navix  # type: ignore[import-not-found,unused-ignore]

    from pbim.envs.foreign import Navix

    return Navix(env=navix.make(name, observation_fn=navix.observations.symbolic_first_person))


def _xminigrid(name: str) -> Any:
    import xminigrid  # type: ignore[import-not-found,unused-ignore]

    from pbim.envs.foreign import XMiniGrid

    env, params = xminigrid.make(name)
    return XMiniGrid(env=env, params=params)


def _gymnasium(name: str) -> Any:
    import gymnasium

    import pbim.envs  # noqa: F401 - registers ours
    from pbim.training.host import describe

    near = _nearest_id(name)
    if near != name:
        raise ValueError(f"did you mean {near!r}?" if near else "no such id is registered")
    try:
        return describe(name)
    except gymnasium.error.Error as error:
        raise ValueError(str(error).splitlines()[0]) from None


FOREIGN: dict[str, Callable[[str], Any]] = {
    "gymnax": _gymnax,
    "navix": _navix,
    "xminigrid": _xminigrid,
    "gymnasium": _gymnasium,
}


def intrinsic(name: str, env: Any, *, alpha: float, learning_rate: float) -> tuple[Any, float]:
    """Return the bonus of that name for an environment, and the factor it is still to be multiplied by."""
    from pbim import intrinsic as bonuses

    discrete = env.obs_shape == ()
    key = "count_key" if hasattr(env, "num_count_keys") else None
    encode = bonuses.one_hot(env.num_states) if discrete else bonuses.flatten
    learned: dict[str, Any] = {"encode": encode, "learning_rate": learning_rate}
    makers: dict[str, Callable[[], tuple[Any, float]]] = {
        "none": lambda: (None, 1.0),
        "count": lambda: (bonuses.EpisodicCount(alpha=alpha, key=key), 1.0),
        "lifetime-count": lambda: (bonuses.LifetimeCount(beta=alpha, key=key), 1.0),
        "rnd": lambda: (bonuses.RND(normalize=not discrete, **learned), alpha),
        "icm": lambda: (bonuses.ICM(num_actions=env.num_actions, **learned), alpha),
    }
    return makers[choose("intrinsic", name, makers)]()


def shaping(
    name: str, *, gamma: float, rate: float, delay: int, limit: float, normalize: bool, decay_steps: int
) -> tuple[Shaping, Adops | None]:
    """Return the conversion of that name, and what the two critics correct afterwards (ADOPS and ADOPES)."""
    common: dict[str, Any] = {"gamma": gamma, "normalize": normalize}
    makers: dict[str, Callable[[], tuple[Shaping, Adops | None]]] = {
        "pbim": lambda: (PBIM(**common), None),
        "grm": lambda: (GRM(delay=delay, **common), None),
        "geometric": lambda: (Geometric(rate=rate, **common), None),
        "bounded": lambda: (Bounded(limit=limit, **common), None),
        "mixture": lambda: (Mixture(members=(Geometric(rate=rate, **common), GRM(delay=delay, **common))), None),
        "pies": lambda: (PIES(decay_steps=decay_steps), None),
        "adops": lambda: (Raw(), Adops()),
        "adopes": lambda: (Raw(), Adops(rise_frames=decay_steps)),
        "raw": lambda: (Raw(), None),
        "none": lambda: (NoBonus(), None),
    }
    return makers[choose("shaping", name, makers)]()
