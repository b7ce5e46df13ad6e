"""A stepper pays what its conversion pays, with Python's numbers or with arrays, and keeps the same state."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pbim
from pbim.errors import InputError
from pbim.shaping import FixedMean, PreviousRollout, Stepper, state_arrays
from pbim.shaping._stepper import FEW

CONVERSIONS = [
    pbim.PBIM(gamma=0.9),
    pbim.PBIM(gamma=1.0, normalize=False),
    pbim.Geometric(gamma=0.9, rate=0.3),
    pbim.Geometric(gamma=0.5, rate=1.0, normalize=FixedMean(mean=0.25)),
    pbim.Geometric(gamma=0.9, normalize=PreviousRollout(steps=3)),
    pbim.Bounded(gamma=0.9, limit=1.5),
    pbim.GRM(gamma=0.9, delay=2),
    pbim.Mixture(members=(pbim.GRM(gamma=0.9, delay=3), pbim.PBIM(gamma=0.9))),
    pbim.shaping.InexactPBIM(gamma=0.9, discount="start"),
    pbim.Raw(),
    pbim.NoBonus(),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shaping", CONVERSIONS, ids=lambda shaping: shaping.label)
@given(data=st.data())
def test_a_stepper_pays_what_its_conversion_pays(shaping: Any, dtype: Any, data: Any) -> None:
    num_envs = data.draw(st.sampled_from([1, 3, FEW, FEW + 1]))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    like = np.zeros(0, dtype)
    stepper, state = Stepper(shaping, num_envs, like), shaping.init(num_envs, like=like)
    for masked in data.draw(st.lists(st.booleans(), min_size=1, max_size=12)):
        bonus = random.normal(size=num_envs).astype(dtype)
        ended, valid = random.random(num_envs) < 0.3, random.random(num_envs) < 0.7
        mask = valid if masked else None
        state, expected = shaping.step(state, bonus, ended, valid=mask)
        known = np.where(valid, bonus, 0).astype(dtype) if masked else bonus
        shaped = stepper.step(known, ended if ended.any() else None, mask)
        assert shaped.dtype == dtype
        np.testing.assert_array_equal(shaped, expected)
        for name, array in state_arrays(stepper.state).items():
            np.testing.assert_array_equal(array, state_arrays(state)[name])


@pytest.mark.parametrize("num_envs", [3, FEW + 1])
@pytest.mark.parametrize("way", [copy.deepcopy, lambda stepper: pickle.loads(pickle.dumps(stepper))])
def test_a_copy_goes_on_alike_and_apart(way: Any, num_envs: int) -> None:
    one = Stepper(pbim.Geometric(gamma=0.9), num_envs, np.zeros(0))
    bonus, ended = np.arange(1.0, num_envs + 1), np.zeros(num_envs, bool)
    one.step(bonus, ended)
    two = way(one)
    np.testing.assert_array_equal(one.step(bonus, ended), two.step(bonus, ended))
    one.step(bonus, ended)
    assert (one.state.ledger != two.state.ledger).all()


@pytest.mark.parametrize("num_envs", [3, FEW + 1])
def test_a_bonus_of_another_shape_is_refused(num_envs: int) -> None:
    with pytest.raises(InputError, match="shape"):
        Stepper(pbim.Geometric(gamma=0.9), num_envs, np.zeros(0)).step(np.ones(1), None)


@pytest.mark.parametrize("num_envs", [3, FEW + 1])
def test_what_is_not_finite_is_refused_and_leaves_the_state_as_it_was(num_envs: int) -> None:
    stepper = Stepper(pbim.Geometric(gamma=0.9), num_envs, np.zeros(0))
    stepper.step(np.ones(num_envs), np.zeros(num_envs, bool))
    before = state_arrays(stepper.state)
    with pytest.raises(InputError, match="finite"):
        stepper.step(np.full(num_envs, np.nan), np.zeros(num_envs, bool))
    after = state_arrays(stepper.state)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_repayment_that_grows_too_large_is_an_overflow() -> None:
    stepper = Stepper(pbim.PBIM(gamma=0.5, normalize=False), 2, np.zeros(0, np.float32))
    for _ in range(200):
        stepper.step(np.ones(2, np.float32), np.array([False, False]))
    with pytest.raises(OverflowError, match="Geometric"):
        stepper.step(np.ones(2, np.float32), np.array([True, True]))
