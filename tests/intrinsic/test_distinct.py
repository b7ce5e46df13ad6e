"""Looking at repeated observations once changes the cost of RND, not its rewards or its learning."""

import jax
import numpy as np
import pytest

from pbim.intrinsic import RND, Spec, Transition
from pbim.intrinsic._core import flat_arrays
from pbim.intrinsic._distinct import distinct_rows

RNG = np.random.default_rng(0)


def rollout(rows, distinct):
    obs = RNG.integers(0, 9, (distinct, 3, 2)).astype(np.float32)[RNG.integers(distinct, size=rows)]
    no = np.zeros(rows, bool)
    return Transition(None, None, obs, no, no, {}, RNG.random(rows) < 0.8)


@pytest.mark.parametrize(("batch_size", "proportion"), [(None, 1.0), (100, 1.0), (64, 0.3)])
def test_edge_with_repeats_does_what_the_pure_core_does(batch_size, proportion):
    bonus = RND(hidden=(8,), features=4, batch_size=batch_size, update_proportion=proportion)
    reward_fn, update_fn = jax.jit(bonus.reward_fn), jax.jit(bonus.update_fn)
    state = bonus.init(jax.random.PRNGKey(0), Spec(example=rollout(400, 20)))
    for _ in range(4):
        step = rollout(400, 20)
        assert distinct_rows(step.next_obs) is not None
        np.testing.assert_allclose(bonus.reward(step), reward_fn(state, step), rtol=1e-3, atol=1e-5)
        bonus.update(step)
        state = update_fn(state, step)
    for name, array in flat_arrays(state).items():
        np.testing.assert_allclose(bonus.state_dict()[name], array, rtol=1e-2, atol=1e-4, err_msg=name)


def test_table_holds_every_row_and_few_sizes():
    step = rollout(500, 37)
    table = distinct_rows(step.next_obs)
    np.testing.assert_array_equal(table.rows[table.which], step.next_obs)
    assert len(table.rows) == 48
    assert table.covers(step.next_obs.copy())
    step.next_obs[3] += 1
    assert not table.covers(step.next_obs)


def test_merged_minibatches_weigh_every_row_as_often_as_it_occurs():
    table = distinct_rows(rollout(300, 10).next_obs)
    index, weights = RNG.permutation(300).reshape(3, 100), RNG.random((3, 100)).astype(np.float32)
    merged, totals = table.merged(index, weights)
    assert merged.shape == (3, 32)
    for batch in range(3):
        expected, got = np.zeros(len(table.rows)), np.zeros(len(table.rows))
        np.add.at(expected, table.which[index[batch]], weights[batch])
        np.add.at(got, merged[batch], totals[batch])
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_an_array_changed_between_reward_and_update_is_looked_at_again():
    step, fresh = rollout(400, 20), RND(hidden=(8,), features=4)
    reused = RND(hidden=(8,), features=4)
    reused.reward(step)
    step.next_obs[:] = RNG.integers(0, 9, (1, 3, 2))
    for bonus in (reused, fresh):
        bonus.update(step)
    np.testing.assert_array_equal(reused.reward(step), fresh.reward(step))


@pytest.mark.parametrize("batch", [RNG.normal(size=(400, 3)), np.zeros((100, 3)), {"image": np.zeros((400, 3))}])
def test_no_table_where_it_would_not_pay(batch):
    assert distinct_rows(batch) is None
