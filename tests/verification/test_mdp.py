"""A finite MDP is checked once, and Gymnasium's tables are read as they are meant."""

import math
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

from pbim import PBIM
from pbim.errors import InputError
from pbim.verification import FiniteMDP, verify
from pbim.verification.gallery import corridor, grid


def arrays(**changes):
    given = {
        "transition": [[[0, 1], [1, 0]], [[0, 1], [0, 1]]],
        "reward": [[[0, 1], [0, 0]], [[0, 0], [0, 0]]],
        "initial": [1, 0],
        "terminal": [False, True],
        "gamma": Fraction(9, 10),
    }
    return {**given, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": [[0, 1], [1, 0]]}, r"transition must have shape \(S, A, S\)"),
        ({"transition": [[[0, 1], [1]], [[0, 1], [0, 1]]]}, "transition must be an array"),
        ({"transition": [[[0, 0.9], [1, 0]], [[0, 1], [0, 1]]]}, r"transition\[0, 0\] must sum to 1"),
        ({"transition": [[[-1, 2], [1, 0]], [[0, 1], [0, 1]]]}, "none may be negative"),
        ({"transition": [[["a", 1], [1, 0]], [[0, 1], [0, 1]]]}, "transition must hold real numbers"),
        ({"reward": [[[0, math.nan], [0, 0]], [[0, 0], [0, 0]]]}, "reward must hold finite numbers"),
        ({"reward": [[[0, None], [0, 0]], [[0, 0], [0, 0]]]}, "reward must hold finite numbers"),
        ({"reward": np.zeros((2, 2))}, "reward must have shape"),
        ({"initial": [0, 0]}, "initial must sum to 1"),
        ({"initial": [0, 1]}, "must give a non-terminal state positive probability"),
        ({"terminal": [0.5, 1]}, "terminal must hold booleans"),
        ({"gamma": 0}, "gamma must be in"),
        ({"gamma": "0.9"}, "gamma must be a real number"),
        ({"actions": ("go",)}, "actions must have 2 entries"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        FiniteMDP(**arrays(**changes))


def test_fractions_must_sum_to_one_exactly():
    almost = Fraction(1) - Fraction(1, 10**12)
    FiniteMDP(**arrays(transition=[[[0, float(almost)], [1, 0]], [[0, 1], [0, 1]]]))
    with pytest.raises(InputError, match="must sum to 1"):
        FiniteMDP(**arrays(transition=[[[Fraction(0), almost], [1, 0]], [[0, 1], [0, 1]]]))


def test_rows_of_terminal_states_are_never_read():
    mdp = FiniteMDP(**arrays(transition=[[[0, 1], [1, 0]], [[0, 0], [7, 0]]]))
    assert set(mdp.links.source.tolist()) == {0}


def test_histories_are_counted_without_building_them():
    def enumerate_all(mdp, horizon, history):
        if len(history) // 2 == horizon or mdp.terminal[history[-1]]:
            return 1
        targets = [(a, s) for a in range(mdp.num_actions) for s in np.flatnonzero(mdp.transition[history[-1], a])]
        return 1 + sum(enumerate_all(mdp, horizon, (*history, a, int(s))) for a, s in targets)

    mdp = corridor(Fraction(9, 10))
    for horizon in range(6):
        assert mdp.count_histories(horizon) == enumerate_all(mdp, horizon, (0,))


def test_endless_episodes_are_recognised():
    assert corridor(0.9).longest_episode() is None
    one_way = grid(["S.G"], gamma=1, endings={"G": 1}, actions=("right",))
    assert one_way.longest_episode() == 2


def test_frozen_lake_has_exact_thirds():
    mdp = FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1"), gamma=Fraction(9, 10))
    assert mdp.transition[0, 0].tolist() == [Fraction(2, 3), 0, 0, 0, Fraction(1, 3), *[0] * 11]
    assert np.flatnonzero(mdp.terminal).tolist() == [5, 7, 11, 12, 15]
    assert mdp.reward[14, 2, 15] == 1


def test_cliff_walking_falls_back_to_the_start_and_goes_on():
    mdp = FiniteMDP.from_toy_text(gymnasium.make("CliffWalking-v1"), gamma=1)
    assert np.flatnonzero(mdp.terminal).tolist() == [47]
    assert mdp.starts.tolist() == [36]
    assert mdp.reward[36, 1, 36] == -100
    assert mdp.transition[35, 2, 47] == 1


def test_taxi_agrees_with_the_environment_it_was_read_from():
    env = gymnasium.make("Taxi-v4")
    mdp = FiniteMDP.from_toy_text(env, gamma=1)
    assert len(mdp.starts) == 300
    state, _ = env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(200):
        action = env.action_space.sample()
        arrived, reward, terminated, truncated, _ = env.step(action)
        assert mdp.transition[state, action].sum() == 1
        target = int(np.flatnonzero(mdp.transition[state, action])[0])
        assert mdp.reward[state, action, target] == reward
        assert mdp.terminal[target] == terminated
        assert terminated or target == arrived
        state = arrived
        if terminated or truncated:
            state, _ = env.reset()


def test_a_state_both_passed_and_ended_in_gets_an_ending_copy():
    table = {
        0: {0: [(1.0, 1, 5.0, True)], 1: [(0.5, 1, 1.0, False), (0.5, 1, 3.0, False)]},
        1: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]},
    }
    mdp = FiniteMDP.from_toy_text(table, gamma=1, initial=0)
    assert mdp.num_states == 3
    assert mdp.terminal.tolist() == [False, False, True]
    assert mdp.reward[0, 0, 2] == 5
    assert mdp.transition[0, 1, 1] == 1
    assert mdp.reward[0, 1, 1] == 2  # the mean of two outcomes with one target


