"""PBIM with its last step read otherwise: three ways to subtract "the total discounted rewards" that do not cancel."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pbim._arrays import Values
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._guarantee import Guarantee, Level
from pbim.shaping._ledger import Ledger, Memory, Owing


@dataclass(frozen=True, kw_only=True)
class InexactPBIM(Ledger):
    """PBIM whose last step takes back -sum_{n<N-1} w_n F'_n with weights w_n that do not grow. It does **not** cancel.

    PBIM needs w_n = gamma^(n+1-N), which is at least 1. The paper says in words that "the total discounted rewards are
    subtracted", which may also be read as one of these; they are here to measure what each would do. A fraction of the
    bonus stays in the return of the episode, so the bonus can change which policies are optimal: use ``PBIM``, ``GRM``
    or ``Geometric`` for a task of your own.

    Args:
        gamma: The learner's discount, in (0, 1].
        discount: ``"start"``: w_n = gamma^n, the bonus as the start of the episode values it. ``"end"``:
            w_n = gamma^(N-1-n), as if bonuses lost value on their way to the last step. ``"none"``: w_n = 1.
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: Not used: no weight is above 1.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> shaping = pbim.shaping.InexactPBIM(gamma=0.5, discount="start", normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0], pbim.residuals(shaped, ended, gamma=0.5)  # 1 + 0.5 * 1 + 0.25 * -1.5 is not 0
    (array([ 1. ,  1. , -1.5]), array([1.125]))

    """

    discount: Literal["start", "end", "none"]
    kind: ClassVar[str] = "inexact-pbim"
    title: ClassVar[str] = "Inexact PBIM"
    repays: ClassVar[bool] = False
    summary: ClassVar[str] = (
        "pays the bonus, takes back a part of it at the last step (a reading of the paper; not exact)"
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE,
        assumption="what is not taken back becomes part of the task",
        reference="Forbes et al. 2024, section 3, the words below Eq. 30",
    )

    def growth(self, max_steps: int) -> float:
        """Return 1: no bonus is repaid larger than it was paid."""
        del max_steps
        return 1.0

    def _empty_memory(self, lanes: Values) -> Memory:
        return (lanes + 1,) if self.discount == "start" else ()  # gamma^t

    def _reset_memory(self, arithmetic: Arithmetic, memory: Memory, ledger: Values, ended: Values) -> Memory:
        del ledger
        (weight,) = memory
        return (arithmetic.xp.where(ended, arithmetic.number(1), weight * arithmetic.gamma),)

    def _repayment(self, arithmetic: Arithmetic) -> None:
        del arithmetic

    def _debt(self, arithmetic: Arithmetic) -> Owing:
        gamma, discount = arithmetic.gamma, self.discount

        def owe(memory: Memory, ledger: Values, shaped: Values) -> Values:
            if discount == "start":
                return ledger + memory[0] * shaped  # sum gamma^n F'_n
            if discount == "end":
                return (ledger + shaped) * gamma  # sum gamma^(t-n) F'_n
            return ledger + shaped

        return owe
