"""One step after the other of environments that stay together, as adapters take them."""

from ctypes import c_float
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._centring import FixedMean, Mean, RunningMean, centring
from pbim.shaping._ledger import Ledger, LedgerState, settling
from pbim.shaping._shaping import Shaping

FEW = 32
"""Up to how many environments Python numbers are faster: NumPy's price is that of a call, theirs that of a lane."""

_IN_ORDER = 8
"""From how many numbers on NumPy adds them up in another order."""


class Stepper:
    """A conversion with its state, for callers that step in NumPy and keep no state of their own.

    ``step`` pays what ``shaping.step`` pays. A few environments are stepped one by one in Python's numbers, through the
    same equations, if the conversion is ``lanewise``: that takes a fraction of the time.

    Args:
        shaping: The conversion.
        num_envs: How many environments step together.
        like: An array of the dtype of the bonus.

    >>> import numpy as np, pbim
    >>> stepper = Stepper(pbim.PBIM(gamma=0.5, normalize=False), 1, np.zeros(0))
    >>> [float(stepper.step(np.ones(1), np.array([last]))[0]) for last in (False, False, True)]
    [1.0, 1.0, -6.0]
    >>> stepper.state.ledger
    array([0.])

    """

    def __init__(self, shaping: Shaping[Any], num_envs: int, like: NDArray[np.floating[Any]]) -> None:
        self._shaping, self._num_envs, self._dtype = shaping, num_envs, like.dtype
        self._prepare()
        self.state = shaping.init(num_envs, like=like)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_settle": None}  # functions that were made here cannot be pickled

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(content)
        self._prepare()

    def _prepare(self) -> None:
        """Make the equations of one lane, if they are to be used."""
        self._settle: Any = None
        self._fixed = 0.0
        shaping = self._shaping
        if self._num_envs <= FEW and isinstance(shaping, Ledger) and shaping.lanewise:
            centre = centring(shaping.normalize)
            if isinstance(centre, RunningMean | FixedMean):
                self._fixed = float(centre.mean) if isinstance(centre, FixedMean) else 0.0
                self._settle = settling(shaping, _Lane(self._dtype, shaping.gamma))

    @property
    def state(self) -> Any:
        """The conversion's state, as ``shaping.step`` returns it."""
        if self._settle is None:
            return self._state
        centre: Any = () if self._mean is None else Mean(*map(np.float64, self._mean))
        return LedgerState(np.array(self._ledger), (), centre)

    @state.setter
    def state(self, state: Any) -> None:
        if self._settle is None:
            self._state = state
            return
        self._ledger: list[float] = state.ledger.tolist()
        self._mean: Mean | None = Mean(*map(float, state.centre)) if state.centre else None

    def step(
        self, bonus: NDArray[np.floating[Any]], ended: NDArray[np.bool_], valid: NDArray[np.bool_] | None = None
    ) -> NDArray[np.floating[Any]]:
        """Convert one step and keep the state it leads to; the bonus is 0 where ``valid`` is false.

        Everything else, errors too, is as of ``shaping.step``.
        """
        if self._settle is not None and bonus.dtype == self._dtype:
            shaped = self._step_lanes(bonus, ended, valid)
            if shaped is not None:
                return shaped
        self.state, paid = self._shaping.step(self.state, bonus, ended, valid=valid)
        return paid

    def _step_lanes(
        self, bonus: NDArray[np.floating[Any]], ended: NDArray[np.bool_], valid: NDArray[np.bool_] | None
    ) -> NDArray[np.floating[Any]] | None:
        """Return F' of one step; None, with nothing changed, if a number is not finite."""
        settle, ledger, mean = self._settle, self._ledger, self._mean
        centre = self._fixed if mean is None else mean.mean
        values, ends = bonus.tolist(), ended.tolist()
        added, total = len(values), sum(values) if len(values) < _IN_ORDER else float(np.add.reduce(bonus, dtype=float))
        if valid is None:
            lanes = zip(ledger, values, ends, strict=True)
            settled = [settle(debt, (), value - centre, end, None) for debt, value, end in lanes]
        else:
            added = int(np.count_nonzero(valid))
            steps = zip(ledger, values, ends, valid.tolist(), strict=True)
            settled = [
                settle(debt, (), value - centre, end, None) if real else (debt, (), 0.0)
                for debt, value, end, real in steps
            ]
        shaped = [paid for _, _, paid in settled]
        if not (isfinite(total) and isfinite(sum(shaped))):
            return None
        self._ledger = [debt for debt, _, _ in settled]
        if mean is not None:
            self._mean = mean.moved(added, total)
        return np.array(shaped, self._dtype)


class _Lane(Arithmetic):
    """What a step of the ledger is computed with for one environment: floats, and booleans for the masks."""

    def __init__(self, dtype: Any, gamma: Any) -> None:
        super().__init__(None, dtype, gamma, exact=False)
        self.rounds = dtype != np.float64

    def put(self, array: float, where: bool, values: float) -> float:
        return values if where else array

    def clear(self, array: float, where: bool) -> float:
        return 0.0 if where else array

    def emit(self, shaped: float) -> float:
        return c_float(shaped).value
