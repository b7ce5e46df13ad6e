"""Pictures of states, drawn in plain NumPy: DoorKey to the pixel as MiniGrid draws it, CliffWalk in the same manner.

A tile is painted at three times its size, shape over shape, and averaged down. Coordinates run from 0 to 1 within it.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from pbim.envs._layout import CARRIED, DoorKeyState
from pbim.envs._tiles import BLACK, GOAL_GREEN, GREY, RED, YELLOW, Shape, circle, letter, rectangle, triangle
from pbim.envs._view import VIEW, visible_rows, world_coordinates
from pbim.envs.cliff_walk import CliffWalk, CliffWalkState
from pbim.envs.doorkey import DoorKey
from pbim.envs.protocol import Interface
from pbim.errors import InputError

Picture = np.ndarray[Any, np.dtype[np.uint8]]
Paint = tuple[Shape, tuple[float, float, float]]

_FULL = rectangle(0, 1, 0, 1)
_GRID_LINES: list[Paint] = [(rectangle(0, 0.031, 0, 1), GREY), (rectangle(0, 1, 0, 0.031), GREY)]
_DARK_YELLOW = (0.45 * 255, 0.45 * 255, 0.0)
_MEADOW, _LINE, _ROCK, _SHADE, _INK = (198, 217, 157), (173, 194, 130), (170, 125, 82), (126, 88, 58), (47, 49, 60)

_PAINTS: dict[str, list[Paint]] = {
    "empty": _GRID_LINES,
    "wall": [(_FULL, GREY)],
    "goal": [(_FULL, GOAL_GREEN)],
    "key": [
        *_GRID_LINES,
        (rectangle(0.50, 0.63, 0.31, 0.88), YELLOW),
        (rectangle(0.38, 0.50, 0.59, 0.66), YELLOW),
        (rectangle(0.38, 0.50, 0.81, 0.88), YELLOW),
        (circle(0.56, 0.28, 0.190), YELLOW),
        (circle(0.56, 0.28, 0.064), BLACK),
    ],
    "open door": [
        *_GRID_LINES,
        (rectangle(0.88, 1.00, 0.00, 1.00), YELLOW),
        (rectangle(0.92, 0.96, 0.04, 0.96), BLACK),
    ],
    "closed door": [
        (_FULL, YELLOW),
        (rectangle(0.04, 0.96, 0.04, 0.96), BLACK),
        (rectangle(0.08, 0.92, 0.08, 0.92), YELLOW),
        (rectangle(0.12, 0.88, 0.12, 0.88), BLACK),
        (circle(0.75, 0.50, 0.08), YELLOW),
    ],
    "locked door": [
        (_FULL, YELLOW),
        (rectangle(0.06, 0.94, 0.06, 0.94), _DARK_YELLOW),
        (rectangle(0.52, 0.75, 0.50, 0.56), YELLOW),
    ],
    "ground": [(_FULL, _MEADOW), (rectangle(0, 0.05, 0, 1), _LINE), (rectangle(0, 1, 0, 0.05), _LINE)],
    "cliff": [
        (_FULL, _ROCK),
        (rectangle(0, 1, 0.70, 1), _SHADE),
        (rectangle(0.28, 0.33, 0.25, 0.55), _SHADE),
        (rectangle(0.68, 0.73, 0.25, 0.55), _SHADE),
        (rectangle(0, 1, 0, 0.06), _INK),
        (rectangle(0, 1, 0.90, 1), _INK),
    ],
}
_PAINTS["start"] = [*_PAINTS["ground"], (letter("S"), _INK)]
_PAINTS["finish"] = [*_PAINTS["ground"], (letter("G"), _INK)]
_DOORS = ("open door", "closed door", "locked door")


def frame(env: Interface, state: Any, *, tile_size: int = 32, highlight: bool = True) -> Picture:
    """Draw one unbatched state as (rows * tile_size, columns * tile_size, 3) uint8.

    Args:
        env: A CliffWalk or a DoorKey.
        state: A state of it.
        tile_size: The side of a cell in pixels.
        highlight: Brighten what a DoorKey agent sees, as MiniGrid does.

    Raises:
        InputError: If there is no picture of the environment.

    >>> import jax
    >>> from pbim.envs import CliffWalk, frame
    >>> env = CliffWalk()
    >>> frame(env, env.reset(jax.random.key(0))[0]).shape
    (128, 384, 3)

    """
    if isinstance(env, DoorKey):
        return _doorkey(env, state, tile_size, highlight)
    if isinstance(env, CliffWalk):
        return _cliff_walk(env, state, tile_size)
    raise InputError(
        f"env must be CliffWalk or DoorKey to be drawn, received {type(env).__name__}: draw one of those, draw skills "
        "with pbim watch RUN --out skills.png, or step a Gymnasium environment with render_mode='rgb_array'"
    )


def _doorkey(env: DoorKey, state: DoorKeyState, tile_size: int, highlight: bool) -> Picture:
    size = env.size
    agent, heading, key, door, door_state, _ = (int(value) for value in state)
    kinds = np.full(size * size, "empty", dtype=object)
    cells = np.arange(size * size)
    x, y = cells % size, cells // size
    kinds[(x == 0) | (x == size - 1) | (y == 0) | (y == size - 1) | (x == door % size)] = "wall"
    kinds[env.goal] = "goal"
    kinds[door] = _DOORS[door_state]
    if key != CARRIED:
        kinds[key] = "key"
    bright = _seen_cells(state, size) if highlight else np.zeros(size * size, bool)
    tiles = [
        _tile(kinds[cell], tile_size, _agent(heading) if cell == agent else None, bool(bright[cell])) for cell in cells
    ]
    return _mosaic(tiles, size)


def _seen_cells(state: DoorKeyState, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    rows = np.asarray(visible_rows(state, size))
    across, down = np.meshgrid(np.arange(VIEW), np.arange(VIEW), indexing="ij")
    agent = int(state.agent)
    x, y = world_coordinates(agent % size, agent // size, int(state.heading), across, down)
    visible = (rows[down] >> across & 1 == 1) & (x >= 0) & (x < size) & (y >= 0) & (y < size)
    cells = np.zeros(size * size, bool)
    cells[(y * size + x)[visible]] = True
    return cells


def _cliff_walk(env: CliffWalk, state: CliffWalkState, tile_size: int) -> Picture:
    kinds = ["ground"] * env.num_states
    kinds[env.start : env.goal + 1] = ["start", *["cliff"] * (env.width - 2), "finish"]
    walker = int(state.cell)
    tiles = [_tile(kind, tile_size, "walker" if cell == walker else None, False) for cell, kind in enumerate(kinds)]
    return _mosaic(tiles, env.width)


def _mosaic(tiles: list[Picture], columns: int) -> Picture:
    rows = [np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows, axis=0)


def _agent(heading: int) -> str:
    return f"heading {heading}"


_AGENTS: dict[str, list[Paint]] = {
    _agent(heading): [(triangle((0.12, 0.19), (0.87, 0.50), (0.12, 0.81), turn=0.5 * math.pi * heading), RED)]
    for heading in range(4)
}
_AGENTS["walker"] = [(circle(0.5, 0.5, 0.33), _INK), (circle(0.5, 0.5, 0.27), (220, 50, 47))]


@cache
def _tile(kind: str, size: int, agent: str | None, bright: bool) -> Picture:
    fine = 3 * size
    image = np.zeros((fine, fine, 3), np.uint8)
    centres = (np.arange(fine) + 0.5) / fine
    y, x = np.meshgrid(centres, centres, indexing="ij")
    for shape, colour in [*_PAINTS[kind], *(_AGENTS[agent] if agent else [])]:
        image[shape(x, y)] = np.array(colour).astype(np.uint8)
    if bright:
        image = (image + 0.30 * (255 - image)).clip(0, 255).astype(np.uint8)
    return np.asarray(image.reshape(size, 3, size, 3, 3).mean(axis=3).mean(axis=1), np.uint8)
