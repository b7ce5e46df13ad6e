"""RiverSwim, an endless task: Strehl & Littman 2008."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from pbim.envs._table import Table, TableEnvironment


@dataclass(frozen=True, kw_only=True)
class RiverSwim(TableEnvironment):
    """Six states in a row, left and right: the right end pays most and is hard to swim to.

    Left drifts with the current; right goes .3 forward, .6 nowhere and .1 back, at the ends .3 and .7. Staying pays
    .005 at the left end and 1 at the right one. The first state is the second or the third. Nothing terminates: pass
    ``truncation="continue"`` to a learner to take ``max_steps`` for the edge of a window.

    >>> from pbim.envs import RiverSwim
    >>> RiverSwim(max_steps=500).num_states
    6
    """

    kind: ClassVar[str] = "river-swim"

    max_steps: int = 500

    @property
    def table(self) -> Table:
        """The outcomes of every state and action."""
        return _table()


@cache
def _table() -> Table:
    states, chance = np.arange(6), np.zeros((6, 2, 3))
    chance[:, 0] = (1.0, 0.0, 0.0)
    chance[:, 1] = (0.1, 0.6, 0.3)
    chance[0, 1], chance[5, 1] = (0.0, 0.7, 0.3), (0.7, 0.3, 0.0)
    successor = np.clip(states[:, None, None] + np.array([-1, 0, 1]), 0, 5).repeat(2, axis=1).astype(np.int32)
    reward = np.zeros_like(chance)
    reward[0, 0, 0], reward[5, 1, 1] = 0.005, 1.0
    return Table(
        chance=np.cumsum(chance, axis=-1),
        successor=successor,
        reward=reward,
        terminal=np.zeros(chance.shape, bool),
        start=np.cumsum([0, 0.5, 0.5, 0, 0, 0]),
    )
