"""Repeated rows of a large batch, found on the host so that networks read each only once.

Rollouts in grid worlds repeat themselves: of the 2048 observations of 128 steps of 16 random walks in MiniGrid
DoorKey-8x8 about 280 are distinct. A row's error is the same wherever it stands, and the gradient of a minibatch is the
sum over its distinct rows weighted by how often each occurs, so nothing is approximated.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SMALLEST_BATCH = 256
_SAMPLE = 128


class Distinct(NamedTuple):
    """The distinct rows, filled up to one of few sizes, and for each row of the batch which of them it is."""

    rows: NDArray[Any]
    which: NDArray[np.intp]

    def covers(self, batch: Any) -> bool:
        """Return whether this is the table of just that batch."""
        return isinstance(batch, np.ndarray) and np.array_equal(self.rows[self.which], batch)

    def totals(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the summed weights of the rows of the batch that each distinct row stands for."""
        return np.bincount(self.which, weights, len(self.rows)).astype(np.float32)

    def merged(
        self, index: NDArray[np.intp], weights: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return minibatches (batches, size) of the batch's rows as minibatches of weighted distinct rows."""
        sums = [np.bincount(self.which[rows], w, len(self.rows)) for rows, w in zip(index, weights, strict=True)]
        chosen = [np.flatnonzero(total) for total in sums]
        size = -(-max(map(len, chosen)) // 32) * 32
        merged_index = np.zeros((len(index), size), dtype=np.int32)
        merged_weights = np.zeros((len(index), size), dtype=np.float32)
        for batch, (rows, total) in enumerate(zip(chosen, sums, strict=True)):
            merged_index[batch, : len(rows)] = rows
            merged_weights[batch, : len(rows)] = total[rows]
        return merged_index, merged_weights


def distinct_rows(batch: Any) -> Distinct | None:
    """Return the distinct rows of an array, or None if the batch is small, not one array, or hardly repeats itself."""
    if not isinstance(batch, np.ndarray) or len(batch) < _SMALLEST_BATCH:
        return None
    flat = np.ascontiguousarray(batch)
    width, data = flat.nbytes // len(flat), memoryview(flat.tobytes())
    if len({bytes(data[i * width : (i + 1) * width]) for i in range(_SAMPLE)}) > 0.9 * _SAMPLE:
        return None
    numbers: dict[bytes, int] = {}
    starts = range(0, len(data), width)
    which = np.array([numbers.setdefault(bytes(data[start : start + width]), len(numbers)) for start in starts])
    if len(numbers) > len(batch) // 2:
        return None
    size = _size(len(numbers))
    first = np.zeros(size, dtype=np.intp)
    first[which[::-1]] = np.arange(len(batch))[::-1]
    return Distinct(flat[first], which)


def _size(count: int) -> int:
    """Return the least of 32, 48, 64, 96, 128, ... that holds ``count``: every new size is compiled once."""
    power = max(32, 1 << (count - 1).bit_length())
    return power * 3 // 4 if count <= power * 3 // 4 else power
