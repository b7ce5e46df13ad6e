"""What conversions refuse, and how a message shows what was received."""

from math import nan
from numbers import Real
from typing import Any, Literal

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


def check_count(name: str, number: object, way_out: str, *, most: int | None = None) -> int:
    """Return a whole number of at least 1, of Python's or of NumPy's kind, as Python's; refuse anything else.

    Raises:
        InputError: With what was received and the way out.

    """
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or not 1 <= int(number) <= (most or number):
        limit = "" if most is None else f" and at most 2^{most.bit_length()} - 1"
        raise InputError(f"{name} must be a whole number of at least 1{limit}, received {short(number)}: {way_out}")
    return int(number)


def check_share(name: str, number: object, range_: Literal["(0, 1)", "(0, 1]", "[0, 1]"], way_out: str) -> float:
    """Return a number between 0 and 1 as a float; refuse one outside the range.

    Raises:
        InputError: With what was received and the way out.

    """
    share = float(number) if is_number(number) else nan  # type: ignore[arg-type]
    if not (0 < share < 1 or (share == 0 and range_[0] == "[") or (share == 1 and range_[-1] == "]")):
        raise InputError(f"{name} must be in {range_}, received {short(number)}: {way_out}")
    return share


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
    way_out = "pass your learner's, 0 for one-step TD (Q-learning, DQN, SAC) and 1 for Monte-Carlo returns"
    return check_share("gae_lambda", gae_lambda, "[0, 1]", way_out)
