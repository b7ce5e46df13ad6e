"""What conversions refuse, and how a message shows what was received."""

from numbers import Real
from typing import Any

import numpy as np

from pbim.errors import InputError, InputTypeError


def check_gamma(gamma: object) -> None:
    """Refuse a discount outside (0, 1].

    Raises:
        InputError: With what was received and what to pass instead.

    """
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise InputTypeError(f"gamma must be a real number in (0, 1], received {gamma!r}: pass the learner's discount")
    number: Any = gamma  # not as a float, which a Fraction may be too large for
    if not 0 < number <= 1 or float(number) == 0:  # or too small
        raise InputError(
            f"gamma must be in (0, 1], received {short(gamma)}: pass the discount your learner trains with"
        )


COUNTABLE = 2**31 - 1
"""How far whole numbers count in JAX."""


def is_count(number: object) -> bool:
    """Tell whether ``number`` is a whole number of at least 1, of Python's or of NumPy's kind."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= 1


def is_number(number: object) -> bool:
    """Tell whether ``number`` is a real number, of a size that floats can hold, and no boolean."""
    if isinstance(number, bool) or not isinstance(number, Real):
        return False
    try:
        float(number)
    except OverflowError:
        return False
    return True


def short(number: object) -> str:
    """Return what was received as a message shows it: numbers of hundreds of digits are cut.

    >>> short(0.5), short(10**400)
    ('0.5', '100000000000... (401 characters)')
    """
    try:
        text = str(number) if isinstance(number, Real) else repr(number)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return f"{type(number).__name__} of thousands of digits"
    return text if len(text) <= 100 else f"{text[:12]}... ({len(text)} characters)"


def check_lambda(gae_lambda: object) -> float:
    """Return the learner's lambda as a float; refuse one outside [0, 1].

    Raises:
        InputError: With what was received and what to pass instead.

    """
    if not is_number(gae_lambda) or not 0 <= float(gae_lambda) <= 1:  # type: ignore[arg-type]
        raise InputError(
            f"gae_lambda must be in [0, 1], received {short(gae_lambda)}: pass your learner's, 0 for one-step TD "
            "(Q-learning, DQN, SAC) and 1 for Monte-Carlo returns"
        )
    return float(gae_lambda)  # type: ignore[arg-type]
