"""What one run amounts to, on runs small enough to work out by hand."""

import math

import numpy as np
import pytest

from pbim.errors import InputError
from pbim.report.measures import MEASURES, Data, converged, measured, moving_mean
from report.stores import GRID, SHORTEST, ppo_run, q_run


def q_data(returns, path=SHORTEST, visits=None):
    n = len(returns)
    metrics = {"episode": np.arange(n), "return": np.asarray(returns, np.float32), "length": np.arange(n)}
    visits = np.ones((48, 4), int) if visits is None else visits
    return Data(metrics=metrics, arrays={"path": np.asarray(path), "visits": visits}, grid=GRID)


def ppo_data(length, *, truncations=None, episodes=None):
    n = len(length)
    episodes = np.ones(n, np.int32) if episodes is None else np.asarray(episodes, np.int32)
    metrics = {
        "frames": 2048 * np.arange(1, n + 1),
        "length": np.asarray(length, np.float32),
        "episodes": episodes,
        "goals": episodes,
        "truncations": np.zeros(n, np.int32) if truncations is None else np.asarray(truncations),
        "extrinsic_return": np.ones(n, np.float32),
    }
    arrays = {"evaluation_lengths": np.array([12, 14]), "optimal_lengths": np.array([10, 13])}
    return Data(metrics=metrics, arrays=arrays)


def test_final_figures_are_means_of_the_last_tenth():
    figures = measured("q-learning", q_data([0] * 18 + [3, 5]))
    assert figures["final_return"] == 4
    assert figures["final_length"] == 18.5


def test_a_task_without_a_grid_has_returns_and_no_greedy_path():
    data = q_data([0] * 18 + [3, 5], path=[])
    figures = measured("q-learning", Data(metrics=data.metrics, arrays=data.arrays))
    assert figures["final_return"] == 4
    assert all(math.isnan(figures[name]) for name in figures if name.startswith("greedy") or name == "best_column")


def test_the_spread_is_torch_acs_own_where_it_was_stored():
    data = ppo_data([40.0, 60.0] * 600)
    estimate = measured("ppo", data)["converged_std"]
    stored = np.r_[np.full(200, 99.0), np.full(500, 12.0), np.full(500, 14.0)]
    logged = Data(metrics={**data.metrics, "logged_std": stored}, arrays=data.arrays)
    assert measured("ppo", logged)["converged_std"] == 13
    missing = Data(metrics={**data.metrics, "logged_std": np.full(1200, np.nan)}, arrays=data.arrays)
    assert measured("ppo", missing)["converged_std"] == estimate


def test_what_older_rows_lack_is_optional():
    data = ppo_data([40.0] * 20)
    assert math.isnan(measured("ppo", data)["final_residual"])
    left = Data(metrics={**data.metrics, "discounted_shaping": np.r_[np.ones(18), 3, 5]}, arrays=data.arrays)
    assert measured("ppo", left)["final_residual"] == 4
    walk = q_data([0.0] * 20)
    assert math.isnan(measured("q-learning", walk)["bonus_spread"])
    bonus = {"first_bonus": np.array([0.0, 4.0]), "last_bonus": np.array([1.0, 3.0])}
    spread = Data(metrics=walk.metrics, arrays={**walk.arrays, **bonus}, grid=GRID)
    assert measured("q-learning", spread)["bonus_spread"] == 1.5


def test_the_late_return_starts_at_episode_3000():
    assert measured("q-learning", q_data([1.0] * 3000 + [7.0] * 5))["late_return"] == 7
    assert math.isnan(measured("q-learning", q_data([1.0] * 3000))["late_return"])


@pytest.mark.parametrize(
    ("path", "reaches", "length", "total"),
    [
        (SHORTEST, 1, 13, 100 - 12),
        ([36, 37], 0, math.nan, -100),
        ([36, 24, 25, 37], 0, math.nan, -102),
        ([36, 24, 36], 0, math.nan, math.nan),
    ],
)
def test_a_greedy_path_counts_only_where_it_ends(path, reaches, length, total):
    figures = measured("q-learning", q_data([0], path))
    assert figures["greedy_reaches"] == reaches
    assert figures["greedy_length"] == pytest.approx(length, nan_ok=True)
    assert figures["greedy_return"] == pytest.approx(total, nan_ok=True)


def test_the_furthest_column_counts_from_zero():
    visits = np.zeros((48, 4), int)
    visits[24 + 4, 2] = 1
    assert measured("q-learning", q_data([0], visits=visits))["best_column"] == 4
    assert math.isnan(measured("q-learning", q_data([0], visits=np.zeros((48, 4), int)))["best_column"])


def test_moving_means_skip_updates_in_which_no_episode_ended():
    assert moving_mean(np.array([1, np.nan, 3, 5]), 2).tolist()[1:] == [1, 3, 4]
    assert np.isnan(moving_mean(np.array([np.nan, np.nan]), 2)).all()
    assert np.isnan(moving_mean(np.array([1.0]), 2)).all()


def test_the_papers_definitions_on_a_run_that_drops_once():
    figures = measured("ppo", ppo_data([640.0] * 500 + [40.0] * 1000))
    assert figures["converged_length"] == 40
    assert figures["converged_std"] == 0
    assert figures["frames_to_converge"] == 2048 * 600  # 100 points after the drop the average is at 40
    assert figures["frames_to_solve"] == 2048 * 591  # 10 of 640 and 90 of 40 average 100, one more is below
    assert figures["final_length"] == 40
    assert figures["final_gap"] == 1.5


def test_one_truncation_near_the_end_is_no_convergence_and_an_early_one_does_not_matter():
    late, early = np.zeros(1500, int), np.zeros(1500, int)
    late[-8], early[-9] = 1, 1
    assert not converged(ppo_data([40.0] * 1500, truncations=late))
    assert math.isnan(measured("ppo", ppo_data([40.0] * 1500, truncations=late))["frames_to_converge"])
    assert converged(ppo_data([40.0] * 1500, truncations=early))


def test_the_spread_is_that_of_single_episodes_not_of_their_means():
    rng = np.random.default_rng(0)
    episodes = rng.integers(1, 60, 1000)
    length = np.array([rng.normal(36, 12, n).mean() for n in episodes])
    assert measured("ppo", ppo_data(length, episodes=episodes))["converged_std"] == pytest.approx(12, rel=0.07)


def test_late_means_weigh_updates_by_their_episodes():
    data = ppo_data([0.0] * 18 + [10.0, 20.0], episodes=[1] * 18 + [3, 1])
    assert measured("ppo", data)["final_length"] == 12.5


def test_runs_without_a_finished_episode_have_no_figures_and_no_warnings():
    figures = measured("ppo", ppo_data([math.nan] * 20, episodes=[0] * 20))
    assert math.isnan(figures["converged_length"])
    assert math.isnan(figures["converged_std"])
    assert math.isnan(figures["frames_to_solve"])


def test_every_measure_of_a_learner_is_computed_for_its_runs():
    rng = np.random.default_rng(0)
    for learner, (metrics, arrays), grid in (("q-learning", q_run(rng, 40, 50), GRID), ("ppo", ppo_run(rng, 36), None)):
        assert set(measured(learner, Data(metrics=metrics, arrays=arrays, grid=grid))) == set(MEASURES[learner])
    with pytest.raises(InputError, match="learner must be one of q-learning, ppo"):
        measured("sarsa", q_data([0]))
