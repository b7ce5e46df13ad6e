"""Action-dependent optimality-preserving shaping: correct a bonus only where it would change the preferred action."""

from typing import Any

from pbim import _arrays
from pbim._arrays import Array, ArrayT, Flags
from pbim.errors import InputError
from pbim.shaping._checks import check_gamma
from pbim.shaping._guarantee import Guarantee, Level

ADOPS_GUARANTEE = Guarantee(
    level=Level.LIMIT,
    assumption="both critics have converged to the values of an optimal policy",
    reference="Forbes et al. 2025, arXiv 2505.12611",
)
"""What ``adops`` and ``adopes`` promise."""


def adops(
    bonus: ArrayT,
    extrinsic_reward: Array,
    *,
    extrinsic_value: Array,
    next_extrinsic_value: Array,
    intrinsic_value: Array,
    next_intrinsic_value: Array,
    ended: Flags,
    gamma: float,
    epsilon: float = 1e-6,
) -> ArrayT:
    """Return F + F2, the bonus corrected so that no action changes sides.

    With Q_E = R + gamma V_E(s'), Q_I = F + gamma V_I(s') and V(s') = 0 where ``ended``, let
    gap = V_E + V_I - Q_E - Q_I. Where the extrinsic critic calls the action worse than its policy (Q_E < V_E),
    F2 = min(0, gap - epsilon): the total advantage ends below 0. Elsewhere F2 = max(0, gap): it ends at 0 or above.
    (Forbes et al. 2025, arXiv 2505.12611.)

    Args:
        bonus: F, of any shape, which all arrays share.
        extrinsic_reward: R.
        extrinsic_value: V_E of the state.
        next_extrinsic_value: V_E of the next state.
        intrinsic_value: V_I of the state.
        next_intrinsic_value: V_I of the next state.
        ended: True where the next state has no value.
        gamma: The discount of both critics, in (0, 1].
        epsilon: By how much a worse action stays worse.

    Returns:
        The corrected bonus, in the library and shape of ``bonus``.

    Raises:
        InputError: If the arrays do not fit each other or ``gamma`` is out of range.

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> # the critic calls the action worse (Q_E = 0 < V_E = 1), and the bonus of 3 would hide it
    >>> adops(3 * one, 0 * one, extrinsic_value=one, next_extrinsic_value=0 * one, intrinsic_value=0 * one,
    ...       next_intrinsic_value=0 * one, ended=np.array([False]), gamma=0.9, epsilon=0.5)
    array([0.5])

    """
    return adopes(
        bonus,
        extrinsic_reward,
        extrinsic_value=extrinsic_value,
        next_extrinsic_value=next_extrinsic_value,
        intrinsic_value=intrinsic_value,
        next_intrinsic_value=next_intrinsic_value,
        ended=ended,
        gamma=gamma,
        epsilon=epsilon,
        coefficient=1.0,
    )


def adopes(
    bonus: ArrayT,
    extrinsic_reward: Array,
    *,
    extrinsic_value: Array,
    next_extrinsic_value: Array,
    intrinsic_value: Array,
    next_intrinsic_value: Array,
    ended: Flags,
    gamma: float,
    coefficient: Array | float,
    epsilon: float = 1e-6,
) -> ArrayT:
    """Return F + coefficient * F2: ADOPS with an explicit coefficient.

    ``coefficient`` says how much of the correction is added; it rises from 0 to 1 in training. All other arguments, the
    result and the errors are those of :func:`adops`.
    """
    check_gamma(gamma)
    arrays: dict[str, Any] = {
        "bonus": bonus,
        "extrinsic_reward": extrinsic_reward,
        "extrinsic_value": extrinsic_value,
        "next_extrinsic_value": next_extrinsic_value,
        "intrinsic_value": intrinsic_value,
        "next_intrinsic_value": next_intrinsic_value,
        "ended": ended,
    }
    xp = _arrays.namespace(**arrays)
    for name, array in arrays.items():
        if array.shape != bonus.shape:
            raise InputError(
                f"{name} must have the bonus's shape {tuple(bonus.shape)}, received {tuple(array.shape)}: reshape it"
            )
    over = _arrays.flags(xp, "ended", ended)
    action_value = extrinsic_reward + gamma * xp.where(over, 0, next_extrinsic_value)
    intrinsic_action_value = bonus + gamma * xp.where(over, 0, next_intrinsic_value)
    gap = extrinsic_value + intrinsic_value - action_value - intrinsic_action_value
    lowered = xp.where(gap - epsilon < 0, gap - epsilon, 0)
    raised = xp.where(gap > 0, gap, 0)
    shaped: ArrayT = bonus + coefficient * xp.where(action_value < extrinsic_value, lowered, raised)
    return shaped
