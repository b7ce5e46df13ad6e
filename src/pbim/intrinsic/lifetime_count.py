"""Bonus beta / sqrt(n) for the n-th visit of a state over the whole of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pbim.intrinsic._checks import flags, integers, positive
from pbim.intrinsic._keys import Key, check_key, host_keys, select
from pbim.intrinsic._tables import Arrays, LifetimeTable
from pbim.intrinsic.protocol import Transition

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class LifetimeCount:
    """Pay ``beta / sqrt(n)`` for the n-th arrival at a state since training began.

    All environments share one table. Environments that arrive at the same state in the same step are paid the same
    and counted one each, so their order does not matter. ``key`` is that of ``EpisodicCount``.
    Memory: one dictionary entry per distinct key, unbounded; ``PseudoCount`` is the bounded form.

    Strehl & Littman 2008 (the MBIE-EB bonus), here for the state arrived at.
    Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> bonus = LifetimeCount(beta=1.0)
    >>> no = np.array([False, False])
    >>> step = Transition(np.array([0, 0]), np.array([0, 0]), np.array([5, 5]), no, no, {})
    >>> bonus.reward(step)
    array([1., 1.])
    >>> bonus.update(step)
    >>> bonus.reward(step).round(3)
    array([0.577, 0.577])
    """

    beta: float = 1.0
    key: Key = None

    causal: ClassVar[bool] = True
    episodic: ClassVar[bool] = False

    _table: LifetimeTable = field(default_factory=lambda: LifetimeTable("LifetimeCount"), init=False, repr=False)

    def __post_init__(self) -> None:
        positive("LifetimeCount", beta=self.beta)
        check_key("LifetimeCount", self.key)

    def bonus(self, n: Any) -> Any:
        """Return the bonus of the n-th visit, n counting this one."""
        return self.beta / n**0.5

    # ------------------------------------------------------------------ NumPy edge
    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,)."""
        keys = host_keys("LifetimeCount", self.key, transition, transition.next_obs)
        return self.bonus(self._table.get(keys) + 1)  # type: ignore[no-any-return]

    def update(self, transition: Transition, /) -> None:
        """Count this step's arrivals."""
        _, valid = flags("LifetimeCount", transition)
        self._table.add(host_keys("LifetimeCount", self.key, transition, transition.next_obs), valid)

    def state_dict(self) -> Arrays:
        """Return the counts as a flat dictionary of arrays."""
        return self._table.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from the counts that ``state_dict`` returned."""
        self._table.load_state_dict(arrays)

    # ------------------------------------------------------------------ pure core, integer keys
    def init(self, num_keys: int) -> Array:
        """Return empty counts, shape (num_keys,), for keys 0 .. num_keys-1."""
        import jax.numpy as jnp

        integers("LifetimeCount", num_keys=num_keys)
        return jnp.zeros(num_keys, dtype=jnp.int32)

    def reward_fn(self, counts: Array, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        keys = select("LifetimeCount", self.key, transition, transition.next_obs)
        return self.bonus(counts[keys] + 1)  # type: ignore[no-any-return]

    def update_fn(self, counts: Array, transition: Transition) -> Array:
        """Return the counts after this step; pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import valid_rows

        keys = select("LifetimeCount", self.key, transition, transition.next_obs)
        return counts.at[keys].add(valid_rows(transition).astype(counts.dtype))
