"""The smallest task in which an exploration bonus makes waiting optimal, and conversions that undo it.

The agent stands next to the goal. Going there pays 1 and ends the episode; waiting pays nothing but a count bonus
alpha / n for the n-th visit of the square it stands on. The best plan of the task is to go at once.

    python examples/procrastination.py --out out/demo
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import pbim

ALPHA, GAMMA, MOST_WAITING = 0.025, 0.995, 20  # the paper's hardest DoorKey setting

CONVERSIONS = {
    "no bonus": pbim.NoBonus(),
    "raw bonus": pbim.Raw(),
    "PBIM": pbim.PBIM(gamma=GAMMA),
    "PBIM, no norm": pbim.PBIM(gamma=GAMMA, normalize=False),
    "GRM, delay 4": pbim.GRM(gamma=GAMMA, delay=4),
    "Geometric, rate 0.1": pbim.Geometric(gamma=GAMMA, rate=0.1),
}

STYLES = {"raw bonus": ("tab:red", 3, "-"), "no bonus": ("tab:blue", 7, "-")}


def returns_of_waiting(shaping) -> tuple[np.ndarray, pbim.Certificate]:
    """Return, for each plan "wait k steps, then go", its discounted return, and whether the bonus cancelled."""
    waits = np.arange(MOST_WAITING + 1)  # one environment a plan
    steps = np.arange(MOST_WAITING + 1)[:, None]
    ended, running = steps == waits, steps <= waits
    bonus = np.broadcast_to(ALPHA / (steps + 1), ended.shape)
    _, shaped = shaping.rollout(shaping.init(len(waits)), bonus, ended, valid=running)
    certificate = pbim.Certificate(gamma=GAMMA)
    state = certificate.update(certificate.init(len(waits)), shaped, ended, valid=running)
    return (GAMMA**steps * (1.0 * ended + shaped)).sum(axis=0), certificate.report(state)


def main() -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where to write the picture")
    out = parser.parse_args().out
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    print(f"One step from the goal, a count bonus of {ALPHA}/n, gamma {GAMMA}: how long should the agent wait?\n")
    print(f"{'':<20} {'best plan':<13} {'value now':>10} {'value of best':>14}   over an episode the bonus")
    for name, shaping in CONVERSIONS.items():
        values, report = returns_of_waiting(shaping)
        best = int(np.argmax(values))
        plan = "go at once" if best == 0 else f"wait {best} steps"
        verdict = f"{'cancels' if report.ok else 'DOES NOT CANCEL'} (residual {report.worst:.1g})"
        print(f"{name:<20} {plan:<13} {values[0]:>10.4f} {values[best]:>14.4f}   {verdict}")
        color, width, style = STYLES.get(name, ("white", 1.5, ":"))
        axes.plot(values, color=color, lw=width, ls=style)
        if name in STYLES:
            axes.plot(best, values[best], "o", color=color, ms=9)
            axes.annotate(f"{name}: {plan}", (best, values[best]), (8, 8), textcoords="offset points", color=color)
    axes.text(10.5, 0.955, "dotted: PBIM, GRM, Geometric\n(the same line as no bonus)", color="tab:blue")
    axes.set(xlabel="steps waited before going to the goal", ylabel="discounted return", ylim=(0.9, 1.06))
    axes.set_title("The raw bonus makes waiting optimal; converted, it leaves the task as it was", fontsize=10)
    axes.set_xticks(range(0, MOST_WAITING + 1, 2))
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "procrastination.png", dpi=150)
    print(f"\nPicture: {out / 'procrastination.png'}")


if __name__ == "__main__":
    main()
