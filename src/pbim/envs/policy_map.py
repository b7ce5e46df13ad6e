"""Maps of tabular policies: an arrow for the best move, a colour for its value, '?' where nobody has been."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pbim.envs.cliff_walk import CliffWalk
from pbim.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # up, right, down, left as (x, y) with y downwards


def policy_map(
    q_values: ArrayLike,
    *,
    env: CliffWalk,
    visited: ArrayLike | None = None,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Figure":
    """Draw action values on the grid; several arrows in a tile are equally good moves.

    Forbes et al. 2024 show their policies in this way.

    Args:
        q_values: Action values, (S, A).
        env: The grid.
        visited: On which tiles they mean anything, (S,), bool or counts; on all if left out.
        title: What stands above.
        ax: Where to draw; a new figure if left out.

    Raises:
        InputError: If an array does not fit the grid.

    >>> import numpy as np
    >>> from pbim.envs import CliffWalk
    >>> from pbim.envs.policy_map import policy_map
    >>> figure = policy_map(np.zeros((48, 4)), env=CliffWalk(), visited=np.arange(48) < 24)
    >>> [text.get_text() for text in figure.axes[0].texts].count("?")
    13

    """
    from matplotlib.figure import Figure

    q, is_known = _check(q_values, visited, env)
    if ax is None:
        figure = Figure(figsize=(max(4.0, 0.6 * env.width + 1.4), 0.6 * env.height + 0.9), layout="constrained")
        ax = figure.add_subplot()
    else:
        figure = ax.figure.get_figure(root=True)
    cells = np.arange(env.num_states)
    ends = cells > env.start
    best = np.where(is_known & ~ends, q.max(axis=1), np.nan)
    colours = ax.imshow(best.reshape(env.height, env.width), cmap="viridis")
    for cell in cells:
        y, x = divmod(int(cell), env.width)
        if ends[cell]:
            _label(ax, x, y, "G" if cell == env.goal else "", "#7fbf7b" if cell == env.goal else "#5c4033")
        elif not is_known[cell]:
            _label(ax, x, y, "?", "#e8e8e8")
        else:
            _arrows(ax, x, y, q[cell], colours.to_rgba(best[cell]))
    _finish(ax, env, title)
    if np.isfinite(best).any():
        figure.colorbar(colours, ax=ax, label="value", fraction=0.03, pad=0.02)
    return figure


def _check(
    q_values: ArrayLike, visited: ArrayLike | None, env: CliffWalk
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    q = np.asarray(q_values, dtype=float)
    if q.shape != (env.num_states, env.num_actions):
        shape = (env.num_states, env.num_actions)
        raise InputError(f"q_values must have shape {shape}, received {q.shape}: pass the table of this grid")
    is_known = np.ones(env.num_states, bool) if visited is None else np.asarray(visited).astype(bool)
    if is_known.shape != (env.num_states,):
        raise InputError(f"visited must have shape {(env.num_states,)}, received {is_known.shape}: one entry per cell")
    return q, is_known


def _arrows(ax: "Axes", x: int, y: int, q: NDArray[Any], background: Any) -> None:
    red, green, blue, _ = background
    ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
    for dx, dy in (_MOVES[action] for action in np.flatnonzero(q >= q.max() - 1e-9 * (1 + abs(q.max())))):
        ax.annotate(
            "",
            xy=(x + 0.36 * dx, y + 0.36 * dy),
            xytext=(x - 0.12 * dx, y - 0.12 * dy),
            arrowprops={"arrowstyle": "-|>", "color": ink, "shrinkA": 0, "shrinkB": 0},
        )


def _label(ax: "Axes", x: int, y: int, text: str, colour: str) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="none"))
    ax.text(x, y, text, ha="center", va="center", color="#303030", fontsize=11)


def _finish(ax: "Axes", env: CliffWalk, title: str | None) -> None:
    ax.set_xticks(np.arange(env.width + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(env.height + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="both", length=0)
    ax.set_xticks(range(0, env.width, max(1, env.width // 12)))
    ax.set_yticks(range(env.height))
    if title:
        ax.set_title(title)
