"""The length of a DoorKey layout's shortest solution, in closed form: cheap enough for a compiled training loop.

Both rooms are empty rectangles, so the fewest steps between two poses of one room are its distances plus the fewest
turns. The key is in the way before it is picked up, but never costs anything: it is taken by the very step that would
have walked into it, from one of its four sides. Equal to the search of :mod:`pbim.envs.optimal` on every layout of
sizes 5, 6 and 8 and on a sample of size 16 (tests/envs/test_optimal.py).
"""

import jax
import jax.numpy as jnp

from pbim.envs._layout import DoorKeyState

_EAST, _SOUTH, _WEST, _NORTH = range(4)
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
_PICKUP = _TOGGLE = _ENTER = _TURN = 1


def shortest(state: DoorKeyState, size: int) -> jax.Array:
    """Return the fewest steps () from the start of an episode (key on the floor, door locked) to the goal."""
    agent_x, agent_y = state.agent % size, state.agent // size
    key_x, key_y = state.key % size, state.key // size
    door_x, door_y = state.door % size, state.door // size
    ways = []
    for heading, (ahead_x, ahead_y) in enumerate(_AHEAD):
        x, y = key_x - ahead_x, key_y - ahead_y  # the cell from which the key lies ahead
        to_key = _walk(x - agent_x, y - agent_y, state.heading, heading)
        to_door = _walk(door_x - 1 - x, door_y - y, heading, _EAST)
        inside = (x >= 1) & (x < door_x) & (y >= 1) & (y <= size - 2)
        ways.append(jnp.where(inside, to_key + _PICKUP + to_door + _TOGGLE + _ENTER, size**4))
    to_goal = (size - 2 - door_x) + _TURN + (size - 2 - door_y)  # the goal never lies in the door's row
    return jnp.min(jnp.stack(ways), axis=0) + to_goal


def _walk(x: jax.Array, y: jax.Array, heading: jax.Array | int, then: int) -> jax.Array:
    """Return the fewest steps to move by (x, y) in an empty room and face ``then``."""
    across, along = jnp.where(x > 0, _EAST, _WEST), jnp.where(y > 0, _SOUTH, _NORTH)
    corner = 1 + jnp.minimum(
        _turns(heading, across) + _turns(along, then), _turns(heading, along) + _turns(across, then)
    )
    straight_x = _turns(heading, across) + _turns(across, then)
    straight_y = _turns(heading, along) + _turns(along, then)
    turns = jnp.where(
        x == 0, jnp.where(y == 0, _turns(heading, then), straight_y), jnp.where(y == 0, straight_x, corner)
    )
    return abs(x) + abs(y) + turns


def _turns(heading: jax.Array | int, then: jax.Array | int) -> jax.Array:
    quarter = jnp.asarray(then - heading) % 4
    return jnp.minimum(quarter, 4 - quarter)
