"""Count the verdicts on continuous observations: safe and unsafe terms, random walks and Gymnasium's classic control.

One row per kind of term: how many of its logs were called safe, unsafe and undecided. Nothing was chosen with these
seeds, and neither with the two environments. Half of the terms measure from a place that no episode ends in.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Log = dict[str, NDArray[Any]]
Potential = Callable[[Floats], Floats]
TASKS = ("plane-2", "plane-4", "plane-8", "CartPole-v1", "Pendulum-v1")
SEEDS = (10, 11, 12, 13)
EPISODES, STEPS = 150, 50
SAFE = ("distance", "quadratic", "network")
UNSAFE = (
    "dwell", "soft dwell", "closer", "circling", "energy", "distance + dwell",
    *(f"{mistake}: {potential}" for mistake in ("no gamma", "ends keep") for potential in SAFE),
)  # fmt: skip


def plane(size: int, seed: int) -> Log:
    """Return random walks in ``size`` dimensions that drift to a goal and end there."""
    rng = np.random.default_rng([seed, size])
    goal, rows = rng.uniform(-1, 1, size), []
    for episode in range(EPISODES):
        here, pull = rng.uniform(-1.5, 1.5, size), rng.uniform(0, 0.6)
        for _ in range(STEPS):
            drift = pull * (goal - here) / np.linalg.norm(goal - here) * 0.2
            there = np.clip(here + drift + 0.15 * rng.normal(size=size), -2, 2)
            over = bool(np.linalg.norm(there - goal) < 0.25 * np.sqrt(size))
            rows.append((here, there, over, episode))
            here = there
            if over:
                break
    names = ("obs", "next_obs", "terminated", "episode")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def played(name: str, seed: int) -> Log:
    """Return episodes of random actions in an environment of Gymnasium."""
    import gymnasium

    from pbim.verification.recording import record

    env = gymnasium.make(name)
    columns = record(env, term=lambda _: np.zeros(1), episodes=EPISODES, seed=1000 * seed, max_steps=STEPS)
    return {part: np.array(columns[part]) for part in ("obs", "next_obs", "terminated", "episode")}


def potential_of(kind: str, place: Floats, spread: Floats, rng: np.random.Generator) -> Potential:
    """Return a potential of a kind around a place."""
    size = len(place)
    if kind == "distance":
        return lambda rows: -np.linalg.norm((rows - place) / spread, axis=1)
    if kind == "quadratic":
        matrix = rng.normal(size=(size, size)) / np.sqrt(size)
        return lambda rows: -((((rows - place) / spread) @ matrix) ** 2).sum(axis=1)
    first, second = 1.5 * rng.normal(size=(size, 32)) / np.sqrt(size), 1.5 * rng.normal(size=(32, 32)) / np.sqrt(32)
    corners, last = rng.uniform(-1, 1, 32), rng.normal(size=32)
    return lambda rows: np.tanh(np.tanh(((rows - place) / spread) @ first + corners) @ second) @ last


def term_of(kind: str, log: Log, gamma: float, seed: int) -> Floats:
    """Return the pays of a term along a log."""
    rng = np.random.default_rng([7, seed])
    here, there, ends = (log[name] for name in ("obs", "next_obs", "terminated"))
    here, there = here.astype(float), there.astype(float)
    spread = here.std(axis=0)
    places = there[ends] if seed % 2 == 0 and ends.any() else here
    place = places[rng.integers(len(places))]

    def shaped(name: str, discount: float = gamma, *, keep: bool = False) -> Floats:
        potential = potential_of(name, place, spread, rng)
        return discount * np.where(ends & (not keep), 0, potential(there)) - potential(here)

    def distance(rows: Floats) -> Floats:
        return np.asarray(np.linalg.norm((rows - place) / spread, axis=1))

    dwell = 0.1 * (distance(there) < 0.8 * np.median(distance(here)))
    if kind in SAFE:
        return shaped(kind)
    mistake, _, potential = kind.partition(": ")
    if mistake == "no gamma":
        return shaped(potential, 1.0)
    if mistake == "ends keep":
        return shaped(potential, keep=True)
    step, at = (there - here) / spread, (here - place) / spread
    others: dict[str, Callable[[], Floats]] = {
        "dwell": lambda: dwell,
        "soft dwell": lambda: np.exp(-distance(there)),
        "closer": lambda: 0.1 * (distance(there) < distance(here)),
        "circling": lambda: shaped("distance") + 0.3 * (at[:, 0] * step[:, 1] - at[:, 1] * step[:, 0]),
        "energy": lambda: -(step**2).sum(axis=1),
        "distance + dwell": lambda: shaped("distance") + dwell,
    }
    return others[kind]()


def run(*, quick: bool = False, tasks: tuple[str, ...] = TASKS, seeds: tuple[int, ...] = SEEDS) -> dict[str, Any]:
    """Return one row per kind of term with its verdicts, and the errors of both kinds."""
    import pbim

    counts: dict[str, Counter[str]] = {kind: Counter() for kind in (*SAFE, *UNSAFE)}
    wrong = []
    for task in tasks[:1] if quick else tasks:
        for seed in seeds[:1] if quick else seeds:
            gamma = 0.9 if seed % 4 < 2 else 0.99
            log = plane(int(task.removeprefix("plane-")), seed) if task.startswith("plane") else played(task, seed)
            for kind in counts:
                if kind.startswith("ends keep") and not log["terminated"].any():
                    continue  # nothing is wrong with a potential where nothing ends
                report = pbim.audit(**log, term=term_of(kind, log, gamma, seed), gamma=gamma)
                verdict = "safe" if report.potential_based else "undecided"
                verdict = "unsafe" if report.rival is not None else verdict
                counts[kind][verdict] += 1
                if verdict != "undecided" and (verdict == "safe") != (kind in SAFE):
                    wrong.append(f"{kind} in {task}, seed {seed}: {verdict}, {report.share:.4f} explained")
    verdicts = ("safe", "unsafe", "undecided")
    cases = [{"term": kind, "truth": "safe" if kind in SAFE else "unsafe"} for kind in counts]
    return {
        "cases": [case | {verdict: counts[case["term"]][verdict] for verdict in verdicts} for case in cases],
        "wrong": wrong,
    }
