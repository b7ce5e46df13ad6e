"""Cliff walking as the paper plays it: the cliff and the goal both end the episode.

Sutton & Barto 2018, example 6.6, with the rewards of Forbes et al. 2024 (appendix "Cliff Walking Environment").
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pbim.config import Component
from pbim.envs.protocol import Timestep
from pbim.errors import InputError

UP, RIGHT, DOWN, LEFT = range(4)


class CliffWalkState(NamedTuple):
    """Where the agent stands, as a cell index () = row * width + column, and the steps taken ()."""

    cell: jax.Array
    step: jax.Array


class CliffWalkArrays(NamedTuple):
    """The same task as arrays: transition (S, A, S), reward (S, A, S), initial (S,), terminal (S,) bool."""

    transition: np.ndarray[Any, Any]
    reward: np.ndarray[Any, Any]
    initial: np.ndarray[Any, Any]
    terminal: np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class CliffWalk(Component):
    """A grid with a cliff along its bottom row between start (left) and goal (right); observation: the cell index ().

    Actions are Gymnasium's: up, right, down, left. Moves against the border stay put. With probability ``slip`` a
    move goes to one of its two sides instead, so ``slip=2/3`` moves like Gymnasium's slippery CliffWalking. The paper
    leaves the step limit of its 4x12 grid open (only that it is below the 100 of the long one).

    >>> import jax
    >>> from pbim.envs import CliffWalk
    >>> env = CliffWalk(width=50, max_steps=100)
    >>> state, obs = env.reset(jax.random.key(0))
    >>> timestep = env.step(jax.random.key(1), state, 1)
    >>> float(timestep.reward), bool(timestep.terminated), bool(timestep.truncated)
    (-100.0, True, False)
    """

    kind: ClassVar[str] = "cliff-walk"

    width: int = 12
    height: int = 4
    step_reward: float = -1.0
    cliff_reward: float = -100.0
    goal_reward: float = 100.0
    max_steps: int = 50
    slip: float | Fraction = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("width", 3), ("height", 2), ("max_steps", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, received {getattr(self, name)}: raise it")
        if not 0 <= self.slip <= 1:
            raise InputError(f"slip must be a probability in [0, 1], received {self.slip}: 0 never slips")

    @property
    def num_states(self) -> int:
        """Number of cells; observations are below it."""
        return self.width * self.height

    @property
    def num_actions(self) -> int:
        """Up, right, down, left."""
        return 4

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """A cell index has no axes."""
        return ()

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """Cell indices are 32-bit integers."""
        return np.dtype(np.int32)

    @property
    def start(self) -> int:
        """Cell index of the bottom left corner."""
        return (self.height - 1) * self.width

    @property
    def goal(self) -> int:
        """Cell index of the bottom right corner."""
        return self.num_states - 1

    @property
    def num_count_keys(self) -> int:
        """Number of values of :meth:`count_key`."""
        return self.num_states

    def count_key(self, state: CliffWalkState) -> jax.Array:
        """Index () of what a count bonus counts: the cell."""
        return state.cell

    def reset(self, key: jax.Array) -> tuple[CliffWalkState, jax.Array]:  # noqa: ARG002 - there is only one start
        """Stand on the start cell."""
        state = CliffWalkState(jnp.int32(self.start), jnp.int32(0))
        return state, self.observe(state)

    def observe(self, state: CliffWalkState) -> jax.Array:
        """Return the cell index ()."""
        return state.cell

    def step(self, key: jax.Array, state: CliffWalkState, action: jax.Array | int) -> Timestep[CliffWalkState]:
        """Move, and end the episode on the cliff, at the goal (terminated) or at the step limit (truncated)."""
        move = jnp.asarray(action, jnp.int32)
        if self.slip > 0:
            draw, slip = jax.random.uniform(key), float(self.slip)
            move = (move + jnp.where(draw < slip / 2, 1, jnp.where(draw < slip, 3, 0))) % 4
        cell = self._target(jnp, state.cell, move)
        at_goal, fell = cell == self.goal, (cell > self.start) & (cell < self.goal)
        reward = jnp.where(at_goal, self.goal_reward, jnp.where(fell, self.cliff_reward, self.step_reward))
        following = CliffWalkState(cell, state.step + 1)
        return Timestep(
            following,
            self.observe(following),
            reward.astype(jnp.float32),
            at_goal | fell,
            following.step >= self.max_steps,
        )

    def arrays(self, *, exact: bool = False) -> CliffWalkArrays:
        """Return the task, without its step limit, as transition arrays; terminal cells keep to themselves, unpaid.

        ``exact=True`` gives arrays of ``Fraction`` for exact arithmetic (pass ``slip`` as a Fraction then).

        >>> from pbim.envs import CliffWalk
        >>> transition, reward, initial, terminal = CliffWalk().arrays()
        >>> transition.shape, float(reward[36, 1, 37]), int(terminal.sum())
        ((48, 4, 48), -100.0, 11)
        """
        number: Any = Fraction if exact else float
        dtype = object if exact else np.float64
        slip = number(self.slip)
        states = np.arange(self.num_states)
        terminal = states > self.start
        entering = np.full(self.num_states, number(self.step_reward), dtype)
        entering[terminal] = number(self.cliff_reward)
        entering[self.goal] = number(self.goal_reward)

        transition = np.full((self.num_states, self.num_actions, self.num_states), number(0), dtype)
        for action in range(4):
            for turn, probability in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                transition[states, action, self._target(np, states, (action + turn) % 4)] += probability
        transition[terminal] = number(0)
        transition[terminal, :, states[terminal]] = number(1)
        reward = np.where(transition > 0, entering, number(0)).astype(dtype)
        reward[terminal] = number(0)
        initial = np.full(self.num_states, number(0), dtype)
        initial[self.start] = number(1)
        return CliffWalkArrays(transition, reward, initial, terminal)

    def _target(self, xp: Any, cell: Any, move: Any) -> Any:
        row, column = cell // self.width, cell % self.width
        row = xp.clip(row + 1 * (move == DOWN) - 1 * (move == UP), 0, self.height - 1)
        column = xp.clip(column + 1 * (move == RIGHT) - 1 * (move == LEFT), 0, self.width - 1)
        return row * self.width + column
