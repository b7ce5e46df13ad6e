"""What a learner makes of the numbers it is given."""

import math
from numbers import Real
from typing import Any

import numpy as np

LARGEST = 2**31 - 1
"""The largest 32-bit integer: the largest size of an axis, and the largest counter."""


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number, which a boolean is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def single(value: Any) -> float:
    """Return what single precision, in which learners compute, makes of a real number.

    >>> single(0.5), single(1e39), single(-1e-50)
    (0.5, inf, -0.0)
    """
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    except OverflowError:  # an integer beyond every float
        return math.inf if value > 0 else -math.inf
