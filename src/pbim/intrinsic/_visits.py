"""Episodic visit counts beside a learned core: a dictionary at the edge, an array inside compiled agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.intrinsic._edge import Arrays, Edge, compiled_reward
from pbim.intrinsic._keys import Key, check_key, select
from pbim.intrinsic._tables import EpisodicTable
from pbim.intrinsic.array_counts import episodic_add, episodic_including
from pbim.intrinsic.protocol import Transition


@dataclass(frozen=True, kw_only=True)
class VisitsEdge(Edge):
    """An edge whose ``reward_fn(state, transition, visits)`` also reads the visits of the next state in this episode.

    ``visits=None`` means: read them from the array ``state.counts`` (``init`` was given ``num_keys``).
    """

    key: Key = None

    episodic: ClassVar[bool] = True

    _table: EpisodicTable = field(
        default_factory=lambda: EpisodicTable("visits"), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_key(type(self).__name__, self.key)
        self._table.who = type(self).__name__

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,)."""
        step = self.checked(transition)
        visits = self._table.including(self.key, transition).astype(np.float32)
        return np.asarray(compiled_reward(self, self.state_for(step), step, visits), dtype=np.float64)

    def update(self, transition: Transition, /) -> None:
        """Learn from this step, count its arrivals and forget the environments whose episode ended."""
        self._table.including(self.key, transition)  # a key that is refused is refused before anything is learnt
        super().update(transition)
        self._table.add(self.key, transition)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Forget the episodes that were abandoned, where true (num_envs,)."""
        self._table.forget(where)

    def state_dict(self) -> Arrays:
        """Return everything learnt and counted as a flat dictionary of arrays."""
        return super().state_dict() | {f"visits.{name}": value for name, value in self._table.state_dict().items()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        mine = {name.removeprefix("visits."): value for name, value in arrays.items() if name.startswith("visits.")}
        self._table.load_state_dict(mine)
        super().load_state_dict({name: value for name, value in arrays.items() if not name.startswith("visits.")})

    def init_counts(self, example: Transition, num_keys: int | None) -> Array | None:
        """Return empty counts (num_envs, num_keys), or None where the edge counts."""
        return None if num_keys is None else jnp.zeros((example.terminated.shape[0], num_keys), jnp.int32)

    def visits(self, counts: Array, transition: Transition) -> Array:
        """Return n from the array counts, this arrival included, (num_envs,)."""
        keys = select(type(self).__name__, self.key, transition, transition.next_obs)
        return episodic_including(counts, keys)

    def count(self, counts: Array | None, transition: Transition) -> Array | None:
        """Return the array counts after this step."""
        if counts is None:
            return None
        keys = select(type(self).__name__, self.key, transition, transition.next_obs)
        return episodic_add(counts, keys, transition)
