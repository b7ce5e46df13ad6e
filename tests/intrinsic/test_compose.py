"""Compositions do to the inner bonus what their names say, with statistics of the past only."""

import numpy as np
import pytest

from pbim.intrinsic import EpisodicCount, NormalizedObservations, RunningStdScaled, Scaled, Sum, Transition, WarmUp

RNG = np.random.default_rng(0)


def step(value, over=(False, False), valid=None):
    value = np.asarray(value, dtype=float)
    return Transition(value, np.zeros(2), value, np.array(over), np.zeros(2, bool), {}, valid)


def paid(transition):
    return transition.next_obs


def test_running_std_is_that_of_the_discounted_sums_of_earlier_steps():
    bonus, sums, seen = RunningStdScaled(paid, gamma=0.8), np.zeros(2), []
    for t in range(12):
        values, over = RNG.normal(1, 2, 2), RNG.random(2) < 0.2
        std = np.std([0.0, *seen]) if seen else 1.0
        np.testing.assert_allclose(bonus.reward(step(values)), values / std, rtol=1e-9, err_msg=f"step {t}")
        sums = 0.8 * sums + values
        seen.extend(sums)
        bonus.update(step(values, over))
        sums = np.where(over, 0, sums)


def test_running_std_leaves_out_rows_that_are_not_steps():
    one, other = RunningStdScaled(paid, gamma=0.8), RunningStdScaled(paid, gamma=0.8)
    for values in RNG.normal(size=(6, 2)):
        one.update(step(values, valid=np.array([True, False])))
        other.update(step([values[0], 1e6], over=(False, True), valid=np.array([True, False])))
    np.testing.assert_array_equal(one.reward(step([1, 1])), other.reward(step([1, 1])))


def test_running_std_learns_from_the_step_it_is_given_whatever_was_paid_before():
    """An array edited between reward and update counts as it is when update reads it."""
    one, other, values = RunningStdScaled(paid, gamma=0.9), RunningStdScaled(paid, gamma=0.9), np.array([1.0, 2.0])
    first = step([0, 0])._replace(next_obs=values)
    one.reward(first)
    values[:] = 3.0, 7.0
    one.update(first)
    other.update(step([3, 7]))
    np.testing.assert_array_equal(one.reward(step([1, 1])), other.reward(step([1, 1])))


def test_normalized_observations_show_both_ends_by_the_same_past():
    shown = []

    def inner(transition):
        shown.append((transition.obs, transition.next_obs))
        return np.zeros(2)

    bonus, seen = NormalizedObservations(inner, clip=2.0), []
    for _ in range(5):
        obs, next_obs = RNG.normal(3, 4, (2, 2, 3))
        transition = step([0, 0])._replace(obs=obs, next_obs=next_obs)
        bonus.reward(transition)
        mean, std = (np.mean(seen, 0), np.std(seen, 0)) if len(seen) >= 2 else (0, 1)
        for got, raw in zip(shown[-1], (obs, next_obs), strict=True):
            np.testing.assert_allclose(got, np.clip((raw - mean) / std, -2, 2), rtol=1e-5)
        bonus.update(transition)
        seen.extend(next_obs)


def test_scaled_sum_and_warm_up():
    bonus = Sum(Scaled(paid, -0.5), WarmUp(paid, steps=2))
    totals = []
    for _ in range(4):
        totals.append(bonus.reward(step([2, 4])).tolist())
        bonus.update(step([2, 4]))
    assert totals == [[-1, -2], [-1, -2], [1, 2], [1, 2]]


def test_what_the_parts_declare_the_whole_declares():
    def from_the_future(transition):
        return paid(transition)

    from_the_future.causal = False
    assert not Sum(EpisodicCount(), Scaled(from_the_future, 1.0)).causal
    assert Sum(Scaled(EpisodicCount(), 1.0), paid).episodic
    assert not Scaled(paid, 1.0).episodic


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Scaled(paid, float("nan")), "coefficient must be finite"),
        (lambda: Scaled(3, 1.0), "must be a callable"),
        (lambda: RunningStdScaled(paid, gamma=1.5), r"gamma must lie in \[0, 1\], received 1.5"),
        (lambda: NormalizedObservations(paid, clip=0), "clip must be a finite number above 0"),
        (lambda: WarmUp(paid, steps=0), "steps must be an integer of at least 1"),
        (lambda: Sum(), "at least one bonus"),
        (lambda: NormalizedObservations(paid).reward(step([0, 0])._replace(obs={"a": np.zeros(2)})), "one array"),
    ],
)
def test_bad_arguments_name_themselves(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()
