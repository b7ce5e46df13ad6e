"""Which numbers can be computed with exactly, and how the others are read."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np

from pbim._arrays import Values

Number = Any
"""A real number: int, Fraction, float or a NumPy scalar."""
EXPONENTS = 100
"""How large or small a number on the command line may be, as a power of ten."""

ROUNDING = 16 * float(np.finfo(float).eps)
"""By how much of its size a float may be off after a few operations."""


class NotExact(Exception):  # noqa: N818 - a signal between two passes, not an error
    """A number turned up that only floating point can hold; ``str`` of it says which one."""


class BadNumber(Exception):  # noqa: N818 - a signal to whoever can name the number
    """The value at ``index`` is no number of the wanted kind."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def exactly(value: Number) -> Fraction | None:
    """Return ``value`` as a Fraction when it is exactly what it looks like, else None.

    Whole numbers, Fractions and Decimals are; a float is when its decimal digits are its value (0.5, not 0.1).

    >>> exactly(0.5), exactly(3), exactly(0.1)
    (Fraction(1, 2), Fraction(3, 1), None)
    """
    if type(value) is Fraction:
        return value
    if isinstance(value, Rational | np.integer | np.bool_):
        return Fraction(int(value)) if isinstance(value, np.generic) else Fraction(value)
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else None
    if isinstance(value, float | np.floating) and np.isfinite(value):
        number = float(value)
        return Fraction(number) if Fraction(repr(number)) == Fraction(number) else None
    return None


def is_number(value: Number) -> bool:
    """Tell whether ``value`` is a finite real number."""
    if type(value) is int or type(value) is Fraction:
        return True
    if not isinstance(value, Real | Decimal | np.number | np.bool_) or isinstance(value, np.complexfloating):
        return False
    return math.isfinite(value)


def fractions(values: Values, what: str) -> Values:
    """Return an object array of Fractions, or raise ``NotExact`` naming ``what``."""
    flat = np.empty(values.size, dtype=object)
    known: dict[Number, Fraction] = {}
    for index, value in enumerate(values.ravel().tolist()):
        number = known.get(value)
        if number is None:
            number = exactly(value)
            if number is None:
                raise NotExact(f"{what} holds the float {value!r}")
            known[value] = number
        flat[index] = number
    return flat.reshape(values.shape)


def as_fractions(values: Sequence[Number]) -> Values:
    """Return an object array (n,) of Fractions; ``BadNumber`` where a value is not exact."""
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        number = value if type(value) is Fraction else exactly(value)
        if number is None:
            raise BadNumber(index)
        array[index] = number
    return array


def as_floats(values: Sequence[Number]) -> Values:
    """Return a float array (n,); ``BadNumber`` where a value is not finite or not a number."""
    if all(issubclass(kind, Real | Decimal | np.number) for kind in set(map(type, values))):
        array = np.fromiter(map(float, values), dtype=float, count=len(values))
        finite = np.isfinite(array)
        if finite.all():
            return array
        raise BadNumber(int(np.flatnonzero(~finite)[0]))
    raise BadNumber(next(index for index, value in enumerate(values) if not is_number(value)))


def require_exact(values: Values, what: str) -> Values:
    """Return computed numbers as they are when all are exact (a plain 0.0 is 0), else raise ``NotExact``."""
    for index, value in enumerate(values.flat):
        if isinstance(value, int | Fraction):
            continue
        if value != 0:
            raise NotExact(f"{what} pays the float {value!r}")
        values.flat[index] = Fraction(0)
    return values


def grain(*groups: Values) -> float:
    """Return the smallest difference between 0 and the numbers of all ``groups``, but for the rounding of each number.

    >>> grain(np.array([0.1 + 0.2, 0.3]), np.array([1.0]))
    0.3
    """
    numbers = np.unique(np.concatenate([np.zeros(1), *(np.ravel(group).astype(float) for group in groups)]))
    steps, sizes = np.diff(numbers), np.maximum(abs(numbers[1:]), abs(numbers[:-1]))
    return float(np.min(steps[steps > ROUNDING * sizes], initial=np.inf))


def rough(number: Number) -> str:
    """Return a number of any size in a few characters.

    >>> rough(1234567), rough(3**1000), rough(0.25)
    ('1,234,567', '1.3e+477', '0.25')
    """
    if 10 <= number < 10**15:
        return f"{int(number):,}"
    if number < 10**300:
        return f"{float(number):.2g}"
    power = math.floor(math.log10(number))
    return f"{10 ** (math.log10(number) - power):.2g}e+{power}"


def parse(text: str) -> Fraction:
    """Return the number a user typed, exactly: '0.9', '9/10' and '1e-3' are all Fractions.

    Raises:
        ValueError: If it is none (1/0 is none), or not 0 and outside 1e-100 ... 1e100: exact arithmetic takes any size,
            and ages.

    >>> parse("0.995")
    Fraction(199, 200)

    """
    _, e, exponent = text.strip().lower().partition("e")
    if e and abs(int(exponent)) > EXPONENTS:  # before a number with so many digits is made
        raise ValueError(f"{text!r} is out of range")
    try:
        number = Fraction(text.strip())
    except ZeroDivisionError:
        raise ValueError(f"Invalid literal for Fraction: {text!r}") from None
    if number and not Fraction(1, 10**EXPONENTS) <= abs(number) <= 10**EXPONENTS:
        raise ValueError(f"{text!r} is out of range")
    return number


def shown(value: Number) -> str:
    """Return a number as people read it: four significant digits, with the fraction where it is short."""
    short = f"{float(value):.4g}"
    if isinstance(value, Fraction) and Fraction(short) != value and value.denominator < 1000:
        return f"{short} (= {value})"
    return short
