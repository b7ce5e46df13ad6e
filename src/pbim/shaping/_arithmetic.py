"""What a step of the ledger is computed with: the same operations, pure or in place."""

import operator
from fractions import Fraction
from typing import Any

import numpy as np

from pbim._arrays import Values


class Arithmetic:
    """Operations without side effects: for JAX, under ``jit``, ``scan`` and ``vmap``, and for tensors with gradients.

    Repayments use ``xp``, the array library, and these methods, which may overwrite their first argument: it must be an
    array that the step itself has made.

    Attributes:
        xp: The array library.
        dtype: The dtype of the bonus, and so of F'.
        gamma: The discount, as a number that mixes with the arrays.
        exact: Whether numbers are Fractions and whole numbers, computed without rounding.
        rounds: Whether F' may be rounded when it is emitted, so that L_t - L_t need not be 0.

    """

    def __init__(self, xp: Any, dtype: Any, gamma: Any, *, exact: bool) -> None:
        self.xp, self.dtype, self.exact, self.rounds = xp, dtype, exact, not exact
        self.gamma = self.number(gamma)

    def number(self, value: Any) -> Any:
        """Return a number as it mixes with the arrays without changing their dtype."""
        return value if self.exact else float(value)

    subtract = staticmethod(operator.sub)

    def put(self, array: Values, where: Values, values: Values) -> Values:
        """Return ``array`` with ``values`` where true."""
        return self.xp.where(where, values, array)

    def clear(self, array: Values, where: Values) -> Values:
        """Return ``array`` with 0 where true."""
        return self.xp.where(where, Fraction(0) if self.exact else 0, array)

    def emit(self, shaped: Values) -> Values:
        """Return F'_t rounded to the dtype of the bonus: what was emitted is what is owed."""
        return self.xp.astype(shaped, self.dtype, copy=False)

    def push(self, entries: Values, entry: Values) -> Values:
        """Return ``entries`` without the oldest, the first, and with a copy of ``entry`` behind the last."""
        return self.xp.concat([entries[1:], entry[None]])

    def is_due(self, age: Values, interval: int) -> bool:
        """Tell whether to do now what has to be done every ``interval`` steps, or more often; ``age`` counts steps."""
        del age, interval
        return True


class OneStep(Arithmetic):
    """The same for one step of NumPy arrays at a time; the ledger is kept in float64."""

    def __init__(self, xp: Any, dtype: Any, gamma: Any, *, exact: bool) -> None:
        super().__init__(xp, dtype, gamma, exact=exact)
        self.rounds = not exact and dtype != np.float64

    def is_due(self, age: Values, interval: int) -> bool:
        """Go by the first environment, as a rollout does."""
        return float(age[0]) % interval == 0


class InPlace(Arithmetic):
    """The same for one rollout of NumPy arrays, several times as fast: memory is allocated once and written over.

    Attributes:
        rewards: F' of the whole rollout, (T, num_envs): ``entries`` itself, written over, unless F' has to be rounded.

    """

    def __init__(self, xp: Any, dtype: Any, gamma: Any, *, exact: bool, entries: Values, masked: bool) -> None:
        self._numbers: dict[Any, Any] = {}
        super().__init__(xp, dtype, gamma, exact=exact)
        self._zero = self.number(0)
        self.rounds = entries.dtype != dtype
        self.rewards = np.empty(entries.shape, dtype) if self.rounds else entries
        self._rows = iter(self.rewards)
        self._masked = masked
        self._history: Values = ()
        self._window: Values = None
        self._end = self._room = 0

    def number(self, value: Any) -> Any:
        try:
            return self._numbers[value]
        except KeyError:  # NumPy computes faster with an array of no dimensions than with a number
            number = self._numbers[value] = value if self.exact else np.asarray(float(value))
            return number

    subtract = staticmethod(operator.isub)

    def put(self, array: Values, where: Values, values: Values) -> Values:
        np.copyto(array, values, where=where)
        return array

    def clear(self, array: Values, where: Values) -> Values:
        np.copyto(array, self._zero, where=where)
        return array

    def emit(self, shaped: Values) -> Values:
        row = next(self._rows)
        row[...] = shaped
        return row

    def push(self, entries: Values, entry: Values) -> Values:
        """Slide a window over a longer history, so that not every step copies all entries."""
        end, size = self._end, len(entries)
        if entries is not self._window:
            self._history = np.empty((size + min(len(self.rewards), 3 * size + 8), *entry.shape), entries.dtype)
            end = self._room = len(self._history)
        if end == self._room:
            self._history[:size] = entries
            end = size
        self._history[end] = entry
        self._end = end = end + 1
        self._window = window = self._history[end - size : end]
        return window

    def is_due(self, age: Values, interval: int) -> bool:
        """Go by the first environment, so that a cut stream gives the same; under a mask its age may stand still."""
        return self._masked or float(age[0]) % interval == 0
