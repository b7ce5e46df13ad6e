"""From a transition to one hashable key per environment, for bonuses that count."""

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Transition

Key: TypeAlias = str | Callable[[Transition], Any] | None
"""``None``: the observation; a string: that entry of ``info``; a function: what it returns for the transition."""

_PLAIN = {int, str, bytes, bool}
_WAY_OUT = (
    "discretise with key=lambda transition: ... returning integers, strings or tuples of them, or use PseudoCount"
)


def check_key(who: str, key: Key) -> None:
    """Raise unless ``key`` is None, a name or a function."""
    if key is not None and not isinstance(key, str) and not callable(key):
        raise InputTypeError(
            f"{who}: key must be None (the observation), the name of an info entry or a function of the transition, "
            f"received {type(key).__name__}: pass one of these"
        )


def select(who: str, key: Key, transition: Transition, observation: Any) -> Any:
    """Return what ``key`` names, unconverted: works on NumPy arrays and on traced JAX arrays."""
    if key is None:
        return observation
    if isinstance(key, str):
        return info_entry(who, key, transition)
    return key(transition)


def info_entry(who: str, name: str, transition: Transition) -> Any:
    """Return ``info[name]``, shape (num_envs, ...)."""
    if name not in transition.info:
        known = ", ".join(sorted(map(repr, transition.info))) or "nothing"
        raise InputError(
            f"{who}: info has no entry {name!r}, received {known}: name one of these, add the entry in a wrapper, or "
            f"pass key=a function of the transition"
        )
    return transition.info[name]


def history_key(who: str, key: Key, before: int, action: int, after: int) -> Hashable:
    """Return the key of a step of a finite MDP, whose observations are its states and whose info is empty.

    ``terminated`` and ``truncated`` are false there: a key says what a state is, not whether it is the last.
    """
    if isinstance(key, str):
        raise InputError(
            f"{who}: key must be None or a function to be verified, received {key!r}: the states of a finite MDP have "
            "no info, so number what it names as the states, or pass a function of transition.next_obs"
        )
    no = np.zeros(1, bool)
    step = Transition(np.array([before]), np.array([action]), np.array([after]), no, no, {})
    try:
        return host_keys(who, key, step, step.next_obs)[0]
    except KeyError as missing:
        raise InputError(
            f"{who}: key must read states and actions alone to be verified, received a function that reads "
            f"info[{missing}]: pass a function of transition.next_obs"
        ) from None


def host_keys(who: str, key: Key, transition: Transition, observation: Any) -> list[Hashable]:
    """Return one hashable key per environment."""
    if key is None:
        keys = _observation_keys(who, observation)
    else:
        keys = _rows(who, select(who, key, transition, observation))
        if isinstance(key, str):
            _check_mask(who, key, transition)
    num_envs = len(transition.terminated)
    if len(keys) != num_envs:
        raise InputError(
            f"{who}: key must give {num_envs} keys, one per environment, received {len(keys)}: return one per row"
        )
    return keys


def _check_mask(who: str, name: str, transition: Transition) -> None:
    """Raise if Gymnasium's mask ``_name`` says that some environment did not report the entry."""
    mask = transition.info.get(f"_{name}")
    if mask is None:
        return
    valid = getattr(transition, "valid", None)
    missing = ~np.asarray(mask, dtype=bool) & (True if valid is None else np.asarray(valid, dtype=bool))
    if missing.any():
        raise InputError(
            f"{who}: every environment must report the info entry {name!r}, received none from environments "
            f"{np.flatnonzero(missing).tolist()}: report it on every step, the last of an episode included"
        )


def _observation_keys(who: str, observation: Any) -> list[Hashable]:
    """Return keys of an observation of a Discrete, MultiDiscrete, integer Box, Text, Dict or Tuple space."""
    if type(observation) is np.ndarray:
        return _rows(who, observation)
    if isinstance(observation, dict | tuple) and not _is_texts(observation):
        parts = sorted(observation.items()) if isinstance(observation, dict) else enumerate(observation)
        keys = [_observation_keys(f"{who}, entry {name!r} of the observation", part) for name, part in parts]
        return list(zip(*keys, strict=True))
    return _rows(who, observation)


def _is_texts(observation: Any) -> bool:
    """Tell whether it is one text per environment, as MiniGrid's missions are; Gymnasium batches them as a tuple."""
    return isinstance(observation, tuple) and all(isinstance(part, str) for part in observation)


def _rows(who: str, values: Any) -> list[Hashable]:
    """Return the rows of an array, or the entries of a sequence, as hashable keys."""
    if type(values) is np.ndarray or not isinstance(values, list | tuple):
        values = np.asarray(values)
        kind = values.dtype.kind
        if kind in "fc":
            raise InputTypeError(f"{who}: keys must be discrete, received an array of {values.dtype}: {_WAY_OUT}")
        if values.ndim == 0:
            raise InputError(
                f"{who}: keys must have a leading (num_envs,) axis, received a single {values.dtype} value: "
                "return one per environment"
            )
        if kind in "biuUS" and values.ndim == 1:
            return values.tolist()  # type: ignore[no-any-return]
        if kind in "biu" and values.size:
            content, size = values.tobytes(), values.nbytes // len(values)
            return [content[start : start + size] for start in range(0, len(content), size)]
    return [value if type(value) in _PLAIN else _entry(who, value) for value in values]


def _entry(who: str, value: Any) -> Hashable:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "fc":
            raise InputTypeError(f"{who}: keys must be discrete, received {value.dtype}: {_WAY_OUT}")
        value = value.tobytes() if value.ndim else value.item()
    if isinstance(value, float | complex) or (isinstance(value, tuple) and any(isinstance(v, float) for v in value)):
        raise InputTypeError(f"{who}: keys must be discrete, received {value!r}: {_WAY_OUT}")
    try:
        hash(value)
    except TypeError:
        raise InputTypeError(
            f"{who}: keys must be hashable, received {type(value).__name__} {value!r}: {_WAY_OUT}"
        ) from None
    return value  # type: ignore[no-any-return]
