"""The report's figures for papers and slides: SVG and PDF, the same bytes for the same store."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pbim._files import replacing
from pbim.report.curves import band, coarser
from pbim.report.evidence import Evidence, RunEvidence
from pbim.report.heat import HeatMap, heat_maps
from pbim.report.markup import number
from pbim.results import Column, GridMap, Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a23b82", "#b07d00", "#3a9ad9", "#5b5b5b", "#7a4f2b")
"""Okabe and Ito's, darkened where white paper needs it; the page has the same."""
DASHES = ("-", "--", "-.", ":")
STROKES = 100
"""Points a curve has on paper."""
_MOVES = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}
STYLE = {
    "svg.hashsalt": "pbim",
    "svg.fonttype": "path",
    "font.size": 9,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def write_figures(evidence: Evidence, folder: Path) -> list[Path]:
    """Draw learning curves, policy maps and sensitivity maps into ``folder``; returns the files."""
    import matplotlib

    drawings: dict[str, Callable[[], Figure]] = {}
    for group in evidence.groups:
        for curve in evidence.study.curves:
            name = "-".join(filter(None, ("curve", group.name, curve.metric)))
            drawings[name] = partial(_curve, evidence, group, curve)
    if evidence.study.grid and any(entry.done for entry in evidence.runs):
        drawings["policies"] = partial(_policies, evidence)
    for index, heat in enumerate(heat_maps(evidence), start=1):
        if math.isfinite(heat.bounds[0]):
            drawings[f"heat-{index}-{heat.plan.statistic}"] = partial(_heat, heat)
    files = []
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        for name, draw in drawings.items():
            files += _save(draw(), folder / _safe(name))
    return files


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def _save(figure: "Figure", path: Path) -> list[Path]:
    files = []
    metadata: Mapping[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    for kind, about in metadata.items():
        target = path.parent / f"{path.name}.{kind}"
        with replacing(target) as file:
            figure.savefig(file, format=kind, metadata=about)
        files.append(target)
    return files


def _curve(evidence: Evidence, group: Group, curve: Column) -> "Figure":
    """Draw the mean over seeds of every cell of a group, with the 95% interval of the mean."""
    from matplotlib.figure import Figure

    cells = list(evidence.cells(group.name))
    many = len(cells) > 6
    figure = Figure(figsize=(8.5, max(3.4, 0.18 * len(cells))) if many else (6.0, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for cell, runs in cells:
        seeds = [entry.curves[curve.metric] for entry in runs if entry.done]
        if not seeds:
            continue
        mean, half = band(coarser(np.array(seeds), STROKES))
        index, x = evidence.colour(cell.label), coarser(evidence.axis.middles[None], STROKES)[0]
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
        ax.plot(x, mean, dash, color=colour, linewidth=1.4, label=f"{cell.label} (n = {len(seeds)})")
        ax.fill_between(x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
    ax.set_xlabel(evidence.study.x.label)
    ax.set_ylabel(f"{curve.label} ({curve.better} is better)" if curve.better else curve.label)
    ax.set_title(_title(evidence, group), loc="left", fontsize=10)
    if ax.lines:
        legend = figure.legend if many else ax.legend
        place: dict[str, Any] = {"loc": "outside right upper"} if many else {}
        legend(fontsize=7, title="mean, 95% interval over seeds", title_fontsize=7, **place)
    return figure


def _title(evidence: Evidence, group: Group) -> str:
    parts = [evidence.study.title, group.label, "smoke size" if evidence.study.quick else ""]
    return ", ".join(filter(None, parts))


def _policies(evidence: Evidence) -> "Figure":
    """Draw the greedy policy of one seed (the first that finished), its values and its path, of up to 12 cells."""
    from matplotlib.figure import Figure

    grid = evidence.study.grid
    assert grid is not None
    shown = [(cell, next((entry for entry in runs if entry.done), None)) for cell, runs in evidence.cells()]
    maps = [(cell, entry) for cell, entry in shown if entry is not None][:12]
    columns = 1 if grid.width > 20 else min(2, len(maps))
    rows = math.ceil(len(maps) / columns)
    size = (columns * max(4.4, 0.24 * grid.width), rows * (0.24 * grid.height + 0.75))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (cell, entry) in zip(axes, maps, strict=False):
        _policy(ax, grid, entry)
        ax.set_title(f"{cell.label}, seed {entry.run.seed}", loc="left", fontsize=9)
    for ax in axes[len(maps) :]:
        ax.set_axis_off()
    return figure


def _policy(ax: "Axes", grid: GridMap, entry: RunEvidence) -> None:
    width, height = grid.width, grid.height
    q, visited = entry.arrays["q"].astype(float), entry.arrays["visits"].sum(axis=1) > 0
    ends = np.isin(np.arange(width * height), [*grid.cliff, grid.goal])
    values = np.where(visited & ~ends, q.max(axis=1), np.nan).reshape(height, width)
    ax.imshow(values, cmap="cividis", aspect="equal")
    cliff = np.where(np.isin(np.arange(width * height), grid.cliff), 1.0, np.nan).reshape(height, width)
    ax.imshow(cliff, cmap="gray", vmin=0, vmax=3, aspect="equal")
    cells = np.flatnonzero(visited & ~ends)
    moves = np.array([_MOVES[grid.actions[action]] for action in q[cells].argmax(axis=1)], float).reshape(-1, 2)
    y, x = np.divmod(cells, width)
    style: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.7, "pivot": "mid", "headwidth": 4}
    ax.quiver(
        x, y, moves[:, 0], moves[:, 1], color="white", edgecolor="black", linewidth=0.4, width=0.08, units="xy", **style
    )
    for cell in np.flatnonzero(~visited & ~ends).tolist():
        ax.text(cell % width, cell // width, "?", ha="center", va="center", fontsize=6, color="#777777")
    ax.text(grid.goal % width, grid.goal // width, "G", ha="center", va="center", fontsize=8)
    path = entry.arrays["path"]
    ax.plot(path % width, path // width, color="#d55e00", linewidth=1.6, alpha=0.9)
    ax.set(xticks=[], yticks=[], frame_on=False)
    ax.grid(visible=False)


def _heat(heat: HeatMap) -> "Figure":
    from matplotlib.figure import Figure

    values = np.array([[heat.means.get((y, x), math.nan) for x in heat.xs] for y in heat.ys])
    figure = Figure(figsize=(1.8 + 0.8 * len(heat.xs), 1.4 + 0.5 * len(heat.ys)), layout="constrained")
    ax = figure.add_subplot()
    low, high = heat.bounds
    image = ax.imshow(values, cmap="cividis", aspect="auto", vmin=low, vmax=high)
    for (row, column), value in np.ndenumerate(values):
        if math.isfinite(value):
            dark = value < low + 0.55 * (high - low)
            ax.text(column, row, number(float(value), 3), ha="center", va="center", color="white" if dark else "black")
    ax.set_xticks(range(len(heat.xs)), [str(x) for x in heat.xs])
    ax.set_yticks(range(len(heat.ys)), [str(y) for y in heat.ys])
    ax.set(xlabel=heat.plan.x.replace("_", " "), ylabel=heat.plan.y.replace("_", " "))
    ax.set_title(heat.plan.title, loc="left", fontsize=10)
    ax.grid(visible=False)
    figure.colorbar(image, ax=ax, label=heat.plan.statistic.replace("_", " "))
    return figure
