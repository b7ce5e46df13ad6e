"""One step after the other of environments that stay together, as adapters take them."""

from ctypes import c_float
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.shaping._arithmetic import Arithmetic, OneStep
from pbim.shaping._centring import FixedMean, Mean, RunningMean, centring
from pbim.shaping._ledger import Ledger, LedgerState, Memory, settling
from pbim.shaping._shaping import Shaping

FEW = 7
"""Up to how many environments Python numbers are faster, and NumPy adds numbers up in their order."""


class Stepper:
    """A conversion with its state, for callers that step in NumPy and keep no state of their own.

    ``step`` pays what ``shaping.step`` pays, through the same equations, in a fraction of the time: they are prepared
    once, and a few environments are stepped one by one in Python's numbers if the conversion is ``lanewise``.

    Args:
        shaping: The conversion.
        num_envs: How many environments step together.
        like: An array of the dtype of the bonus.

    >>> import numpy as np, pbim
    >>> stepper = Stepper(pbim.PBIM(gamma=0.5, normalize=False), 1, np.zeros(0))
    >>> [float(stepper.step(np.ones(1), last)[0]) for last in (None, None, np.array([True]))]
    [1.0, 1.0, -6.0]
    >>> stepper.state.ledger
    array([0.])

    """

    def __init__(self, shaping: Shaping[Any], num_envs: int, like: NDArray[np.floating[Any]]) -> None:
        self._shaping, self._num_envs, self._dtype = shaping, num_envs, like.dtype
        self._nowhere = np.zeros(num_envs, np.bool_)
        self._prepare()
        self.state = shaping.init(num_envs, like=like)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_settle": None}  # functions that were made here cannot be pickled

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(content)
        self._prepare()

    def _prepare(self) -> None:
        """Make the equations, for a ledger whose mean is one number at every step."""
        self._settle: Any = None
        self._one_by_one = False
        shaping = self._shaping
        if not isinstance(shaping, Ledger) or shaping.calls_back:
            return
        centre = centring(shaping.normalize)
        if isinstance(centre, RunningMean | FixedMean):
            self._fixed = float(centre.mean) if isinstance(centre, FixedMean) else 0.0
            self._one_by_one = shaping.lanewise and self._num_envs <= FEW
            kind = _Lane if self._one_by_one else OneStep
            self._settle = settling(shaping, kind(np, self._dtype, shaping.gamma, exact=False))

    @property
    def state(self) -> Any:
        """The conversion's state, as ``shaping.step`` returns it."""
        if self._settle is None:
            return self._state
        centre: Any = () if self._mean is None else Mean(*map(np.float64, self._mean))
        return LedgerState(np.array(self._ledger), self._memory, centre)

    @state.setter
    def state(self, state: Any) -> None:
        if self._settle is None:
            self._state = state
            return
        self._ledger: Any = state.ledger.tolist() if self._one_by_one else state.ledger
        self._memory: Memory = state.memory
        self._mean: Mean | None = Mean(*map(float, state.centre)) if state.centre else None

    def step(
        self,
        bonus: NDArray[np.floating[Any]],
        ended: NDArray[np.bool_] | None,
        valid: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.floating[Any]]:
        """Convert one step and keep the state it leads to; the bonus is 0 where ``valid`` is false.

        ``ended`` may be None for nowhere. Everything else, errors too, is as of ``shaping.step``.
        """
        if self._settle is not None and bonus.dtype == self._dtype and bonus.shape == self._nowhere.shape:
            shaped = (self._step_lanes if self._one_by_one else self._step_arrays)(bonus, ended, valid)
            if shaped is not None:
                return shaped
        self.state, paid = self._shaping.step(self.state, bonus, self._nowhere if ended is None else ended, valid=valid)
        return paid

    def _step_lanes(
        self, bonus: NDArray[np.floating[Any]], ended: NDArray[np.bool_] | None, valid: NDArray[np.bool_] | None
    ) -> NDArray[np.floating[Any]] | None:
        """Return F' of one step; None, with nothing changed, if a number is not finite."""
        settle, ledger, mean = self._settle, self._ledger, self._mean
        centre = self._fixed if mean is None else mean.mean
        values = bonus.tolist()
        ends = [None] * len(values) if ended is None else ended.tolist()
        lanes = zip(ledger, values, ends, strict=True)
        if valid is None:
            settled = [settle(debt, (), value - centre, end, None) for debt, value, end in lanes]
        else:
            settled = [
                settle(debt, (), value - centre, end, None) if real else (debt, (), 0.0)
                for (debt, value, end), real in zip(lanes, valid.tolist(), strict=True)
            ]
        total, shaped = sum(values), [paid for _, _, paid in settled]
        if not (isfinite(total) and isfinite(sum(shaped))):
            return None
        self._ledger = [debt for debt, _, _ in settled]
        self._count(valid, total)
        return np.array(shaped, self._dtype)

    def _step_arrays(
        self, bonus: NDArray[np.floating[Any]], ended: NDArray[np.bool_] | None, valid: NDArray[np.bool_] | None
    ) -> NDArray[np.floating[Any]] | None:
        """Do the same in NumPy."""
        memory, mean = self._memory, self._mean
        centre = np.float64(self._fixed if mean is None else mean.mean)
        if memory and ended is None:
            ended = self._nowhere
        with np.errstate(over="ignore", invalid="ignore"):
            settled = self._settle(self._ledger, memory, bonus - centre, ended, None if valid is None else ~valid)
            ledger, memory, shaped = settled
            total = np.add.reduce(bonus, dtype=float)
            if not (isfinite(total) and isfinite(np.add.reduce(shaped))):
                return None
        self._ledger, self._memory = ledger, memory
        self._count(valid, float(total))
        return shaped  # type: ignore[no-any-return]

    def _count(self, valid: NDArray[np.bool_] | None, total: float) -> None:
        """Let the bonuses of a step enter F-bar."""
        if self._mean is not None:
            added = self._num_envs if valid is None else int(np.count_nonzero(valid))
            self._mean = self._mean.moved(added, total)


class _Lane(Arithmetic):
    """What a step of the ledger is computed with for one environment: floats, and booleans for the masks."""

    def __init__(self, xp: Any, dtype: Any, gamma: Any, *, exact: bool) -> None:
        super().__init__(xp, dtype, gamma, exact=exact)
        self.rounds = dtype != np.float64

    def put(self, array: float, where: bool, values: float) -> float:
        return values if where else array

    def clear(self, array: float, where: bool) -> float:
        return 0.0 if where else array

    def emit(self, shaped: float) -> float:
        return c_float(shaped).value
