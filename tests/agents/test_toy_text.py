"""Toy-text tables behave as Gymnasium's environments do, and can be learnt."""

import gymnasium
import jax
import numpy as np
import pytest

from pbim.agents.q_learning import QLearning, train
from pbim.agents.toy_text import ToyText
from pbim.errors import InputError


def test_deterministic_steps_equal_gymnasiums():
    env, theirs = ToyText.make("CliffWalking-v1"), gymnasium.make("CliffWalking-v1")
    cell, _ = theirs.reset(seed=0)
    state, first = env.reset(jax.random.key(0))
    assert int(first) == cell
    step = jax.jit(env.step)
    for action in np.random.default_rng(0).integers(4, size=60):
        arrived, reward, terminated, _, _ = theirs.step(int(action))
        out = step(jax.random.key(0), state, action)
        assert (int(out.obs), float(out.reward), bool(out.terminated)) == (arrived, reward, terminated)
        state = out.state


def test_slippery_outcomes_have_gymnasiums_frequencies():
    env, theirs = ToyText.make("FrozenLake-v1"), gymnasium.make("FrozenLake-v1").unwrapped
    state, _ = env.reset(jax.random.key(0))
    out = jax.vmap(lambda key: env.step(key, state, 2).obs)(jax.random.split(jax.random.key(1), 6000))
    expected = np.zeros(env.num_states)
    for chance, arrived, _, _ in theirs.P[0][2]:
        expected[arrived] += chance
    np.testing.assert_allclose(np.bincount(out, minlength=env.num_states) / 6000, expected, atol=0.03)


def test_frozen_lake_is_learnt():
    config = QLearning(env=ToyText.make("FrozenLake-v1", is_slippery=False), episodes=800, epsilon_decay=2e-3)
    result = train(config, jax.random.split(jax.random.key(0), 4))
    assert result.returns[:, -100:].mean() > 0.3


def test_other_environments_are_refused():
    with pytest.raises(InputError, match="toy-text"):
        ToyText.make("CartPole-v1")
