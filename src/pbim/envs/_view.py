"""What a MiniGrid agent sees: a 7x7 window turned to its heading, with walls and shut doors hiding what is behind.

Nothing but the agent's place, its heading, the door's place and whether it is open decides what is hidden (key and
goal hide nothing), so visibility is a table over those, built once per size; the rest is arithmetic on coordinates.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pbim.envs._layout import CARRIED, OPEN, DoorKeyState

VIEW = 7
FORWARD_X = (1, 0, -1, 0)
FORWARD_Y = (0, 1, 0, -1)

# MiniGrid's (object, colour, state) of a cell, one byte each, lowest first.
UNSEEN, EMPTY, WALL, DOOR, KEY, GOAL = 0x000000, 0x000001, 0x000502, 0x000404, 0x000405, 0x000108


def observe(state: DoorKeyState, size: int) -> jax.Array:
    """Encode the agent's view (7, 7, 3) uint8, indexed [right, down, channel] as MiniGrid does.

    >>> import jax
    >>> from pbim.envs._layout import sample_layout
    >>> from pbim.envs._view import observe
    >>> observe(sample_layout(jax.random.key(0), size=8), size=8)[3, 6].tolist()  # the agent's own, empty cell
    [1, 0, 0]
    """
    rows = visible_rows(state, size)
    across = jnp.arange(VIEW)[:, None]
    down = jnp.arange(VIEW)[None, :]
    x, y = world_coordinates(state.agent % size, state.agent // size, state.heading, across, down)
    door_x, door_y = state.door % size, state.door // size
    key_x, key_y = state.key % size, state.key // size  # a carried key is at (0, 0): a wall, mended below

    wall = (x <= 0) | (x >= size - 1) | (y <= 0) | (y >= size - 1) | (x == door_x)
    cell = jnp.where(wall, WALL, EMPTY)
    cell = jnp.where((x == size - 2) & (y == size - 2), GOAL, cell)
    cell = jnp.where((x == door_x) & (y == door_y), DOOR + (state.door_state << 16), cell)
    cell = jnp.where((x == key_x) & (y == key_y) & (state.key != CARRIED), KEY, cell)
    in_hand = jnp.where(state.key == CARRIED, KEY, EMPTY)
    cell = jnp.where((across == VIEW // 2) & (down == VIEW - 1), in_hand, cell)
    cell = jnp.where((rows[None, :] >> across) & 1, cell, UNSEEN)
    return ((cell[:, :, None] >> (8 * jnp.arange(3))) & 255).astype(jnp.uint8)


def visible_rows(state: DoorKeyState, size: int) -> jax.Array:
    """Look up which cells of the view are seen: bit i of entry j of (7,) uint8 is the cell i across, j down."""
    doors = (size - 4) * (size - 3)
    door = (state.door % size - 2) * (size - 3) + state.door // size - 1
    index = ((state.agent * 4 + state.heading) * doors + door) * 2 + (state.door_state == OPEN)
    return jnp.asarray(visibility_table(size))[index]


def world_coordinates(x: Any, y: Any, heading: Any, across: Any, down: Any) -> tuple[Any, Any]:
    """Turn view coordinates into grid coordinates, for an agent at (x, y) who stands at (3, 6) of its view."""
    forward_x = 1 * (heading == 0) - 1 * (heading == 2)
    forward_y = 1 * (heading == 1) - 1 * (heading == 3)
    ahead, right = VIEW - 1 - down, across - VIEW // 2
    return x + forward_x * ahead - forward_y * right, y + forward_y * ahead + forward_x * right


@cache
def visibility_table(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Compute every outcome of MiniGrid's ``Grid.process_vis`` on DoorKey grids: (entries, 7) rows of 7 bits.

    A seen cell that hides nothing shows its neighbours to the left and right and the three cells ahead of those and
    itself; rows are settled from the agent's own towards the horizon. Entries are ordered by agent, heading, door
    and open, as :func:`visible_rows` looks them up.
    """
    axes = np.arange(size * size), np.arange(4), np.arange((size - 4) * (size - 3)), np.arange(2)
    agent, heading, door, is_open = np.meshgrid(*axes, indexing="ij", copy=False)
    split, door_y = 2 + door // (size - 3), 1 + door % (size - 3)

    def clear(down: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        bits = np.zeros(agent.shape, np.uint8)
        for across in range(VIEW):
            x, y = world_coordinates(agent % size, agent // size, heading, across, down)
            border = (x <= 0) | (x >= size - 1) | (y <= 0) | (y >= size - 1)
            hides = border | ((x == split) & ((y != door_y) | (is_open == 0)))
            bits |= np.where(hides, 0, 1 << across).astype(np.uint8)
        return bits

    rows = np.zeros((*agent.shape, VIEW), np.uint8)
    seen = np.full(agent.shape, 1 << VIEW // 2, np.uint8)
    for down in reversed(range(VIEW)):
        transparent = clear(down)
        for _ in range(VIEW - 1):
            seen |= _spread(seen & transparent)
        rows[..., down] = seen
        seen = _spread(seen & transparent)
    return rows.reshape(-1, VIEW)


def _spread(bits: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.asarray(bits | (bits << 1) & (2**VIEW - 1) | (bits >> 1), np.uint8)
