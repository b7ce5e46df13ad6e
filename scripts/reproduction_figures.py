"""The figures of docs/reproduction.md, drawn from the published rows by scripts/reproduction.py."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pbim._files import replacing
from pbim.report.claims import Verdict
from pbim.report.curves import band, coarser
from pbim.report.evidence import Evidence, RunEvidence
from pbim.report.figures import COLOURS, STYLE
from pbim.results import PlannedCell

Gather = Callable[[str], Evidence]
POINTS = 60
DPI = 160
"""Of clouds of dots, which are stored as pixels: as paths they would be megabytes."""
MAIN = "025-995"
SHOWN = dict(zip(("none", "im", "pbim", "grm-32", "geometric-0.02"), COLOURS, strict=False))
"""The schemes that get a curve, and its colour."""


def draw_all(gather: Gather, folder: Path) -> list[Path]:
    """Draw every figure whose study has been published; returns the files."""
    files = []
    for name, (studies, draw) in FIGURES.items():
        if all((folder.parent / study / "runs.parquet").exists() for study in studies):
            with rc_context(STYLE), replacing(folder / f"{name}.svg") as file:
                draw(*map(gather, studies)).savefig(file, format="svg", dpi=DPI, metadata={"Date": None})
            files.append(folder / f"{name}.svg")
    return files


def cells_of(evidence: Evidence, group: str) -> dict[str, tuple[str, list[RunEvidence]]]:
    """Return label and finished runs of every cell of a group, by scheme."""
    return {
        cell.scheme: (cell.label, [entry for entry in runs if entry.done])
        for cell, runs in evidence.cells(group)
        if any(entry.done for entry in runs)
    }


def conversions(evidence: Evidence) -> Figure:
    """Draw learning curves at the paper's hardest setting, and every seed's final length."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    curves, dots = figure.subplots(1, 2, width_ratios=(1.1, 1))
    found = cells_of(evidence, MAIN)
    for scheme, colour in SHOWN.items():
        if scheme in found:
            line(curves, evidence, *found[scheme], "length", colour)
    curves.set(xlabel="million frames", ylabel="episode length (640: time limit)")
    lengths(curves, "y")
    curves.set_title("DoorKey-8x8, alpha .025, gamma .995: mean and 95% interval", loc="left", fontsize=9)
    curves.legend(fontsize=7)
    strip(dots, found.values(), final("final_length"))
    dots.set(xlabel="episode length over the last 10% of frames, one dot per seed")
    lengths(dots, "x")
    return figure


def mechanism(evidence: Evidence) -> Figure:
    """Draw what the last step takes back, how wrong the critic is there, and what reaching the goal then pays."""
    groups = [group.name for group in evidence.groups if "pbim" in cells_of(evidence, group.name)]
    figure = Figure(figsize=(10, 3.2 * len(groups)), layout="constrained")
    for row, group in zip(figure.subplots(len(groups), 3, squeeze=False), groups, strict=True):
        found = cells_of(evidence, group)
        label = next(each.label for each in evidence.groups if each.name == group)
        for scheme, colour in SHOWN.items():
            if scheme not in found:
                continue
            name, runs = found[scheme]
            if scheme not in ("none", "im"):
                line(row[0], evidence, name, runs, "settled_truncated", colour)
                length, paid = (np.concatenate([entry.curves[metric] for entry in runs]) for metric in ENDS)
                row[2].plot(length, 1 + paid, ".", color=colour, markersize=2, alpha=0.5, rasterized=True)
            line(row[1], evidence, name, runs, "end_error", colour)
        row[0].set(ylabel="F' at a truncated episode's last step")
        row[1].set(ylabel="critic's error at the last step", yscale="log", ylim=(5e-4, 50))
        row[2].set(ylabel="1 + F' at the step that reaches the goal")
        lengths(row[2], "x")
        row[2].axhline(0, color="black", linewidth=0.8)
        row[0].set_title(label, loc="left", fontsize=9)
        for panel, words in zip(row, ("million frames", "million frames", "episode length"), strict=True):
            panel.set_xlabel(words)
        row[0].legend(fontsize=7)
        row[1].legend(fontsize=6, ncols=2, loc="lower right")
    return figure


ENDS = ("goal_length", "settled_goal")


def ablation(evidence: Evidence) -> Figure:
    """Draw where every seed ends under each change of one thing, and what its last steps paid on the way there."""
    figure = Figure(figsize=(11, 3.4 * len(evidence.groups)), layout="constrained")
    for row, group in zip(figure.subplots(len(evidence.groups), 4, sharey="row"), evidence.groups, strict=True):
        cells = cells_of(evidence, group.name).values()
        strip(row[0], cells, final("final_length"))
        strip(row[1], cells, over_training("settled_truncated"))
        strip(row[2], cells, over_training("settled_goal"))
        strip(row[3], cells, over_training("end_error"))
        lengths(row[0], "x")
        row[2].axvline(-1, color="black", linewidth=0.8)
        row[3].set(xscale="log")
        words = (
            "episode length at the end",
            "F' at truncation",
            "F' at the goal (line: -1)",
            "critic's error at the end",
        )
        for panel, name in zip(row, words, strict=True):
            panel.set_xlabel(name)
        row[0].set_title(group.label, loc="left", fontsize=9)
    return figure


