"""When a bonus is taken back: the one description that both guidance and debt follow from.

An entry f makes the ledger owe f w_j after j steps, with w_j = (kept / gamma)^(j-1) / gamma for j = 1 ... length, and
nothing after that. gamma^j w_j is the share of f that has not been taken back by then, P(delay >= j). So

    guidance = 1 - E[lambda^delay] = (1 - lambda) sum_j lambda^(j-1) P(delay >= j)
    debt     = sum_j f_j w_j        (f_j: the bonus j steps ago)

are sums of powers, and so are those of a weighted mean of schedules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, inf, log, sqrt

import numpy as np

_LONG = 10**5
"""Delays beyond this are nobody's."""


@dataclass(frozen=True, kw_only=True)
class RepaymentSchedule:
    """When an entry is taken back.

    Attributes:
        gamma: The discount.
        kept: The share of what is owed that a step leaves unpaid.
        length: After how many steps all of it is paid.
        weight: The share of the bonus that is taken back in this way.

    """

    gamma: float
    kept: float = 1.0
    length: float = inf
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Debt:
    """How much a ledger owes, in the units of the bonus: what the last step of an episode settles.

    Attributes:
        worst: The most that bonuses of at most the given size can make it.
        expected: Its root mean square for independent bonuses with mean zero and that standard deviation.

    """

    worst: float
    expected: float


NOTHING = Debt(worst=0.0, expected=0.0)


def guidance(schedules: Sequence[RepaymentSchedule], gae_lambda: float, steps: float, rollout: float) -> float:
    """Return 1 - E[lambda^delay], with all taken back after ``steps`` steps at the latest.

    In a finite rollout only the delays within it count: 1 - sum_{d < rollout} (1 - d / rollout) lambda^d P(delay = d),
    the mean over the places in the rollout.
    """
    if rollout == inf:
        return (1 - gae_lambda) * sum(
            each.weight * geometric_sum(gae_lambda * each.kept, min(each.length, steps)) for each in schedules
        )
    visible = 0.0
    for each in schedules:
        last = min(each.length, steps)
        delays = np.arange(1, int(min(rollout - 1, last, _LONG)) + 1)
        owed = each.kept ** (delays - 1.0)  # P(delay >= d)
        repaid = np.where(delays == last, owed, owed * (1 - each.kept))
        visible += each.weight * float(np.sum((1 - delays / float(rollout)) * gae_lambda**delays * repaid))
    return 1 - visible


def debt(schedules: Sequence[RepaymentSchedule], bonus: float, entries: float) -> Debt:
    """Return what is owed after so many bonuses of a size."""
    if bonus == 0 or entries == 0:
        return NOTHING
    worst = sum(
        each.weight / each.gamma * geometric_sum(each.kept / each.gamma, min(each.length, entries))
        for each in schedules
    )
    square = sum(
        one.weight
        * other.weight
        / (one.gamma * other.gamma)
        * geometric_sum(one.kept * other.kept / (one.gamma * other.gamma), min(one.length, other.length, entries))
        for one in schedules
        for other in schedules
    )
    return Debt(worst=bonus * worst, expected=bonus * sqrt(square))


def power(base: float, exponent: float) -> float:
    """Return base**exponent, infinite where a float cannot hold it."""
    try:
        return float(base ** _as_float(exponent))
    except OverflowError:
        return inf


def geometric_sum(ratio: float, steps: float) -> float:
    """Return 1 + ratio + ... + ratio^(steps - 1), infinite where it has no bound or a float cannot hold it."""
    count = _as_float(steps)
    if ratio == 1 or (ratio > 1 and count == inf):
        return count
    if ratio == 0:
        return min(count, 1.0)
    try:
        return expm1(count * log(ratio)) / (ratio - 1)  # exact for ratios near 1, too
    except OverflowError:
        return inf


def _as_float(number: float) -> float:
    """Return a number as a float, infinite where that cannot hold it."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf
