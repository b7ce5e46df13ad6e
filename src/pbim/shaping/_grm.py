"""GRM: repay every bonus a fixed number of steps later."""

import math
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from pbim import _arrays
from pbim._arrays import Values
from pbim.config import OLD_DEFAULT
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._checks import check_count, check_gamma
from pbim.shaping._guarantee import Guarantee, exact
from pbim.shaping._ledger import Ledger, Memory, Repayment
from pbim.shaping._rule import GUIDANCE, default_delay, delay_for
from pbim.shaping._schedule import RepaymentSchedule, power


@dataclass(frozen=True, kw_only=True)
class GRM(Ledger):
    """Generalised reward matching: repay every entry ``delay`` steps later, grown by gamma^-delay.

    Forbes et al. 2024 (arXiv 2410.12197). Remembers ``delay`` entries per environment.

    Args:
        gamma: The learner's discount, in (0, 1].
        delay: After how many steps a bonus is taken back; by default 32, which has a guidance of 0.8 at lambda = 0.95,
            or 1 / (1 - gamma) if that is less. Warns where gamma^-delay makes the debts too large for a learner.
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> shaping = pbim.GRM(gamma=0.5, delay=1, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1., -1., -2.])

    """

    delay: int = field(default=None, metadata={OLD_DEFAULT: 1})  # type: ignore[assignment]
    kind: ClassVar[str] = "grm"
    summary: ClassVar[str] = "takes every bonus back a fixed number of steps later"
    guarantee: ClassVar[Guarantee] = exact("Forbes et al. 2024, arXiv 2410.12197")

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        given: Any = self.delay
        if given is None:
            object.__setattr__(self, "delay", default_delay(self.gamma))
        way_out = "1 repays at the next step; to repay only at the end use pbim.PBIM"
        object.__setattr__(self, "delay", check_count("delay", self.delay, way_out))
        super().__post_init__()

    @classmethod
    def for_learner(
        cls, *, gamma: Real | float, gae_lambda: Real | float, guidance: Real | float = GUIDANCE, **settings: Any
    ) -> Self:
        """Return the conversion with the shortest delay that reaches a guidance: a longer one only owes more.

        Args:
            gamma: The learner's discount, in (0, 1].
            gae_lambda: The learner's lambda, in [0, 1); 0 for one-step TD.
            guidance: The share of a bonus that the learner is to feel, in (0, 1) (see ``Shaping.guidance``).
            settings: The other settings, such as ``normalize`` and ``max_steps``.

        Raises:
            InputError: If an argument is out of range, or lambda is 1, where no delay guides.

        >>> import pbim
        >>> pbim.GRM.for_learner(gamma=0.995, gae_lambda=0.95).delay
        32
        >>> pbim.GRM.for_learner(gamma=0.995, gae_lambda=0).delay
        1

        """
        return cls(gamma=gamma, delay=delay_for(gae_lambda, guidance), **settings)

    def growth(self, max_steps: int) -> float:
        """Return gamma^-delay, or less in episodes too short for it."""
        return power(float(self.gamma), -min(self.delay, max_steps - 1))

    def _schedules(self) -> tuple[RepaymentSchedule, ...]:
        return (RepaymentSchedule(gamma=float(self.gamma), length=self.delay),)

    def _empty_memory(self, lanes: Values) -> Memory:
        return _arrays.zeros((self.delay, *lanes.shape), lanes), lanes

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        gamma: Any = self.gamma
        numbers, interval = _growths(gamma, self.delay, arithmetic.exact)
        delay, one = arithmetic.number(self.delay), arithmetic.number(1)

        def repay(memory: Memory, ledger: Values, entry: Values) -> tuple[Memory, Values]:
            entries, age = memory
            growths = _arrays.constant(numbers, ledger)
            payment = growths[:1] * entries[0]
            if arithmetic.is_due(age, interval):
                payment = payment + (ledger - growths @ entries)  # rounding alone, which grows by 1/gamma per step
            payment = arithmetic.clear(payment, age < delay)
            return (arithmetic.push(entries, entry), age + one), payment

        return repay

    def _reset_memory(self, arithmetic: Arithmetic, memory: Memory, ledger: Values, ended: Values) -> Memory:
        del ledger
        entries, age = memory
        return entries, arithmetic.clear(age, ended)  # entries older than the episode are never repaid


@lru_cache(maxsize=64)
def _growths(gamma: Any, delay: int, exact: bool) -> tuple[Values, int]:
    """Return gamma^-delay ... gamma^-1, by which the entries have grown, the oldest first, and when rounding doubles.

    No growth is infinite; rounding errors in the ledger double in ``log 2 / -log gamma`` steps.
    """
    ages = range(delay, 0, -1)
    if exact:
        return np.array([1 / Fraction(gamma) ** age for age in ages], dtype=object), 1
    steps = math.log(2) / -math.log(gamma) if gamma < 1 else math.inf
    return np.array([min(power(float(gamma), -age), sys.float_info.max) for age in ages]), max(1, int(min(64, steps)))
