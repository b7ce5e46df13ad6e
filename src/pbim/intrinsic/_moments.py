"""Running mean and variance, pure, for NumPy and JAX arrays alike."""

from typing import Any, NamedTuple


class Moments(NamedTuple):
    """Count, mean and variance of all rows so far; mean and variance have the shape of a row."""

    count: Any
    mean: Any
    variance: Any


def merge(moments: Moments, rows: Any, weights: Any) -> Moments:
    """Return the moments with the rows (num_rows, ...) added, each as often as its weight says, 0 leaving it out.

    Chan, Golub & LeVeque 1979, the pairwise update; written for the variance, because a sum of squares would stop
    growing in single precision while the count goes on.
    """
    weights = weights.reshape(weights.shape + (1,) * (rows.ndim - 1))
    n = weights.sum()
    mean = (weights * rows).sum(axis=0) / (n + (n == 0))
    variance = (weights * (rows - mean) ** 2).sum(axis=0) / (n + (n == 0))
    count = moments.count + n
    share = n / (count + (count == 0))
    delta = mean - moments.mean
    return Moments(
        count,
        moments.mean + share * delta,
        moments.variance + share * (variance - moments.variance + (1 - share) * delta**2),
    )


def spread(moments: Moments) -> Any:
    """Return the variance of the rows so far, 1 while there are fewer than two."""
    few = moments.count < 2
    return (1 - few) * moments.variance + few


def standardize(moments: Moments, rows: Any, clip: float) -> Any:
    """Return (rows - mean) / std clipped to [-clip, clip]; a feature that never varied becomes 0."""
    return ((rows - moments.mean) / (spread(moments) + 1e-8) ** 0.5).clip(-clip, clip)
