"""A reward term in somebody's tests: a change that makes it unsafe fails, with the witness in the message."""

from collections.abc import Callable
from typing import Any

from pbim.errors import warn
from pbim.intrinsic.protocol import Bonus
from pbim.testing.errors import ConformanceError
from pbim.verification import AuditReport, audit
from pbim.verification.episodes import Policy
from pbim.verification.recording import record


def check_reward_term(
    env: Any,
    *,
    term: Bonus,
    gamma: float,
    episodes: int | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    key: Callable[[Any], Any] | None = None,
    features: Callable[[Any], Any] | None = None,
    tolerance: float | None = None,
) -> AuditReport:
    """Play episodes of an environment and fail if a reward term is not safe in every MDP.

    Args:
        env: A single ``gymnasium.Env``.
        term: The reward term: a function of a transition, such as ``lambda t: t.info["dense"]``, or a bonus.
        gamma: The learner's discount.
        episodes: How many episodes to play; None plays 200, and no further one after 50,000 transitions.
        policy: ``policy(obs, rng) -> action``; None chooses uniformly at random.
        seed: Episode k starts from ``seed + k``.
        max_steps: Where to cut episodes off; None leaves that to the environment.
        key: A function of one observation that returns what tells states apart.
        features: For continuous observations, as in :func:`pbim.audit`.
        tolerance: By how much each pay may be off, relative to the largest; rounding if left out.

    Returns:
        The report of a safe term.

    Raises:
        ConformanceError: An ``AssertionError`` that says what is wrong and shows the witness.
        InputError: If an argument breaks a rule.

    >>> import gymnasium
    >>> report = check_reward_term(gymnasium.make("CliffWalking-v1"), gamma=0.9, episodes=20, max_steps=50,
    ...     term=lambda t: 0.9 * (t.next_obs % 12) * ~t.terminated - t.obs % 12)  # Phi: the column
    >>> report.potential_based
    True

    """
    log = record(env, term=term, episodes=episodes, policy=policy, seed=seed, max_steps=max_steps)
    report = audit(**log, gamma=gamma, key=key, features=features, tolerance=tolerance)
    if not report.potential_based:
        raise ConformanceError("reward-term", str(report).rstrip("."))
    if not report.tested:
        why = (
            "no two ways of the episodes meet, so any term would pass; play more episodes, or pass key= to tell fewer "
            "states apart"
            if report.coverage.paid
            else "the term is 0 at every step; play episodes in which it pays, with policy= if need be"
        )
        warn(f"check_reward_term tested nothing: {why}", UserWarning)
    return report
