"""The shapes that tiles are painted with: functions of coordinates (h, w) in the unit square to masks (h, w)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

BLACK, GREY, RED, GOAL_GREEN, YELLOW = (0, 0, 0), (100, 100, 100), (255, 0, 0), (0, 255, 0), (255, 255, 0)

_GLYPHS = {
    "S": (".###.", "#...#", "#....", ".###.", "....#", "#...#", ".###."),
    "G": (".###.", "#...#", "#....", "#.###", "#...#", "#...#", ".###."),
}


def rectangle(left: float, right: float, top: float, bottom: float) -> Shape:
    """Cover everything between four sides, these included."""
    return lambda x, y: (x >= left) & (x <= right) & (y >= top) & (y <= bottom)


def circle(centre_x: float, centre_y: float, radius: float) -> Shape:
    """Cover a disc with its rim."""
    return lambda x, y: (x - centre_x) * (x - centre_x) + (y - centre_y) * (y - centre_y) <= radius * radius


def triangle(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float], *, turn: float = 0.0) -> Shape:
    """Cover a triangle turned about the tile's centre, by barycentric coordinates in MiniGrid's mixed precision."""
    corner, first, second = (np.array(point, np.float32) for point in (a, c, b))
    v0, v1 = first - corner, second - corner
    dot00, dot01, dot11 = v0 @ v0, v0 @ v1, v1 @ v1
    scale = 1 / (dot00 * dot11 - dot01 * dot01)
    cosine, sine = math.cos(-turn), math.sin(-turn)

    def inside(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        x, y = x - 0.5, y - 0.5
        turned_x, turned_y = 0.5 + x * cosine - y * sine, 0.5 + y * cosine + x * sine
        v2x, v2y = turned_x - corner[0], turned_y - corner[1]
        dot02, dot12 = v0[0] * v2x + v0[1] * v2y, v1[0] * v2x + v1[1] * v2y
        u = (dot11 * dot02 - dot01 * dot12) * scale
        v = (dot00 * dot12 - dot01 * dot02) * scale
        result: NDArray[Any] = (u >= 0) & (v >= 0) & (u + v < 1)
        return result

    return inside


def letter(name: str) -> Shape:
    """Cover a letter of five by seven dots in the middle of the tile."""
    dots = np.array([[mark == "#" for mark in row] for row in _GLYPHS[name]])
    rows, columns = dots.shape
    size = 0.085
    left, top = 0.5 - columns * size / 2, 0.5 - rows * size / 2

    def inside(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        column, row = np.floor((x - left) / size).astype(int), np.floor((y - top) / size).astype(int)
        within = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        result: NDArray[Any] = within & dots[row.clip(0, rows - 1), column.clip(0, columns - 1)]
        return result

    return inside
