"""F-bar: the mean a bonus is centred by, gathered strictly before the step it is subtracted from.

The paper gives two readings (body: mean over the workers during one training epoch; appendix: a moving average per
run). Both are here; all environments share one mean.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pbim import _arrays
from pbim._arrays import Array, Rows, Values, array_namespace
from pbim.config import Component
from pbim.errors import InputError
from pbim.shaping._checks import COUNTABLE, check_count, check_share, is_number, short


class Mean(NamedTuple):
    """Sufficient statistics of a mean: how many values, and their mean (both of shape ())."""

    count: Array | float  # type: ignore[assignment]
    mean: Array | float

    def moved(self, added: int, total: Any) -> "Mean":
        """Return the mean with ``added`` more values, whose sum is ``total``."""
        count = _arrays.counted(self.count, added)
        return Mean(count, self.mean + (total - added * self.mean) / (count if added else 1))


class BlockMean(NamedTuple):
    """The mean in use, and the one being gathered for the next block."""

    mean: Array
    steps: Array
    gathered: Mean


def merge_means(*means: Mean, base: Mean | None = None) -> Mean:
    """Merge the means of several workers exactly.

    Args:
        means: What the workers have: the ``centre`` of their states.
        base: The mean that they all started from, to be counted once.

    Raises:
        InputError: If there is no mean to merge.

    >>> merge_means(Mean(2.0, 1.0), Mean(6.0, 3.0))
    Mean(count=8.0, mean=2.5)

    """
    if not means:
        raise InputError("merge_means needs at least one mean, received none: pass the workers' state.centre")
    count, total = (0.0, 0.0) if base is None else (base.count, base.count * base.mean)
    shared_count, shared_total = count, total
    for mean in means:
        count = count + mean.count - shared_count
        total = total + mean.count * mean.mean - shared_total
    return Mean(count, total / (count + (count == 0)))


class Centring(Component, ABC):
    """A causal estimate of F-bar with explicit state."""

    @property
    def label(self) -> str:
        """What a conversion's label says of it: nothing of the running mean, which is the default."""
        return f"centred by {self}"

    @abstractmethod
    def start(self, lanes: Values) -> Any:
        """Return the statistics before any bonus."""

    @abstractmethod
    def run(self, state: Any, rows: Rows) -> tuple[Any, Values]:
        """Return the new statistics and F-bar for every row of bonuses (T, num_envs), as shape (T, 1)."""


@dataclass(frozen=True, kw_only=True)
class FixedMean(Centring):
    """F-bar is a given number; 0 means no centring, as in Equation 30."""

    kind: ClassVar[str] = "fixed-mean"

    mean: Real | float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.mean) or not isfinite(self.mean):
            raise InputError(f"mean must be a finite number, received {short(self.mean)}: 0 subtracts nothing")

    @property
    def label(self) -> str:
        """Whether anything is subtracted, and what."""
        return f"centred by {self.mean}" if self.mean else "not centred"

    def start(self, lanes: Values) -> tuple[()]:
        """Return no statistics."""
        del lanes
        return ()

    def run(self, state: tuple[()], rows: Rows) -> tuple[tuple[()], Values]:
        """Return the given mean for every row."""
        bonus = rows.values
        return state, _arrays.zeros((bonus.shape[0], 1), bonus) + _arrays.number_for(self.mean, bonus)


@dataclass(frozen=True)
class RunningMean(Centring):
    """F-bar is the mean of every bonus of the training so far (the appendix's moving average)."""

    kind: ClassVar[str] = "running-mean"
    label: ClassVar[str] = ""

    def start(self, lanes: Values) -> Mean:
        """Return an empty mean."""
        return Mean(_arrays.counter(lanes), lanes[0])

    def run(self, state: Mean, rows: Rows) -> tuple[Mean, Values]:
        """Return, for row t, the mean over all rows before it."""
        bonus = rows.values
        plain = rows.valid is None or isinstance(rows.valid, np.ndarray)
        if bonus.shape[0] == 1 and plain and not _arrays.is_exact(bonus):  # one step: no cumulative sums
            mean: Any = state.mean
            added = bonus.shape[1] if rows.valid is None else int(np.count_nonzero(rows.valid))
            return state.moved(added, _total(bonus, mean.dtype)), mean[None, None]
        xp = array_namespace(bonus)
        counts, sums = _row_sums(rows)
        total = _arrays.counted(state.count, xp.cumulative_sum(counts))
        means = state.mean + xp.cumulative_sum(sums - counts * state.mean) / xp.where(total > 0, total, 1)
        before = xp.concat([xp.reshape(xp.asarray(state.mean), (1,)), means[:-1]])
        return Mean(total[-1], means[-1]), before[:, None]


