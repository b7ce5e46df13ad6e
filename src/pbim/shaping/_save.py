"""Saving a conversion's state between runs: a flat archive of arrays, never pickle."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from pbim import _arrays
from pbim._files import read_arrays, write_arrays
from pbim._trees import mapped
from pbim.errors import InputError
from pbim.shaping._shaping import Shaping, State

_CONFIG = "shaping"


def state_arrays(state: State) -> dict[str, np.ndarray[Any, Any]]:
    """Return the state's arrays by name, as NumPy; ``load_arrays`` is the inverse."""
    return {name: np.asarray(_arrays.on_host(leaf)) for name, leaf in _leaves(state)}


def load_arrays(state: State, arrays: dict[str, np.ndarray[Any, Any]]) -> State:
    """Return ``state`` with the named arrays in place of its own, in its own library, dtype and device."""
    wanted = dict(_leaves(state))
    for name, leaf in wanted.items():
        if name not in arrays:
            raise InputError(f"the saved state has no {name}, it holds {sorted(arrays)}: it is of another conversion")
        if np.shape(arrays[name]) != tuple(np.shape(leaf)):
            raise InputError(
                f"{name} must have shape {tuple(np.shape(leaf))}, the saved one has {np.shape(arrays[name])}: "
                "call init with the num_envs and configuration the state was saved with"
            )
    names = iter(wanted)
    return mapped(lambda leaf: _arrays.like(arrays[next(names)], leaf), state)


def save_state(path: str | os.PathLike[str], shaping: Shaping[Any], state: State) -> None:
    """Write a conversion's state to ``path`` (.npz), whole or not at all."""
    write_arrays(Path(path), {**state_arrays(state), _CONFIG: np.array(_identity(shaping))})


def load_state(path: str | os.PathLike[str], shaping: Shaping[Any], like: State) -> State:
    """Read a state written by ``save_state``; ``like``, a fresh ``shaping.init(...)``, gives its form."""
    arrays = read_arrays(Path(path))
    saved = str(arrays.pop(_CONFIG, "an unknown conversion"))
    if saved != _identity(shaping):
        raise InputError(
            f"the state in {os.fspath(path)!r} was saved by {saved}, not by {shaping!r}: load it with that one"
        )
    return load_arrays(like, arrays)


def _identity(shaping: Shaping[Any]) -> str:
    """Return the conversion as it prints, without the addresses of functions, which no other process has."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(shaping))


def _leaves(state: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(state, tuple):
        return [(prefix, state)]
    names = getattr(state, "_fields", None) or tuple(str(index) for index in range(len(state)))
    return [
        leaf
        for name, part in zip(names, state, strict=True)
        for leaf in _leaves(part, f"{prefix}.{name}" if prefix else name)
    ]
