"""Dictionaries on the host, one per environment or one for all, that save as plain arrays."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputTypeError
from pbim.intrinsic._checks import ended_rows, same_num_envs
from pbim.intrinsic._keys import Key, host_keys
from pbim.intrinsic.protocol import Transition

Arrays = dict[str, NDArray[np.generic]]


class EpisodicTable:
    """Visits of each key in the running episode of each environment; at most one entry per step, gone at the end."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.rows: list[dict[Hashable, int]] = []
        self.asked: tuple[Transition, list[Hashable], list[int]] | None = None

    def including(self, key: Key, transition: Transition) -> NDArray[np.float64]:
        """Return n, the visits of each environment's key including the present one, shape (num_envs,)."""
        return np.array(self._asked(key, transition)[1], dtype=np.float64)

    def add(self, key: Key, transition: Transition) -> None:
        """Count one visit of each environment's key, then forget the environments whose episode ended."""
        keys, visits = self._asked(key, transition)
        ended, valid = ended_rows(self.who, transition)
        self.asked, self.rows = None, self.rows or [{} for _ in keys]
        for index, (row, visited, n) in enumerate(zip(self.rows, keys, visits, strict=True)):
            if valid is None or valid[index]:
                row[visited] = n
        for gone in (ended if valid is None else ended & valid).nonzero()[0]:
            self.rows[gone].clear()

    def _asked(self, key: Key, transition: Transition) -> tuple[list[Hashable], list[int]]:
        """Return one key per environment and its visits, kept from ``reward`` for ``update`` of the same transition."""
        if self.asked is None or self.asked[0] is not transition:
            keys = host_keys(self.who, key, transition, transition.next_obs)
            rows = self.rows or [{} for _ in keys]
            same_num_envs(self.who, len(rows), len(keys))
            visits = [row.get(visited, 0) + 1 for row, visited in zip(rows, keys, strict=True)]
            self.asked = (transition, keys, visits)
        return self.asked[1:]

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Forget the running episodes of the environments where true."""
        self.asked = None
        for row, gone in zip(self.rows, where.tolist(), strict=False):
            if gone:
                row.clear()

    def state_dict(self) -> Arrays:
        """Return the table as flat arrays."""
        entries = [(index, key, value) for index, row in enumerate(self.rows) for key, value in row.items()]
        return {
            "num_envs": np.array(len(self.rows)),
            "env": np.array([index for index, _, _ in entries], dtype=np.int64),
            "key": encode_keys(self.who, [key for _, key, _ in entries]),
            "value": np.array([value for _, _, value in entries], dtype=np.int64),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Replace the table by a saved one."""
        rows: list[dict[Hashable, int]] = [{} for _ in range(int(arrays["num_envs"]))]
        keys = decode_keys(arrays["key"])
        for index, key, value in zip(arrays["env"].tolist(), keys, arrays["value"].tolist(), strict=True):
            rows[index][key] = value
        self.rows, self.asked = rows, None


class LifetimeTable:
    """One integer per key, shared by all environments and never forgotten; grows with the number of distinct keys."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.values: dict[Hashable, int] = {}

    def get(self, keys: Sequence[Hashable]) -> NDArray[np.float64]:
        """Return the integer of each key (0 if new), shape (num_envs,)."""
        values = self.values
        return np.array([values.get(key, 0) for key in keys], dtype=np.float64)

    def add(self, keys: Sequence[Hashable], valid: NDArray[np.bool_]) -> None:
        """Add one to each key."""
        for key, real in zip(keys, valid.tolist(), strict=True):
            if real:
                self.values[key] = self.values.get(key, 0) + 1

    def put(self, keys: Sequence[Hashable], valid: NDArray[np.bool_], value: int) -> None:
        """Set each key to ``value``."""
        for key, real in zip(keys, valid.tolist(), strict=True):
            if real:
                self.values[key] = value

    def state_dict(self) -> Arrays:
        """Return the table as flat arrays."""
        return {
            "key": encode_keys(self.who, list(self.values)),
            "value": np.array(list(self.values.values()), dtype=np.int64),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Replace the table by a saved one."""
        self.values = dict(zip(decode_keys(arrays["key"]), arrays["value"].tolist(), strict=True))


def encode_keys(who: str, keys: Sequence[Hashable]) -> NDArray[np.str_]:
    """Return keys as Python literals, so that loading them evaluates no code."""
    literals = [repr(key) for key in keys]
    for key, literal in zip(keys, literals, strict=True):
        try:
            restored = ast.literal_eval(literal)
        except (ValueError, SyntaxError):
            restored = None
        if restored != key:
            raise InputTypeError(
                f"{who}: a key of type {type(key).__name__} cannot be saved; let key=... return integers, strings, "
                f"bytes or tuples of them."
            )
    return np.array(literals, dtype=np.str_)


def decode_keys(literals: NDArray[np.generic]) -> list[Hashable]:
    """Return the keys written by ``encode_keys``."""
    return [ast.literal_eval(literal) for literal in literals.tolist()]
