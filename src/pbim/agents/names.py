"""Environments, bonuses and conversions by the names the command line knows them by."""

from collections.abc import Callable
from typing import Any

from pbim.envs import CLIFF_WALK, CLIFF_WALK_LONG, DoorKey
from pbim.errors import InputError, choose
from pbim.shaping import GRM, PBIM, PIES, Geometric, NoBonus, Raw, Shaping

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
    """Return the environment of that name, ours or ``gymnax:``, ``navix:``, ``xminigrid:`` followed by theirs."""
    library, _, theirs = name.rpartition(":")
    if library in FOREIGN:
        return _foreign(library, theirs)
    short = name.removeprefix("pbim/").removesuffix("-v0")
    return ENVIRONMENTS[choose("env", short, [*ENVIRONMENTS, *(f"{library}:ID" for library in FOREIGN)])]


def _foreign(library: str, name: str) -> Any:
    try:
        return FOREIGN[library](name)
    except ImportError as error:
        raise InputError(
            f"env {library}:{name} needs {library}, which is not installed ({error}): pip install it"
        ) from None
    except (KeyError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"env {library}:{name} is not known to {library} ({error}): use one of its own names"
        ) from None


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


FOREIGN: dict[str, Callable[[str], Any]] = {"gymnax": _gymnax, "navix": _navix, "xminigrid": _xminigrid}


def intrinsic(name: str, env: Any, *, alpha: float, learning_rate: float) -> tuple[Any, float]:
    """Return the bonus of that name for an environment, and the factor it is still to be multiplied by."""
    from pbim import intrinsic as bonuses

    discrete = env.obs_shape == ()
    key = "count_key" if hasattr(env, "count_key") else None
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


def shaping(name: str, *, gamma: float, rate: float, delay: int, normalize: bool, decay_steps: int) -> Shaping:
    """Return the conversion of that name."""
    makers: dict[str, Callable[[], Shaping]] = {
        "pbim": lambda: PBIM(gamma=gamma, normalize=normalize),
        "grm": lambda: GRM(gamma=gamma, delay=delay, normalize=normalize),
        "geometric": lambda: Geometric(gamma=gamma, rate=rate, normalize=normalize),
        "pies": lambda: PIES(decay_steps=decay_steps),
        "raw": lambda: Raw(),
        "none": lambda: NoBonus(),
    }
    return makers[choose("shaping", name, makers)]()
