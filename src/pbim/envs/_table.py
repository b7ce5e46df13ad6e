"""Finite environments given by a table of outcomes."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pbim.config import Component
from pbim.envs.protocol import Timestep
from pbim.errors import InputError


class Table(NamedTuple):
    """K outcomes of every state and action: cumulated probability, successor, reward and end, (S, A, K) each.

    ``start`` (S,) cumulates the distribution of the first state.
    """

    chance: NDArray[np.float64]
    successor: NDArray[np.int32]
    reward: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    start: NDArray[np.float64]


class TableState(NamedTuple):
    """The state's number () and the steps since the reset ()."""

    cell: jax.Array
    step: jax.Array


class TableEnvironment(Component, ABC):
    """What environments with a table share; every ``max_steps``-th step is truncated."""

    max_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps < 1:
            raise InputError(f"max_steps must be at least 1, received {self.max_steps}: raise it")

    @property
    @abstractmethod
    def table(self) -> Table:
        """The outcomes of every state and action."""

    @property
    def num_states(self) -> int:
        """Rows of the table."""
        return len(self.table.chance)

    @property
    def num_actions(self) -> int:
        """Columns of the table."""
        return len(self.table.chance[0])

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """An index has no axes."""
        return ()

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """Indices are 32-bit integers."""
        return np.dtype(np.int32)

    def reset(self, key: jax.Array) -> tuple[TableState, jax.Array]:
        """Draw the first state."""
        cell = _draw(self.table.start, jax.random.uniform(key))
        return TableState(cell, jnp.int32(0)), cell

    def observe(self, state: TableState) -> jax.Array:
        """Return the state's number ()."""
        return state.cell

    def step(self, key: jax.Array, state: TableState, action: jax.Array | int) -> Timestep[TableState]:
        """Draw one of the outcomes of the action."""
        table, here = self.table, (state.cell, action)
        outcome = _draw(jnp.asarray(table.chance, jnp.float32)[here], jax.random.uniform(key))
        cell = jnp.asarray(table.successor)[here][outcome]
        following = TableState(cell, state.step + 1)
        reward = jnp.asarray(table.reward, jnp.float32)[here][outcome]
        terminated = jnp.asarray(table.terminal)[here][outcome]
        return Timestep(following, cell, reward, terminated, following.step % self.max_steps == 0)


def _draw(cumulated: Any, draw: jax.Array) -> jax.Array:
    """Return the first entry whose cumulated probability exceeds the draw; the last where rounding leaves none."""
    return jnp.minimum(jnp.sum(jnp.asarray(cumulated, jnp.float32) <= draw), cumulated.shape[0] - 1).astype(jnp.int32)
