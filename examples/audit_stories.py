"""Five reward terms that people add to a grid world, and what an audit of a random walk's log says about each.

python examples/audit_stories.py                        prints the verdicts
python examples/audit_stories.py --figures docs/images  draws the witnesses, too (needs matplotlib)
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import pbim

GAMMA, ROWS, COLUMNS, GOAL = 0.95, 4, 6, (1, 4)
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)])


def walk(episodes: int = 150, steps: int = 60) -> dict[str, np.ndarray]:
    """Return the log of a random walk from the lower left; the goal terminates, the time limit truncates."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(episodes):
        here = np.array([ROWS - 1, 0])
        for step in range(steps):
            there = np.clip(here + MOVES[rng.integers(len(MOVES))], 0, (ROWS - 1, COLUMNS - 1))
            over = tuple(there) == GOAL
            rows.append((here, there, over, step == steps - 1 and not over, float(over), episode))
            here = there
            if over:
                break
    names = ("obs", "next_obs", "terminated", "truncated", "extrinsic", "episode")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def distance(cells: np.ndarray) -> np.ndarray:
    """Return how many steps away the goal is."""
    return np.abs(cells - GOAL).sum(axis=1)


def terms(log: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the five terms, each along the log."""
    before, after = distance(log["obs"]), distance(log["next_obs"])
    progress_before, progress_after = 8 - before, 8 - after  # a potential that is 8 at the goal
    return {
        "dwelling": 0.1 * (after == 1),
        "closer": 0.1 * (after < before),
        "ends": GAMMA * progress_after - progress_before,
        "gamma": 1.0 * (before - after),
        "safe": GAMMA * -after + before,
    }


def draw(report: Any, path: Path) -> None:
    """Draw the witness into the grid; of a safe term its potential."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pbim"})
    figure = Figure(figsize=(5.4, 3.9), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(0, COLUMNS), ylim=(ROWS, 0), aspect="equal", xticks=range(COLUMNS + 1), yticks=range(ROWS + 1))
    axes.grid(color="#999999")
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.fill_between([GOAL[1], GOAL[1] + 1], GOAL[0], GOAL[0] + 1, color="#d9f0d3")
    axes.text(GOAL[1] + 0.5, GOAL[0] + 0.12, "goal", ha="center", va="center", fontsize=9, color="#1b7837")
    if report.witness is None:
        for (row, column), value in report.potential.items():
            axes.text(column + 0.5, row + 0.5, f"{value:.3g}", ha="center", va="center", fontsize=11, color="#1b7837")
        axes.set_title("Safe: the potential that explains it", fontsize=11, color="#1b7837")
    else:
        _arrows(axes, report.witness.instead, "#1b7837", 0.0)
        _arrows(axes, report.witness.way, "#c51b7d", 0.12)
        paid = sum(step.pay for step in report.witness.way.steps)
        sign = "adds" if report.witness.difference > 0 else "takes away"
        axes.set_title(
            f"{report.reason}: a round is paid {paid:.3g},\none more before going on {sign} "
            f"{abs(report.witness.difference):.3g}, discounted",
            fontsize=11,
            color="#c51b7d",
        )
    figure.savefig(path, metadata={"Date": None})


def _arrows(axes: Any, way: Any, color: str, lane: float) -> None:
    """Draw a way; each arrow lies ``lane`` to the side of the middle, so that there and back are both visible."""
    for step in () if way is None else way.steps:
        start, end = (np.array([cell[1] + 0.5, cell[0] + 0.5]) for cell in (step.state, step.next_state))
        if step.state == step.next_state:
            axes.plot(start[0] - 0.27, start[1] + 0.22, marker=r"$\circlearrowleft$", markersize=20, color=color)
            place = start + np.array([0.12, 0.33])
        else:
            aside = np.array([start[1] - end[1], end[0] - start[0]])
            ends = {"xy": end + lane * aside, "xytext": start + lane * aside}
            axes.annotate("", **ends, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2.2})
            place = (start + end) / 2 + (lane - 0.2 if lane <= 0 else lane + 0.2) * aside
        axes.text(*place, f"{step.pay:+.3g}", color=color, fontsize=10, ha="center", va="center")


def main() -> None:
    """Print every verdict, and draw it if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path)
    figures = parser.parse_args().figures
    log = walk()
    for name, term in terms(log).items():
        report = pbim.audit(**log, term=term, gamma=GAMMA)
        print(f"--- {name} ---\n{report}\n")
        if figures is not None:
            draw(report, figures / f"audit_{name}.svg")
    # the repair: the dwelling term, converted; certified on the log, and in the very task that its witness spoils
    dwelling, ended = terms(log)["dwelling"], log["terminated"] | log["truncated"]
    for shaping in (pbim.Raw(), pbim.Geometric(gamma=GAMMA)):
        _, shaped = shaping.rollout(shaping.init(1), dwelling[:, None], ended[:, None])
        residuals = abs(pbim.residuals(shaped, ended[:, None], GAMMA))
        print(f"{type(shaping).__name__}: the largest residual of {len(residuals)} episodes is {residuals.max():.1g}")
    task = pbim.audit(**log, term=dwelling, gamma=GAMMA).witness.task()
    for shaping in (pbim.Raw(), pbim.Geometric(gamma=GAMMA)):
        verdict = pbim.verify(task.mdp, intrinsic=task.bonus, shaping=shaping, horizon=task.horizon)
        print(f"{type(shaping).__name__}: the optimal policies are {'kept' if verdict.preserved else 'changed'}")


if __name__ == "__main__":
    main()
