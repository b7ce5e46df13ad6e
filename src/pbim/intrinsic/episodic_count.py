"""Bonus alpha / n for the n-th visit of a state within an episode."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from pbim.intrinsic._checks import positive
from pbim.intrinsic._keys import Key, check_key, history_key
from pbim.intrinsic._shell import Memory, PureBonus, Shell
from pbim.intrinsic._tables import EpisodicTable
from pbim.intrinsic.protocol import Spec, Transition

if TYPE_CHECKING:
    from jax import Array

    from pbim.intrinsic.array_counts import EpisodicCounts


@dataclass(frozen=True, kw_only=True)
class EpisodicCount(PureBonus):
    """Pay ``alpha / n`` for the n-th arrival at a state in the running episode, so the first pays ``alpha``.

    A visit is an arrival: the state an episode starts in is not counted until a step leads back to it, because a
    transition's ``info`` speaks of the arrival only. Counts of an environment are forgotten after the bonus of the
    step that terminates or truncates its episode. Memory: at most one dictionary entry per step of the running episode.

    Forbes et al. 2024, Eq. 41. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        alpha: What the first arrival pays; a Fraction makes ``pbim.verify`` exact.
        key: What a state is: None the next observation (integers), a string that entry of ``info`` (one row per
            environment), a function whatever it returns for the transition (hashable, one per environment).
            ``pbim.verify`` reads None and functions; the states of a finite MDP have no ``info``.

    Raises:
        InputError: If alpha is not a finite number above 0, or key is none of these.

    >>> import numpy as np
    >>> bonus = EpisodicCount(alpha=0.02)
    >>> no = np.array([False])
    >>> step = Transition(np.array([3]), np.array([0]), np.array([7]), no, no, {})
    >>> for _ in range(2):
    ...     print(bonus.reward(step))
    ...     bonus.update(step)
    [0.02]
    [0.01]
    >>> EpisodicCount(alpha=Fraction(1)).of_history((3, 0, 7, 1, 3, 0, 7))  # the second arrival at state 7
    Fraction(1, 2)

    """

    alpha: float | Fraction = 1.0
    key: Key = None

    kind: ClassVar[str] = "count"
    episodic: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True
    from_history: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive("EpisodicCount", alpha=self.alpha)
        check_key("EpisodicCount", self.key)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, table=EpisodicTable("EpisodicCount", self.key))

    def bonus(self, n: Any) -> Any:
        """Return the bonus of the n-th arrival, n counting this one."""
        alpha = self.alpha if isinstance(n, int) else float(self.alpha)  # arrays know no Fractions
        return alpha / n  # Eq. 41

    @property
    def counts(self) -> "EpisodicCounts":
        """The table of the pure core."""
        from pbim.intrinsic.array_counts import EpisodicCounts

        return EpisodicCounts("EpisodicCount", self.key)

    def init(self, key: "Array", spec: Spec) -> "Array":
        """Return empty counts, shape (num_envs, num_keys)."""
        del key
        return self.counts.init(spec)

    def reward_fn(self, state: "Array", transition: Transition) -> "Array":
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.bonus(self.counts.visits(state, transition))  # type: ignore[no-any-return]

    def update_fn(self, state: "Array", transition: Transition) -> "Array":
        """Return the counts after this step; pure, for jit, scan and vmap."""
        return self.counts.add(state, transition)

    def first_memory(self, state: int) -> Memory:
        """Return that nothing was arrived at yet; a function ``key`` also needs to know where the episode is."""
        return () if self.key is None else (state, ())

    def next_memory(self, memory: Any, action: int, state: int) -> tuple[Memory, Any]:
        """Return the keys arrived at so far, sorted, and the bonus of this step."""
        if self.key is None:
            arrivals = tuple(sorted((*memory, state)))
            return arrivals, self.bonus(arrivals.count(state))
        before, keys = memory
        arrived = history_key("EpisodicCount", self.key, before, action, state)
        keys = tuple(sorted((*keys, arrived), key=repr))
        return (state, keys), self.bonus(keys.count(arrived))
