"""The ledger: what every exact conversion of a bonus is made of.

With f_t the (centred) bonus and pay_t a repayment chosen from the past,

    L_0     = 0
    F'_t    = f_t - pay_t               every step but the last
    F'_t    = -L_t                      the last step of the episode
    L_{t+1} = (L_t + F'_t) / gamma

so L_t = sum_{n<t} gamma^(n-t) F'_n and every whole episode sums to zero: sum_t gamma^t F'_t = 0.
Members of the family differ only in pay_t.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import repeat
from math import inf, nan
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from array_api_compat import is_jax_array

from pbim import _arrays
from pbim._arrays import Array, Rows, Values, array_namespace, copied
from pbim.errors import RepaymentWarning, warn
from pbim.shaping._arithmetic import Arithmetic, InPlace, OneStep
from pbim.shaping._centring import Centring, FixedMean, centring
from pbim.shaping._checks import check_count, check_gamma, short
from pbim.shaping._guarantee import Guarantee, exact
from pbim.shaping._rule import default_delay, default_rate
from pbim.shaping._schedule import Debt, RepaymentSchedule, debt, guidance, power
from pbim.shaping._shaping import Extra, Shaping

Memory = tuple[Values, ...]
"""Arrays whose last axis is num_envs."""

Repayment = Callable[[Memory, Values, Values], tuple[Memory, Values]]
Owing = Callable[[Memory, Values, Values], Values]

LARGE_REPAYMENT = 100.0
LARGE_DEBT = 1e4
"""What may be owed at most for bonuses of 1: float32 rewards of that size are rounded by a thousandth of a bonus."""
LONG = 1000
"""The length of an episode that a warning tells of where none is known."""


class LedgerState(NamedTuple):
    """What a ledger conversion carries.

    Attributes:
        ledger: L_t, shape (num_envs,).
        memory: What the repayment remembers of the running episodes, arrays whose last axis is num_envs.
        centre: The statistics behind F-bar, which all environments share.

    """

    ledger: Array
    memory: tuple[Array, ...]
    centre: Any


@dataclass(frozen=True, kw_only=True)
class Ledger(Shaping[LedgerState]):
    """A conversion that owes what it paid out and settles it at the end of the episode.

    Attributes:
        gamma: The learner's discount, in (0, 1].
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.
        lanewise: Whether its equations hold for Python's numbers as they do for arrays, and need no memory.

    """

    gamma: Real | float
    normalize: bool | Centring = True
    max_steps: int | None = None
    lanewise: ClassVar[bool] = False
    shared = ("centre",)
    guarantee: ClassVar[Guarantee] = exact("every ledger that is settled cancels")
    summary: ClassVar[str] = "keeps a ledger and settles it at the last step"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)
        centring(self.normalize)
        if self.max_steps is None:
            self._check_debt()
            return
        self.check_horizon(check_count("max_steps", self.max_steps, "pass the longest episode, or leave it out"))

    @property
    def label(self) -> str:
        """A short name for people, with its centring unless that is the running mean."""
        words = centring(self.normalize).label
        return f"{super().label}, {words}" if words else super().label

    def frozen(self, mean: Real | int = 0) -> Self:
        """Return this conversion with F-bar fixed to ``mean``, unless it is fixed already."""
        fixed = centring(self.normalize)
        conversion = copy(self)  # what was warned of once is not warned of again
        object.__setattr__(conversion, "normalize", fixed if isinstance(fixed, FixedMean) else FixedMean(mean=mean))
        return conversion

    def frozen_at(self, state: LedgerState) -> Self:
        """Return this conversion with F-bar fixed to the mean that ``state`` subtracts next."""
        if state.centre == ():
            return self
        mean: Any = float(state.centre.mean)
        return self.frozen(mean)

    def growth(self, max_steps: int) -> float:
        """Return how many times larger than its bonus the repayment of an entry can get in ``max_steps`` steps."""
        return power(float(self.gamma), 1 - max_steps)

    def check_horizon(self, max_steps: int) -> None:
        """Warn when episodes of up to ``max_steps`` steps make the repayment too large for a learner."""
        growth = self.growth(max_steps)
        if growth > LARGE_REPAYMENT:
            warn(
                f"{type(self).__name__}: with gamma={short(self.gamma)} and episodes of up to {short(max_steps)} steps "
                f"the first bonus of an episode is repaid {growth:.3g} times as large; consider "
                f"{_alternatives(self.gamma)}",
                RepaymentWarning,
            )
        elif (debt := self._largest_debt(max_steps)) > LARGE_DEBT:
            warn(
                f"{self.label}: with gamma={short(self.gamma)}, bonuses of 1 make an episode of {short(max_steps)} "
                f"steps owe {debt:.3g}; consider {_alternatives(self.gamma)}",
                RepaymentWarning,
            )

    def _check_debt(self) -> None:
        """Warn when an episode of unknown length may owe more than rewards can bear."""
        debt = self._largest_debt(inf)
        if debt > LARGE_DEBT:
            owed = f"a long episode owe up to {debt:.3g}"
            if debt == inf:
                owed = f"an episode of {LONG} steps owe {self._largest_debt(LONG):.3g}; a longer one owes ever more"
            warn(
                f"{self.label}: with gamma={short(self.gamma)}, bonuses of 1 make {owed}; consider "
                f"{_alternatives(self.gamma)}, or pass max_steps=... if all episodes are short",
                RepaymentWarning,
            )

    def _largest_debt(self, steps: float) -> float:
        """Return the most that is owed after ``steps`` steps with bonuses of at most 1, as far as the settings say.

        0 where only the length of an episode bounds it (PBIM), or the author of the repayment.
        """
        return self._owed(1.0, steps).worst if self.repays and self._schedules() else 0.0

    def _schedules(self) -> tuple[RepaymentSchedule, ...]:
        """Return when a bonus is taken back, in shares; () where that is not a matter of its age alone."""
        return ()

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        schedules = self._schedules()
        return guidance(schedules, gae_lambda, steps, rollout) if schedules else nan

    def _owed(self, bonus: float, entries: float) -> Debt:
        schedules = self._schedules()
        return debt(schedules, bonus, entries) if schedules else Debt(worst=nan, expected=nan)

    def _start(self, lanes: Values) -> LedgerState:
        return LedgerState(lanes, self._empty_memory(lanes), centring(self.normalize).start(lanes))

    def _run(self, state: LedgerState, rows: Rows, extra: Extra) -> tuple[LedgerState, Values]:
        del extra
        centre, mean = centring(self.normalize).run(state.centre, rows)
        run = _run_pure
        if isinstance(rows.values, np.ndarray) and not self.calls_back:
            run = _run_one if len(rows.values) == 1 else _run_in_place
        ledger, memory, shaped = run(self, state, rows, mean)
        return LedgerState(ledger, memory, centre), shaped

    def _empty_memory(self, lanes: Values) -> Memory:
        """Return the repayment's memory at the start of an episode, given zeros of shape (num_envs,)."""
        del lanes
        return ()

    def _reset_memory(self, arithmetic: Arithmetic, memory: Memory, ledger: Values, ended: Values) -> Memory:
        """Return the memory with the environments whose episode ended at the start again."""
        del arithmetic, ledger, ended
        return memory

    def payment(self, xp: Any, memory: Memory, ledger: Values, entry: Values) -> tuple[Memory, Values]:
        """Return the memory after this step and pay_t, (num_envs,): what a conversion of your own writes.

        Args:
            xp: The array library of the other arguments.
            memory: What ``_empty_memory`` returned, or the last call; () unless that is overridden.
            ledger: L_t, what is owed, (num_envs,).
            entry: f_t, the centred bonus of this step.

        All arrays are copies, so that what is edited in place or kept changes nothing else.

        """
        raise NotImplementedError(f"{type(self).__name__} must define payment(xp, memory, ledger, entry)")

    def _repayment(self, arithmetic: Arithmetic) -> Repayment | None:
        """Return the function that says pay_t, or None where nothing is repaid before the last step.

        It takes the memory, L_t and f_t, the last two of shape (num_envs,), and returns the memory after this step and
        pay_t. The array of f_t is written over after the call: keep it with ``arithmetic.push``, or a copy of it.
        """
        return partial(_paid_by, self.payment, arithmetic.xp)

    def _debt(self, arithmetic: Arithmetic) -> Owing | None:
        """Return the function that says L_{t+1} before the last step, or None for (L_t + F'_t) / gamma, which cancels.

        It takes the memory before this step, L_t and F'_t, the last two of shape (num_envs,).
        """
        del arithmetic
        return None


