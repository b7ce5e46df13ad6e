"""Greedy evaluation plays the same held-out layouts every time, on the task's own reward."""

import jax
import numpy as np
import pytest

from pbim.agents.ppo import PPO
from pbim.envs import CliffWalk
from pbim.training.evaluate import Evaluation, evaluate


def test_the_same_layouts_every_time():
    config = PPO(env=CliffWalk(max_steps=9))
    params = config.network.init(jax.random.key(0))
    one, two = (evaluate(config.env, config.network, params, episodes=4) for _ in range(2))
    np.testing.assert_array_equal(one.returns, two.returns)
    assert ((one.lengths <= 9) & (one.lengths > 0)).all()
    ended_well = np.asarray(one.terminated)
    assert (np.asarray(one.lengths)[~ended_well] == 9).all()
    assert (np.asarray(one.returns)[~ended_well] == -9).all()
    assert one.summary()["evaluation_return"] == np.mean(one.returns)
    assert one.summary()["evaluation_gap"] is None


def test_the_gap_is_over_the_episodes_that_reached_the_goal():
    found = Evaluation(
        np.zeros(3), np.array([10.0, 640.0, 14.0]), np.array([True, False, True]), np.array([8.0, 9, 10])
    )
    assert found.summary()["evaluation_gap"] == 3
    assert found.summary()["evaluation_goals"] == pytest.approx(2 / 3)
