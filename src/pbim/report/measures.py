"""What one run amounts to: named figures computed from its metrics and final arrays.

The paper's words on DoorKey (section 4.1): a policy converged "when it does not truncate an episode without reaching
the goal state during the last 1,000 training steps"; mean and spread are those of the last 1,000 data points; T is the
first time step at which the average episode length is below that mean. Our readings stand at each function.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import choose
from pbim.results import GridMap

Columns = Mapping[str, NDArray[Any]]
LAST = 1_000
"""Data points (one per update) that the paper's mean and spread are taken from."""
WINDOW = 100
"""Data points of the paper's moving average."""
STEPS = 128
"""Steps of each process between two data points, in the paper."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """One finished run: columns of its metrics (rows,), final arrays, and the study's grid (None without one)."""

    metrics: Columns
    arrays: Columns
    grid: GridMap | None = None


@dataclass(frozen=True)
class Measure:
    """A figure by name: what it is called in a table, what it means, how it is computed, which way is better."""

    label: str
    meaning: str
    compute: Callable[[Data], float]
    better: str | None = None
    never: bool = False
    """Whether a run without the figure never got there; else it just has none."""
    optional: bool = False
    """Whether older rows lack it, so that a study may have no run with the figure."""


def measured(learner: str, data: Data) -> dict[str, float]:
    """Return every figure of a run; NaN where the run has none (a greedy path that never reaches the goal)."""
    measures = MEASURES[choose("learner", learner, MEASURES)]
    return {name: measure.compute(data) for name, measure in measures.items()}