def _paid_by(
    payment: Callable[..., tuple[Memory, Values]], xp: Any, memory: Memory, ledger: Values, entry: Values
) -> tuple[Memory, Values]:
    return payment(xp, tuple(map(copied, memory)), copied(ledger), copied(entry))


def settling(conversion: Ledger, arithmetic: Arithmetic) -> Callable[..., tuple[Values, Memory, Values]]:
    """Return the ledger's equations, which stand here alone: one step of a conversion in any library.

    ``settle`` takes L_t, the repayment's memory, f_t (the entry) and two masks, where the episode ends and where the
    step is a dummy (None for nowhere; without a memory both may be); it returns L_{t+1}, the new memory and F'_t.
    """
    repay, reset, owe = conversion._repayment(arithmetic), conversion._reset_memory, conversion._debt(arithmetic)
    subtract, put, rounds, gamma = arithmetic.subtract, arithmetic.put, arithmetic.rounds, arithmetic.gamma
    clears = rounds or owe is not None

    def settle(
        ledger: Values, memory: Memory, entry: Values, ended: Values | None, skipped: Values | None
    ) -> tuple[Values, Memory, Values]:
        shaped, new_memory = entry, memory
        if repay is not None:
            new_memory, payment = repay(memory, ledger, entry)
            shaped = subtract(entry, payment)  # F'_t before the last step
        if ended is not None:
            shaped = put(shaped, ended, -ledger)  # F'_t
        if rounds:
            shaped = arithmetic.emit(shaped)
        if owe is None:
            new_ledger = ledger + shaped
            new_ledger /= gamma  # L_{t+1}
        else:
            new_ledger = owe(memory, ledger, shaped)
        if clears and ended is not None:
            new_ledger = arithmetic.clear(new_ledger, ended)
        if memory:
            new_memory = reset(arithmetic, new_memory, ledger, ended)
        if skipped is not None:  # nothing is paid and nothing moves
            where = arithmetic.xp.where
            shaped, new_ledger = arithmetic.clear(shaped, skipped), put(new_ledger, skipped, ledger)
            new_memory = tuple(where(skipped, old, new) for old, new in zip(memory, new_memory, strict=True))
        return new_ledger, new_memory, shaped

    return settle


