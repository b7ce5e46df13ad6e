"""Draw learning curves from runs of ``pbim train``: python examples/learning_curve.py out/train --out learning.png.

Each argument is the folder of a run, or a .csv file that --csv wrote before. The two panels show the mean length of the
training episodes, with the paper's 35.9 for no bonus, and the gap to the shortest possible path.
"""

import argparse
import csv
import json
from pathlib import Path

from matplotlib.figure import Figure

COLUMNS = ("label", "seed", "frames", "length", "gap")
COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52")


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return a run's metrics, or the rows of a file of them."""
    if path.suffix == ".csv":
        return list(csv.DictReader(path.read_text().splitlines()))
    settings = json.loads((path / "settings.json").read_text())
    label = "no bonus"
    if settings["intrinsic"] is not None:
        kinds = settings["intrinsic"]["kind"], settings["shaping"]["kind"]
        label = f"{kinds[0]} {settings['intrinsic_scale']}, {kinds[1]}"
    about = {"label": f"{label}, gamma {settings['gamma']}", "seed": str(settings["seed"])}
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [about | {name: _text(row[name]) for name in COLUMNS[2:]} for row in metrics if row["length"] is not None]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def draw(rows: list[dict[str, str]]) -> Figure:
    """Return the figure: one line per run, one colour per setting."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    lengths, gaps = figure.subplots(1, 2)
    labels = list(dict.fromkeys(row["label"] for row in rows))
    for label, seed in dict.fromkeys((row["label"], row["seed"]) for row in rows):
        run = [row for row in rows if (row["label"], row["seed"]) == (label, seed)]
        colour = COLOURS[labels.index(label) % len(COLOURS)]
        for axes, name in ((lengths, "length"), (gaps, "gap")):
            shown = [(float(row["frames"]) / 1e6, float(row[name])) for row in run if row[name]]
            first = seed == next(row["seed"] for row in rows if row["label"] == label)
            axes.plot(*zip(*shown, strict=True), color=colour, lw=1.2, label=label if first else None)
    lengths.axhline(35.9, color="#777777", lw=1, ls=":", label="the paper, no bonus: 35.9")
    lengths.set_ylabel("mean episode length")
    gaps.set_ylabel("steps beyond the shortest path")
    for axes in (lengths, gaps):
        axes.set_yscale("log")
        axes.set_xlabel("million frames")
        axes.grid(alpha=0.3, which="both")
    lengths.legend(fontsize=8)
    return figure


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("learning.png"))
    parser.add_argument("--csv", type=Path, help="write the rows that are drawn, too")
    arguments = parser.parse_args()
    rows = [row for path in arguments.runs for row in rows_of(path)]
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    draw(rows).savefig(arguments.out, dpi=130)
    print(f"{arguments.out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
