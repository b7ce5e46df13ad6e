"""Geometric: repay a share of what is owed at every step."""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from pbim.errors import InputError
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._ledger import CAUSAL, Ledger, Repayment, power
from pbim.shaping._shaping import Guarantee, Level, is_number


@dataclass(frozen=True, kw_only=True)
class Geometric(Ledger):
    """Repay the share ``rate`` of the ledger at every step; bounded for endless episodes when rate > 1 - gamma.

    Args:
        gamma: The learner's discount, in (0, 1].
        rate: The share of the ledger that is repaid at every step, in (0, 1].
        normalize: Whether to centre the bonus by its running mean, or the centring to use.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.

    Raises:
        InputError: If an argument is out of range.

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
        if not is_number(self.rate) or not 0 < float(self.rate) <= 1:
            raise InputError(
                f"rate must be in (0, 1], received {self.rate!r}: "
                "1 repays all at the next step; to repay nothing before the end use pbim.PBIM"
            )
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return ((1 - rate) / gamma)^(max_steps - 1) where that grows, else 1."""
        return max(1.0, power((1 - float(self.rate)) / float(self.gamma), max_steps - 1))

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        rate = arithmetic.number(self.rate)
        return lambda memory, ledger, _: (memory, rate * ledger)
