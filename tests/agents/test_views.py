"""Embedding each distinct view once changes nothing but rounding."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pbim
from pbim.agents import _learn, _views, ppo
from pbim.agents._learn import Minibatch
from pbim.envs import DoorKey
from pbim.intrinsic import EpisodicCount

CONFIG = ppo.PPO(env=DoorKey(size=5), num_envs=8, num_steps=32, minibatch_size=64, total_frames=1024)


def rows_of(numbers, seed=0):
    """Draw a random view for each number, and show it wherever the number stands."""
    views = np.random.default_rng(seed).integers(0, 6, (64, 7, 7, 3)).astype(np.uint8)
    return CONFIG.network.prepare(jnp.asarray(views[np.asarray(numbers)]))


EQUAL, ALL = np.zeros(64, int), np.random.default_rng(1).permutation(64)
SOME = np.random.default_rng(2).integers(0, 30, 64)
MOST = np.random.default_rng(3).permutation(np.arange(64) % 40)  # 5/8 of 64: the most that are still shared
OVER = np.random.default_rng(3).permutation(np.arange(64) % 41)
CASES = pytest.mark.parametrize("shown", [EQUAL, SOME, MOST, OVER, ALL], ids=["equal", "some", "most", "over", "all"])


def views_of(rows):
    return _views.distinct(_views.number(rows), below=len(rows))


@CASES
def test_the_distinct_views_are_all_the_views(shown):
    rows = rows_of(shown)
    first, which, total = views_of(rows)
    assert total == len(np.unique(shown))
    np.testing.assert_array_equal(rows[first][which], rows)
    assert np.max(which) < total


def test_views_with_one_fingerprint_are_not_merged(monkeypatch):
    monkeypatch.setattr(_views, "_fingerprints", lambda rows: jnp.zeros(len(rows), jnp.uint32))
    rows = rows_of(SOME)
    first, which, total = views_of(rows)
    np.testing.assert_array_equal(rows[first][which], rows)
    assert len(np.unique(SOME)) <= total <= 64


def minibatches(shown):
    """Return one minibatch twice: with every frame's view, and with the distinct ones."""
    rng, rows = np.random.default_rng(4), rows_of(shown)
    memory, mask = rng.normal(size=(128, 16)), (rng.random((4, 16)) > 0.2) * 1.0
    log_prob, advantage, value, target = -2 + 0.3 * rng.normal(size=(4, 64))
    numbers = [jnp.asarray(x, jnp.float32) for x in (log_prob, advantage, value[None], target[None], np.ones(64))]
    action = jnp.asarray(rng.integers(0, 7, 64))
    others = [jnp.asarray(memory, jnp.float32), jnp.asarray(mask, jnp.float32), action, *numbers]
    first, which, total = views_of(rows)
    return Minibatch(rows.T, *others), Minibatch(rows[first].T, *others, which, total)


def assert_alike(got, expected, tolerance=1e-5):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        size = 1e-3 + float(np.max(np.abs(np.nan_to_num(b))))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size)


@jax.jit
def gradient(minibatch):
    return _learn._gradient(CONFIG, CONFIG.network.init(jax.random.key(0)), minibatch)


@CASES
def test_loss_gradient_and_memories_are_the_same(shown):
    plain, shared = minibatches(shown)
    assert_alike(gradient(shared), gradient(plain))


def test_seeds_share_in_a_vmap_too():
    """Seeds of which one has few views, and one too many."""
    plain, shared = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair)
        for pair in zip(*(minibatches(shown) for shown in (SOME, OVER)), strict=True)
    )
    each = jax.jit(jax.vmap(gradient))
    assert_alike(each(shared), each(plain))


@pytest.mark.learning
def test_training_takes_the_same_course(monkeypatch):
    """Three updates from one start, with views shared and with none."""
    config = replace(
        CONFIG,
        recurrence=2,
        intrinsic=EpisodicCount(alpha=0.025, key="count_key"),
        shaping=pbim.Geometric(gamma=0.99, rate=0.1),
    )
    courses = []
    for share in (True, False):
        if not share:
            monkeypatch.setattr(_views, "number", lambda _: None)
        update = jax.jit(lambda carry: ppo.update(config, carry))
        carry, course = ppo.init(config, jax.random.key(3)), []
        for _ in range(3):
            carry, metrics = update(carry)
            course.append(metrics)
        courses.append((course, carry.learner.params))
    assert_alike(*courses, 1e-3)
