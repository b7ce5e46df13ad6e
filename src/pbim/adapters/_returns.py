"""What adapters log: the returns of the latest episodes, and the certificate in numbers."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from pbim.adapters._evidence import Mask, TrainingReport

_NAMES = ("extrinsic_return", "intrinsic_return", "shaping_return_undiscounted", "shaping_return_discounted")


class EpisodeReturns:
    """Sums of R, F, F' and gamma^t F' over episodes; ``latest`` keeps those of the last ``window`` to end."""

    def __init__(self, num_envs: int, gamma: float, window: int = 100) -> None:
        self.latest: deque[NDArray[np.float64]] = deque(maxlen=window)
        self._sums, self._discounts, self._gamma = np.zeros((len(_NAMES), num_envs)), np.ones(num_envs), gamma

    def add(self, rewards: NDArray[np.floating], over: Mask) -> None:
        """Take note of one step.

        Args:
            rewards: R, F and F', shape (3, num_envs).
            over: Where the episode is over, (num_envs,).

        """
        self._sums[:-1] += rewards
        self._sums[-1] += self._discounts * rewards[-1]
        self._discounts *= self._gamma
        ended = np.flatnonzero(over)
        if len(ended):
            self.latest.extend(self._sums[:, ended[-(self.latest.maxlen or 0) :]].T.copy())
            self._sums[:, ended], self._discounts[ended] = 0, 1


def scalars(returns: EpisodeReturns, report: TrainingReport) -> dict[str, float]:
    """Return what a log shows: mean returns once an episode has ended, the verdict once one has been certified."""
    found: dict[str, float] = {}
    if returns.latest:
        found |= dict(zip(_NAMES, np.mean(returns.latest, axis=0).tolist(), strict=True))
    if report.episodes:
        found |= {"certificate_ok": float(report.ok), "certificate_worst": report.worst}
    return found | {
        "episodes_certified": report.episodes,
        "episodes_bootstrapped": report.bootstrapped,
        "episodes_abandoned": report.abandoned,
    }