def _run_in_place(conversion: Ledger, state: LedgerState, rows: Rows, mean: Values) -> tuple[Values, Memory, Values]:
    """Settle NumPy rows one after the other, in memory that is allocated once."""
    entries = rows.values - mean
    arithmetic = InPlace(
        array_namespace(entries),
        rows.values.dtype,
        conversion.gamma,
        exact=_arrays.is_exact(entries),
        entries=entries,
        masked=rows.valid is not None,
    )
    settle, ledger = settling(conversion, arithmetic), state.ledger
    memory: Memory = state.memory
    dummies = repeat(None) if rows.valid is None else ~rows.valid
    for entry, ended, skipped in zip(entries, rows.ended, dummies, strict=False):
        ledger, memory, _ = settle(ledger, memory, entry, ended, skipped)
    parts: Any = memory
    return ledger, tuple(part if part.base is None else part.copy() for part in parts), arithmetic.rewards


def _run_one(conversion: Ledger, state: LedgerState, rows: Rows, mean: Values) -> tuple[Values, Memory, Values]:
    """Settle one NumPy row, as an environment's wrapper does at every step, with equations prepared once."""
    values = rows.values[0]
    settle = _prepared(conversion, values.dtype, _arrays.is_exact(values))
    skipped = None if rows.valid is None else ~rows.valid[0]
    ledger, memory, shaped = settle(state.ledger, state.memory, values - mean[0], rows.ended[0], skipped)
    return ledger, memory, shaped[None]


@lru_cache(maxsize=256)
def _prepared(conversion: Ledger, dtype: Any, exact: bool) -> Callable[..., tuple[Values, Memory, Values]]:
    return settling(conversion, OneStep(np, dtype, conversion.gamma, exact=exact))


def _run_pure(conversion: Ledger, state: LedgerState, rows: Rows, mean: Values) -> tuple[Values, Memory, Values]:
    """Settle rows of any library without side effects, in one compiled loop if they are JAX's."""
    flags = (rows.ended,) if rows.valid is None else (rows.ended, rows.valid)
    kind = (array_namespace(rows.values), rows.values.dtype, _arrays.is_exact(rows.values))
    body = (_cached_body if is_jax_array(rows.values) and _is_hashable(conversion) else _body)(conversion, *kind)
    carry, (shaped,) = _arrays.scan(body, (state.ledger, state.memory), (rows.values, mean, *flags))
    return *carry, shaped


def _body(conversion: Ledger, xp: Any, dtype: Any, exact: bool) -> Callable[..., Any]:
    """Return a loop body over rows (F_t, F-bar_t, ended_t[, valid_t])."""
    settle = settling(conversion, Arithmetic(xp, dtype, conversion.gamma, exact=exact))

    def body(carry: tuple[Values, Memory], row: tuple[Values, ...]) -> tuple[tuple[Values, Memory], tuple[Values]]:
        (ledger, memory), (bonus, mean, ended) = carry, row[:3]
        entry = xp.astype(bonus, ledger.dtype, copy=False) - mean
        skipped = ~row[3] if len(row) > 3 else None
        ledger, memory, shaped = settle(ledger, memory, entry, ended, skipped)
        return (ledger, memory), (shaped,)

    return body


_cached_body = lru_cache(maxsize=256)(_body)  # JAX compiles a loop anew unless its body is the same object


def _is_hashable(conversion: Ledger) -> bool:
    """Tell whether a conversion can be looked up: it can unless it holds a function that cannot."""
    try:
        hash(conversion)
    except TypeError:
        return False
    return True


def _alternatives(gamma: Real | float) -> str:
    known, rate, delay = short(gamma), short(default_rate(gamma)), default_delay(gamma)
    return (
        f"pbim.Geometric(gamma={known}, rate={rate}) or pbim.GRM(gamma={known}, delay={delay}), which are "
        "as exact and stay bounded"
    )
