"""Environments of other JAX libraries behind our protocol, and MiniGrid layouts as our states.

Each adapter needs its own library only when it is used. Foreign environments reset themselves inside ``step``;
the adapters call what lies beneath, so that the true last observation and the two kinds of ends stay visible.
"""

from typing import Any

import jax.numpy as jnp

from pbim.envs._layout import CARRIED, CLOSED, LOCKED, OPEN, DoorKeyState


def doorkey_state(env: Any) -> DoorKeyState:
    """Read the state of a (possibly wrapped) ``minigrid`` DoorKey environment, at any moment of an episode.

    >>> import gymnasium, minigrid
    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.foreign import doorkey_state
    >>> theirs = gymnasium.make("MiniGrid-DoorKey-8x8-v0")
    >>> obs, _ = theirs.reset(seed=0)
    >>> bool((DoorKey(size=8).observe(doorkey_state(theirs)) == obs["image"]).all())
    True
    """
    env = env.unwrapped
    size = env.width
    cells = {kind: index for index, cell in enumerate(env.grid.grid) if cell and (kind := cell.type) in ("key", "door")}
    door = env.grid.grid[cells["door"]]
    x, y = env.agent_pos
    return DoorKeyState(
        agent=jnp.int32(int(y) * size + int(x)),
        heading=jnp.int32(int(env.agent_dir)),
        key=jnp.int32(CARRIED if env.carrying else cells["key"]),
        door=jnp.int32(cells["door"]),
        door_state=jnp.int32(OPEN if door.is_open else LOCKED if door.is_locked else CLOSED),
        step=jnp.int32(env.step_count),
    )
