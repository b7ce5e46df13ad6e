"""The ledger: what every exact conversion of a bonus is made of.

With f_t the (centred) bonus and pay_t a repayment chosen from the past,

    L_0     = 0
    F'_t    = f_t - pay_t               every step but the last
    F'_t    = -L_t                      the last step of the episode
    L_{t+1} = (L_t + F'_t) / gamma

so L_t = sum_{n<t} gamma^(n-t) F'_n and every whole episode sums to zero: sum_t gamma^t F'_t = 0.
Members of the family differ only in pay_t.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pbim import _arrays
from pbim._arrays import Array, Rows, array_namespace
from pbim.errors import InputError, RepaymentWarning
from pbim.shaping._centring import Centring, FixedMean, centring
from pbim.shaping._shaping import Extra, Guarantee, Level, Shaping, check_gamma, is_count

Memory = tuple[Array, ...]

LARGE_REPAYMENT = 100.0
CAUSAL = "F_t does not depend on actions after t (Assumption 1), and F-bar was gathered before step t"


class LedgerState(NamedTuple):
    """What a ledger conversion carries: ``ledger`` (num_envs,), the repayment's memory, the centring's statistics."""

    ledger: Array
    memory: Memory
    centre: Any


@dataclass(frozen=True, kw_only=True)
class Ledger(Shaping):
    """A conversion that owes what it paid out and settles it at the end of the episode."""

    gamma: Real | float
    normalize: bool | Centring = True
    max_steps: int | None = None
    repays: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("centre",)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        centring(self.normalize)
        if self.max_steps is not None:
            self.check_horizon(self.max_steps)

    def frozen(self, mean: Real | int = 0) -> Self:
        """Return this conversion with F-bar fixed to ``mean``, unless it is fixed already."""
        fixed = centring(self.normalize)
        return replace(self, normalize=fixed if isinstance(fixed, FixedMean) else FixedMean(mean=mean))

    def frozen_at(self, state: LedgerState) -> Self:
        """Return this conversion with F-bar fixed to the mean that ``state`` subtracts next."""
        if state.centre == ():
            return self
        mean: Any = float(state.centre.mean)
        return self.frozen(mean)

    def growth(self, max_steps: int) -> float:
        """Return how many times larger than its bonus the repayment of an entry can get in ``max_steps`` steps."""
        return _power(float(self.gamma), 1 - max_steps)

    def check_horizon(self, max_steps: int) -> None:
        """Warn when episodes of up to ``max_steps`` steps make the repayment too large for a learner."""
        growth = self.growth(max_steps)
        if growth > LARGE_REPAYMENT:
            warnings.warn(
                f"{type(self).__name__}: with gamma={self.gamma} and episodes of up to {max_steps} steps the first "
                f"bonus of an episode is repaid {growth:.3g} times as large; consider "
                f"pbim.Geometric(gamma={self.gamma}, rate={_safe_rate(self.gamma):.2g}) or pbim.GRM with a short "
                "delay, which are as exact and stay bounded",
                RepaymentWarning,
                stacklevel=4,
            )

    @cached_property
    def _divisor(self) -> Array:
        """The discount as NumPy divides by it fastest."""
        return np.asarray(float(self.gamma))

    @cached_property
    def _bodies(self) -> dict[Any, Callable[..., Any]]:
        """Loop bodies made so far: JAX reuses a compiled loop only for the same function object."""
        return {}

    def _start(self, lanes: Array) -> LedgerState:
        return LedgerState(lanes, self._recall(lanes), centring(self.normalize).start(lanes))

    def _run(self, state: LedgerState, rows: Rows, extra: Extra) -> tuple[LedgerState, Array]:
        del extra
        centre, mean = centring(self.normalize).run(state.centre, rows.values, rows.valid)
        carry = (state.ledger, state.memory)
        if isinstance(rows.values, np.ndarray) and rows.valid is None:
            (ledger, memory), shaped = _settle_in_place(self, carry, rows.values, mean, rows.ended)
        else:
            xp = array_namespace(rows.values)
            flags = (rows.ended,) if rows.valid is None else (rows.ended, rows.valid)
            kind = (xp, rows.values.dtype)
            if kind not in self._bodies:
                self._bodies[kind] = _settling(self, xp, rows.values.dtype, _arrays.is_exact(rows.values))
            body = self._bodies[kind]
            (ledger, memory), (shaped,) = _arrays.scan(body, carry, (rows.values, mean, *flags))
        return LedgerState(ledger, memory, centre), shaped

    def _recall(self, lanes: Array) -> Memory:
        """Return the repayment's memory at the start of an episode: arrays whose last axis is num_envs."""
        del lanes
        return ()

    def _forget(self, xp: Any, memory: Memory, ledger: Array, ended: Array) -> Memory:
        """Return the memory with the environments whose episode ended at its start again."""
        del xp, ledger, ended
        return memory

    @abstractmethod
    def _repay(self, xp: Any, memory: Memory, ledger: Array, earned: Array) -> tuple[Memory, Array]:
        """Return the memory after this step and pay_t, of shape (num_envs,)."""


