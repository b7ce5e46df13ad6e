"""Bonus beta / sqrt(n) for the n-th visit of a state over the whole of training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pbim.intrinsic._checks import positive
from pbim.intrinsic._keys import Key, check_key, select
from pbim.intrinsic._shell import PureBonus, Shell
from pbim.intrinsic._tables import LifetimeTable
from pbim.intrinsic.protocol import Spec, Transition

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True, kw_only=True)
class LifetimeCount(PureBonus):
    """Pay ``beta / sqrt(n)`` for the n-th arrival at a state since training began.

    All environments share one table. Environments that arrive at the same state in the same step are paid the same
    and counted one each, so their order does not matter.
    Memory: one dictionary entry per distinct key, unbounded; ``PseudoCount`` is the bounded form.

    Strehl & Littman 2008 (the MBIE-EB bonus), here for the state arrived at.
    Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        beta: What the first arrival pays.
        key: What a state is, as for ``EpisodicCount``.

    Raises:
        InputError: If beta is not a finite number above 0, or key is not None, a string or a function.

    >>> import numpy as np
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

    kind: ClassVar[str] = "lifetime-count"
    stepwise: ClassVar[bool] = True
    added: ClassVar[tuple[str, ...]] = ("key", "value")

    def __post_init__(self) -> None:
        positive("LifetimeCount", beta=self.beta)
        check_key("LifetimeCount", self.key)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, table=LifetimeTable("LifetimeCount", self.key))

    def bonus(self, n: Any) -> Any:
        """Return the bonus of the n-th arrival, n counting this one."""
        return self.beta / n**0.5

    def init(self, key: "Array", spec: Spec) -> "Array":
        """Return empty counts, shape (num_keys,)."""
        import jax.numpy as jnp

        from pbim.intrinsic.array_counts import table_size

        del key
        return jnp.zeros(table_size("LifetimeCount", self.key, spec), dtype=jnp.int32)

    def reward_fn(self, state: "Array", transition: Transition) -> "Array":
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        keys = select("LifetimeCount", self.key, transition, transition.next_obs)
        return self.bonus(state[keys] + 1)  # type: ignore[no-any-return]

    def update_fn(self, state: "Array", transition: Transition) -> "Array":
        """Return the counts after this step; pure, for jit, scan and vmap."""
        from pbim.intrinsic.array_counts import valid_rows

        keys = select("LifetimeCount", self.key, transition, transition.next_obs)
        return state.at[keys].add(valid_rows(transition).astype(state.dtype))
