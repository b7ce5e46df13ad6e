"""Our own study: is guidance what decides how fast a learner learns, and debt how well?

GAE(lambda) credits a step with the share g = 1 - E[lambda^delay] of its bonus (docs/guidance.md). DoorKey-8x8 at
(alpha, gamma) = (.025, .995): five lambdas, GRM with six delays each, Geometric with the rate that has the same g, and
no bonus. Where g is nearly 1 that rate is below 1 - gamma, so that debts grow along the episode: these cells show what
debt does at equal guidance. The claims were written before anything of it ran; prototypes of two seeds had been seen.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from pbim.results import Claim, Group, HeatPlan
from pbim.results.records import ClaimKind
from pbim.shaping import GRM, Geometric, NoBonus, Shaping
from pbim.studies.doorkey import GAMMA, SETTINGS, cell
from pbim.studies.doorkey_conversions import MAIN
from pbim.studies.study import Cell, Study, large_repayments

FRAMES = 1_000_000
LAMBDAS = (0.7, 0.8, 0.9, 0.95, 0.98)
DELAYS = (2, 4, 8, 16, 32, 64)
SATURATED = 0.97
"""The guidance beyond which a longer delay should only owe more."""
ALIKE = 0.1
"""How far two guidances may lie apart, as a share, to count as equal between lambdas."""
BEST = (0.8, 16)
"""The best (lambda, delay) of the prototypes."""
BEST_AT_95 = (16, 32)
"""The delays that were best at lambda .95: in frames to solve, and in the final length."""
_SOURCE = "pbim's own question: the guidance law, from prototypes of two seeds"
_ALPHA, _ = SETTINGS[MAIN]


def guided(scheme: str, label: str, shaping: Shaping[Any], gae_lambda: float, **params: Any) -> Cell:
    """Return a cell of the setting, named by its scheme and lambda, with its guidance and debt beside it."""
    group = f"lambda-{gae_lambda:g}"
    base = cell(scheme, label, shaping, MAIN, total_frames=FRAMES, gae_lambda=gae_lambda)
    debt = shaping.debt(_ALPHA, base.learner.env.max_steps).worst
    known = {"lambda": gae_lambda, "guidance": round(shaping.guidance(gae_lambda), 6), "debt": round(debt, 6)}
    return replace(base, name=f"{scheme}-{gae_lambda:g}", group=group, params={**base.params, **known, **params})


def grm(delay: int) -> GRM:
    """Return GRM for the study's discount."""
    return GRM(gamma=GAMMA, delay=delay)


def _cells(gae_lambda: float) -> list[Cell]:
    found = [guided("none", "No bonus", NoBonus(), gae_lambda)]
    for delay in DELAYS:
        share = grm(delay).guidance(gae_lambda)
        rate = Geometric.for_learner(gamma=GAMMA, gae_lambda=gae_lambda, guidance=share).rate
        matched = Geometric(gamma=GAMMA, rate=float(f"{rate:.4g}"))  # a key must not depend on a processor's rounding
        words = f"Geometric, as GRM {delay}"
        found.append(guided(f"grm-{delay}", f"GRM, delay {delay}", grm(delay), gae_lambda, delay=delay))
        found.append(guided(f"geometric-{delay}", words, matched, gae_lambda, delay=delay))
    return found


MARGINS: dict[str, dict[str, Any]] = {
    "equal": {"margin": 100_000.0, "reason": "25% of the 0.4 M frames that prototypes took there"},
    "no-less": {"margin": 50_000.0, "reason": "25% of the 0.2 M frames that the fastest prototypes took"},
    "less": {"margin": 25_000.0, "reason": "2.5% of the training given"},
}
"""The smallest difference in frames that matters, by kind of claim."""
STEPS: dict[str, Any] = {"margin": 2.0, "reason": "two steps, of about forty"}


def compared(number: str, kind: ClaimKind, statistic: str, one: Cell, other: Cell, words: str) -> Claim:
    """Return the claim that one cell is to another as ``kind`` says."""
    return Claim(
        id=f"guidance-{number}-{one.name}-{kind}-{other.name}-{statistic}",
        statement=f"{_named(one)} {words} {_named(other)}",
        source=f"{_SOURCE}, claim {number}",
        kind=kind,
        cell=one.name,
        other=other.name,
        statistic=statistic,
        **(STEPS if statistic == "final_length" else MARGINS[kind]),
    )


