"""The memories of RE3 and NGU against plain lists: what is found, what is forgotten, what a step is paid."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st

from pbim.intrinsic import NGU, RE3, RND, Transition
from pbim.intrinsic._neighbours import empty, forget, nearest, write_each, write_shared
from pbim.intrinsic._networks import mlp
from pbim.testing import check_causal, random_transitions

FEATURES = 3
STILL = {"hidden": (6,), "features": 4}
SIZES = st.sampled_from([1, 2, 5])  # few, because each is compiled
MEMORIES = st.tuples(SIZES, SIZES).map(sorted)  # (k, capacity): a memory holds k rows or more
NEVER = 1e-30  # a learning rate that leaves single-precision weights as they are


def batches(num_envs):
    """Steps of ``num_envs`` environments: rows of small whole numbers, so that distances repeat, and two flags each."""
    row = st.lists(st.integers(-2, 2), min_size=FEATURES, max_size=FEATURES)
    lane = st.tuples(row, st.booleans(), st.booleans())
    return st.lists(st.lists(lane, min_size=num_envs, max_size=num_envs), min_size=1, max_size=12)


def expected_distances(rows, query, k):
    """The k smallest squared distances to a list of rows, infinity where there are fewer."""
    found = sorted(float(np.sum((np.asarray(row, float) - query) ** 2)) for row in rows)
    return (found + [np.inf] * k)[:k]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), sizes=MEMORIES, num_envs=SIZES)
def test_a_shared_memory_is_the_last_rows_that_were_valid(data, sizes, num_envs):
    k, capacity = sizes
    ring, rows = empty(capacity, FEATURES), []
    for step in data.draw(batches(num_envs)):
        queries, valid, _ = (np.asarray(part) for part in zip(*step, strict=True))
        found = np.asarray(nearest(ring, jnp.asarray(queries), k))
        assert found.tolist() == [expected_distances(rows[-capacity:], query, k) for query in queries]
        ring = write_shared(ring, jnp.asarray(queries), jnp.asarray(valid))
        rows += [row for row, real in zip(queries, valid, strict=True) if real]
    assert int(ring.filled) == min(len(rows), capacity)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), sizes=MEMORIES, num_envs=SIZES)
def test_a_memory_each_is_the_last_valid_rows_of_the_running_episode(data, sizes, num_envs):
    k, capacity = sizes
    ring, rows = empty(capacity, FEATURES, num_envs), [[] for _ in range(num_envs)]
    for step in data.draw(batches(num_envs)):
        queries, valid, over = (np.asarray(part) for part in zip(*step, strict=True))
        found = np.asarray(nearest(ring, jnp.asarray(queries), k))
        expected = [expected_distances(own[-capacity:], query, k) for own, query in zip(rows, queries, strict=True)]
        assert found.tolist() == expected
        ring = write_each(ring, jnp.asarray(queries), jnp.asarray(valid))
        ring = forget(ring, jnp.asarray(valid & over))
        for env in range(num_envs):
            rows[env] += [queries[env]] if valid[env] else []
            rows[env] = [] if valid[env] and over[env] else rows[env]


def steps_of(num_envs, steps, seed=0, ends=0.2, distinct=4):
    """Random steps, some of them no steps, with episodes that often last one step."""
    rng = np.random.default_rng(seed)
    found = random_transitions(
        spaces.Box(-1, 1, (5,)), spaces.Discrete(4), num_envs=num_envs, steps=steps, distinct=distinct, seed=seed
    )
    return [step._replace(terminated=rng.random(num_envs) < ends, valid=rng.random(num_envs) < 0.8) for step in found]


def replay(bonus, steps):
    paid = []
    for step in steps:
        paid.append(bonus.reward(step))
        bonus.update(step)
    return np.array(paid)


@pytest.mark.parametrize(("k", "capacity"), [(1, 1), (1, 5), (3, 5), (1, 100), (3, 100)])
def test_re3_is_the_log_distance_to_the_kth_earlier_arrival(k, capacity):
    bonus, rows = RE3(k=k, capacity=capacity, **STILL), []
    for step in steps_of(3, 30):
        paid = bonus.reward(step)
        y = np.asarray(mlp(bonus._shell.core.state.encoder, bonus.encode(step.next_obs)), np.float64)
        kept = np.array(rows[-capacity:]).reshape(-1, 4)
        distances = np.sort(np.linalg.norm(y[:, None] - kept, axis=2), axis=1)[:, :k]
        expected = np.log1p(distances[:, -1]) if len(kept) else np.zeros(3)
        np.testing.assert_allclose(paid, expected, rtol=1e-5, atol=1e-6)
        bonus.update(step)
        rows += list(y[step.valid])


def reference_ngu(squared_of_episode, mean, bonus):
    """Algorithm 1 of the paper for one state; neighbours that are missing stand at the mean distance."""
    nearest = sorted(squared_of_episode)[: bonus.k]
    relative = [d / mean for d in nearest] + [1.0] * (bonus.k - len(nearest))
    total = sum(bonus.epsilon / (max(d - bonus.cluster, 0) + bonus.epsilon) for d in relative)
    similarity = np.sqrt(total) + bonus.c
    return 0.0 if similarity > bonus.similar else 1 / similarity


@pytest.mark.parametrize(("capacity", "similar"), [(3, 8.0), (50, 8.0), (50, 1.2)])
def test_ngu_is_algorithm_1_over_the_episodes_earlier_arrivals(capacity, similar):
    rnd = RND(learning_rate=NEVER, normalize=False, **STILL)
    bonus = NGU(num_actions=4, k=3, capacity=capacity, similar=similar, learning_rate=NEVER, rnd=rnd, **STILL)
    episodes, means, errors = [[] for _ in range(3)], [], []
    for step in steps_of(3, 40, ends=0.15):
        paid, core = bonus.reward(step), bonus._shell.core.state
        y = np.asarray(mlp(core.dynamics.models.params.encoder, bonus.encode(step.next_obs)), np.float64)
        error = np.asarray(rnd.error_fn(core.rnd, step.next_obs), np.float64)
        squared = [
            [float(np.sum((row - own) ** 2)) for row in rows[-capacity:]] for own, rows in zip(y, episodes, strict=True)
        ]
        mean = np.mean(means) if means else 1.0
        episodic = np.array([reference_ngu(found, mean, bonus) for found in squared])
        std = np.std(errors) if len(errors) > 1 else 1.0
        alpha = 1 + (error - np.mean(errors)) / std if len(errors) > 1 else np.ones(3)
        np.testing.assert_allclose(paid, episodic * np.clip(alpha, 1, bonus.most), rtol=2e-3)
        bonus.update(step)
        for env in np.flatnonzero(step.valid):
            found = sorted(squared[env])[:3]
            means.append(np.mean(found + [float(np.sum(y[env] ** 2))] * (3 - len(found))))
            errors.append(error[env])
            over = step.terminated[env] or step.truncated[env]
            episodes[env] = [] if over else [*episodes[env], y[env]]


def test_ngu_pays_about_one_over_the_root_of_the_visits():
    bonus, no = NGU(num_actions=4, **STILL), np.array([False])
    rng = np.random.default_rng(0)
    there = np.ones((1, 5))
    for _ in range(30):  # what distances are usual
        bonus.update(Transition(there, np.array([0]), rng.normal(size=(1, 5)), no, no, {}))
    step = Transition(there, np.array([0]), there, no, no, {})
    paid = replay(bonus, [step] * 6)[:, 0]
    assert paid[0] > 5 * paid[1]
    np.testing.assert_allclose(paid[1:], 1 / np.sqrt(np.arange(1, 6)), rtol=0.05)


MAKERS = {
    "RE3": lambda **more: RE3(**{"k": 2, "capacity": 5, **STILL, **more}),
    "NGU": lambda **more: NGU(**{"num_actions": 4, "k": 2, "capacity": 5, "rnd": RND(**STILL), **STILL, **more}),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("num_envs", [1, 4096])
def test_one_and_very_many_environments(name, num_envs):
    paid = replay(MAKERS[name](capacity=16), steps_of(num_envs, 4, distinct=64))
    assert paid.shape == (4, num_envs)
    assert np.isfinite(paid).all()
    assert np.ptp(paid) > 0


@pytest.mark.parametrize("name", MAKERS)
def test_episodes_of_one_step_are_paid_alike_and_leave_nothing_of_their_own(name):
    over = np.ones(2, bool)
    steps = [step._replace(terminated=over, valid=None) for step in steps_of(2, 6)]
    bonus = MAKERS[name]()
    assert np.isfinite(replay(bonus, steps)).all()
    if name == "NGU":
        assert not bonus._shell.core.state.memory.filled.any()


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_and_a_saved_state_in_the_middle_of_an_episode_pay_the_same(name):
    steps = [step._replace(terminated=np.zeros(2, bool), truncated=np.zeros(2, bool)) for step in steps_of(2, 16)]
    bonus, restored = MAKERS[name](), MAKERS[name]()
    replay(bonus, steps[:9])  # the memory of 5 has turned over
    twin = copy.deepcopy(bonus)
    restored.load_state_dict(bonus.state_dict())
    expected = replay(bonus, steps[9:])
    np.testing.assert_array_equal(replay(twin, steps[9:]), expected)
    np.testing.assert_array_equal(replay(restored, steps[9:]), expected)


def test_two_bonuses_with_equal_settings_share_no_memory():
    steps = steps_of(2, 8)
    one, other = MAKERS["RE3"](), MAKERS["RE3"]()
    replay(one, steps)
    assert not other.reward(steps[0]).any()


@pytest.mark.parametrize("name", MAKERS)
def test_double_precision_pays_what_single_precision_does(name):
    steps = steps_of(2, 10)
    expected = replay(MAKERS[name](), steps)
    with jax.enable_x64(True):
        again = replay(MAKERS[name](), [step._replace(next_obs=step.next_obs.astype(np.float64)) for step in steps])
    assert np.isfinite(again).all()
    assert again.dtype == expected.dtype


@pytest.mark.parametrize("name", MAKERS)
def test_restart_forgets_the_episode_of_the_marked_environment_alone(name):
    steps = [step._replace(terminated=np.zeros(2, bool), truncated=np.zeros(2, bool)) for step in steps_of(2, 6)]
    bonus = MAKERS[name](learning_rate=NEVER) if name == "NGU" else MAKERS[name]()
    replay(bonus, steps)
    before = bonus.reward(steps[-1])
    bonus.restart(np.array([True, False]))
    after = bonus.reward(steps[-1])
    assert after[1] == before[1]
    assert (after[0] > before[0]) is np.bool_(name == "NGU")


def knn_of_the_whole_rollout(transitions):
    """The usual batch form: neighbours are sought among all steps, later ones too."""
    y = np.stack([step.next_obs for step in transitions])
    distances = np.sort(np.linalg.norm(y[:, None] - y[None], axis=-1), axis=1)
    return np.log1p(distances[:, min(1, len(y) - 1)])


def test_the_batch_form_breaks_assumption_1_and_ours_does_not():
    steps = random_transitions(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), distinct=24)
    with pytest.raises(AssertionError, match="depends on steps after"):
        check_causal(knn_of_the_whole_rollout, steps)
    for make in MAKERS.values():
        check_causal(lambda some, make=make: replay(make(), some), steps)
