"""Running mean and variance, pure, for NumPy and JAX arrays alike."""

from __future__ import annotations

from typing import Any, NamedTuple


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of all rows seen so far; mean and squares have the shape of a row."""

    count: Any
    mean: Any
    squares: Any


def merge(moments: Moments, rows: Any, weights: Any) -> Moments:
    """Return the moments with the rows (num_rows, ...) of weight 1 added and those of weight 0 left out.

    Chan, Golub & LeVeque 1979, pairwise update.
    """
    weights = weights.reshape(weights.shape + (1,) * (rows.ndim - 1))
    n = weights.sum()
    mean = (weights * rows).sum(axis=0) / (n + (n == 0))
    squares = (weights * (rows - mean) ** 2).sum(axis=0)
    count = moments.count + n
    share = n / (count + (count == 0))
    delta = mean - moments.mean
    return Moments(
        count,
        moments.mean + delta * share,
        moments.squares + squares + delta**2 * moments.count * share,
    )


def variance(moments: Moments) -> Any:
    """Return the variance of the rows seen so far, 1 while there are fewer than two."""
    few = moments.count < 2
    return (1 - few) * moments.squares / (moments.count + few) + few


def standardize(moments: Moments, rows: Any, clip: float) -> Any:
    """Return (rows - mean) / std clipped to [-clip, clip]; a feature that never varied becomes 0."""
    return ((rows - moments.mean) / (variance(moments) + 1e-8) ** 0.5).clip(-clip, clip)