def final(statistic: str) -> Callable[[RunEvidence], float]:
    """Return what reads a figure of a run."""
    return lambda entry: entry.figures[statistic]


def over_training(metric: str) -> Callable[[RunEvidence], float]:
    """Return what averages a run's curve over the bins that have a value; NaN where none has."""

    def mean(entry: RunEvidence) -> float:
        values = entry.curves[metric][np.isfinite(entry.curves[metric])]
        return float(values.mean()) if len(values) else np.nan

    return mean


def cliff(evidence: Evidence) -> Figure:
    """Draw every seed's final return on the cliff walks, by conversion."""
    figure = Figure(figsize=(10, 3), layout="constrained")
    for panel, group in zip(figure.subplots(1, 3, sharey=True), evidence.groups, strict=True):
        statistic = "late_return" if group.name == "long" else "final_return"
        strip(panel, cells_of(evidence, group.name).values(), final(statistic))
        panel.set(xlabel="return after episode 3000" if group.name == "long" else "return over the last 10%")
        panel.set_title(group.label, loc="left", fontsize=9)
    return figure


class Point(NamedTuple):
    """A reading of RND: how much F differs between states before and after training, and the verdict on PBIM."""

    cell: PlannedCell
    before: float
    after: float
    verdict: Verdict

    @property
    def spread(self) -> float:
        """The statistic ``bonus_spread``."""
        return (self.before + self.after) / 2


def reading_points(evidence: Evidence) -> list[Point]:
    """Return every reading of RND whose runs stored F of all states, by its spread."""
    judged = {verdict.claim.cell: verdict for verdict in evidence.verdicts}
    found = []
    for cell, runs in evidence.cells():
        stored = [entry.arrays for entry in runs if entry.done and "last_bonus" in entry.arrays]
        if cell.name in judged and cell.group in READINGS and stored:
            ends = [[arrays[name].std() for name in ("first_bonus", "last_bonus")] for arrays in stored]
            found.append(Point(cell, *np.mean(ends, axis=0, dtype=np.float64).tolist(), judged[cell.name]))
    return sorted(found, key=lambda point: point.spread)


def readings(evidence: Evidence) -> Figure:
    """Draw PBIM's distance to no bonus over the spread of F, one point per reading of RND, with 95% intervals."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    places = ("mean of before and after training", "after training")
    for panel, words, place in zip(panels, places, (lambda p: p.spread, lambda p: p.after), strict=True):
        for point in reading_points(evidence):
            _mark(panel, place(point), point)
        panel.axhline(0, color="black", linewidth=0.8)
        panel.set(xscale="log", xlabel=f"standard deviation of F over the 48 states, {words}")
        panel.set_xticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
    panels[0].set(ylabel="return of PBIM minus return of no bonus (goal: 100)")
    panels[0].set_title("as planned", loc="left", fontsize=9)
    panels[1].set_title("looked at afterwards", loc="left", fontsize=9)
    named = dict(zip(*panels[0].get_legend_handles_labels()[::-1], strict=True))
    figure.legend(named.values(), named, fontsize=7, loc="outside lower center", ncols=4)
    return figure


def _mark(ax: Axes, x: float, point: Point) -> None:
    """Draw one reading: filled for one-hot input, hollow for (x, y)."""
    name, colour, marker = _reading(point.cell.params)
    y, (low, high) = point.verdict.figure, point.verdict.interval
    inner = "white" if point.cell.params.get("encoding") == "coordinates" else colour
    name += ", (x, y)" * (inner == "white")
    style = {"fmt": marker, "color": colour, "markerfacecolor": inner, "markersize": 5, "linewidth": 0.8, "alpha": 0.8}
    ax.errorbar([x], [y], [[y - low], [high - y]], label=name, **style)
    if point.cell.name in MARKED:
        words, offset = MARKED[point.cell.name]
        line = {"arrowstyle": "-", "linewidth": 0.6}
        ax.annotate(words, (x, y), xytext=offset, textcoords="offset points", fontsize=8, arrowprops=line)


READINGS = ("network", "reading", "base")
"""The groups of the study whose cells are readings of RND; the others vary the learner of our first reading."""
MARKED = {
    "pbim-torch-sgd-step-one-hot-64-64": ("base reading", (20, 35)),
    "pbim-one-hot-64-64-adam": ("our first reading", (25, 25)),
}
"""Cells that the figure of the readings names, and where the name stands, in points beside the mark."""


def _reading(params: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the words, the colour and the marker of a reading of RND."""
    words = str(params.get("reading", f"orthogonal, {params['optimizer']} every step" if "optimizer" in params else ""))
    init, _, training = (words or "torch, sgd every step").partition(", ")
    colour = COLOURS[0] if init == "torch" else COLOURS[1]
    marker = {"frozen": "s", "sgd every step": "o", "adam every step": "^", "sgd every episode": "v"}.get(training, "D")
    return f"{'PyTorch' if init == 'torch' else init}, {training}", colour, marker


