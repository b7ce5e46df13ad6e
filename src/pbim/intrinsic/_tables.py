"""Dictionaries on the host, one per environment or one for all, that save as plain arrays."""

import ast
from collections.abc import Hashable, Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputTypeError
from pbim.intrinsic._checks import ended_rows, flags, same_num_envs
from pbim.intrinsic._keys import Key, host_keys
from pbim.intrinsic._shell import Arrays
from pbim.intrinsic.protocol import Transition


class EpisodicTable:
    """Visits of each key in the running episode of each environment; at most one entry per step, gone at the end."""

    def __init__(self, who: str, key: Key) -> None:
        self.who, self.key = who, key
        self.rows: list[dict[Hashable, int]] = []

    def keys(self, transition: Transition) -> list[Hashable]:
        """Return one key per environment."""
        keys = host_keys(self.who, self.key, transition, transition.next_obs)
        if len(self.rows) != len(keys):
            same_num_envs(self.who, len(self.rows) or len(keys), len(keys))
            self.rows = [{} for _ in keys]
        return keys

    def numbers(self, keys: list[Hashable]) -> NDArray[np.float64]:
        """Return n, the visits of each environment's key with the present one, shape (num_envs,)."""
        return np.array([row.get(key, 0) + 1.0 for row, key in zip(self.rows, keys, strict=True)])

    def add(self, keys: list[Hashable], transition: Transition) -> None:
        """Count one visit of each environment's key, then forget the environments whose episode ended."""
        ended, valid = ended_rows(self.who, transition)
        visits = zip(self.rows, keys, strict=True)
        for row, key in visits if valid is None else compress(visits, valid.tolist()):
            row[key] = row.get(key, 0) + 1
        if np.count_nonzero(ended):
            self.forget(ended if valid is None else ended & valid)

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Forget the running episodes of the environments where true."""
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
        self.rows = rows


class LifetimeTable:
    """Visits of each key over all of training, shared by all environments; grows with the number of distinct keys."""

    def __init__(self, who: str, key: Key) -> None:
        self.who, self.key = who, key
        self.values: dict[Hashable, int] = {}

    def keys(self, transition: Transition) -> list[Hashable]:
        """Return one key per environment."""
        return host_keys(self.who, self.key, transition, transition.next_obs)

    def numbers(self, keys: list[Hashable]) -> NDArray[np.float64]:
        """Return n, the visits of each key with the present one, shape (num_envs,)."""
        values = self.values
        return np.array([values.get(key, 0) + 1.0 for key in keys])

    def add(self, keys: list[Hashable], transition: Transition) -> None:
        """Count one visit of each key."""
        _, valid = ended_rows(self.who, transition)
        values = self.values
        for env, key in enumerate(keys):
            if valid is None or valid[env]:
                values[key] = values.get(key, 0) + 1

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Forget nothing: the end of an episode does not matter here."""

    def state_dict(self) -> Arrays:
        """Return the table as flat arrays."""
        return {
            "key": encode_keys(self.who, list(self.values)),
            "value": np.array(list(self.values.values()), dtype=np.int64),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Replace the table by a saved one."""
        self.values = dict(zip(decode_keys(arrays["key"]), arrays["value"].tolist(), strict=True))


class RecencyTable(LifetimeTable):
    """When each pair of state and action was last tried, by a clock that ticks once per (vector) step."""

    def __init__(self, who: str, key: Key) -> None:
        super().__init__(who, key)
        self.clock = 0

    def keys(self, transition: Transition) -> list[Hashable]:
        """Return one pair per environment."""
        states = host_keys(self.who, self.key, transition, transition.obs)
        actions = host_keys(f"{self.who} (action)", None, transition, transition.action)
        return list(zip(states, actions, strict=True))

    def numbers(self, keys: list[Hashable]) -> NDArray[np.float64]:
        """Return tau, the steps since each pair was last tried, shape (num_envs,)."""
        values, now = self.values, self.clock + 1.0
        return np.array([now - values.get(key, 0) for key in keys])

    def add(self, keys: list[Hashable], transition: Transition) -> None:
        """Advance the clock and note the pairs."""
        _, valid = flags(self.who, transition)
        self.clock += bool(valid.any())
        self.values.update((keys[env], self.clock) for env in valid.nonzero()[0].tolist())

    def state_dict(self) -> Arrays:
        """Return the clock and the table as flat arrays."""
        return {"clock": np.array(self.clock), **super().state_dict()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Replace the clock and the table by saved ones."""
        self.clock = int(arrays["clock"])
        super().load_state_dict(arrays)


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
                f"{who}: keys must be integers, strings, bytes or tuples of them to be saved, received a key of type "
                f"{type(key).__name__}: let key=... return one of these"
            )
    return np.array(literals, dtype=np.str_)


def decode_keys(literals: NDArray[np.generic]) -> list[Hashable]:
    """Return the keys written by ``encode_keys``."""
    return [ast.literal_eval(literal) for literal in literals.tolist()]
