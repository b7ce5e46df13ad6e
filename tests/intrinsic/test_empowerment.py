"""Exact empowerment against channels whose capacity is known."""

import numpy as np
import pytest

from pbim.intrinsic import Empowerment


def corridor(length):
    """Left, stay and right on a line with walls."""
    kernel = np.zeros((length, 3, length))
    for state in range(length):
        for action, move in enumerate((-1, 0, 1)):
            kernel[state, action, np.clip(state + move, 0, length - 1)] = 1
    return kernel


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_deterministic_empowerment_is_the_log_of_reachable_states(steps):
    bonus = Empowerment(transition=corridor(9), steps=steps)
    reachable = [len({np.clip(s + move, 0, 8) for move in range(-steps, steps + 1)}) for s in range(9)]
    np.testing.assert_allclose(bonus.values, np.log2(reachable), atol=1e-6)


def test_noisy_switch_is_the_binary_symmetric_channel():
    flip = 0.1
    kernel = np.tile([[1 - flip, flip], [flip, 1 - flip]], (2, 1, 1))
    capacity = 1 + flip * np.log2(flip) + (1 - flip) * np.log2(1 - flip)
    np.testing.assert_allclose(Empowerment(transition=kernel).values, capacity, atol=1e-6)


def test_erasing_switch_is_the_binary_erasure_channel():
    kernel = np.tile([[0.7, 0.0, 0.3], [0.0, 0.7, 0.3]], (3, 1, 1))
    np.testing.assert_allclose(Empowerment(transition=kernel).values, 0.7, atol=1e-6)


def test_actions_without_consequence_give_nothing():
    kernel = np.tile(np.full((3, 3), 1 / 3)[:, None], (1, 2, 1))
    np.testing.assert_allclose(Empowerment(transition=kernel, steps=2).values, 0, atol=1e-6)


def test_hindsight_averages_to_the_empowerment_under_the_capacity_distribution():
    kernel = np.random.default_rng(0).dirichlet(np.ones(4), size=(4, 2))
    bonus = Empowerment(transition=kernel)
    for state in range(4):
        mean = sum(
            bonus._sources[state, action] * kernel[state, action, after] * bonus.hindsight([state, after], [action])[0]
            for action in range(2)
            for after in range(4)
        )
        assert mean == pytest.approx(bonus.values[state], abs=1e-5)


def test_hindsight_of_a_step_changes_with_a_later_action():
    bonus = Empowerment(transition=np.random.default_rng(0).dirichlet(np.ones(4), size=(4, 2)), steps=2)
    one, other = bonus.hindsight([2, 1, 0], [0, 0]), bonus.hindsight([2, 1, 0], [0, 1])
    assert one[0] != pytest.approx(other[0], rel=0.01)
    assert not Empowerment.causal