LAW = {
    "frames_to_solve": ("frames to solve (thousand); top: not solved", 1e-3, 1000.0),
    "final_length": ("final episode length; top: 70 or more", 1.0, 70.0),
}
"""What the figure of the guidance law shows: in words, by what it is multiplied, and where it is cut off."""


def guidance(evidence: Evidence) -> Figure:
    """Draw speed and final length over guidance and over debt, one colour per lambda; filled GRM, hollow Geometric."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharey="row")
    for row, (statistic, (words, unit, top)) in zip(panels, LAW.items(), strict=True):
        for panel, name in zip(row, ("guidance", "debt"), strict=True):
            for group, colour in zip(evidence.groups, COLOURS, strict=False):
                found = [(cell, runs) for cell, runs in evidence.cells(group.name) if any(each.done for each in runs)]
                for kind, fill in (("grm", colour), ("geometric", "none")):
                    points = sorted(
                        (max(cell.params[name], 0.02 if name == "debt" else 0.0), _cut(runs, statistic, unit, top))
                        for cell, runs in found
                        if cell.scheme.startswith((kind, "none"))
                    )
                    style = "o-" if kind == "grm" else "o--"
                    label = group.label if kind == "grm" else ""
                    panel.plot(*zip(*points, strict=True), style, color=colour, mfc=fill, ms=4, lw=0.9, label=label)
        row[0].set(ylabel=words, xlabel="guidance")
        row[1].set(xlabel="debt: what can be owed at most (the goal pays 1)", xscale="log")
        row[1].set_xticks([0.02, 0.1, 1, 10, 100], ["none", "0.1", "1", "10", "100"])
    panels[1][0].legend(fontsize=7)
    figure.suptitle("DoorKey-8x8 at (.025, .995): filled GRM, hollow Geometric, at the left end no bonus", fontsize=9)
    return figure


def _cut(runs: list[RunEvidence], statistic: str, unit: float, top: float) -> float:
    """Return the mean over seeds, at most ``top``; a seed without the figure counts as ``top``."""
    values = np.array([entry.figures[statistic] for entry in runs if entry.done], float)
    return float(np.minimum(np.nan_to_num(unit * values, nan=top), top).mean())


def lengths(ax: Axes, which: str) -> None:
    """Make an axis that of episode lengths up to the time limit, evenly spaced in their logarithm."""
    axis = {"x": ax.xaxis, "y": ax.yaxis}[which]
    ax.set(**{f"{which}scale": "log", f"{which}lim": (25, 720)})
    axis.set_minor_locator(NullLocator())
    axis.set_ticks([30, 50, 100, 200, 400, 640], ["30", "50", "100", "200", "400", "640"])


def line(ax: Axes, evidence: Evidence, label: str, runs: list[RunEvidence], metric: str, colour: str) -> None:
    """Draw the mean over seeds of a curve with its 95% interval."""
    x = coarser(evidence.axis.middles[None], POINTS)[0] / 1e6
    middle, half = band(coarser(np.array([entry.curves[metric] for entry in runs]), POINTS))
    ax.plot(x, middle, color=colour, linewidth=1.4, label=f"{label} (n = {len(runs)})")
    ax.fill_between(x, middle - half, middle + half, color=colour, alpha=0.18, linewidth=0)


def spread(count: int) -> np.ndarray:
    """Return places around a row for so many dots, (count,)."""
    return np.linspace(-0.22, 0.22, count) if count > 1 else np.zeros(count)


def strip(ax: Axes, cells: Iterable[tuple[str, list[RunEvidence]]], value: Callable[[RunEvidence], float]) -> None:
    """Draw one row per cell: one dot per seed, and the mean."""
    cells = list(cells)[::-1]
    for row, (_, runs) in enumerate(cells):
        values = np.array([value(entry) for entry in runs])
        ax.plot(values, row + spread(len(values)), ".", color=COLOURS[0], alpha=0.6, markersize=4)
        ax.plot([values.mean()] * 2, [row - 0.35, row + 0.35], color=COLOURS[1], linewidth=1.6)
    ax.set_yticks(range(len(cells)), [label for label, _ in cells], fontsize=7)


FIGURES: dict[str, tuple[tuple[str, ...], Callable[..., Figure]]] = {
    "conversions": (("doorkey-conversions",), conversions),
    "mechanism": (("doorkey-conversions",), mechanism),
    "ablation": (("doorkey-sensitivity",), ablation),
    "cliff": (("cliff-conversions",), cliff),
    "readings": (("cliff-sensitivity",), readings),
    "guidance": (("guidance",), guidance),
}
