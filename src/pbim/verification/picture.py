"""A counterexample in a grid world, drawn: what the task wants, and what the bonus makes of it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from pbim.errors import InputError
from pbim.verification.report import Counterexample, Course

TASK, BONUS, PAST, HERE, WALL = "#1b7837", "#c51b7d", "#7f7f7f", "#ffe08a", "#3a3a3a"
ARROWS = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}


def draw(counterexample: Counterexample, path: str | Path | None = None) -> Any:
    """Return a figure with one panel for the task and one for the shaped problem, saved to ``path``.

    The numbers in a cell are the steps at which it is visited; big arrows are the optimal actions where they part.
    """
    mdp = counterexample.mdp
    if mdp.cells is None:
        raise InputError(
            "counterexample must be of a grid world to be drawn, received an MDP without cells: pass "
            "cells=[(row, column), ...] to FiniteMDP, or choose one of the grid worlds of pbim verify --list"
        )
    from matplotlib.figure import Figure

    rows, columns = (1 + max(cell[axis] for cell in mdp.cells) for axis in (0, 1))
    side = rows <= columns / 2
    figure = Figure(
        figsize=(1.35 * columns + 0.6, 2 * (1.35 * rows + 0.8)) if side else (2.7 * columns + 0.8, 1.35 * rows + 1.1)
    )
    figure.set_layout_engine("constrained")
    axes = figure.subplots(2, 1) if side else figure.subplots(1, 2)
    panels = (
        ("The task alone", TASK, counterexample.original_actions, counterexample.original_course),
        (
            f"With '{counterexample.bonus_name}' through {counterexample.shaping_name}",
            BONUS,
            counterexample.shaped_actions,
            counterexample.shaped_course,
        ),
    )
    for axis, (title, color, actions, course) in zip(axes, panels, strict=True):
        _grid(axis, counterexample, rows, columns)
        _course(axis, counterexample, course, color)
        _actions(axis, counterexample, actions, color)
        names = ", ".join(mdp.action_name(action) for action in actions)
        axis.set_title(f"{title}: {names}", fontsize=11, color=color, fontweight="bold")
    if path is not None:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    return figure


def _grid(axis: Any, counterexample: Counterexample, rows: int, columns: int) -> None:
    from matplotlib.patches import Rectangle

    mdp, cells = counterexample.mdp, list(counterexample.mdp.cells or ())
    for row in range(rows):
        for column in range(columns):
            state = cells.index((row, column)) if (row, column) in cells else None
            color = WALL if state is None else HERE if state == counterexample.state else "white"
            if state is not None and mdp.terminal[state]:
                color = "#dddddd"
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="#555555"))
            if state is not None and not mdp.state_name(state).startswith(("cell", "state")):
                axis.text(column + 0.5, row + 0.9, mdp.state_name(state), ha="center", va="center", fontsize=8)
    axis.set(xlim=(-0.05, columns + 0.05), ylim=(rows + 0.05, -0.05), aspect="equal")
    axis.axis("off")


def _course(axis: Any, counterexample: Counterexample, course: Course, color: str) -> None:
    """Write into each cell at which steps it is visited, and draw the way there."""
    cells = counterexample.mdp.cells or ()
    visits: dict[int, list[int]] = {}
    for step, state in enumerate(course.history[::2]):
        visits.setdefault(state, []).append(step)
    for state, steps in visits.items():
        row, column = cells[state]
        axis.text(column + 0.5, row + 0.13, f"t = {', '.join(map(str, steps))}", ha="center", va="center", fontsize=8)
    states = course.history[::2]
    for step, (here, there) in enumerate(pairwise(states)):
        if here == there:
            continue
        shade = PAST if step < counterexample.step else color
        lane = 0.05 * (step % 7)
        (row, column), (new_row, new_column) = cells[here], cells[there]
        if row == new_row:
            ends = [(x + 0.5, row + 0.27 + lane) for x in (column, new_column)]
        else:
            ends = [(column + 0.72 + lane / 2, y + 0.5) for y in (row, new_row)]
        axis.annotate(
            "",
            xy=ends[1],
            xytext=ends[0],
            arrowprops={
                "arrowstyle": "->",
                "color": shade,
                "lw": 1.4,
                "ls": "--" if shade == PAST else "-",
                "shrinkA": 6,
                "shrinkB": 6,
            },
        )


def _actions(axis: Any, counterexample: Counterexample, actions: tuple[int, ...], color: str) -> None:
    """Draw the optimal actions where the two problems part."""
    row, column = (counterexample.mdp.cells or ())[counterexample.state]
    for action in actions:
        move = ARROWS.get(counterexample.mdp.action_name(action))
        if move is None:
            axis.plot(
                column + 0.5, row + 0.68, "o", color=color, markersize=11, markerfacecolor="none", markeredgewidth=3
            )
            continue
        axis.annotate(
            "",
            xy=(column + 0.5 + 0.42 * move[0], row + 0.68 + 0.24 * move[1]),
            xytext=(column + 0.5 - 0.1 * move[0], row + 0.68 - 0.06 * move[1]),
            arrowprops={"arrowstyle": "-|>", "color": color, "lw": 3.5, "mutation_scale": 18},
        )
