"""Learning curves made small: every seed of a cell on one common grid of x, so that nothing is averaged away."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

POINTS, NUMBERS = 400, 400_000
"""Most points a curve, and most numbers in all curves of a report: a page stays below 5 MB."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The bins that all runs of a study share: ``points`` of them up to ``last``, and the middle of each, (points,)."""

    metric: str
    last: float
    middles: NDArray[np.float64]

    @property
    def points(self) -> int:
        """How many bins."""
        return len(self.middles)


def axis_of(metric: str, values: NDArray[Any], *, curves: int) -> Axis:
    """Return bins for the x values (rows,) of a run, coarser the more ``curves`` a report has to hold."""
    last = float(values[-1])
    points = max(1, min(len(values), most_points(curves)))
    return Axis(metric=metric, last=last, middles=_binned(values, values, np.ones(len(values)), last, points))


def most_points(curves: int) -> int:
    """Return how many points a curve may have in a report of so many curves."""
    return min(POINTS, max(50, NUMBERS // max(1, curves)))


def binned(axis: Axis, metrics: Mapping[str, NDArray[Any]], metric: str) -> NDArray[np.float64]:
    """Return a metric's mean in each bin, (points,), weighted by episodes where rows hold several; NaN: none ended."""
    values = np.asarray(metrics[metric], np.float64)
    weights = np.asarray(metrics["episodes"], np.float64) if "episodes" in metrics else np.ones(len(values))
    weights = np.where(np.isfinite(values), weights, 0)
    return _binned(metrics[axis.metric], np.nan_to_num(values), weights, axis.last, axis.points)


def _binned(
    x: NDArray[Any], values: NDArray[Any], weights: NDArray[Any], last: float, points: int
) -> NDArray[np.float64]:
    span = last - float(x[0])
    where = np.minimum(((x - x[0]) / span * points).astype(int), points - 1) if span else np.zeros(len(x), int)
    total = np.bincount(where, weights, points)
    with np.errstate(invalid="ignore"):
        return np.bincount(where, weights * values, points) / total


def coarser(values: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """Return curves (n, p) with at most ``points`` points, each the mean of its neighbours that are there.

    >>> coarser(np.array([[1.0, 3.0, np.nan, 5.0]]), 2).tolist()
    [[2.0, 5.0]]
    """
    starts = np.unique(np.linspace(0, values.shape[1], min(points, values.shape[1]), endpoint=False).astype(int))
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        sums = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=1)
        return np.asarray(sums / np.add.reduceat(finite.astype(float), starts, axis=1))


def band(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and half-width of the 95% interval of the mean, (points,) each, of seeds (n, points)."""
    from scipy.special import stdtrit

    finite = np.isfinite(values)
    n = finite.sum(axis=0)
    filled = np.where(finite, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=0) / n
        spread = np.sqrt(np.where(finite, (filled - mean) ** 2, 0).sum(axis=0) / (n - 1))
        half = stdtrit(np.maximum(n - 1, 1), 0.975) * spread / np.sqrt(n)
    return mean, np.where(n > 1, half, 0.0)
