"""PBIM: repay nothing before the last step."""

from dataclasses import dataclass
from typing import ClassVar

from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._guarantee import Guarantee, exact
from pbim.shaping._ledger import Ledger
from pbim.shaping._schedule import RepaymentSchedule


@dataclass(frozen=True, kw_only=True)
class PBIM(Ledger):
    """Potential-based intrinsic motivation: pay nothing back before the last step.

    Eq. 34 of Forbes et al. (AAMAS 2024); ``normalize=False`` gives Eq. 30.

    Args:
        gamma: The learner's discount, in (0, 1].
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: The longest episode, if known: warns where the repayment gets too large for a learner.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> shaping = pbim.PBIM(gamma=0.5, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]  # 1 + 0.5 * 1 + 0.25 * -6 = 0
    array([ 1.,  1., -6.])

    """

    kind: ClassVar[str] = "pbim"
    repays: ClassVar[bool] = False
    lanewise: ClassVar[bool] = True
    summary: ClassVar[str] = "pays the bonus, takes it all back at the last step of the episode"
    guarantee: ClassVar[Guarantee] = exact("Forbes et al. 2024, Theorem 2")

    def _schedules(self) -> tuple[RepaymentSchedule, ...]:
        return (RepaymentSchedule(gamma=float(self.gamma)),)

    def _repayment(self, arithmetic: Arithmetic) -> None:
        del arithmetic
