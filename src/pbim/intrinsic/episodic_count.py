"""Bonus alpha / n for the n-th visit of a state within an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pbim.intrinsic._checks import integers, positive
from pbim.intrinsic._keys import Key, check_key, select
from pbim.intrinsic._tables import Arrays, EpisodicTable
from pbim.intrinsic.protocol import Transition

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodicCount:
    """Pay ``alpha / n`` for the n-th arrival at a state in the running episode, so the first pays ``alpha``.

    ``key`` says what a state is: ``None`` the next observation (integers), a string that entry of ``info`` (one row
    per environment), a function whatever it returns for the transition (hashable, one per environment).
    A visit is an arrival: the state an episode starts in is not counted until a step leads back to it, because a
    transition's ``info`` speaks of the arrival only. Counts of an environment are forgotten after the bonus of the
    step that terminates or truncates its episode. Memory: at most one dictionary entry per step of the running episode.

    Forbes et al. 2024, Eq. 41. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> bonus = EpisodicCount(alpha=0.02)
    >>> no = np.array([False])
    >>> step = Transition(np.array([3]), np.array([0]), np.array([7]), no, no, {})
    >>> for _ in range(2):
    ...     print(bonus.reward(step))
    ...     bonus.update(step)
    [0.02]
    [0.01]
    """

    alpha: float = 1.0
    key: Key = None

    causal: ClassVar[bool] = True
    episodic: ClassVar[bool] = True

    _table: EpisodicTable = field(default_factory=lambda: EpisodicTable("EpisodicCount"), init=False, repr=False)

    def __post_init__(self) -> None:
        positive("EpisodicCount", alpha=self.alpha)
        check_key("EpisodicCount", self.key)

    def bonus(self, n: Any) -> Any:
        """Return the bonus of the n-th visit, n counting this one."""
        return self.alpha / n  # Eq. 41

    # ------------------------------------------------------------------ NumPy edge
    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,)."""
        return self.bonus(self._table.including(self.key, transition))  # type: ignore[no-any-return]

    def update(self, transition: Transition, /) -> None:
        """Count this step's arrivals and forget the environments whose episode ended."""
        self._table.add(self.key, transition)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Forget the episodes that were abandoned, where true (num_envs,)."""
        self._table.forget(where)

    def state_dict(self) -> Arrays:
        """Return the counts as a flat dictionary of arrays."""
        return self._table.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from the counts that ``state_dict`` returned."""
        self._table.load_state_dict(arrays)

    # ------------------------------------------------------------------ pure core, integer keys
    def init(self, num_envs: int, num_keys: int) -> Array:
        """Return empty counts, shape (num_envs, num_keys), for keys 0 .. num_keys-1."""
        import jax.numpy as jnp

        integers("EpisodicCount", num_envs=num_envs, num_keys=num_keys)
        return jnp.zeros((num_envs, num_keys), dtype=jnp.int32)

    def reward_fn(self, counts: Array, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import episodic_including

        keys = select("EpisodicCount", self.key, transition, transition.next_obs)
        return self.bonus(episodic_including(counts, keys))  # type: ignore[no-any-return]

    def update_fn(self, counts: Array, transition: Transition) -> Array:
        """Return the counts after this step; pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import episodic_add

        keys = select("EpisodicCount", self.key, transition, transition.next_obs)
        return episodic_add(counts, keys, transition)