def _named(each: Cell) -> str:
    return f"{each.label} at lambda {each.params['lambda']:g}"


with large_repayments():
    CELLS = {each.name: each for gae_lambda in LAMBDAS for each in _cells(gae_lambda)}


def _of(scheme: str, gae_lambda: float) -> Cell:
    return CELLS[f"{scheme}-{gae_lambda:g}"]


def _same_end() -> list[Claim]:
    """Return claim 1: at equal guidance GRM and Geometric end within two steps of each other."""
    return [
        compared("1", "equal", "final_length", _of(f"geometric-{d}", lam), _of(f"grm-{d}", lam), "ends as short as")
        for lam in LAMBDAS
        for d in DELAYS
    ]


def _rising() -> list[Claim]:
    """Return claim 2, first half: at every delay of at most 16 frames to solve rise with lambda."""
    return [
        compared("2", "less", "frames_to_solve", _of(f"grm-{d}", low), _of(f"grm-{d}", high), "solves sooner than")
        for d in DELAYS
        if d <= 16
        for low, high in (*pairwise(LAMBDAS), (LAMBDAS[0], LAMBDAS[-1]))
    ]


def _agreeing() -> list[Claim]:
    """Return claim 2, second half: at equal guidance below 0.5 frames to solve agree across lambdas within 25%."""
    weak = [(lam, d) for lam in LAMBDAS for d in DELAYS if grm(d).guidance(lam) < 0.5]
    return [
        compared(
            "2", "equal", "frames_to_solve", _of(f"{kind}-{d}", lam), _of(f"{kind}-{e}", other), "solves as soon as"
        )
        for kind in ("grm", "geometric")
        for lam, d in weak
        for other, e in weak
        if lam < other and abs(grm(d).guidance(lam) / grm(e).guidance(other) - 1) < ALIKE
    ]


def _saturating() -> list[Claim]:
    """Return claim 3: beyond guidance 0.97 longer delays do not help, and from four times that delay on they hurt."""
    found = []
    for lam in LAMBDAS:
        enough = next((d for d in DELAYS if grm(d).guidance(lam) >= SATURATED), DELAYS[-1])
        for delay in (d for d in DELAYS if d > enough):
            one, other = _of(f"grm-{delay}", lam), _of(f"grm-{enough}", lam)
            found.append(compared("3", "no-less", "frames_to_solve", one, other, "solves no sooner than"))
            found.append(compared("3", "no-less", "final_length", one, other, "ends no shorter than"))
            if delay >= 4 * enough:
                found.append(compared("3", "less", "final_length", other, one, "ends shorter than"))
    return found


def _winning() -> list[Claim]:
    """Return claim 4: the best (lambda, delay) beats the best at lambda .95."""
    best = _of(f"grm-{BEST[1]}", BEST[0])
    words = {"frames_to_solve": "solves sooner than", "frames_to_learn": "learns sooner than"}
    return [
        compared("4", "less", statistic, best, _of(f"grm-{d}", 0.95), words.get(statistic, "ends shorter than"))
        for d in BEST_AT_95
        for statistic in ("frames_to_solve", "frames_to_learn", "final_length")
    ]


GUIDANCE = Study(
    name="guidance",
    title="DoorKey-8x8: the guidance law",
    summary="Does the share of a bonus that GAE(lambda) passes on decide speed? Five lambdas, GRM and Geometric, none.",
    cells=tuple(CELLS.values()),
    seeds=5,
    claims=(*_same_end(), *_rising(), *_agreeing(), *_saturating(), *_winning()),
    groups=tuple(Group(name=f"lambda-{lam:g}", label=f"lambda {lam:g}") for lam in LAMBDAS),
    heat=tuple(
        HeatPlan(
            title=f"{words} by delay and lambda, {label}",
            x="delay",
            y="lambda",
            statistic=statistic,
            cells=tuple(f"{kind}-{d}-{lam:g}" for lam in LAMBDAS for d in DELAYS),
        )
        for kind, label in (("grm", "GRM"), ("geometric", "Geometric of the same guidance"))
        for statistic, words in (("frames_to_solve", "Frames to solve"), ("final_length", "Final length"))
    ),
)
