"""What conversions are compared with: the raw bonus, no bonus, and a bonus that fades."""

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import ClassVar, NamedTuple

from pbim import _arrays
from pbim._arrays import Array, ArrayT, Rows, Values, array_namespace
from pbim.errors import InputError
from pbim.shaping._checks import COUNTABLE, check_count, is_number, short
from pbim.shaping._guarantee import Guarantee, Level, exact
from pbim.shaping._schedule import NOTHING, Debt
from pbim.shaping._shaping import Extra, Shaping, StateT


class Stateless(NamedTuple):
    """No state but the number of environments, as zeros of shape (num_envs,)."""

    lanes: Array


class FadingState(NamedTuple):
    """``lanes`` (num_envs,) and the number of transitions so far of all environments, shape ()."""

    lanes: Array
    transitions: Array


class _NeverOwing(Shaping[StateT]):
    """A conversion that takes nothing back."""

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        del gae_lambda, steps, rollout
        return 1.0  # of what is paid

    def _owed(self, bonus: float, entries: float) -> Debt:
        del bonus, entries
        return NOTHING


@dataclass(frozen=True, kw_only=True)
class Raw(_NeverOwing[Stateless]):
    """The baseline F'_t = scale * F_t: intrinsic motivation as everyone adds it.

    Args:
        scale: The coefficient of the bonus.

    Raises:
        InputError: If ``scale`` is not a finite number.

    >>> import numpy as np, pbim
    >>> shaping = pbim.Raw(scale=0.5)
    >>> shaping.step(shaping.init(2), np.array([1.0, 3.0]), np.array([False, True]))[1]
    array([0.5, 1.5])

    """

    scale: Real | float = 1
    title: ClassVar[str] = "Raw bonus"
    kind: ClassVar[str] = "raw"
    summary: ClassVar[str] = "adds the bonus as it is (times a coefficient)"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE, assumption="the bonus becomes part of the task", reference="Ng et al. 1999, section 2"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.scale) or not isfinite(self.scale):
            raise InputError(f"scale must be a finite number, received {short(self.scale)}: 1 adds the bonus as it is")

    def _start(self, lanes: Values) -> Stateless:
        return Stateless(lanes)

    def _run(self, state: Stateless, rows: Rows, extra: Extra) -> tuple[Stateless, Values]:
        del extra
        return state, rows.values * _arrays.number_for(self.scale, rows.values)


@dataclass(frozen=True, kw_only=True)
class NoBonus(_NeverOwing[Stateless]):
    """The control F'_t = 0: the task alone."""

    title: ClassVar[str] = "No bonus"
    kind: ClassVar[str] = "none"
    summary: ClassVar[str] = "drops the bonus"
    guarantee: ClassVar[Guarantee] = exact("by definition", "nothing is added")

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        del gae_lambda, steps, rollout
        return 0.0

    def _start(self, lanes: Values) -> Stateless:
        return Stateless(lanes)

    def _run(self, state: Stateless, rows: Rows, extra: Extra) -> tuple[Stateless, Values]:
        del extra
        return state, array_namespace(rows.values).zeros_like(rows.values)


@dataclass(frozen=True, kw_only=True)
class PIES(_NeverOwing[FadingState]):
    """Policy-invariant explicit shaping: F'_t = xi * F_t with xi falling from 1 to 0 over ``decay_steps`` transitions.

    Behboudian et al. 2022.

    Args:
        decay_steps: After how many transitions the bonus is gone; those of all environments count together, as in the
            ``total_timesteps`` of most trainers.

    Raises:
        InputError: If ``decay_steps`` is not a whole number from 1 to 2^31 - 1, as far as JAX counts.

    >>> import numpy as np, pbim
    >>> shaping = pbim.PIES(decay_steps=4)
    >>> shaping.rollout(shaping.init(2), np.ones((3, 2)), np.zeros((3, 2), bool))[1][:, 0]
    array([1. , 0.5, 0. ])

    """

    decay_steps: int
    shared = ("transitions",)
    kind: ClassVar[str] = "pies"
    summary: ClassVar[str] = "adds the bonus with a coefficient that falls to zero"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.LIMIT,
        assumption="training goes on after decay_steps, and the learner forgets what it learned before",
        reference="Behboudian et al. 2022",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        way_out = "pass the number of transitions after which the bonus is gone"
        object.__setattr__(self, "decay_steps", check_count("decay_steps", self.decay_steps, way_out, most=COUNTABLE))

    @property
    def label(self) -> str:
        """A short name for people, with the length of the decay."""
        return f"PIES, {self.decay_steps:,} steps"

    def frozen(self, mean: Real | int = 0) -> Raw:
        """Return the raw bonus: what is added before the coefficient has fallen."""
        del mean
        return Raw(scale=1)

    def frozen_at(self, state: FadingState) -> Raw:
        """Return the bonus with the coefficient that ``state`` multiplies by next."""
        return Raw(scale=float(self.coefficient(state.transitions)))

    def coefficient(self, transitions: ArrayT) -> ArrayT:
        """Return xi after that many ``transitions``, of any shape."""
        xp = array_namespace(transitions)
        left = 1 - transitions / float(self.decay_steps)
        coefficient: ArrayT = xp.where(left > 0, left, xp.zeros_like(left))
        return coefficient

    def _start(self, lanes: Values) -> FadingState:
        return FadingState(lanes, _arrays.counter(lanes))

    def _run(self, state: FadingState, rows: Rows, extra: Extra) -> tuple[FadingState, Values]:
        del extra
        xp = array_namespace(rows.values)
        counted = xp.ones_like(rows.ended) if rows.valid is None else rows.valid
        totals = _arrays.counted(
            state.transitions, xp.cumulative_sum(xp.sum(xp.astype(counted, state.lanes.dtype), axis=1))
        )
        before = xp.concat([xp.reshape(xp.asarray(state.transitions), (1,)), totals[:-1]])
        shaped = rows.values * self.coefficient(before)[:, None]
        return FadingState(state.lanes, totals[-1]), xp.astype(shaped, rows.values.dtype, copy=False)
