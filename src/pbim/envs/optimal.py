"""How many steps a perfect DoorKey player needs: breadth-first search over many layouts at once.

The search leaves out dropping the key, shutting the door and ``done``, because they never help. Take any plan that
reaches the goal and leave out its first drop or shutting, and the pickup or opening that later undoes it, if any. The
plan is shorter, and in between the grid differs only in that the key is held instead of lying somewhere, or the door
is open instead of shut: no move is blocked that was not, and no toggle fails that did not. So the rest of the plan
still works. Repeating this removes them all. What remains is a search over cell, heading, key held, door open; a key
that lies in the way still has to be picked up, and the search knows.
"""

from typing import Any

import numpy as np

from pbim.envs._layout import CARRIED, LOCKED, OPEN, DoorKeyState
from pbim.envs.doorkey import DoorKey

Bools = np.ndarray[Any, np.dtype[np.bool_]]


def optimal_steps(env: DoorKey, states: DoorKeyState) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Count the fewest steps from each state (...) to the goal; shape (...), -1 where the goal cannot be reached.

    ``states`` may lie anywhere in an episode; the steps already taken and the step limit do not matter.

    >>> import jax
    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.optimal import optimal_steps
    >>> env = DoorKey(size=8)
    >>> states, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1000))
    >>> lengths = optimal_steps(env, states)
    >>> lengths.shape, bool((lengths > 0).all())
    ((1000,), True)
    """
    shape = np.shape(states.agent)
    flat = DoorKeyState(*(np.asarray(field).reshape(-1) for field in states))  # type: ignore[arg-type]
    search = _Search(env, flat)
    steps = np.full(len(search.reached), -1, np.int64)
    for step in range(search.reached[0].size if len(steps) else 0):
        arrived = search.reached[..., env.goal].any(axis=(1, 2, 3))
        steps[arrived & (steps < 0)] = step
        if (steps >= 0).all() or not search.advance():
            break
    return steps.reshape(shape)


class _Search:
    """Everything reached so far, (layouts, key held, door open, heading, cell)."""

    def __init__(self, env: DoorKey, states: DoorKeyState) -> None:
        size, cells = env.size, np.arange(env.size**2)
        agent, heading, key, door, door_state = (np.asarray(field)[:, None] for field in states[:5])
        x, y = cells % size, cells // size
        border = (x == 0) | (x == size - 1) | (y == 0) | (y == size - 1)
        wall = border | (x == door % size) & (cells != door)
        lies, carried = (cells == key) & (key != CARRIED), (key == CARRIED)[:, 0]
        is_door, is_open = cells == door, (door_state == OPEN)[:, 0]

        self.deltas = (1, size, -1, -size)
        key_in_the_way = lies[:, None, None] & np.array([True, False])[:, None, None]
        door_in_the_way = is_door[:, None, None] & np.array([True, False])[:, None]
        self.passable: Bools = ~(wall[:, None, None] | key_in_the_way | door_in_the_way)
        self.facing_key = np.stack([np.roll(lies, -delta, axis=1) for delta in self.deltas], 1)
        self.facing_door = np.stack([np.roll(is_door, -delta, axis=1) for delta in self.deltas], 1)
        self.locked = door_state[:, :, None] == LOCKED
        self.reached: Bools = np.zeros((len(agent), 2, 2, 4, len(cells)), bool)
        rows = np.arange(len(agent))
        self.reached[rows, carried.astype(int), is_open.astype(int), heading[:, 0], agent[:, 0]] = True
        self.frontier = self.reached.copy()

    def advance(self) -> bool:
        """Take every useful action from every newly reached place; False when that leads nowhere new."""
        now = self.frontier
        following = np.roll(now, 1, axis=3) | np.roll(now, -1, axis=3)
        for heading, delta in enumerate(self.deltas):
            following[:, :, :, heading] |= np.roll(now[:, :, :, heading], delta, axis=-1) & self.passable
        following[:, 1] |= now[:, 0] & self.facing_key[:, None]
        following[:, 1, 1] |= now[:, 1, 0] & self.facing_door
        following[:, 0, 1] |= now[:, 0, 0] & self.facing_door & ~self.locked
        self.frontier = following & ~self.reached
        self.reached |= following
        return bool(self.frontier.any())