def test_a_start_that_episodes_also_end_in_stays_a_start():
    table = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 1.0, True)]}}
    mdp = FiniteMDP.from_toy_text(table, gamma=1, initial={0: 1})
    assert mdp.terminal.tolist() == [False, False, True]
    assert mdp.longest_episode() == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((gymnasium.make("FrozenLake-v1").spec, 0), "only environments with a table"),
        (({0: {0: [(1.0, 0, 0.0, True)]}}, None), "initial must be given"),
        (({0: {0: [(1.0, 0, 0.0, True)]}}, 4), "initial must name states below 1"),
        (({1: {0: [(1.0, 1, 0.0, True)]}}, 1), "number its states"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        FiniteMDP.from_toy_text(given[0], gamma=1, initial=given[1])


def test_from_arrays_takes_what_an_environment_gives():
    given = arrays()
    mdp = FiniteMDP.from_arrays([given[name] for name in ("transition", "reward", "initial", "terminal")], gamma=1)
    assert mdp.count_histories(2) == 5


def test_probabilities_in_single_precision_are_those_of_a_distribution():
    chances = np.random.default_rng(0).random((4, 2, 4)).astype(np.float32)
    chances /= chances.sum(axis=2, keepdims=True)
    assert abs(chances.sum(axis=2, dtype=float) - 1).max() > 1e-8
    terminal, initial = [False, False, False, True], np.array([1, 0, 0, 0], np.float32)
    rest = {"reward": np.zeros((4, 2, 4), np.float32), "initial": initial, "terminal": terminal, "gamma": 0.9}
    mdp = FiniteMDP(transition=chances, **rest)
    assert abs(mdp.transition.sum(axis=2) - 1).max() < 1e-15
    visits = verify(mdp, intrinsic=lambda h: 1.0 / h[::2].count(h[-1]), shaping=PBIM(gamma=0.9), horizon=3)
    assert visits.preserved  # every action is a tie of the task, broken by rows that do not quite sum to one
    with pytest.raises(InputError, match="must sum to 1"):
        FiniteMDP(transition=chances * np.float32(0.999), **rest)


def test_flags_may_come_as_python_objects():
    mdp = FiniteMDP(**arrays(terminal=np.array([False, True], dtype=object)))
    assert mdp.terminal.dtype == bool
    assert mdp.terminal.tolist() == [False, True]


def test_starts_in_terminal_states_are_episodes_without_a_step():
    arrays = {"transition": [[[0, 1], [1, 0]], [[0, 1], [0, 1]]], "reward": [[[0, 1], [0, 0]], [[0, 0], [0, 0]]]}
    both = FiniteMDP(**arrays, initial=[0.5, 0.5], terminal=[False, True], gamma=0.9)
    live = FiniteMDP(**arrays, initial=[1, 0], terminal=[False, True], gamma=0.9)
    assert both.starts.tolist() == [0]
    assert both.count_histories(5) == live.count_histories(5)


def test_histories_are_counted_until_a_float_cannot():
    arrays = {"transition": np.ones((1, 2, 1)), "reward": np.zeros((1, 2, 1)), "initial": [1.0], "terminal": [False]}
    mdp = FiniteMDP(**arrays, gamma=0.9)
    assert mdp.growth(3) == [1, 2, 4, 8]
    counted = mdp.growth(10_000)
    assert counted == [2**steps for steps in range(len(counted))]
    assert len(counted) == 998  # 2^997 is the first above 10^300
