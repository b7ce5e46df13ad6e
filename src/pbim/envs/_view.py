"""What a MiniGrid agent sees: a 7x7 window turned to its heading, with walls and shut doors hiding what is behind.

Nothing but the agent's place, its heading and the door decides what is hidden (key and goal hide nothing), so which
cells are visible is a table over those, built once per size. So is, on grids up to 8x8, the whole view but for the key:
two megabytes that double the speed. At 16x16 it would take seventy, and the same formula is computed instead.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pbim.envs._layout import CARRIED, OPEN, DoorKeyState

VIEW = 7
LARGEST_TABULATED = 8

# MiniGrid's (object, colour, state) of a cell, one byte each, lowest first.
UNSEEN, EMPTY, WALL, DOOR, KEY, GOAL = 0x000000, 0x000001, 0x000502, 0x000404, 0x000405, 0x000108

_KEY_BYTES = np.array([KEY >> shift & 255 for shift in (0, 8, 16)], np.uint8)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def observe(state: DoorKeyState, size: int) -> jax.Array:
    """Encode the agent's view (7, 7, 3) uint8, indexed [across, down, channel] as MiniGrid does.

    >>> import jax
    >>> from pbim.envs._layout import sample_layout
    >>> from pbim.envs._view import observe
    >>> observe(sample_layout(jax.random.key(0), size=8), size=8)[3, 6].tolist()  # the agent's own, empty cell
    [1, 0, 0]
    """
    agent, heading, key, door, door_state, _ = state
    key = jnp.where(key == CARRIED, agent, key)  # MiniGrid shows a carried key at the agent's own cell
    key_across, key_down = view_coordinates(key % size - agent % size, key // size - agent // size, heading)
    across, down, _ = _axes(jnp)
    at_key = (across == key_across) & (down == key_down)
    if size > LARGEST_TABULATED:
        return jnp.asarray(encode(jnp, visible_rows(state, size), agent, heading, door, door_state, at_key, size))
    view = _entry(keyless_table(size), 3 * _place(agent, heading, door, size) + door_state)
    return jnp.where(at_key & (view[:, :, :1] != UNSEEN), _KEY_BYTES, view)


def encode(xp: Any, rows: Any, agent: Any, heading: Any, door: Any, door_state: Any, at_key: Any, size: int) -> Any:
    """Compute views (..., 7, 7, 3) uint8; rows (..., 7) say what is visible, the other arguments are (..., 1, 1, 1)."""
    across, down, channel = _axes(xp)
    x, y = world_coordinates(agent % size, agent // size, heading, across, down)
    wall = (x <= 0) | (x >= size - 1) | (y <= 0) | (y >= size - 1) | (x == door % size)
    cell = xp.where(wall, WALL, EMPTY)
    cell = xp.where((x == size - 2) & (y == size - 2), GOAL, cell)
    cell = xp.where((x == door % size) & (y == door // size), DOOR + (door_state << 16), cell)
    cell = xp.where((across == VIEW // 2) & (down == VIEW - 1), EMPTY, cell)
    cell = xp.where(at_key, KEY, cell)
    visible = (rows[..., None, :, None] >> across) & 1
    return (xp.where(visible, cell, UNSEEN) >> 8 * channel & 255).astype(np.uint8)


def visible_rows(state: DoorKeyState, size: int) -> jax.Array:
    """Look up which cells of the view are visible: bit i of entry j of (7,) uint8 is the cell i across, j down."""
    place = _place(state.agent, state.heading, state.door, size)
    return _entry(visibility_table(size), 2 * place + (state.door_state == OPEN))


def world_coordinates(x: Any, y: Any, heading: Any, across: Any, down: Any) -> tuple[Any, Any]:
    """Turn view coordinates into grid coordinates, for an agent at (x, y) who stands at (3, 6) of its view."""
    forward_x, forward_y = _forward(heading)
    ahead, right = VIEW - 1 - down, across - VIEW // 2
    return x + forward_x * ahead - forward_y * right, y + forward_y * ahead + forward_x * right


def view_coordinates(dx: Any, dy: Any, heading: Any) -> tuple[Any, Any]:
    """Turn grid coordinates relative to the agent into (across, down) of its view, which may lie outside."""
    forward_x, forward_y = _forward(heading)
    return VIEW // 2 + forward_x * dy - forward_y * dx, VIEW - 1 - forward_x * dx - forward_y * dy


def _forward(heading: Any) -> tuple[Any, Any]:
    return 1 * (heading == 0) - 1 * (heading == 2), 1 * (heading == 1) - 1 * (heading == 3)


def _axes(xp: Any) -> tuple[Any, Any, Any]:
    """Count across (7, 1, 1), down (7, 1) and channels (3,); XLA is much faster with counters than with constants."""
    return xp.arange(VIEW)[:, None, None], xp.arange(VIEW)[:, None], xp.arange(3)


@cache
def keyless_table(size: int) -> Bytes:
    """Tabulate the views without the key for all places and door states: (entries, 7, 7, 3)."""
    agent, heading, door, door_state = (axis.reshape(-1, 1, 1, 1) for axis in _places(size, 3))
    rows = visibility_table(size).reshape(-1, 2, VIEW)[:, [1, 0, 0]].reshape(-1, VIEW)  # open, closed, locked
    return np.asarray(encode(np, rows, agent, heading, door, door_state, False, size))


@cache
def visibility_table(size: int) -> Bytes:
    """Tabulate MiniGrid's ``Grid.process_vis`` for all places, door shut and open: (entries, 7) rows of 7 bits.

    A visible cell that hides nothing shows its neighbours to the left and right and the three cells ahead of those and
    itself; rows are settled from the agent's own towards the horizon.
    """
    agent, heading, door, is_open = _places(size, 2)

    def transparent(down: int) -> Bytes:
        bits = np.zeros(agent.shape, np.uint8)
        for across in range(VIEW):
            x, y = world_coordinates(agent % size, agent // size, heading, across, down)
            border = (x <= 0) | (x >= size - 1) | (y <= 0) | (y >= size - 1)
            hides = border | (x == door % size) & ((y != door // size) | (is_open == 0))
            bits |= np.where(hides, 0, 1 << across).astype(np.uint8)
        return bits

    rows = np.zeros((len(agent), VIEW), np.uint8)
    visible = np.full(len(agent), 1 << VIEW // 2, np.uint8)
    for down in reversed(range(VIEW)):
        clear = transparent(down)
        for _ in range(VIEW - 1):
            visible |= _spread(visible & clear)
        rows[:, down] = visible
        visible = _spread(visible & clear)
    return rows


def _spread(bits: Bytes) -> Bytes:
    return np.asarray(bits | (bits << 1) & (2**VIEW - 1) | (bits >> 1), np.uint8)


def _places(size: int, door_states: int) -> tuple[np.ndarray[Any, Any], ...]:
    """All agents, headings, doors and door states, (entries,) each, in the order of :func:`_place`."""
    doors = np.array([y * size + x for x in range(2, size - 2) for y in range(1, size - 2)])
    axes = np.meshgrid(np.arange(size**2), np.arange(4), doors, np.arange(door_states), indexing="ij")
    return tuple(axis.ravel() for axis in axes)


def _place(agent: jax.Array, heading: jax.Array, door: jax.Array, size: int) -> jax.Array:
    doors = (size - 4) * (size - 3)
    return (agent * 4 + heading) * doors + (door % size - 2) * (size - 3) + door // size - 1


def _entry(table: Bytes, index: jax.Array) -> jax.Array:
    return jnp.asarray(table).at[index].get(mode="promise_in_bounds")
