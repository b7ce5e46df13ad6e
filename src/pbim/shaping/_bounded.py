"""A ledger that is kept within a limit: nothing is repaid while little is owed, and the excess at once."""

from dataclasses import dataclass
from math import inf, nan
from numbers import Real
from typing import ClassVar

from pbim._arrays import Values
from pbim.errors import InputError
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._checks import check_share, is_number, short
from pbim.shaping._guarantee import Guarantee, exact
from pbim.shaping._ledger import Ledger, Memory, Repayment
from pbim.shaping._schedule import Debt, RepaymentSchedule, debt, power


@dataclass(frozen=True, kw_only=True)
class Bounded(Ledger):
    """Repay what is owed above ``limit`` at the next step, and the share ``rate`` of what lies within it.

    With C_t = clip(L_t, -limit, limit), pay_t = (L_t - C_t) + rate * C_t, so L_{t+1} = ((1 - rate) C_t + f_t) / gamma
    and |L_{t+1}| <= ((1 - rate) limit + |f_t|) / gamma in episodes of any length: the most that is taken back at once.
    ``limit`` is in units of the extrinsic reward. An infinite limit is PBIM (with a rate, Geometric); a limit of 0
    repays everything at the next step.

    Args:
        gamma: The learner's discount, in (0, 1].
        limit: How much may be owed from one step to the next, at least 0. Warns where more than 10,000 may be
            owed: float32 rewards of that size are rounded too much.
        rate: The share of what lies within the limit that is repaid at every step, in [0, 1].
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> shaping = pbim.Bounded(gamma=0.5, limit=3, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([[False], [False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]  # owed before each step: 0, 2, 6 (3 above the limit), 8
    array([ 1.,  1., -2., -8.])

    """

    limit: Real | float = 1
    rate: Real | float = 0
    kind: ClassVar[str] = "bounded"
    summary: ClassVar[str] = "takes back what is owed above a limit at the next step, the rest at the last"
    guarantee: ClassVar[Guarantee] = exact("pbim, docs/theory.md, as Theorem 2")

    def __post_init__(self) -> None:
        if not is_number(self.limit) or not float(self.limit) >= 0:
            raise InputError(
                f"limit must be a number of at least 0, received {short(self.limit)}: "
                "pass the size of the extrinsic reward of an episode; 0 repays all at the next step"
            )
        check_share("rate", self.rate, "[0, 1]", "0 repays nothing of what lies within the limit")
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return how many times as large a bonus of 1 is repaid: as Geometric's, at most max(1, limit) / gamma."""
        free = max(1.0, power((1 - float(self.rate)) / float(self.gamma), max_steps - 1))
        return min(free, max(1.0, float(self.limit)) / float(self.gamma))

    def _largest_debt(self, steps: float) -> float:
        return self._owed(1.0, steps).worst

    def _schedules(self) -> tuple[RepaymentSchedule, ...]:
        """Return the two limits in which what else is owed does not matter."""
        if self.limit == 0:
            return (RepaymentSchedule(gamma=float(self.gamma), length=1),)
        return self._free if float(self.limit) == inf else ()

    @property
    def _free(self) -> tuple[RepaymentSchedule, ...]:
        """When a bonus is taken back within the limit."""
        return (RepaymentSchedule(gamma=float(self.gamma), kept=1 - float(self.rate)),)

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        return 1.0 if gae_lambda == 0 else super()._guidance(gae_lambda, steps, rollout)  # nothing comes back at once

    def _owed(self, bonus: float, entries: float) -> Debt:
        if self._schedules() or bonus == 0 or entries == 0:
            return debt(self._schedules(), bonus, entries)
        most = ((1 - float(self.rate)) * float(self.limit) + bonus) / float(self.gamma)
        return Debt(worst=min(debt(self._free, bonus, entries).worst, most), expected=nan)

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        xp, limit, rate = arithmetic.xp, arithmetic.number(self.limit), arithmetic.number(self.rate)

        def repay(memory: Memory, ledger: Values, entry: Values) -> tuple[Memory, Values]:
            del entry
            within = xp.where(ledger > limit, limit, xp.where(ledger < -limit, -limit, ledger))  # C_t
            return memory, (ledger - within) + rate * within

        return repay
