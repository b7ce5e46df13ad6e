"""MiniGrid's DoorKey as a pure JAX environment: the same rules, layouts and views, hundreds of times as fast.

Chevalier-Boisvert et al. 2023, "Minigrid & Miniworld"; rules compared step by step with the ``minigrid`` package.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from pbim.config import Component
from pbim.envs import _view
from pbim.envs._layout import CARRIED, CLOSED, LOCKED, OPEN, DoorKeyState, sample_layout
from pbim.envs._shortest import shortest
from pbim.envs.protocol import Timestep
from pbim.errors import InputError

TURN_LEFT, TURN_RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
Size = Literal[5, 6, 8, 16]
SIZES: tuple[Size, ...] = get_args(Size)


@dataclass(frozen=True, kw_only=True)
class DoorKey(Component):
    """Fetch the key, open the door, reach the goal; observation: the 7x7x3 partial view of MiniGrid, uint8.

    Actions are MiniGrid's: turn left, turn right, forward, pick up, drop, toggle, done. ``reward="paper"`` pays 1 at
    the goal (Forbes et al. 2024), ``"minigrid"`` pays ``1 - 0.9 * step / max_steps``; nothing is paid elsewhere.
    ``max_steps`` defaults to ``10 * size**2``.

    >>> import jax
    >>> from pbim.envs import DoorKey
    >>> env = DoorKey(size=8)
    >>> state, obs = env.reset(jax.random.key(0))
    >>> timestep = jax.jit(env.step)(jax.random.key(1), state, 0)
    >>> obs.shape, env.max_steps, float(timestep.reward)
    ((7, 7, 3), 640, 0.0)
    """

    kind: ClassVar[str] = "doorkey"

    size: Size = 8
    reward: Literal["paper", "minigrid"] = "paper"
    max_steps: int = 0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise InputError(f"size must be one of {', '.join(map(str, SIZES))}, received {self.size!r}: choose one")
        super().__post_init__()
        if self.max_steps < 0:
            raise InputError(f"max_steps must be at least 0, received {self.max_steps}: 0 stands for 10 * size**2")
        if self.max_steps == 0:
            object.__setattr__(self, "max_steps", 10 * self.size**2)

    @property
    def num_actions(self) -> int:
        """Seven, of which ``done`` does nothing."""
        return 7

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Across, down, (object, colour, state)."""
        return (_view.VIEW, _view.VIEW, 3)

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """MiniGrid's codes are bytes."""
        return np.dtype(np.uint8)

    @property
    def goal(self) -> int:
        """Cell index of the goal, in the bottom right corner of the right room."""
        return (self.size - 1) * self.size - 2

    @property
    def num_count_keys(self) -> int:
        """Number of values of :meth:`count_key`."""
        return 2 * self.size**2

    def count_key(self, state: DoorKeyState) -> jax.Array:
        """Index () of (x, y, carrying key), what the paper's count bonus counts."""
        return 2 * state.agent + (state.key == CARRIED)

    def optimal_length(self, state: DoorKeyState) -> jax.Array:
        """Return the fewest steps () to the goal from a state that ``reset`` returned; a closed form, for any loop."""
        return shortest(state, self.size)

    def reset(self, key: jax.Array) -> tuple[DoorKeyState, jax.Array]:
        """Draw a layout and look at it."""
        state = sample_layout(key, self.size)
        return state, self.observe(state)

    def observe(self, state: DoorKeyState) -> jax.Array:
        """Return the agent's view (7, 7, 3) uint8."""
        return _view.observe(state, self.size)

    def step(self, key: jax.Array, state: DoorKeyState, action: jax.Array | int) -> Timestep[DoorKeyState]:
        """Take one action; the rules are deterministic, so ``key`` is not used."""
        del key
        action = jnp.asarray(action, jnp.int32)
        front = state.agent + jnp.array([1, self.size, -1, -self.size])[state.heading]
        at_key, at_door, at_goal = front == state.key, front == state.door, front == self.goal
        carrying = state.key == CARRIED
        floor = ~(self._is_wall(front, state.door) | at_key | at_door | at_goal)

        moves = (action == FORWARD) & (floor | at_goal | at_door & (state.door_state == OPEN))
        picks = (action == PICKUP) & at_key
        drops = (action == DROP) & carrying & floor
        toggles = (action == TOGGLE) & at_door & (carrying | (state.door_state != LOCKED))

        following = DoorKeyState(
            agent=jnp.where(moves, front, state.agent),
            heading=(state.heading + (action == TURN_RIGHT) - (action == TURN_LEFT)) % 4,
            key=jnp.where(picks, CARRIED, jnp.where(drops, front, state.key)),
            door=state.door,
            door_state=jnp.where(toggles, jnp.where(state.door_state == OPEN, CLOSED, OPEN), state.door_state),
            step=state.step + 1,
        )
        terminated = moves & at_goal
        return Timestep(
            following,
            self.observe(following),
            jnp.where(terminated, self._goal_reward(following.step), 0.0),
            terminated,
            following.step >= self.max_steps,
        )

    def _is_wall(self, cell: jax.Array, door: jax.Array) -> jax.Array:
        x, y = cell % self.size, cell // self.size
        last = self.size - 1
        border = (x == 0) | (x == last) | (y == 0) | (y == last)
        return border | (x == door % self.size) & (cell != door)

    def _goal_reward(self, step: jax.Array) -> jax.Array:
        if self.reward == "paper":
            return jnp.ones((), jnp.float32)
        by_step = 1 - 0.9 * (np.arange(self.max_steps + 1) / self.max_steps)  # MiniGrid's doubles, to the last bit
        return jnp.asarray(by_step, jnp.float32)[step]
