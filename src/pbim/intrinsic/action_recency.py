"""Bonus kappa * sqrt(tau) for an action not taken here for tau steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbim.intrinsic._checks import flags, integers, positive
from pbim.intrinsic._keys import Key, check_key, host_keys, select
from pbim.intrinsic._tables import Arrays, LifetimeTable
from pbim.intrinsic.protocol import Transition

if TYPE_CHECKING:
    from jax import Array


class RecencyState(NamedTuple):
    """Steps taken so far, (), and the step at which each pair was last tried, (num_states, num_actions)."""

    clock: Array
    last: Array


class _Host:
    """The same on the host: a clock and a dictionary."""

    def __init__(self) -> None:
        self.clock = 0
        self.last = LifetimeTable("ActionRecency")


@dataclass(frozen=True, kw_only=True, eq=False)
class ActionRecency:
    """Pay ``kappa * sqrt(tau)``, tau the steps since this action was last taken in this state.

    The clock ticks once per (vector) step and the table is shared by all environments. Pairs never tried count from
    the start of training, as in Dyna-Q+; a pair tried in the step before has tau = 1. ``key`` says what the state the
    action was taken in is: ``None`` the observation ``obs``, else as for ``EpisodicCount``.
    Memory: one dictionary entry per distinct (state, action), unbounded.

    Sutton 1990; Sutton & Barto 2018, Section 8.3. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> bonus = ActionRecency(kappa=0.5)
    >>> no = np.array([False])
    >>> left, right = (Transition(np.array([0]), np.array([a]), np.array([0]), no, no, {}) for a in (0, 1))
    >>> for _ in range(3):
    ...     bonus.update(left)
    >>> float(bonus.reward(left)[0]), float(bonus.reward(right)[0])
    (0.5, 1.0)
    """

    kappa: float = 0.001
    key: Key = None

    causal: ClassVar[bool] = True
    episodic: ClassVar[bool] = False

    _host: _Host = field(default_factory=_Host, init=False, repr=False)

    def __post_init__(self) -> None:
        positive("ActionRecency", kappa=self.kappa)
        check_key("ActionRecency", self.key)

    def bonus(self, tau: Any) -> Any:
        """Return the bonus of a pair last tried ``tau`` steps ago."""
        return self.kappa * tau**0.5

    # ------------------------------------------------------------------ NumPy edge
    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,)."""
        return self.bonus(self._host.clock + 1 - self._host.last.get(self._pairs(transition)))  # type: ignore[no-any-return]

    def update(self, transition: Transition, /) -> None:
        """Advance the clock and note this step's pairs."""
        _, valid = flags("ActionRecency", transition)
        pairs = self._pairs(transition)
        self._host.clock += bool(valid.any())
        self._host.last.put(pairs, valid, self._host.clock)

    def state_dict(self) -> Arrays:
        """Return the clock and the table as a flat dictionary of arrays."""
        return {"clock": np.array(self._host.clock), **self._host.last.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        self._host.clock = int(arrays["clock"])
        self._host.last.load_state_dict(arrays)

    def _pairs(self, transition: Transition) -> list[Any]:
        states = host_keys("ActionRecency", self.key, transition, transition.obs)
        actions = host_keys("ActionRecency (action)", None, transition, transition.action)
        return list(zip(states, actions, strict=True))

    # ------------------------------------------------------------------ pure core, integer states and actions
    def init(self, num_states: int, num_actions: int) -> RecencyState:
        """Return a clock at 0 and a table, shape (num_states, num_actions), of pairs never tried."""
        import jax.numpy as jnp

        integers("ActionRecency", num_states=num_states, num_actions=num_actions)
        return RecencyState(jnp.zeros((), jnp.int32), jnp.zeros((num_states, num_actions), jnp.int32))

    def reward_fn(self, state: RecencyState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        keys = select("ActionRecency", self.key, transition, transition.obs)
        return self.bonus(state.clock + 1 - state.last[keys, transition.action])  # type: ignore[no-any-return]

    def update_fn(self, state: RecencyState, transition: Transition) -> RecencyState:
        """Return the clock and table after this step; pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import valid_rows

        keys = select("ActionRecency", self.key, transition, transition.obs)
        valid = valid_rows(transition)
        clock = state.clock + valid.any()
        return RecencyState(clock, state.last.at[keys, transition.action].max(clock * valid))
