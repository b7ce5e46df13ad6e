"""What the first episodes of a training take back at their end, against what the task pays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.adapters._evidence import Mask
from pbim.shaping import Shaping, warn_of_debt
from pbim.truncation import Ends

_ENOUGH = 20
"""After how many settled episodes nobody watches any more, once the task has paid something."""


class DebtWatch:
    """Warns, once, if ends of episodes take back more than the task pays: reaching the goal would be a loss."""

    def __init__(self, shaping: Shaping[Any]) -> None:
        self._shaping = shaping
        self._task: NDArray[np.float64] = np.zeros(1)  # of every environment, from the first step on
        self._most = self._settled = 0.0
        self._episodes = 0

    def forget(self, where: Mask) -> None:
        """Forget the running episodes where true."""
        self._task = np.where(where, 0.0, self._task)

    def is_over(
        self, extrinsic: NDArray[np.floating], shaped: NDArray[np.floating], end: Ends[Mask] | None, valid: Mask | None
    ) -> bool:
        """Take note of one step, all of shape (num_envs,); tell whether the watch is over, with a warning or without.

        An end in which the task has paid nothing says nothing of what it pays: sparse tasks are watched for longer.
        """
        self._task = self._task + (extrinsic if valid is None else np.where(valid, extrinsic, 0))
        if end is None:
            return False
        over, settled = (part if valid is None else part & valid for part in (end.over, end.settled))
        if not np.count_nonzero(over):
            return False
        self._most = max(self._most, float(np.abs(self._task[over]).max()))
        self._task[over] = 0
        self._settled += float(np.abs(shaped[settled]).sum())
        self._episodes += int(np.count_nonzero(settled))
        if not self._most or not self._episodes:
            return False
        mean = self._settled / self._episodes
        warn_of_debt(self._shaping, mean, self._most)
        return mean > self._most or self._episodes >= _ENOUGH
