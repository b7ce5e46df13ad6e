"""Checks of arguments and transitions: each failure is one sentence with the way out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._numbers import LARGEST, is_number, single
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Transition


def positive(who: str, **values: Any) -> None:
    """Raise unless every named value is a finite number above zero."""
    for name, value in values.items():
        if not (is_number(value) and value > 0 and value != math.inf):
            raise InputError(f"{who}: {name} must be a finite number above 0, received {value!r}: pass one, such as 1")
        if not 0 < (number := single(value)) < math.inf:
            raise InputError(
                f"{who}: {name} must be a finite number above 0, received {value!r}, which is {number} in single "
                "precision: pass one, such as 1"
            )


def within(who: str, low: float, high: float, **values: Any) -> None:
    """Raise unless every named value lies in [low, high]."""
    for name, value in values.items():
        if not (is_number(value) and low <= value <= high):
            raise InputError(f"{who}: {name} must lie in [{low}, {high}], received {value!r}: pass a number in between")


def integers(who: str, **values: Any) -> None:
    """Raise unless every named value is an integer from 1 to the largest index."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{who}: {name} must be an integer of at least 1, received {value!r}: pass one, such as 1")
        if value > LARGEST:
            raise InputError(f"{who}: {name} must be at most {LARGEST}, received {value}: pass a smaller one")


def widths(who: str, hidden: Any) -> tuple[int, ...]:
    """Return the widths of hidden layers, which may be given as any sequence, as a tuple."""
    if not isinstance(hidden, Sequence | np.ndarray) or isinstance(hidden, str | bytes) or np.ndim(hidden) != 1:
        raise InputTypeError(f"{who}: hidden must be a sequence of widths, received {hidden!r}: pass (256,), for one")
    found = tuple(hidden)
    integers(who, **{f"hidden[{index}]": size for index, size in enumerate(found)})
    return found


def network_sizes(who: str, features: int, batch_size: int | None) -> None:
    """Raise unless the sizes of features and minibatches are integers of at least 1."""
    integers(who, features=features)
    if batch_size is not None:
        integers(who, batch_size=batch_size)


def flags(who: str, transition: Transition) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (episode ended, row is valid), both (num_envs,) and boolean."""
    ended, valid = ended_rows(who, transition)
    return ended, np.ones(ended.shape, dtype=bool) if valid is None else valid


def ended_rows(who: str, transition: Transition) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return where an episode ended and which rows are valid, None where all are; both (num_envs,) and boolean."""
    terminated = np.asarray(transition.terminated, dtype=bool)
    truncated = np.asarray(transition.truncated, dtype=bool)
    if terminated.ndim != 1 or terminated.shape != truncated.shape:
        raise InputError(
            f"{who}: terminated and truncated must both have shape (num_envs,), received {terminated.shape} and "
            f"{truncated.shape}: for a single environment add a leading axis of 1"
        )
    valid = getattr(transition, "valid", None)
    if valid is None:
        return terminated | truncated, None
    valid = np.asarray(valid, dtype=bool)
    if valid.shape != terminated.shape:
        raise InputError(
            f"{who}: valid must have shape {terminated.shape} like terminated, received {valid.shape}: "
            "pass one boolean per environment"
        )
    return terminated | truncated, valid


def numeric(who: str, name: str, value: Any, valid: NDArray[np.bool_], *, texts: bool = False) -> Any:
    """Return ``value`` (an array, or a dict or tuple of them) as NumPy after checking kind, rows and finiteness.

    With ``texts``, those in a dict, which no compiled function can read, are left out instead of refused.
    """
    if isinstance(value, dict):
        kept = {key: entry for key, entry in value.items() if not (texts and np.asarray(entry).dtype.kind in "USO")}
        return {key: numeric(who, f"{name}[{key!r}]", entry, valid, texts=texts) for key, entry in kept.items()}
    if isinstance(value, tuple):
        return tuple(numeric(who, f"{name}[{index}]", entry, valid) for index, entry in enumerate(value))
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{who}: {name} must hold numbers, received dtype {array.dtype}: pass encode=a function of the observation "
            f"that returns a numeric array, such as lambda obs: flatten(obs['image']), or use a bonus "
            "that counts keys (EpisodicCount)"
        )
    if array.shape[:1] != valid.shape:
        raise InputError(
            f"{who}: {name} must have the leading axis ({len(valid)},) of terminated, received shape {array.shape}: "
            "pass one row per environment"
        )
    if array.dtype.kind == "f" and not _all_finite(array):
        if not _all_finite(array[valid]):
            raise InputError(
                f"{who}: {name} must be finite in single precision, received NaN, infinity or more than 3e38: mend the "
                f"environment, or replace such entries in a wrapper before they reach the bonus"
            )
        array = np.where(valid.reshape(-1, *[1] * (array.ndim - 1)), array, 0)
    return array


def _all_finite(array: NDArray[Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32, copy=False)).all())


def same_num_envs(who: str, expected: int, received: int) -> None:
    """Raise if a bonus that remembers per environment meets another number of environments."""
    if expected != received:
        raise InputError(
            f"{who}: this bonus remembers {expected} environments and received a transition of {received}: "
            f"make one bonus per vector environment"
        )
