"""Between a rollout and its gradient steps: ADOPS on a batch worked by hand, and the gap to the shortest path."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pbim
from pbim.agents import episodes as _episodes, ppo
from pbim.agents.adops import Adopes, Adops
from pbim.agents.method import Experience
from pbim.envs import CliffWalk, DoorKey
from pbim.errors import InputError

TWO = {"env": CliffWalk(), "intrinsic": pbim.EpisodicCount(), "shaping": pbim.Raw(), "critics": "separate"}


def column(*numbers):
    return jnp.asarray(numbers, jnp.float32)[:, None]


REWARD, BONUS = column(0, 1, 0), column(3, -2, 1)
VALUE = jnp.stack([column(1, 0.5, 0.5), column(0, 1, 0)])  # of R, of F'
NEXT = jnp.stack([column(0.5, 0, 2), column(1, 0, 0)])  # the second step ends an episode


def test_adops_on_a_batch_worked_by_hand():
    """gamma = 1/2.

    Step 0: Q_E = 0.25 < V_E = 1, Q_I = 3.5, gap = 1 - 3.75 = -2.75: lowered by it and epsilon, F' = 0.25 - epsilon.
    Step 1: Q_E = 1 >= V_E = 0.5, Q_I = -2, gap = 1.5 - -1 = 2.5: raised by it, F' = 0.5.
    Step 2: Q_E = 1 >= V_E = 0.5, Q_I = 1, gap = 0.5 - 2 < 0: left alone, F' = 1.
    """
    ended = jnp.array([[False], [True], [False]])
    seen = Experience(REWARD, BONUS, VALUE, NEXT, NEXT, ended, jnp.array([[0], [10], [20]]))
    config = ppo.PPO(**TWO, gamma=0.5, gae_lambda=0, method=Adops(epsilon=0.125))
    lesson = config.way.lesson(config, (), seen)
    np.testing.assert_allclose(lesson.shaped, column(0.125, 0.5, 1))
    np.testing.assert_allclose(lesson.advantage, column(-0.125, 0, 1.5))  # worse stays worse, better stays better
    np.testing.assert_allclose(lesson.target[1], column(0.625, 0.5, 1))  # F' + gamma V_I(s')
    rising = Adopes(epsilon=0.125, rise_frames=20).shape(config, seen)
    np.testing.assert_allclose(rising, column(3, -2 + 0.5 * 2.5, 1))


def test_the_gap_is_counted_over_the_episodes_that_reached_the_goal():
    """Two environments: one reaches the goal in 3 (best 2) and in 2 (best 1) steps, the other is cut off."""
    terminated = jnp.array([[0, 0], [0, 0], [1, 0], [0, 0], [1, 0]], bool)
    truncated = jnp.array([[0, 0], [0, 0], [0, 1], [0, 0], [0, 0]], bool)
    following = jnp.array([[9, 9], [9, 9], [1, 4], [9, 9], [7, 9]], jnp.float32)
    zero = jnp.zeros((5, 2))
    running = _episodes.start(2, jnp.array([2.0, 2.0]))
    running, finished = _episodes.count(running, (zero, zero, zero), terminated, truncated, following, gamma=0.9)
    assert float(finished.gap) == (3 - 2) + (2 - 1)
    assert float(finished.goal_length) == 3 + 2
    np.testing.assert_array_equal(running.optimal, [7, 4])
    np.testing.assert_array_equal(running.length, [0, 2])
    _, unknown = _episodes.count(_episodes.start(2), (zero, zero, zero), terminated, truncated, gamma=0.9)
    assert np.isnan(unknown.gap)


def test_the_mean_residual_and_torch_acs_log_are_those_of_the_episodes_one_by_one():
    """Rollouts cut through episodes; the log is torch-ac's list, kept here as a list: zeros first, time before lane."""
    rng, gamma = np.random.default_rng(1), 0.75
    running, log, open_episodes = _episodes.start(4), [0.0] * 4, [[] for _ in range(4)]
    for share in (0.01, 0.05, 0.5, 0.0, 0.2):  # from fewer ends than environments to many
        shaped, ended = rng.normal(size=(6, 4)).astype(np.float32), rng.random((6, 4)) < share
        totals, lengths = [], []
        for row, ends in zip(shaped, ended, strict=True):
            for lane, episode in enumerate(open_episodes):
                episode.append(row[lane])
                if ends[lane]:
                    totals.append(sum(gamma**t * value for t, value in enumerate(episode)))
                    lengths.append(float(len(episode)))
                    open_episodes[lane] = []
        log += lengths
        kept = log[-max(len(lengths), 4) :]
        terms = jnp.zeros((6, 4)), jnp.zeros((6, 4)), jnp.asarray(shaped)
        running, finished = _episodes.count(running, terms, jnp.asarray(ended), jnp.zeros((6, 4), bool), gamma=gamma)
        np.testing.assert_allclose(finished.discounted, sum(totals), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(finished.logged_length, np.mean(kept), rtol=1e-6)
        np.testing.assert_allclose(finished.logged_std, np.std(kept), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(running.recent, log[-4:])


def test_what_the_last_steps_took_back_and_how_wrong_the_critic_was_there():
    """PBIM on rollouts of the cliff walk: F' at the ends is minus the ledger, which plain sums give."""
    gamma, env = 0.5, CliffWalk(max_steps=4)
    config = ppo.PPO(
        env=env,
        intrinsic=pbim.EpisodicCount(alpha=1.0),
        shaping=pbim.PBIM(gamma=gamma, normalize=False),
        gamma=gamma,
        num_envs=2,
        num_steps=8,
        minibatch_size=8,
        total_frames=64,
        memory="none",
        recurrence=1,
    )
    _, metrics = ppo.train(config, jax.random.key(0))
    cut = np.asarray(metrics.truncations) > 0
    assert cut.any()
    np.testing.assert_array_equal(np.isnan(metrics.settled_truncated), ~cut)
    np.testing.assert_array_equal(np.isnan(metrics.settled_goal), np.asarray(metrics.goals) == 0)
    assert np.all(np.asarray(metrics.settled_truncated)[cut] <= -(2 + 4 + 8) / 3)  # at least 1/2, 1/3 ... of each
    assert np.all(np.asarray(metrics.settled_truncated)[cut] >= -(2 + 4 + 8))  # 1 / gamma^k, all new
    assert np.all(np.asarray(metrics.end_error) >= 0)


def test_the_reward_scale_multiplies_both_streams():
    ended = jnp.array([[False], [True], [False]])
    for critics in ("joint", "separate"):
        plain = ppo.PPO(**(TWO | {"critics": critics}), gamma=0.5)
        tenfold = replace(plain, reward_scale=10.0)
        one, other = (
            config.way.lesson(
                config, (), Experience(REWARD, BONUS, scale * VALUE, scale * NEXT, scale * NEXT, ended, column(0, 0, 0))
            )
            for config, scale in ((plain, 1), (tenfold, 10))
        )
        np.testing.assert_allclose(10 * one.advantage, other.advantage, rtol=1e-6)
    with pytest.raises(InputError, match="reward_scale"):
        replace(plain, reward_scale=0.0)


def test_a_critic_that_knows_the_ledger_learns_what_it_would_without_a_bonus():
    """With the weight -1 the values are V - L_t, and GAE of R + F' is GAE of R: the policy's loss is the same."""
    size = {"num_envs": 4, "num_steps": 32, "minibatch_size": 64, "total_frames": 128, "gamma": 0.9}
    still = {"env": DoorKey(size=5, max_steps=20), "learning_rate": 1e-12, **size}
    bonus = {"intrinsic": pbim.EpisodicCount(key="count_key"), "shaping": pbim.GRM(gamma=0.9, delay=3)}

    def losses(weight=None, **changes):
        config = ppo.PPO(**still, **changes)
        carry = ppo.init(config, jax.random.key(0))
        if weight is not None:
            params = carry.learner.params._replace(ledger=jnp.full(1, weight))
            carry = carry._replace(learner=carry.learner._replace(params=params))
        return ppo.update_chunk(config, carry, 3)[1].policy_loss

    alone = losses()
    np.testing.assert_allclose(losses(-1.0, **bonus, critic_input="ledger"), alone, rtol=1e-4, atol=1e-6)
    assert not np.allclose(losses(**bonus), alone, rtol=1e-2)
    np.testing.assert_allclose(losses(0.0, **bonus, critic_input="ledger"), losses(**bonus), rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="critic_input 'ledger' needs a conversion with a ledger"):
        ppo.PPO(**still, critic_input="ledger")