def _settling(conversion: Ledger, xp: Any, dtype: Any, exact: bool) -> Callable[..., Any]:
    """Return the ledger's equations as a pure loop body over rows (F_t, F-bar_t, ended_t[, valid_t]).

    F'_t is rounded to ``dtype`` before the ledger sees it: what was emitted is what is owed.
    """
    gamma = conversion.gamma if exact else float(conversion.gamma)

    def body(carry: tuple[Array, Memory], row: tuple[Array, ...]) -> tuple[tuple[Array, Memory], tuple[Array]]:
        ledger, memory = carry
        bonus, mean, ended = row[:3]
        earned = xp.astype(bonus, ledger.dtype, copy=False) - mean
        recalled, payment = conversion._repay(xp, memory, ledger, earned)
        paid = earned - payment if conversion.repays else earned
        shaped = xp.astype(xp.where(ended, -ledger, paid), dtype, copy=False)  # F'_t
        owed = xp.where(ended, 0, (ledger + shaped) / gamma)  # L_{t+1}
        recalled = conversion._forget(xp, recalled, ledger, ended)
        if len(row) > 3:
            valid = row[3]
            shaped, owed = xp.where(valid, shaped, 0), xp.where(valid, owed, ledger)
            recalled = tuple(xp.where(valid, new, old) for new, old in zip(recalled, memory, strict=True))
        return (owed, recalled), (shaped,)

    return body


def _settle_in_place(
    conversion: Ledger, carry: tuple[Array, Memory], bonuses: Array, means: Array, endings: Array
) -> tuple[tuple[Array, Memory], Array]:
    """Run the same equations over NumPy rows, many times as fast: one array is allocated and settled in place."""
    ledger, memory = carry
    gamma: Any = conversion.gamma if _arrays.is_exact(ledger) else conversion._divisor
    shaped = bonuses - means
    rounds = bonuses.dtype != ledger.dtype
    if rounds:
        shaped = shaped.astype(bonuses.dtype)
    for index, row in enumerate(shaped):
        ended = endings[index]
        if conversion.repays:
            earned = bonuses[index] - means[index, 0]
            memory, payment = conversion._repay(np, memory, ledger, earned)
            memory = conversion._forget(np, memory, ledger, ended)
            np.subtract(earned, payment, out=row, casting="same_kind")
        np.copyto(row, -ledger, where=ended)  # F'_t
        ledger = ledger + row
        np.divide(ledger, gamma, out=ledger)  # L_{t+1}: 0 where the episode ended, but for the rounding of F'_t
        if rounds:
            ledger[ended] = 0
    return (ledger, memory), shaped


@dataclass(frozen=True, kw_only=True)
class PBIM(Ledger):
    """Potential-based intrinsic motivation: pay nothing back before the last step.

    Eq. 34 of Forbes et al. (AAMAS 2024); ``normalize=False`` gives Eq. 30.

    >>> import numpy as np, pbim
    >>> shaping = pbim.PBIM(gamma=0.5, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]  # 1 + 0.5 * 1 + 0.25 * -6 = 0
    array([ 1.,  1., -6.])
    """

    repays: ClassVar[bool] = False
    kind: ClassVar[str] = "pbim"
    summary: ClassVar[str] = "pays the bonus, takes it all back at the last step of the episode"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.EXACT, assumption=CAUSAL, reference="Forbes et al. 2024, Theorem 2"
    )

    def _repay(self, xp: Any, memory: Memory, ledger: Array, earned: Array) -> tuple[Memory, Array]:
        del earned
        return memory, xp.zeros_like(ledger)


