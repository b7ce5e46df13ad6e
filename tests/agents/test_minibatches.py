"""Subsequences are drawn as torch-ac draws them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.agents._minibatches import Cuts

CUTS = Cuts(num_envs=3, num_steps=8, recurrence=4, size=8)


def frames_drawn(cuts, shifted):
    order, weights = cuts.draw(jax.random.key(0), jnp.asarray(shifted))
    assert order.shape == (cuts.sequences // cuts.per_minibatch, cuts.per_minibatch)
    used = np.asarray(order)[np.asarray(weights) > 0]
    return np.asarray(cuts.frames(jnp.asarray(used), jnp.asarray(shifted)))


def test_every_frame_once_in_an_unshifted_epoch():
    assert sorted(frames_drawn(CUTS, False).ravel()) == list(range(24))


def test_a_shifted_epoch_leaves_out_the_edges():
    """Of 8 steps, pieces of 4 moved by 2 cover steps 2 to 5; steps 0, 1, 6 and 7 stay out."""
    steps = frames_drawn(CUTS, True) // CUTS.num_envs
    assert sorted(set(steps.ravel())) == [2, 3, 4, 5]


def test_weights_go_last_to_what_is_left_out():
    _, weights = CUTS.draw(jax.random.key(1), jnp.asarray(True))
    flat = np.asarray(weights).ravel()
    assert flat.sum() == 3
    assert (np.diff(flat) <= 0).all()


@pytest.mark.parametrize("recurrence", [2, 3, 4])
@pytest.mark.parametrize("shifted", [False, True])
def test_memories_are_refreshed_where_the_epoch_passed(recurrence, shifted):
    """As torch-ac overwrites exps.memory: kept memories land at the next epoch's cuts, others stay the rollout's."""
    cuts = Cuts(num_envs=2, num_steps=12, recurrence=recurrence, size=recurrence * 2)
    memories = jnp.arange(12 * 2, dtype=jnp.float32).reshape(12, 1, 2)  # the frame's number
    flag = jnp.asarray(shifted)
    order, _ = cuts.draw(jax.random.key(0), flag)
    passed = cuts.recurrence - cuts.shift if shifted else cuts.shift
    new = 100.0 + jax.vmap(lambda row: cuts.frames(row, flag)[0] + passed * cuts.num_envs)(order)[:, None, :]
    got = cuts.refresh(order, new, cuts.starts(memories, jnp.asarray(False)), flag)
    next_start = np.asarray(cuts.frames(jnp.arange(cuts.sequences), ~flag)[0])
    expected = 100.0 + next_start
    if shifted:
        expected[: cuts.num_envs] = next_start[: cuts.num_envs]  # step 0 is never passed
    else:
        expected, got = expected[: -cuts.num_envs], got[: -cuts.num_envs]  # left out of the shifted epoch
    np.testing.assert_array_equal(got[:, 0], expected)
