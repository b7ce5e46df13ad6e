"""The rule by which rates and delays are chosen for a learner: our defaults and recommendations, in one place."""

from fractions import Fraction
from math import ceil, log
from numbers import Rational, Real
from typing import Any

from pbim.errors import InputError
from pbim.shaping._checks import check_lambda, check_share, short

GUIDANCE = 0.8
"""How much of a bonus a learner should feel."""
LAMBDA = 0.95
"""The lambda of a learner that has not said its own: that of most PPO code."""
MONTE_CARLO = "with lambda = 1 (Monte-Carlo returns) every exact conversion is inert"
_ROUNDING = 1e-9


def delay_for(gae_lambda: Real | float, guidance: Real | float = GUIDANCE) -> int:
    """Return the shortest delay D with 1 - lambda^D >= guidance.

    Raises:
        InputError: If an argument is out of range, or no delay reaches the guidance.

    """
    lam, aim = _check_aim(gae_lambda, guidance)
    if lam == 0:
        return 1
    return max(1, ceil(log(1 - aim) / log(lam) * (1 - _ROUNDING)))


def rate_for(gae_lambda: Real | float, guidance: Real | float = GUIDANCE) -> Any:
    """Return the largest rate k with (1 - lambda) / (1 - (1 - k) lambda) >= guidance; exact for Fractions.

    Raises:
        InputError: If an argument is out of range, or no rate reaches the guidance.

    """
    _check_aim(gae_lambda, guidance)
    lam: Any = gae_lambda
    aim: Any = guidance
    return 1 if lam == 0 else min(1, (1 - aim) * (1 - lam) / (aim * lam))


def default_rate(gamma: Real | float, gae_lambda: Real | float = LAMBDA) -> Real | float:
    """Return the rate that reaches ``GUIDANCE``, or 2 (1 - gamma) where debts grow faster; exact for Fractions.

    A geometric ledger is bounded above 1 - gamma; twice that leaves room to spare.
    """
    if isinstance(gamma, Rational):
        aimed = rate_for(Fraction(str(gae_lambda)), Fraction(str(GUIDANCE)))
        return max(Fraction(aimed), min(Fraction(1), 2 * (1 - Fraction(gamma))))
    rate = max(float(rate_for(float(gae_lambda))), min(1.0, 2 * (1 - float(gamma))))
    return float(f"{rate:.4g}")


def default_delay(gamma: Real | float, gae_lambda: Real | float = LAMBDA) -> int:
    """Return the delay that reaches ``GUIDANCE``, or 1 / (1 - gamma) where debts grow faster."""
    delay = delay_for(gae_lambda)
    return min(delay, max(1, int(1 / (1 - float(gamma)) + 1e-6))) if gamma < 1 else delay


def _check_aim(gae_lambda: Real | float, guidance: Real | float) -> tuple[float, float]:
    lam = check_lambda(gae_lambda)
    if lam == 1:
        raise InputError(
            f"gae_lambda must be below 1 for a conversion to guide, received {short(gae_lambda)}: {MONTE_CARLO}; train "
            f"with {LAMBDA} or less, or without a bonus"
        )
    way_out = f"{GUIDANCE} is our default; to take nothing back before the last step use pbim.PBIM"
    return lam, check_share("guidance", guidance, "(0, 1)", way_out)