@dataclass(frozen=True, kw_only=True)
class ExponentialMean(Centring):
    """F-bar forgets: each vector step moves it by ``rate`` towards its own mean (a plain mean for the first 1/rate)."""

    kind: ClassVar[str] = "exponential-mean"

    rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("rate", self.rate, "(0, 1]", "0.01 forgets over about 100 vector steps")

    def start(self, lanes: Values) -> Mean:
        """Return an empty mean; its count is in vector steps."""
        return Mean(lanes[0], lanes[0])

    def run(self, state: Mean, rows: Rows) -> tuple[Mean, Values]:
        """Return, for row t, the exponential mean of the rows before it."""
        state, (means,) = _arrays.scan(_exponential(self.rate), state, _row_sums(rows))
        return state, means[:, None]


@dataclass(frozen=True, kw_only=True)
class PreviousRollout(Centring):
    """F-bar is the mean over the previous block of ``steps`` vector steps (the paper's epoch); 0 during the first."""

    kind: ClassVar[str] = "previous-rollout"

    steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = check_count("steps", self.steps, "pass the rollout length", most=COUNTABLE)
        object.__setattr__(self, "steps", steps)

    def start(self, lanes: Values) -> BlockMean:
        """Return an empty block."""
        zero, none = lanes[0], _arrays.counter(lanes)
        return BlockMean(zero, none, Mean(none, zero))

    def run(self, state: BlockMean, rows: Rows) -> tuple[BlockMean, Values]:
        """Return, for row t, the mean of the last complete block before it."""
        state, (means,) = _arrays.scan(_block(self.steps), state, _row_sums(rows))
        return state, means[:, None]


def centring(normalize: "bool | Centring") -> Centring:
    """Return the centring that a conversion's ``normalize`` asks for."""
    if isinstance(normalize, bool):
        return _RUNNING if normalize else _UNCENTRED
    if isinstance(normalize, Centring):
        return normalize
    raise InputError(
        f"normalize must be True, False or a centring such as PreviousRollout(steps=128), received {normalize!r}: "
        "see pbim.shaping.Centring"
    )


_RUNNING, _UNCENTRED = RunningMean(), FixedMean()


def _total(bonus: Values, dtype: Any) -> Values:
    """Return the sum of all bonuses; NumPy's ufunc is called without its wrappers, which cost more than the sum."""
    if type(bonus) is np.ndarray:
        return np.add.reduce(bonus, axis=None, dtype=dtype)
    return bonus.sum(dtype=dtype)


def _row_sums(rows: Rows) -> tuple[Values, Values]:
    """Return how many valid bonuses each row has and their sum, shapes (T,); invalid bonuses are already 0."""
    bonus, sums = rows.values, rows.sums
    xp = array_namespace(bonus)
    if sums is None:
        sums = xp.sum(bonus, axis=1, dtype=_arrays.wide_dtype(bonus))
    if rows.valid is None:
        return xp.zeros_like(sums) + bonus.shape[1], sums
    return xp.sum(xp.astype(rows.valid, sums.dtype), axis=1), sums


@lru_cache(maxsize=64)
def _exponential(rate: float) -> Any:
    def body(state: Mean, row: tuple[Values, Values]) -> tuple[Mean, tuple[Values]]:
        count, total = row
        xp = array_namespace(total)
        used = xp.astype(count > 0, total.dtype)
        total_steps = state.count + used
        first = 1 / xp.where(total_steps > 0, total_steps, xp.ones_like(total_steps))
        weight = used * xp.where(first > rate, first, xp.zeros_like(first) + rate)
        mean = state.mean + weight * (total / (count + (1 - used)) - state.mean)
        return Mean(total_steps, mean), (state.mean,)

    return body


@lru_cache(maxsize=64)
def _block(steps: int) -> Any:
    def body(state: BlockMean, row: tuple[Values, Values]) -> tuple[BlockMean, tuple[Values]]:
        count, total = row
        xp = array_namespace(total)
        gathered = merge_means(state.gathered, Mean(count, total / (count + (count == 0)))).mean
        size = _arrays.counted(state.gathered.count, count)
        taken = _arrays.counted(state.steps, xp.where(count > 0, xp.ones_like(count), xp.zeros_like(count)))
        done = taken >= steps
        mean = xp.where(done & (size > 0), gathered, state.mean)
        taken, size, gathered = (xp.where(done, xp.zeros_like(part), part) for part in (taken, size, gathered))
        return BlockMean(mean, taken, Mean(size, gathered)), (state.mean,)

    return body
