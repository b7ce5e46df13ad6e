"""Does stalling pay? The inequality of the paper's appendix, and its map over (alpha, gamma).

An agent stands next to the goal (return 1) on a tile it has visited n times this episode, now included, and collects
alpha / visits for every further step there. Stalling for t steps before going on is strictly better when

    1 - gamma^t < sum_{k=0}^{t-1} gamma^k * alpha / (n + k + 1)                 (appendix of Forbes et al. 2024)

Read with care: the left side is the cost when the goal's return is due *now*; d steps away it is only
gamma^d (1 - gamma^t), so stalling pays more often than the inequality says. On the other side, bonuses still to be
collected on the way are delayed too, which it leaves out. Both sides are (1 - gamma) sums of gamma^k over the same k
and the bonus falls with k, so if stalling pays for any t it pays for t = 1: iff alpha / (n + 1) > 1 - gamma.
"""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pbim._arrays import Values
from pbim.errors import InputError
from pbim.verification.numbers import Number

EXACT_STEPS, MOST_STEPS = 100, 100_000
PAPER_SETTINGS: tuple[tuple[float, float], ...] = ((0.005, 0.99), (0.02, 0.995), (0.025, 0.995))
"""The (alpha, gamma) of the paper's DoorKey experiments."""


def stalling_gain(alpha: Number | Values, gamma: Number | Values, n: int | Values, t: int | Values) -> Any:
    """Return the bonus won minus the return lost by stalling t steps on a tile visited n times.

    Numbers give a number, exact for Fractions up to 100 steps; arrays broadcast.

    >>> from fractions import Fraction
    >>> stalling_gain(Fraction(1, 50), Fraction(199, 200), n=1, t=1)  # 1/100 won, 1/200 lost
    Fraction(1, 200)
    """
    _check(alpha, gamma, n, t)
    if isinstance(gamma, Fraction) and np.max(t) > EXACT_STEPS:  # their digits grow with every power
        alpha, gamma = float(alpha), float(gamma)
    won: Any = 0
    for k in range(int(np.max(t))):
        won = won + alpha * gamma**k / (n + k + 1) * (np.asarray(t) > k if np.ndim(t) else k < t)
    return won - (1 - gamma**t)


def stalling_pays(alpha: Number | Values, gamma: Number | Values, n: int | Values, t: int | Values) -> Any:
    """Tell whether stalling t steps on a tile visited n times is strictly better than going on.

    >>> stalling_pays(0.005, 0.99, n=1, t=1), stalling_pays(0.025, 0.995, n=1, t=1)
    (False, True)
    >>> stalling_pays(0.02, 0.995, n=np.arange(1, 5), t=1)
    array([ True,  True, False, False])
    """
    pays = stalling_gain(alpha, gamma, n, t) > 0
    return pays if np.ndim(pays) else bool(pays)


def visits_worth_stalling(alpha: Number | Values, gamma: Number | Values) -> Any:
    """Return up to how many visits of a tile one more step there pays: the largest n with alpha / (n + 1) > 1 - gamma.

    0 means that stalling never pays (an agent has visited its tile at least once); gamma = 1 gives infinity.

    >>> [visits_worth_stalling(alpha, gamma) for alpha, gamma in PAPER_SETTINGS]
    [0.0, 2.0, 3.0]
    """
    lost = np.asarray(1 - np.asarray(gamma, dtype=float))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(alpha, dtype=float) / lost
    # a ratio within rounding of a whole number is that number, where the strict inequality fails
    visits = np.maximum(np.ceil(np.round(ratio, 9)) - 2, 0.0)
    return visits if visits.ndim else float(visits)


def procrastination_map(path: str | Path | None = None, *, most: float = 0.03, lowest: float = 0.985) -> Any:
    """Return a figure of where stalling pays over alpha in (0, most] and gamma in [lowest, 1), saved to ``path``.

    Colours count the visits of one tile up to which one more step there pays; the paper's settings are marked.
    """
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.figure import Figure

    alphas, gammas = np.linspace(most / 400, most, 400), np.linspace(lowest, 0.9995, 400)
    worth = visits_worth_stalling(alphas[None, :], gammas[:, None])
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.add_subplot()
    bounds = [0, 1, 2, 3, 4, 6, 9, 15, 30, 60]
    colors = ListedColormap(colormaps["YlOrRd"](np.linspace(0.03, 0.95, len(bounds) - 1)))
    filled = axes.pcolormesh(alphas, gammas, worth, cmap=colors, norm=BoundaryNorm(bounds, colors.N))
    bar = figure.colorbar(filled, ax=axes, label="visits of a tile up to which stalling pays")
    bar.set_ticks(
        [(low + high) / 2 for low, high in pairwise(bounds)],
        labels=["never", *(str(a) if b == a + 1 else f"{a} to {b - 1}" for a, b in pairwise(bounds[1:]))],
    )
    for (alpha, gamma), above in zip(PAPER_SETTINGS, (True, True, False), strict=True):
        axes.plot(alpha, gamma, "o", color="black", markersize=7)
        visits = int(visits_worth_stalling(alpha, gamma))
        text = f"({alpha:g}, {gamma:g}): " + (f"up to {visits} visits" if visits else "never")
        axes.annotate(
            text, (alpha, gamma), xytext=(-8, 9 if above else -17), textcoords="offset points", ha="center", fontsize=9
        )
    axes.set(xlabel="bonus coefficient alpha", ylabel="discount gamma", title="Where one more step on a tile pays")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _check(alpha: Any, gamma: Any, n: Any, t: Any) -> None:
    alpha, gamma, n, t = (np.asarray(value) for value in (alpha, gamma, n, t))
    rules = (
        ("alpha", alpha, alpha >= 0, "at least 0", "pass the bonus coefficient"),
        ("gamma", gamma, (gamma > 0) & (gamma <= 1), "in (0, 1]", "pass the learner's discount"),
        ("n", n, n >= 0, "at least 0", "pass the visits of the tile, the present one included"),
        ("t", t, (t >= 1) & (t <= MOST_STEPS), f"between 1 and {MOST_STEPS:,}", "pass the number of steps to stall"),
    )
    for name, value, kept, wanted, way_out in rules:
        if not np.all(kept):
            raise InputError(f"{name} must be {wanted}, received {value}: {way_out}")
