"""Geometric: repay a share of what is owed at every step."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

from pbim.config import OLD_DEFAULT
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._checks import check_gamma, check_share
from pbim.shaping._guarantee import Guarantee, exact
from pbim.shaping._ledger import Ledger, Repayment
from pbim.shaping._rule import GUIDANCE, default_rate, rate_for
from pbim.shaping._schedule import RepaymentSchedule, power


@dataclass(frozen=True, kw_only=True)
class Geometric(Ledger):
    """Repay the share ``rate`` of the ledger at every step; bounded for endless episodes when rate > 1 - gamma.

    Args:
        gamma: The learner's discount, in (0, 1].
        rate: The share of the ledger that is repaid at every step, in (0, 1]; by default 0.01316, which has a guidance
            of 0.8 at lambda = 0.95, or 2 (1 - gamma) if that is more. Warns at or below 1 - gamma, where debts grow
            without bound.
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> pbim.Geometric(gamma=0.99).rate, pbim.Geometric(gamma=0.9).rate
    (0.02, 0.2)
    >>> shaping = pbim.Geometric(gamma=0.5, rate=0.75, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1. , -0.5, -3. ])

    """

    rate: Real | float = field(default=None, metadata={OLD_DEFAULT: 0.1})  # type: ignore[assignment]
    kind: ClassVar[str] = "geometric"
    lanewise: ClassVar[bool] = True
    summary: ClassVar[str] = "takes back a share of what is owed at every step, so that little is left for the last"
    guarantee: ClassVar[Guarantee] = exact("pbim, docs/theory.md, as Theorem 2")

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        given: Any = self.rate
        if given is None:
            object.__setattr__(self, "rate", default_rate(self.gamma))
        way_out = "1 repays all at the next step; to repay nothing before the end use pbim.PBIM"
        check_share("rate", self.rate, "(0, 1]", way_out)
        super().__post_init__()

    @classmethod
    def for_learner(
        cls, *, gamma: Real | float, gae_lambda: Real | float, guidance: Real | float = GUIDANCE, **settings: Any
    ) -> Self:
        """Return the conversion with the largest rate that reaches a guidance: a smaller one only owes more.

        Warns where that rate is at or below 1 - gamma, so that debts grow without bound.

        Args:
            gamma: The learner's discount, in (0, 1].
            gae_lambda: The learner's lambda, in [0, 1); 0 for one-step TD.
            guidance: The share of a bonus that the learner is to feel, in (0, 1) (see ``Shaping.guidance``).
            settings: The other settings, such as ``normalize`` and ``max_steps``.

        Raises:
            InputError: If an argument is out of range, or lambda is 1, where no rate guides.

        >>> import pbim
        >>> round(pbim.Geometric.for_learner(gamma=0.995, gae_lambda=0.95).rate, 4)
        0.0132
        >>> pbim.Geometric.for_learner(gamma=0.995, gae_lambda=0).rate
        1

        """
        return cls(gamma=gamma, rate=rate_for(gae_lambda, guidance), **settings)

    def growth(self, max_steps: int) -> float:
        """Return ((1 - rate) / gamma)^(max_steps - 1) where that grows, else 1."""
        return max(1.0, power((1 - float(self.rate)) / float(self.gamma), max_steps - 1))

    def _schedules(self) -> tuple[RepaymentSchedule, ...]:
        return (RepaymentSchedule(gamma=float(self.gamma), kept=1 - float(self.rate)),)

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        rate = arithmetic.number(self.rate)
        return lambda memory, ledger, _: (memory, rate * ledger)
