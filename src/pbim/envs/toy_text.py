"""Gymnasium's toy-text environments as arrays, for compiled Q-learning."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from pbim.envs._table import Table, TableEnvironment
from pbim.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ToyText(TableEnvironment):
    """A toy-text environment of Gymnasium's, such as FrozenLake-v1, read from its table when it is first needed.

    Attributes:
        id: The name that it is registered by.
        max_steps: Every so many steps are truncated, whatever limit it is registered with.

    >>> from pbim.envs import ToyText
    >>> env = ToyText(id="CliffWalking-v1", max_steps=200)
    >>> env.num_states, env.num_actions
    (48, 4)

    """

    kind: ClassVar[str] = "toy-text"

    id: str
    max_steps: int

    @property
    def table(self) -> Table:
        """The outcomes of every state and action.

        Raises:
            InputError: If no environment of that name has a table.

        """
        return _read(self.id)


@cache
def _read(name: str) -> Table:
    import gymnasium

    try:
        outer = gymnasium.make(name)
    except gymnasium.error.Error as error:
        raise InputError(f"id must be registered with Gymnasium, received {name!r}: {error}".splitlines()[0]) from None
    env: Any = outer.unwrapped
    if not hasattr(env, "P") or not hasattr(env, "initial_state_distrib"):
        raise InputError(f"id must be a toy-text environment with a table P, received {name!r}: try FrozenLake-v1")
    width = max(len(outcomes) for row in env.P.values() for outcomes in row.values())
    table = np.zeros((4, len(env.P), len(env.P[0]), width))
    for state, row in env.P.items():
        for action, outcomes in row.items():
            padded = [*outcomes, *[(0.0, *outcomes[-1][1:])] * (width - len(outcomes))]
            table[:, state, action] = np.array([tuple(map(float, outcome)) for outcome in padded]).T
    outer.close()
    return Table(
        chance=np.cumsum(table[0], axis=-1),
        successor=table[1].astype(np.int32),
        reward=table[2],
        terminal=table[3] > 0,
        start=np.cumsum(env.initial_state_distrib),
    )
