"""PPO's figures of one update, each declared once: name, label, unit, direction and how rows become one."""

from typing import Annotated, NamedTuple

from jax import Array

from pbim.metric import Metric


def _count(label: str) -> Metric:
    return Metric(label=label, unit="episodes", average="sum", dtype="int32")


class Metrics(NamedTuple):
    """One update's figures, (): means over the episodes that ended in it (NaN if none did) and over its minibatches.

    ``gap`` is the mean excess over the shortest possible length, over the episodes that terminated, in environments
    that know it (NaN elsewhere). ``logged_length`` and ``logged_std`` are taken over the last max(ended, num_envs)
    episodes, as torch-ac logs an update. ``discounted_shaping`` is the mean residual, what the bonus adds to the value
    of an episode: 0 where F' cancels. ``residual`` is the largest relative discounted sum of F' over the episodes that
    were settled: 0 means that F' cancelled. ``settled_goal`` and ``settled_truncated`` are F' at the last step of the
    episodes that ended so: what the conversion takes back there. ``end_error`` is how far the critic was off at the
    last steps. ``bonus_weight`` is how much a method lets the bonus count beside the task's reward, 1 without one. With
    ``truncation="continue"`` an episode is a window: see :class:`PPO`.
    """

    frames: Annotated[
        Array, Metric(label="Frames", unit="steps of all environments so far", average="last", dtype="int64")
    ]
    episodes: Annotated[Array, _count("Episodes that ended")]
    goals: Annotated[Array, _count("Episodes that terminated")]
    truncations: Annotated[Array, _count("Episodes that were truncated")]
    length: Annotated[
        Array, Metric(label="Episode length", unit="steps", better="lower", average="episodes", curve=True)
    ]
    extrinsic_return: Annotated[
        Array, Metric(label="Extrinsic return", unit="reward", better="higher", average="episodes", curve=True)
    ]
    intrinsic_return: Annotated[Array, Metric(label="Intrinsic return", unit="reward", average="episodes")]
    shaping_return: Annotated[Array, Metric(label="Undiscounted return of F'", unit="reward", average="episodes")]
    discounted_shaping: Annotated[Array, Metric(label="Discounted return of F'", unit="reward", average="episodes")]
    goal_length: Annotated[
        Array,
        Metric(label="Length of the episodes that reach the goal", unit="steps", average="goals", curve=True),
    ]
    gap: Annotated[Array, Metric(label="Steps beyond the shortest way", unit="steps", better="lower", average="goals")]
    logged_length: Annotated[
        Array, Metric(label="Length in torch-ac's log", unit="steps", better="lower", average="mean")
    ]
    logged_std: Annotated[
        Array, Metric(label="Spread of the length in torch-ac's log", unit="steps", better="lower", average="mean")
    ]
    settled_goal: Annotated[
        Array, Metric(label="F' at the last step before the goal", unit="reward", average="goals", curve=True)
    ]
    settled_truncated: Annotated[
        Array,
        Metric(label="F' at the last step before truncation", unit="reward", average="truncations", curve=True),
    ]
    end_error: Annotated[
        Array, Metric(label="Critic's error at the last step", unit="reward", average="episodes", curve=True)
    ]
    residual: Annotated[
        Array, Metric(label="Largest residual", unit="share of the bonus paid", better="lower", average="max")
    ]
    bonus_weight: Annotated[Array, Metric(label="Weight of the bonus", unit="of the task's reward")]
    entropy: Annotated[Array, Metric(label="Entropy of the policy", unit="nats")]
    value: Annotated[Array, Metric(label="Mean value", unit="reward")]
    policy_loss: Annotated[Array, Metric(label="Policy loss", unit="loss")]
    value_loss: Annotated[Array, Metric(label="Value loss", unit="loss")]
    gradient_norm: Annotated[Array, Metric(label="Norm of the gradient", unit="loss")]