def _mean(values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
    """Return the mean of the finite values, NaN if there is none or nothing weighs."""
    values = np.asarray(values, np.float64)
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    kept = np.isfinite(values) & (weights > 0)
    return float(np.average(values[kept], weights=weights[kept])) if kept.any() else math.nan


def _last_tenth(column: str) -> Callable[[Data], float]:
    def compute(data: Data) -> float:
        values = data.metrics[column]
        return _mean(values[-math.ceil(len(values) / 10) :]) if len(values) else math.nan

    return compute


def _late_return(data: Data) -> float:
    return _mean(data.metrics["return"][data.metrics["episode"] >= 3000])


def _best_column(data: Data) -> float:
    """Return the greatest column ever acted in, counted from 0: the paper's "42nd column" is 41."""
    if data.grid is None:
        return math.nan
    cells = np.flatnonzero(data.arrays["visits"].sum(axis=1))
    return float((cells % data.grid.width).max()) if len(cells) else math.nan


def _greedy_reaches(data: Data) -> float:
    path = data.arrays["path"]
    return math.nan if data.grid is None else float(len(path) > 0 and path[-1] == data.grid.goal)


def _greedy_length(data: Data) -> float:
    return len(data.arrays["path"]) - 1.0 if _greedy_reaches(data) == 1 else math.nan


def _greedy_return(data: Data) -> float:
    """Return the undiscounted return of the greedy path; NaN where it ends neither at the goal nor on the cliff."""
    path, grid = data.arrays["path"], data.grid
    if grid is None or len(path) < 2:
        return math.nan
    rewards = {int(cell): grid.cliff_reward for cell in grid.cliff}
    rewards[int(grid.goal)] = grid.goal_reward
    end = rewards.get(int(path[-1]), math.nan)
    return grid.step_reward * (len(path) - 2) + end


def _last_frames(column: str) -> Callable[[Data], float]:
    def compute(data: Data) -> float:
        frames = data.metrics["frames"]
        late = frames > 0.9 * frames[-1] if len(frames) else np.zeros(0, bool)
        return _mean(data.metrics[column][late], data.metrics["episodes"][late])

    return compute


def _over_training(column: str) -> Callable[[Data], float]:
    return lambda data: _mean(data.metrics[column])


def _all_steps(column: str) -> Callable[[Data], float]:
    """Weigh each row by the steps since the row before: a log may have one row per episode, or one row per hour."""
    return lambda data: _mean(data.metrics[column], np.diff(data.metrics["step"], prepend=0))


def _late_steps(column: str) -> Callable[[Data], float]:
    def compute(data: Data) -> float:
        steps = data.metrics["step"]
        late = steps > 0.9 * steps[-1]
        return _mean(data.metrics[column][late], np.diff(steps, prepend=0)[late])

    return compute


def _final_residual(data: Data) -> float:
    return _last_frames("discounted_shaping")(data) if "discounted_shaping" in data.metrics else math.nan


def _bonus_spread(data: Data) -> float:
    """Return how much the bonus differs between states, as a standard deviation: the mean of before and after."""
    return _mean(np.array([np.std(data.arrays[name]) for name in ("first_bonus", "last_bonus") if name in data.arrays]))


def moving_mean(values: NDArray[Any], window: int = WINDOW) -> NDArray[np.float64]:
    """Return the mean of the finite ones among the last ``window`` values, (n,); NaN before there are ``window``.

    >>> moving_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [nan, 2.0, 4.0]
    """
    values = np.asarray(values, np.float64)
    means = np.full(len(values), np.nan)
    if len(values) >= window:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Mean of empty slice")  # a window in which no episode ended
            windows = np.lib.stride_tricks.sliding_window_view(values, window)
            means[window - 1 :] = np.nanmean(windows, axis=1)
    return means


def _converged_length(data: Data) -> float:
    """Return the mean of the last 1,000 data points, each the mean length of the episodes that ended in an update."""
    return _mean(data.metrics["length"][-LAST:])


def _converged_std(data: Data) -> float:
    """Return the spread of single episodes in the last 1,000 data points.

    The paper averages the spread among processes, which torch-ac logs over its last max(finished, processes) episodes.
    Rows older than that column have each update's mean m_i of n_i episodes, whose variance is sigma^2 / n_i, so that
    sigma^2 = sum n_i (m_i - mean)^2 / (points - 1).
    """
    logged = _mean(data.metrics.get("logged_std", np.zeros(0))[-LAST:])
    if math.isfinite(logged):
        return logged
    length, episodes = (data.metrics[name][-LAST:].astype(np.float64) for name in ("length", "episodes"))
    kept = np.isfinite(length) & (episodes > 0)
    if kept.sum() < 2:
        return math.nan
    length, episodes = length[kept], episodes[kept]
    centre = np.average(length, weights=episodes)
    return float(np.sqrt(np.sum(episodes * (length - centre) ** 2) / (len(length) - 1)))


def converged(data: Data) -> bool:
    """Return whether no episode was truncated in the last 1,000 steps of each process: 8 data points of 128 steps."""
    late = slice(-math.ceil(LAST / STEPS), None)
    return bool(data.metrics["truncations"][late].sum() == 0 and data.metrics["goals"][late].sum() > 0)


def _first_frames(data: Data, below: NDArray[np.bool_]) -> float:
    found = np.flatnonzero(below)
    return float(data.metrics["frames"][found[0]]) if len(found) else math.nan


def _frames_to_converge(data: Data) -> float:
    """Return the first frames at which the 100-point moving average is at or below the final mean; NaN: it did not."""
    if not converged(data):
        return math.nan
    return _first_frames(data, moving_mean(data.metrics["length"]) <= _converged_length(data))


def _frames_to_solve(data: Data) -> float:
    return _first_frames(data, moving_mean(data.metrics["length"]) < 100)


def _frames_to_learn(data: Data) -> float:
    return _first_frames(data, moving_mean(data.metrics["length"], 20) < 100)


def _final_gap(data: Data) -> float:
    arrays = data.arrays
    return _mean(arrays["evaluation_lengths"].astype(np.float64) - arrays["optimal_lengths"])


MEASURES: dict[str, dict[str, Measure]] = {
    "q-learning": {
        "final_return": Measure("Final return", "mean over the last 10% of episodes", _last_tenth("return"), "higher"),
        "final_length": Measure("Final length", "mean over the last 10% of episodes", _last_tenth("length"), "lower"),
        "late_return": Measure("Late return", "mean over the episodes from number 3000 on", _late_return, "higher"),
        "best_column": Measure("Furthest column", "ever acted in, counted from 0", _best_column, "higher"),
        "greedy_reaches": Measure("Greedy path arrives", "1 if it reaches the goal, else 0", _greedy_reaches, "higher"),
        "greedy_length": Measure(
            "Greedy path", "its steps if it reaches the goal", _greedy_length, "lower", never=True
        ),
        "greedy_return": Measure("Greedy return", "return of the greedy path, if it ends", _greedy_return, "higher"),
        "bonus_spread": Measure(
            "Spread of F",
            "deviation of the bonus over the states, in units of the reward",
            _bonus_spread,
            optional=True,
        ),
    },
    "ppo": {
        "frames_to_converge": Measure(
            "T", "the paper's frames to convergence", _frames_to_converge, "lower", never=True
        ),
        "converged_length": Measure("N̄", "mean length over the last 1,000 updates", _converged_length, "lower"),
        "converged_std": Measure("σ", "spread of an episode's length there", _converged_std, "lower"),
        "final_length": Measure("Final length", "mean over the last 10% of frames", _last_frames("length"), "lower"),
        "final_return": Measure(
            "Final return", "mean over the last 10% of frames", _last_frames("extrinsic_return"), "higher"
        ),
        "mean_return": Measure(
            "Mean return", "mean over the whole training", _over_training("extrinsic_return"), "higher", optional=True
        ),
        "frames_to_solve": Measure(
            "Frames to solve", "until 100 updates average below 100 steps", _frames_to_solve, "lower", never=True
        ),
        "frames_to_learn": Measure(
            "Frames to learn",
            "until 20 updates average below 100 steps: it tells fast learners apart, who all solve at update 100",
            _frames_to_learn,
            "lower",
            never=True,
            optional=True,
        ),
        "final_residual": Measure(
            "Residual", "mean discounted return of F' over the last 10% of frames", _final_residual, optional=True
        ),
        "final_gap": Measure("Gap", "steps above the optimum on held-out layouts, greedy", _final_gap, "lower"),
    },
    "logs": {
        "final_return": Measure("Final return", "mean over the last 10% of steps", _late_steps("return"), "higher"),
        "mean_return": Measure("Mean return", "mean over all steps", _all_steps("return"), "higher"),
        "final_length": Measure("Final length", "mean over the last 10% of steps", _late_steps("length")),
    },
}
"""The figures by learner; claims and heat maps use these names."""
