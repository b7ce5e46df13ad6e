"""Episodes that the task ranks one way and the total of task and term the other way."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.verification._graph import Floats, Ints
from pbim.verification._log import Columns

SMALL = 64
"""Lists this short are compared pair by pair."""


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """Two episodes by the row they start in: the task's return ranks ``better`` above ``worse``, the total below.

    ``returns`` and ``totals`` are discounted, (better, worse).
    """

    better: int
    worse: int
    returns: tuple[float, float]
    totals: tuple[float, float]

    def __str__(self) -> str:
        return (
            f"the episode from row {self.better} returns {self.returns[0]:.4g} in the task and {self.totals[0]:.4g} "
            f"with the term, the episode from row {self.worse} {self.returns[1]:.4g} and {self.totals[1]:.4g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"rows": [self.better, self.worse], "returns": list(self.returns), "totals": list(self.totals)}


@dataclass(frozen=True, kw_only=True)
class Inversions:
    """How many of ``pairs`` of episodes are inverted, how many of them start in one state, and the worst pair."""

    count: int
    same_start: int
    pairs: int
    worst: Inversion | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        worst = None if self.worst is None else self.worst.to_dict()
        return {"count": self.count, "same_start": self.same_start, "pairs": self.pairs, "worst": worst}


def episodes(log: Columns, goes_on: NDArray[np.bool_]) -> tuple[Ints, bool]:
    """Return each row's episode, as given or else from the ends, and whether these are episodes.

    ``goes_on`` tells for all rows but the last whether the next row starts in the state that this row leads to.
    """
    if log.episode is not None:
        return log.episode, True
    ended = log.terminated if log.truncated is None else log.terminated | log.truncated
    number = np.concatenate([[0], np.cumsum(ended)[:-1]])
    return number, bool((goes_on | ended[:-1]).all())


def invert(log: Columns, episode: Ints, start: Ints | None, gamma: float) -> Inversions:
    """Return the inversions among episodes; ``start`` numbers the state of every row, if states are known."""
    assert log.extrinsic is not None
    order = np.argsort(episode, kind="stable")
    first = np.flatnonzero(np.concatenate([[True], np.diff(episode[order]) != 0]))
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    discount = gamma ** place.astype(float)
    returns = np.add.reduceat(discount * log.extrinsic[order], first)
    totals = returns + np.add.reduceat(discount * log.term[order], first)
    task, total = _ranks(returns, log.rounding), _ranks(totals, log.rounding)
    groups = np.zeros(len(first), dtype=np.int64) if start is None else start[order[first]]
    same = 0
    if start is not None:
        inside = np.argsort(groups, kind="stable")
        for part in np.split(inside, np.flatnonzero(np.diff(groups[inside])) + 1):
            same += _count(task[part], total[part])
    return Inversions(
        count=_count(task, total),
        same_start=same,
        pairs=len(first) * (len(first) - 1) // 2,
        worst=_worst(task, total, returns, totals, order[first]),
    )


def _ranks(values: Floats, rounding: float) -> Ints:
    """Return numbers by size; values that differ by rounding alone get the same number."""
    order = np.argsort(values, kind="stable")
    apart = np.diff(values[order]) > 16 * rounding * max(1e-300, float(np.abs(values).max()))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(apart)])
    return ranks


def _count(task: Ints, total: Ints) -> int:
    """Return for how many pairs one is larger in ``task`` and smaller in ``total``, in O(n log n)."""
    order = np.lexsort((total, task))  # equals of the task ascend, so they are never counted
    return _descents(total[order])[0]


def _descents(values: Ints) -> tuple[int, Ints]:
    """Return how many pairs stand in descending order, and the values sorted."""
    if len(values) <= SMALL:
        later = np.triu(values[:, None] > values[None, :], 1)
        return int(later.sum()), np.sort(values)
    (left, low), (right, high) = (_descents(half) for half in np.array_split(values, 2))
    across = len(low) * len(high) - int(np.searchsorted(low, high, side="right").sum())
    return left + right + across, np.sort(np.concatenate([low, high]), kind="stable")


def _worst(task: Ints, total: Ints, returns: Floats, totals: Floats, rows: NDArray[np.int64]) -> Inversion | None:
    """Return the inverted pair that costs the task most return, in O(n log n)."""
    order = np.lexsort((task, -total))  # the best totals first
    lowest, best, found = None, 0.0, None
    waiting: list[int] = []
    for episode in order.tolist():
        if waiting and total[waiting[0]] != total[episode]:  # only a strictly better total is in front
            least = min(waiting, key=lambda number: returns[number])
            lowest = least if lowest is None or returns[least] < returns[lowest] else lowest
            waiting = []
        if lowest is not None and task[episode] > task[lowest] and returns[episode] - returns[lowest] > best:
            best, found = float(returns[episode] - returns[lowest]), (episode, lowest)
        waiting.append(episode)
    if found is None:
        return None
    better, worse = found
    return Inversion(
        better=int(rows[better]),
        worse=int(rows[worse]),
        returns=(float(returns[better]), float(returns[worse])),
        totals=(float(totals[better]), float(totals[worse])),
    )