@dataclass(frozen=True, kw_only=True)
class GRM(Ledger):
    """Generalised reward matching: repay every entry ``delay`` steps after it was earned, grown by gamma^-delay.

    Forbes et al. 2024 (arXiv 2410.12197). Keeps ``delay`` entries an environment.

    >>> import numpy as np, pbim
    >>> shaping = pbim.GRM(gamma=0.5, delay=1, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1., -1., -2.])
    """

    delay: int = 1
    kind: ClassVar[str] = "grm"
    summary: ClassVar[str] = "takes every bonus back a fixed number of steps later"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.EXACT, assumption=CAUSAL, reference="Forbes et al. 2024, arXiv 2410.12197"
    )

    def __post_init__(self) -> None:
        if not is_count(self.delay):
            raise InputError(
                f"delay must be a whole number of at least 1, received {self.delay!r}: "
                "1 repays at the next step; to repay only at the end use pbim.PBIM"
            )
        object.__setattr__(self, "delay", int(self.delay))
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return gamma^-delay, or less in episodes too short for it."""
        return _power(float(self.gamma), -min(self.delay, max_steps - 1))

    def _recall(self, lanes: Array) -> Memory:
        entries = _arrays.zeros((self.delay, *lanes.shape), lanes)
        return entries, lanes

    @cached_property
    def _growths(self) -> Array:
        """gamma^-delay ... gamma^-1, by which the entries have grown, the oldest first."""
        return np.array([_power(float(self.gamma), -age) for age in range(self.delay, 0, -1)])

    @cached_property
    def _exact_growths(self) -> Array:
        gamma: Any = self.gamma
        return np.array([1 / Fraction(gamma) ** age for age in range(self.delay, 0, -1)], dtype=object)

    def _repay(self, xp: Any, memory: Memory, ledger: Array, earned: Array) -> tuple[Memory, Array]:
        entries, age = memory
        if _arrays.is_exact(ledger):
            growth = self._exact_growths
        else:
            growth = _arrays.constant(np.minimum(self._growths, float(xp.finfo(ledger.dtype).max)), ledger)
        drift = ledger - growth @ entries  # rounding alone; kept in the ledger it would grow by 1/gamma a step for ever
        payment = xp.where(age >= self.delay, growth[0] * entries[0] + drift, 0)
        return (xp.concat([entries[1:], earned[None]]), age + 1), payment

    def _forget(self, xp: Any, memory: Memory, ledger: Array, ended: Array) -> Memory:
        del ledger
        entries, age = memory
        return entries, xp.where(ended, 0, age)  # entries older than the episode are never repaid


@dataclass(frozen=True, kw_only=True)
class Geometric(Ledger):
    """Repay the share ``rate`` of the ledger at every step; bounded for endless episodes when rate > 1 - gamma.

    >>> import numpy as np, pbim
    >>> shaping = pbim.Geometric(gamma=0.5, rate=0.75, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1. , -0.5, -3. ])
    """

    rate: Real | float = 0.1
    kind: ClassVar[str] = "geometric"
    summary: ClassVar[str] = "takes back a share of what is owed at every step, so that little is left for the last"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.EXACT, assumption=CAUSAL, reference="pbim, docs/theory.md, as Theorem 2"
    )

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, Real) or not 0 < float(self.rate) <= 1:
            raise InputError(
                f"rate must be in (0, 1], received {self.rate!r}: "
                "1 repays all at the next step; to repay nothing before the end use pbim.PBIM"
            )
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return ((1 - rate) / gamma)^(max_steps - 1) where that grows, else 1."""
        return max(1.0, _power((1 - float(self.rate)) / float(self.gamma), max_steps - 1))

    def _repay(self, xp: Any, memory: Memory, ledger: Array, earned: Array) -> tuple[Memory, Array]:
        del xp, earned
        return memory, _arrays.number_for(self.rate, ledger) * ledger


def _power(base: float, exponent: int) -> float:
    """Return base**exponent, infinite where a float cannot hold it."""
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")


def _safe_rate(gamma: Real | float) -> float:
    """Return a rate at which a geometric ledger stays bounded with room to spare."""
    return min(1.0, max(0.02, 2 * (1 - float(gamma))))
