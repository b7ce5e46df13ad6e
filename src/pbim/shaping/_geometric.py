"""Geometric: repay a share of what is owed at every step."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

from pbim.config import OLD_DEFAULT
from pbim.errors import InputError
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._ledger import CAUSAL, Ledger, Repayment, geometric_sum, power, safe_rate
from pbim.shaping._shaping import Guarantee, Level, check_gamma, is_number, short


@dataclass(frozen=True, kw_only=True)
class Geometric(Ledger):
    """Repay the share ``rate`` of the ledger at every step; bounded for endless episodes when rate > 1 - gamma.

    Args:
        gamma: The learner's discount, in (0, 1].
        rate: The share of the ledger that is repaid at every step, in (0, 1]; by default 0.02, or 2 (1 - gamma) where
            gamma is below 0.99. Warns at or below 1 - gamma, where debts grow without bound.
        normalize: Whether to centre the bonus by its running mean, or the centring to use.
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
    summary: ClassVar[str] = "takes back a share of what is owed at every step, so that little is left for the last"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.EXACT, assumption=CAUSAL, reference="pbim, docs/theory.md, as Theorem 2"
    )

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        given: Any = self.rate
        if given is None:
            object.__setattr__(self, "rate", safe_rate(self.gamma))
        if not is_number(self.rate) or not 0 < float(self.rate) <= 1:
            raise InputError(
                f"rate must be in (0, 1], received {short(self.rate)}: "
                "1 repays all at the next step; to repay nothing before the end use pbim.PBIM"
            )
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return ((1 - rate) / gamma)^(max_steps - 1) where that grows, else 1."""
        return max(1.0, power(self._ratio, max_steps - 1))

    @property
    def _ratio(self) -> float:
        """How a debt grows from one step to the next."""
        return (1 - float(self.rate)) / float(self.gamma)

    def _largest_debt(self, steps: float) -> float:
        return geometric_sum(self._ratio, steps) / float(self.gamma)

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        rate = arithmetic.number(self.rate)
        return lambda memory, ledger, _: (memory, rate * ledger)


def recommended(gamma: Real | float) -> Geometric:
    """Return the conversion to start with: what the commands use and what messages advise where nothing is said.

    Args:
        gamma: The learner's discount, in (0, 1].

    Raises:
        InputError: If ``gamma`` is out of range.

    >>> recommended(0.99)
    Geometric(gamma=0.99, normalize=True, max_steps=None, rate=0.02)

    """
    return Geometric(gamma=gamma)
