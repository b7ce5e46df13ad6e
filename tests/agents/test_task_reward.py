"""Training by a bonus alone: the task's reward is reported and has no other effect."""

import jax
import pytest

from pbim.agents import BSRS, TwoCritics
from pbim.agents.ppo import PPO, train
from pbim.envs import CliffWalk
from pbim.errors import InputError
from pbim.intrinsic import EpisodicCount
from pbim.shaping import PBIM, Raw
from pbim.training.checkpoint import digest

SMALL = {"num_envs": 2, "num_steps": 16, "minibatch_size": 16, "total_frames": 96, "intrinsic": EpisodicCount()}


def run(task_reward, **rewards):
    env = CliffWalk(max_steps=7, **rewards)
    return train(PPO(env=env, shaping=Raw(), task_reward=task_reward, **SMALL), jax.random.key(0))


def test_without_the_task_reward_other_rewards_train_the_same_agent_and_are_reported():
    (one, metrics), (other, foreign) = run("none"), run("none", step_reward=-3.0, cliff_reward=5.0)
    assert digest(one.learner) == digest(other.learner)
    assert metrics.extrinsic_return[0] != foreign.extrinsic_return[0]
    assert digest(run("full")[0].learner) != digest(one.learner)


NOTHING_LEFT = [
    {"shaping": PBIM(gamma=0.99)},
    {"intrinsic": None},
    {"intrinsic": None, "shaping": Raw()},
    {"intrinsic": None, "method": BSRS()},
    {"shaping": PBIM(gamma=0.99), "method": TwoCritics(), "critics": "separate"},
]


@pytest.mark.parametrize("changes", NOTHING_LEFT)
def test_where_nothing_is_left_to_learn_from_is_refused(changes):
    with pytest.raises(InputError, match="task_reward 'none' leaves the bonus alone to learn from"):
        PPO(**{"env": CliffWalk(), "task_reward": "none", **SMALL, **changes})
