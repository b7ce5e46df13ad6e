"""The appendix's inequality, checked against its own sum, its equivalent form and the verifier."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pbim
from pbim.errors import InputError
from pbim.verification import FiniteMDP, verify
from pbim.verification.bonuses import count
from pbim.verification.procrastination import (
    PAPER_SETTINGS,
    procrastination_map,
    stalling_gain,
    stalling_pays,
    visits_worth_stalling,
)

ALPHAS = st.fractions(0, 1, max_denominator=200)
GAMMAS = st.fractions(Fraction(1, 2), 1, max_denominator=200)


@given(ALPHAS, GAMMAS, st.integers(0, 8), st.integers(1, 6))
def test_it_is_the_sum_of_the_appendix(alpha, gamma, n, t):
    won = sum(alpha * gamma**k * Fraction(1, n + k + 1) for k in range(t))
    assert stalling_pays(alpha, gamma, n, t) == (1 - gamma**t < won)
    assert stalling_gain(alpha, gamma, n, t) == won - (1 - gamma**t)


@given(ALPHAS, GAMMAS, st.integers(0, 8), st.integers(1, 6))
def test_if_any_stall_pays_one_step_does(alpha, gamma, n, t):
    if stalling_pays(alpha, gamma, n, t):
        assert stalling_pays(alpha, gamma, n, 1)
    assert stalling_pays(alpha, gamma, n, 1) == (alpha / (n + 1) > 1 - gamma)


def test_arrays_broadcast():
    alpha, n, t = np.array([[0.005], [0.02], [0.05]]), np.arange(1, 5), np.array([1, 2, 3, 1])
    pays = stalling_pays(alpha, 0.995, n, t)
    assert pays.shape == (3, 4)
    for row in range(3):
        for column in range(4):
            assert pays[row, column] == stalling_pays(float(alpha[row, 0]), 0.995, int(n[column]), int(t[column]))


@pytest.mark.parametrize(("setting", "visits"), list(zip(PAPER_SETTINGS, (0, 2, 3), strict=True)))
def test_the_papers_settings(setting, visits):
    alpha, gamma = (Fraction(str(number)) for number in setting)
    assert visits_worth_stalling(*setting) == visits
    assert [n for n in range(1, 20) if stalling_pays(alpha, gamma, n, 1)] == list(range(1, visits + 1))


@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(3, 20), Fraction(3, 10), Fraction(1, 2)])
@pytest.mark.parametrize("n", [0, 1])
def test_the_verifier_agrees_next_to_the_goal(alpha, n):
    """One step from the goal, whose own bonus is delayed too: that much the inequality leaves out.

    n counts arrivals, so it is 0 on the tile an episode starts on, and 1 where every first step leads.
    """
    gamma, start, tile, goal = Fraction(9, 10), 0, 1, 2
    transition = np.zeros((3, 2, 3), dtype=int)
    transition[start, :, tile] = transition[tile, 0, goal] = transition[tile, 1, tile] = transition[goal, :, goal] = 1
    reward = np.zeros((3, 2, 3), dtype=object)
    reward[tile, 0, goal] = 1 - alpha  # 1 with its bonus
    first = (tile,) if n == 0 else (start, 0, tile)
    mdp = FiniteMDP(
        transition=transition,
        reward=reward,
        initial=np.arange(3) == first[0],
        terminal=np.arange(3) == goal,
        gamma=gamma,
    )
    report = verify(mdp, intrinsic=count(mdp, alpha), shaping=pbim.Raw(), horizon=8)
    stalls = report.costly is not None and report.costly.history == first
    assert stalls == stalling_pays(alpha, gamma, n=n, t=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": -1}, "alpha"),
        ({"gamma": 0}, "gamma"),
        ({"gamma": 1.5}, "gamma"),
        ({"n": -1}, "n must"),
        ({"t": 0}, "t must"),
    ],
)
def test_bad_numbers_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        stalling_pays(**{"alpha": 0.1, "gamma": 0.9, "n": 1, "t": 1, **changes})


def test_the_map_marks_the_papers_settings(tmp_path):
    figure = procrastination_map(tmp_path / "map.png")
    axes = figure.axes[0]
    marked = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.lines}
    assert marked == set(PAPER_SETTINGS)
    assert (tmp_path / "map.png").stat().st_size > 10_000
