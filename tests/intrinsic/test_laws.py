"""What each learned bonus is, and the laws all of them obey."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from pbim.intrinsic import (
    DIAYN,
    E3B,
    ICM,
    NGU,
    RE3,
    RIDE,
    RND,
    ActionRecency,
    Disagreement,
    EpisodicCount,
    LifetimeCount,
    NormalizedObservations,
    NovelD,
    PseudoCount,
    RunningStdScaled,
    Spec,
    Transition,
)
from pbim.intrinsic._networks import mlp
from pbim.testing import random_transitions

SMALL = {"hidden": (8,), "features": 4}
IMAGE = random_transitions(spaces.Box(0, 4, (3, 3), np.uint8), spaces.Discrete(4), num_envs=4, steps=20)


def grid_key(step):
    return step.next_obs[:, 0, 0]


def replay(bonus, steps):
    paid = []
    for step in steps:
        paid.append(bonus.reward(step))
        bonus.update(step)
    return np.array(paid)


MAKERS = {
    "EpisodicCount": EpisodicCount,
    "LifetimeCount": LifetimeCount,
    "ActionRecency": ActionRecency,
    "PseudoCount": PseudoCount,
    "RND": lambda: RND(**SMALL),
    "ICM": lambda: ICM(num_actions=4, **SMALL),
    "RIDE": lambda: RIDE(num_actions=4, **SMALL),
    "NovelD": lambda: NovelD(rnd=RND(**SMALL)),
    "E3B": lambda: E3B(num_actions=4, **SMALL),
    "Disagreement": lambda: Disagreement(num_actions=4, subset=1.0, **SMALL),
    "RE3": lambda: RE3(k=2, capacity=64, **SMALL),
    "NGU": lambda: NGU(num_actions=4, rnd=RND(**SMALL), **SMALL),
    "DIAYN": lambda: DIAYN(count=2, hidden=(8,)),
    "RunningStdScaled": lambda: RunningStdScaled(EpisodicCount(), gamma=0.9),
    "NormalizedObservations": lambda: NormalizedObservations(RND(normalize=False, **SMALL)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_permuting_environments_permutes_bonuses(name):
    order = np.array([2, 0, 3, 1])
    permuted = [jax.tree.map(lambda leaf: leaf[order], step) for step in IMAGE]
    paid, again = replay(MAKERS[name](), IMAGE), replay(MAKERS[name](), permuted)
    assert np.ptp(paid) > 0
    np.testing.assert_allclose(again, paid[:, order], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_rows_that_are_not_steps_teach_nothing(name):
    """A row marked as not valid may hold anything: the bonuses of the other environments stay the same."""
    valid = np.array([True, True, False, True])
    other = IMAGE[::-1]
    marked = [step._replace(valid=valid) for step in IMAGE]

    def swap(leaf, foreign):
        return np.where(valid.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, foreign)

    swapped = [jax.tree.map(swap, step, wrong._replace(valid=valid)) for step, wrong in zip(marked, other, strict=True)]
    paid, again = replay(MAKERS[name](), marked), replay(MAKERS[name](), swapped)
    np.testing.assert_allclose(again[:, valid], paid[:, valid], rtol=1e-5, atol=1e-7)
    ignored = replay(MAKERS[name](), IMAGE)
    assert not np.allclose(ignored[:, valid], paid[:, valid], rtol=1e-4) or name == "EpisodicCount"


COMPILED = {
    "RND": lambda: RND(batch_size=3, **SMALL),
    "PseudoCount": PseudoCount,
    "ICM": lambda: ICM(num_actions=4, **SMALL),
    "E3B": lambda: E3B(num_actions=4, **SMALL),
    "Disagreement": lambda: Disagreement(num_actions=4, **SMALL),
    "RE3": lambda: RE3(k=2, capacity=7, **SMALL),
    "NGU": lambda: NGU(num_actions=4, k=5, capacity=7, rnd=RND(**SMALL), **SMALL),
    "DIAYN": lambda: DIAYN(count=2, hidden=(8,)),
    "RIDE": lambda: RIDE(num_actions=4, key=grid_key, **SMALL),
    "NovelD": lambda: NovelD(key=grid_key, rnd=RND(**SMALL)),
}


@pytest.mark.parametrize("name", COMPILED)
def test_core_scanned_and_vmapped_pays_what_the_edge_pays(name):
    bonus = COMPILED[name]()

    def train(key, steps):
        state = bonus.init(key, Spec(example=IMAGE[0], num_actions=4, num_keys=5))

        def advance(state, step):
            return bonus.update_fn(state, step), bonus.reward_fn(state, step)

        return jax.lax.scan(advance, state, steps)[1]

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *IMAGE)
    keys = jnp.stack([jax.random.PRNGKey(seed) for seed in (0, 1)])
    compiled = jax.jit(jax.vmap(train, in_axes=(0, None)))(keys, stacked)
    np.testing.assert_allclose(compiled[0], replay(bonus, IMAGE), rtol=2e-3, atol=1e-5)
    assert name == "PseudoCount" or not np.allclose(compiled[0], compiled[1])


def test_e3b_is_the_inverse_of_this_episodes_ellipse():
    bonus = E3B(num_actions=4, ridge=0.5, learning_rate=1e-12, **SMALL)
    ellipses = [0.5 * np.eye(4) for _ in range(4)]
    for step in IMAGE:
        paid = bonus.reward(step)
        phi = np.asarray(
            mlp(bonus._shell.core.state.dynamics.models.params.encoder, bonus.encode(step.next_obs)), np.float64
        )
        expected = [row @ np.linalg.inv(ellipse) @ row for row, ellipse in zip(phi, ellipses, strict=True)]
        np.testing.assert_allclose(paid, expected, rtol=1e-2)
        bonus.update(step)
        for env, row in enumerate(phi):
            over = step.terminated[env] or step.truncated[env]
            ellipses[env] = 0.5 * np.eye(4) if over else ellipses[env] + np.outer(row, row)


def test_ride_divides_the_distance_by_the_root_of_the_visits():
    bonus, step = RIDE(num_actions=4, learning_rate=1e-12, **SMALL), IMAGE[0]
    down = np.zeros(4, bool)
    step = step._replace(terminated=down, truncated=down)
    first = bonus.reward(step)
    encoder = bonus._shell.core.state.models.params.encoder
    moved = mlp(encoder, bonus.encode(step.next_obs)) - mlp(encoder, bonus.encode(step.obs))
    np.testing.assert_allclose(first, np.linalg.norm(moved, axis=1), rtol=1e-5)
    for visits in (2, 3):
        bonus.update(step)
        np.testing.assert_allclose(bonus.reward(step), first / np.sqrt(visits), rtol=1e-5)


def test_noveld_pays_the_gain_in_novelty_once_an_episode():
    settings = RND(learning_rate=1e-12, normalize=False, **SMALL)
    bonus = NovelD(alpha=0.5, rnd=settings)
    down = np.zeros(4, bool)
    step = IMAGE[0]._replace(terminated=down, truncated=down)
    first = bonus.reward(step)
    state = bonus._shell.core.state
    there, here = (np.sqrt(4 * np.asarray(settings.error_fn(state, obs))) for obs in (step.next_obs, step.obs))
    np.testing.assert_allclose(first, np.maximum(there - 0.5 * here, 0), rtol=1e-5)
    assert (first > 0).any()
    bonus.update(step)
    np.testing.assert_array_equal(bonus.reward(step), np.zeros(4))
    bonus.update(step._replace(truncated=np.array([False, True, False, False])))
    np.testing.assert_allclose(bonus.reward(step), first * [0, 1, 0, 0], rtol=1e-5)


def test_disagreement_is_the_variance_over_the_members():
    bonus, step = Disagreement(num_actions=4, members=3, **SMALL), IMAGE[0]
    paid = bonus.reward(step)
    state = bonus._shell.core.state
    x = bonus.inputs(state.encoder, step)
    guesses = [mlp(jax.tree.map(lambda leaf, i=i: leaf[i], state.ensemble.params), x) for i in range(3)]
    np.testing.assert_allclose(paid, np.var(guesses, axis=0).mean(axis=1), rtol=1e-4)


def test_disagreement_fades_on_pure_noise_where_prediction_error_does_not():
    """The noisy TV: next observations are coin flips, so every member stays wrong but all agree."""
    rng = np.random.default_rng(0)
    no = np.zeros(64, bool)
    bonus, step = Disagreement(num_actions=2, hidden=(16,), features=8), None
    paid, wrong = [], []
    for _ in range(300):
        step = Transition(np.ones((64, 3)), np.zeros(64, int), rng.choice([-1.0, 1.0], (64, 3)), no, no, {})
        paid.append(bonus.reward(step).mean())
        state = bonus._shell.core.state
        guess = mlp(jax.tree.map(lambda leaf: leaf[0], state.ensemble.params), bonus.inputs(state.encoder, step))
        wrong.append(np.mean((guess - mlp(state.encoder, bonus.encode(step.next_obs))) ** 2))
        bonus.update(step)
    assert paid[-1] < 0.05 * paid[0]
    assert wrong[-1] > 0.2 * wrong[0]


def test_pseudo_count_counts_codes():
    bonus, counts = PseudoCount(beta=0.5, bits=5), {}
    for step in IMAGE:
        paid = bonus.reward(step)
        codes = np.asarray(bonus.code(bonus._shell.core.state, step)).tolist()
        np.testing.assert_allclose(paid, [0.5 / np.sqrt(counts.get(code, 0) + 1) for code in codes], rtol=1e-6)
        bonus.update(step)
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
    assert 1 < len(counts) <= 6


def test_rnd_normalises_by_the_observations_of_earlier_updates():
    rng = np.random.default_rng(0)
    no = np.zeros(16, bool)
    steps = [Transition(None, None, rng.normal(5, 3, (16, 2)), no, no, {}) for _ in range(5)]
    bonus = RND(**SMALL)
    for step in steps:
        bonus.update(step)
    seen = np.concatenate([step.next_obs for step in steps])
    moments = bonus._shell.core.state.moments
    np.testing.assert_allclose(
        bonus.inputs(moments, seen), np.clip((seen - seen.mean(0)) / seen.std(0), -5, 5), atol=1e-3
    )


def test_rnd_minibatches_see_every_row_once_and_a_share_only_that_share():
    rows = np.eye(10, dtype=np.float32)
    no = np.zeros(10, bool)
    step = Transition(None, None, rows, no, no, {})
    for share, batch, expected in ((1.0, 4, 10), (0.3, 2, 3), (0.5, None, 5)):
        bonus = RND(hidden=(), features=3, normalize=False, update_proportion=share, batch_size=batch)
        bonus.reward(step)
        before = np.asarray(bonus._shell.core.state.predictor.params[0].weight)
        bonus.update(step)
        after = np.asarray(bonus._shell.core.state.predictor.params[0].weight)
        assert (before != after).any(axis=1).sum() == expected
