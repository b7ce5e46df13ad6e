"""What a run writes: one line of strict JSON per chunk, each figure averaged over what it is a figure of."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

from pbim.agents.ppo import PPO, Metrics
from pbim.agents.q_learning import EpisodeRows, QLearning
from pbim.envs import CliffWalk
from pbim.metric import combine
from pbim.training.evaluate import Evaluation
from pbim.training.run import METRICS, Trainer

ROWS = Metrics(
    frames=np.array([8, 16, 24]),
    episodes=np.array([1, 0, 3]),
    goals=np.array([1, 0, 1]),
    truncations=np.array([0, 0, 2]),
    length=np.array([4.0, math.nan, 8.0]),
    extrinsic_return=np.array([1.0, math.nan, 2.0]),
    intrinsic_return=np.array([0.0, math.nan, 4.0]),
    shaping_return=np.array([0.0, math.nan, 0.0]),
    discounted_shaping=np.array([0.0, math.nan, 4.0]),
    goal_length=np.array([4.0, math.nan, 6.0]),
    gap=np.array([1.0, math.nan, 2.0]),
    logged_length=np.array([2.0, 4.0, 6.0]),
    logged_std=np.array([0.0, 1.0, 2.0]),
    settled_goal=np.array([-1.0, math.nan, -3.0]),
    settled_truncated=np.array([math.nan, math.nan, -5.0]),
    end_error=np.array([4.0, math.nan, 0.0]),
    residual=np.array([0.0, 0.0, math.inf]),
    **{name: np.array([1.0, 2.0, 3.0]) for name in Metrics._fields[-6:]},
)


def test_every_figure_is_averaged_over_what_it_is_a_figure_of():
    row = combine(PPO.metrics, ROWS._asdict())
    assert list(row) == list(Metrics._fields) == list(PPO.metrics)
    assert (row["frames"], row["episodes"], row["goals"], row["truncations"]) == (24, 4, 2, 2)
    assert row["length"] == (1 * 4 + 3 * 8) / 4
    assert row["goal_length"] == (4 + 6) / 2
    assert row["gap"] == (1 + 2) / 2
    assert row["settled_goal"] == (-1 - 3) / 2
    assert row["settled_truncated"] == -5
    assert row["end_error"] == (1 * 4 + 3 * 0) / 4
    assert row["residual"] is None  # it overflowed
    assert row["entropy"] == 2


def test_the_curves_of_a_report_are_declared_with_the_figures():
    assert [name for name, metric in PPO.metrics.items() if metric.curve] == [
        "length",
        "extrinsic_return",
        "goal_length",
        "settled_goal",
        "settled_truncated",
        "end_error",
    ]
    assert list(QLearning.metrics) == ["episode", "steps", "return", "length", "terminated"]
    assert [name for name, metric in QLearning.metrics.items() if metric.curve] == ["return", "length"]
    assert PPO.axis in PPO.metrics
    assert QLearning.axis in QLearning.metrics
    assert len(EpisodeRows._fields) == len(QLearning.metrics)


@dataclass(frozen=True)
class Schedule:
    out: Path
    chunk: ClassVar[int] = 3
    checkpoint_every: ClassVar[int] = 9
    evaluate_every: ClassVar[int] = 3
    evaluation_episodes: ClassVar[int] = 2
    tensorboard: ClassVar[bool] = False

    def settings(self) -> str:
        return "{}"


class Overflowed:
    """A backend that does nothing, and whose figures overflow."""

    def advance(self, carry, updates):
        assert updates == 3
        return carry, ROWS

    def evaluate(self, params, *, episodes):
        del params
        return Evaluation(*(np.full(episodes, value) for value in (math.inf, 3.0, False, math.nan)))


@dataclass(frozen=True)
class Carry:
    updates: int = 0

    @property
    def learner(self):
        return type("Learner", (), {"params": {"a": jnp.zeros(1)}})


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_a_run_that_overflowed_writes_strict_json(tmp_path):
    config = PPO(env=CliffWalk(), num_envs=2, num_steps=4, recurrence=1, minibatch_size=8, total_frames=24)
    trainer = Trainer(Schedule(tmp_path), config, Overflowed(), Carry())
    trainer.advance()
    (line,) = (tmp_path / METRICS).read_text().splitlines()
    row = json.loads(line, parse_constant=refuse)
    assert row["residual"] is None
    assert row["evaluation_return"] is None
    assert row["evaluation_length"] == 3
    assert row["frames_per_second"] is None  # the first chunk is compiled, too
    assert trainer.line().startswith("24 frames")
    json.dumps(trainer.summary(), allow_nan=False)


@pytest.mark.parametrize("learner", [PPO, QLearning])
def test_every_metric_says_what_it_is(learner):
    for metric in learner.metrics.values():
        assert metric.label
        assert metric.unit
        assert np.dtype(metric.dtype)
