"""Bonus kappa * sqrt(tau) for an action not taken here for tau steps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pbim.intrinsic._checks import integers, positive
from pbim.intrinsic._keys import Key, check_key, history_key, select
from pbim.intrinsic._shell import Memory, PureBonus, Shell
from pbim.intrinsic._tables import RecencyTable
from pbim.intrinsic.protocol import Spec, Transition

if TYPE_CHECKING:
    from jax import Array


class RecencyState(NamedTuple):
    """Steps taken so far, (), and the step at which each pair was last tried, (num_keys, num_actions)."""

    clock: "Array"
    last: "Array"


@dataclass(frozen=True, kw_only=True)
class ActionRecency(PureBonus):
    """Pay ``kappa * sqrt(tau)``, tau the steps since this action was last taken in this state.

    The clock ticks once per (vector) step and the table is shared by all environments. Pairs never tried count from
    the start of training, as in Dyna-Q+; a pair tried in the step before has tau = 1. ``pbim.verify`` reads an episode
    as the first of training: the clock starts with it. Memory: one dictionary entry per distinct (state, action),
    unbounded.

    Sutton 1990; Sutton & Barto 2018, Section 8.3. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        kappa: What a pair tried in the step before pays.
        key: What the state is that the action was taken in: None the observation ``obs``, else as for
            ``EpisodicCount``.

    Raises:
        InputError: If kappa is not a finite number above 0, or key is not None, a string or a function.

    >>> import numpy as np
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

    kind: ClassVar[str] = "action-recency"
    stepwise: ClassVar[bool] = True
    from_history: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive("ActionRecency", kappa=self.kappa)
        check_key("ActionRecency", self.key)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, table=RecencyTable("ActionRecency", self.key))

    def bonus(self, tau: Any) -> Any:
        """Return the bonus of a pair last tried ``tau`` steps ago."""
        return self.kappa * tau**0.5

    def init(self, key: "Array", spec: Spec) -> RecencyState:
        """Return a clock at 0 and a table, shape (num_keys, num_actions), of pairs never tried."""
        import jax.numpy as jnp

        from pbim.intrinsic.array_counts import table_size

        del key
        integers("ActionRecency", num_actions=spec.num_actions)
        states = table_size("ActionRecency", self.key, spec, "obs")
        return RecencyState(jnp.zeros((), jnp.int32), jnp.zeros((states, spec.num_actions or 0), jnp.int32))

    def reward_fn(self, state: RecencyState, transition: Transition) -> "Array":
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

    def first_memory(self, state: int) -> Memory:
        """Return where the episode is, the clock at 0, and that nothing was tried yet."""
        return state, 0, frozenset[Any]()

    def next_memory(self, memory: Any, action: int, state: int) -> tuple[Memory, Any]:
        """Return the pairs tried so far with their times, and the bonus of this step."""
        before, clock, tried = memory
        place = before if self.key is None else history_key("ActionRecency", self.key, before, action, state)
        last = dict(tried)
        tau = clock + 1 - last.get((place, action), 0)
        last[place, action] = clock + 1
        return (state, clock + 1, frozenset(last.items())), self.bonus(tau)
