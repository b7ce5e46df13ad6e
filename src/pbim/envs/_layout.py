"""DoorKey's state and the draw of its layouts, with MiniGrid's distribution.

MiniGrid draws in this order: the column of the dividing wall from [2, n-3]; the agent's cell from the room left of
it; a heading; the door's row from [1, n-3] (never the last row of the room); the key's cell from the same room, not
under the agent. Every draw is uniform (its rejection sampling over the room's rectangle is uniform over free cells).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

OPEN, CLOSED, LOCKED = range(3)
CARRIED = 0
"""The key's cell while the agent holds it: cell 0 is a corner of the outer wall, where nothing can lie."""


class DoorKeyState(NamedTuple):
    """A whole DoorKey grid in six integers (); cells are ``row * size + column``.

    The dividing wall fills the door's column, and a carried key has cell ``CARRIED``.
    """

    agent: jax.Array
    heading: jax.Array
    key: jax.Array
    door: jax.Array
    door_state: jax.Array
    step: jax.Array


def sample_layout(key: jax.Array, size: int) -> DoorKeyState:
    """Draw a layout from 64 random bits, without rejection; probabilities are off by less than 1e-5 of themselves.

    Each of the two 32-bit words is read in mixed radix, as (wall, door, heading) and as (agent, key): the largest
    product of radices, 168 * 167 cells at size 16, divides 2**32 to within that margin.

    >>> import jax
    >>> from pbim.envs._layout import sample_layout
    >>> state = sample_layout(jax.random.key(0), size=5)
    >>> int(state.door % 5), int(state.door_state)
    (2, 2)
    """
    walls, objects = jax.random.bits(key, (2,), jnp.uint32)
    walls, split = walls // (size - 4), 2 + walls % (size - 4)
    walls, door_row = walls // (size - 3), 1 + walls % (size - 3)
    heading = walls % 4

    columns = split - 1
    cells = columns * (size - 2)
    objects, agent = objects // cells, objects % cells
    other = objects % (cells - 1)
    other = other + (other >= agent)  # skips the agent's cell

    def cell_of(index: jax.Array) -> jax.Array:
        return jnp.asarray((1 + index // columns) * size + 1 + index % columns, jnp.int32)

    return DoorKeyState(
        agent=cell_of(agent),
        heading=heading.astype(jnp.int32),
        key=cell_of(other),
        door=(door_row * size + split).astype(jnp.int32),
        door_state=jnp.int32(LOCKED),
        step=jnp.int32(0),
    )
