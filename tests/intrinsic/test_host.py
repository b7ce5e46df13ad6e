"""What RND pays for a small batch, computed in NumPy, is what its compiled function pays."""

import jax
import numpy as np
import pytest

from pbim.intrinsic import RND, Transition


def batch(rows: int, seed: int) -> Transition:
    no, rng = np.zeros(rows, bool), np.random.default_rng(seed)
    return Transition(None, None, rng.integers(0, 10, (rows, 7, 7, 3), dtype=np.uint8), no, no, {}, ~no)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("hidden", [(), (32,), (64, 32)])
def test_a_small_batch_is_paid_as_by_the_compiled_function(normalize: bool, hidden: tuple[int, ...]) -> None:
    bonus = RND(hidden=hidden, features=8, normalize=normalize)
    for turn in range(4):  # before and after the networks and the statistics move
        step = batch(16, turn)
        paid = bonus.reward(step)
        compiled = jax.jit(bonus.reward_fn)(bonus.state_for(bonus.checked(step)), step)
        np.testing.assert_allclose(paid, compiled, rtol=1e-5)
        assert paid.dtype == np.float64
        bonus.update(step)


def test_a_large_batch_is_paid_alike() -> None:
    bonus = RND()
    small = batch(16, 0)
    bonus.update(small)
    many = small._replace(next_obs=np.tile(small.next_obs, (64, 1, 1, 1)), terminated=np.zeros(1024, bool), valid=None)
    many = many._replace(truncated=many.terminated)
    np.testing.assert_allclose(bonus.reward(many), np.tile(bonus.reward(small), 64), rtol=1e-5)
