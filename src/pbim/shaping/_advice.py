"""What to tell a user who has a learner: the conversion to start with, how strongly it guides, and what it owes."""

from math import inf, isnan
from numbers import Real
from typing import Any, Literal

from pbim.errors import GuidanceWarning, choose, warn
from pbim.shaping._baselines import NoBonus
from pbim.shaping._checks import check_gamma, short
from pbim.shaping._geometric import Geometric
from pbim.shaping._grm import GRM
from pbim.shaping._guarantee import Level
from pbim.shaping._rule import LAMBDA, MONTE_CARLO, default_delay, default_rate
from pbim.shaping._shaping import Shaping

WEAK = 0.2
"""The guidance below which a conversion hardly does anything."""


def recommended(
    gamma: Real | float, gae_lambda: Real | float = LAMBDA, kind: Literal["geometric", "grm"] = "geometric"
) -> Geometric | GRM:
    """Return the conversion to start with: what the commands use and what messages advise where nothing is said.

    It has a guidance of 0.8, or less where only a debt that grows too fast would reach that: the rate is at least
    2 (1 - gamma), the delay at most 1 / (1 - gamma). For lambda = 0 everything is taken back at the next step.

    Args:
        gamma: The learner's discount, in (0, 1].
        gae_lambda: The learner's lambda, in [0, 1); 0 for one-step TD.
        kind: Which member of the family.

    Raises:
        InputError: If an argument is out of range, or lambda is 1, where no exact conversion guides.

    >>> recommended(0.99)
    Geometric(gamma=0.99, normalize=True, max_steps=None, rate=0.02)
    >>> recommended(0.995, gae_lambda=0.9, kind="grm").delay
    16

    """
    check_gamma(gamma)
    if choose("kind", kind, ("geometric", "grm")) == "grm":
        return GRM(gamma=gamma, delay=default_delay(gamma, gae_lambda))
    return Geometric(gamma=gamma, rate=default_rate(gamma, gae_lambda))


def announce_guidance(
    shaping: Shaping[Any],
    gae_lambda: Real | float,
    *,
    rollout: int | None = None,
    max_steps: int | None = None,
    bonus: Real | float = 1.0,
    task: Real | float | None = None,
) -> str:
    """Return one line on how a learner will feel a conversion, and warn where it hardly will, or will fear the end.

    What every adapter and command prints at the start of training.

    Args:
        shaping: The conversion.
        gae_lambda: The learner's lambda, in [0, 1]; 0 for one-step TD.
        rollout: After how many steps the learner bootstraps, if it does not wait for the end of an episode.
        max_steps: The longest episode, if known.
        bonus: The largest size of a bonus.
        task: What the task pays in an episode, if known: warns where more than that can be owed.

    Returns:
        The line, without a full stop; "" where there is nothing to say, as without a bonus.

    Raises:
        InputError: If an argument is out of range.

    >>> import pbim
    >>> announce_guidance(pbim.GRM(gamma=0.995, delay=32), 0.95, max_steps=640)
    'guidance 0.81 at lambda 0.95 (the share of a bonus its step feels), debt up to 34.8 in 640 steps for bonuses of 1'

    """
    share, debt = shaping.guidance(gae_lambda, rollout=rollout), shaping.debt(bonus, max_steps)
    if isinstance(shaping, NoBonus) or (isnan(share) and isnan(debt.worst)):
        return ""
    if share < WEAK:
        warn(_weak(shaping, gae_lambda, rollout, share), GuidanceWarning)
    if task is not None:
        warn_of_debt(shaping, debt.worst, float(task))
    felt = f"guidance {share:.2f} at lambda {float(gae_lambda):g} (the share of a bonus its step feels)"
    where = f"{'' if max_steps is None else f' in {max_steps:,} steps'} for bonuses of {float(bonus):g}"
    owed = "debt without bound" if debt.worst == inf else f"debt up to {debt.worst:.3g}{where}"
    return ", ".join([felt] * (not isnan(share)) + [owed] * (not isnan(debt.worst)))


def warn_of_debt(shaping: Shaping[Any], owed: float, task: float) -> None:
    """Warn where the last step of an episode takes back more than the task pays: reaching the goal would be a loss.

    Args:
        shaping: The conversion.
        owed: What the last step takes back, or can.
        task: What the task pays in an episode.

    """
    if owed > task and shaping.guarantee.level is Level.EXACT:
        warn(
            f"the last step of an episode takes back more than the task pays: {shaping.label} owes {owed:.3g}, the "
            f"task pays {task:.3g}; scale the bonus down, or take it back sooner",
            GuidanceWarning,
        )


def _weak(shaping: Shaping[Any], gae_lambda: Real | float, rollout: int | None, share: float) -> str:
    here = f"{share:.0%} of a bonus at lambda {float(gae_lambda):g}"
    start = f"this conversion will hardly guide this learner: {shaping.label} passes on {here}"
    if gae_lambda == 1:
        return f"{start}; {MONTE_CARLO}: train with {LAMBDA} or less"
    better = recommended(shaping.gamma or 1, gae_lambda, "grm")
    felt = better.guidance(gae_lambda, rollout=rollout)
    if felt <= share:
        return f"{start}; a smaller lambda would pass on more"
    known = f"gamma={short(shaping.gamma or 1)}, gae_lambda={float(gae_lambda):g}"
    return f"{start}; pbim.shaping.recommended({known}, kind='grm') passes on {felt:.0%}"
