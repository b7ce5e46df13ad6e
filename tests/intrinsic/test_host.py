"""What RND pays for a small batch, computed in NumPy, is what its compiled function pays for a large one."""

import numpy as np
import pytest

from pbim.intrinsic import E3B, RND, Transition
from pbim.intrinsic.rnd import SMALL_BATCH

ROWS = 16


def batch(rows: int, seed: int) -> Transition:
    no, rng = np.zeros(rows, bool), np.random.default_rng(seed)
    return Transition(None, None, rng.integers(0, 10, (rows, 7, 7, 3), dtype=np.uint8), no, no, {}, ~no)


def many(step: Transition) -> Transition:
    """The same rows often enough to go through the compiled function."""
    times = SMALL_BATCH // ROWS + 1
    no = np.zeros(times * ROWS, bool)
    return Transition(None, None, np.tile(step.next_obs, (times, 1, 1, 1)), no, no, {}, ~no)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("hidden", [(), (32,), (64, 32)])
def test_a_small_batch_is_paid_as_by_the_compiled_function(normalize: bool, hidden: tuple[int, ...]) -> None:
    bonus = RND(hidden=hidden, features=8, normalize=normalize)
    for turn in range(4):  # before and after the networks and the statistics move
        step = batch(ROWS, turn)
        paid = bonus.reward(step)
        np.testing.assert_allclose(paid, bonus.reward(many(step))[:ROWS], rtol=1e-5)
        assert paid.dtype == np.float64
        bonus.update(step)


def test_loading_a_state_changes_what_a_small_batch_is_paid() -> None:
    trained, fresh, step = RND(seed=1), RND(seed=0), batch(ROWS, 0)
    trained.update(step)
    fresh.reward(step)
    fresh.load_state_dict(trained.state_dict())
    np.testing.assert_allclose(fresh.reward(step), trained.reward(step), rtol=1e-6)


def test_an_episode_abandoned_after_loading_is_forgotten_too():
    """The first transition after loading brings the saved state back, and the abandoned episode must not come along."""
    rng, no = np.random.default_rng(0), np.zeros(2, bool)
    steps = [
        Transition(rng.normal(size=(2, 3)), np.zeros(2, int), rng.normal(size=(2, 3)), no, no, {}) for _ in range(6)
    ]
    kept, everywhere = E3B(num_actions=2, hidden=(8,), features=4), np.ones(2, bool)
    for step in steps[:5]:
        kept.update(step)
    loaded = E3B(num_actions=2, hidden=(8,), features=4)
    loaded.load_state_dict(kept.state_dict())
    for bonus in (kept, loaded):
        bonus.restart(everywhere)
    np.testing.assert_array_equal(loaded.reward(steps[5]), kept.reward(steps[5]))
