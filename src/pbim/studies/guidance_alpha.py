"""Our own study: how large should a bonus be? alpha over two decades, at two fixed guidances.

alpha times the guidance g is what a learner feels of a first visit. DoorKey-8x8, gamma .995, lambda .95; the goal pays
1. GRM(32) has g = .81, GRM(8) g = .34, so that alpha .01 there feels like .025 here. Written before anything of it ran.
"""

from dataclasses import replace

from pbim.intrinsic import EpisodicCount
from pbim.results import Claim, Group
from pbim.results.records import ClaimKind
from pbim.studies.guidance import compared, grm, guided
from pbim.studies.study import Cell, Study

ALPHAS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
STRONG, WEAK, LAMBDA = 32, 8, 0.95
BASE = 0.025
"""The paper's largest alpha, by which the conversions were chosen."""
_SOURCE = "pbim's own question: is alpha times guidance what a learner feels?"


def _cell(delay: int, alpha: float) -> Cell:
    scheme = f"grm-{delay}"
    base = guided(scheme, f"GRM, delay {delay}, alpha {alpha:g}", grm(delay), LAMBDA, delay=delay)
    share = base.learner.shaping.guidance(LAMBDA)
    debt = base.learner.shaping.debt(alpha, base.learner.env.max_steps).worst
    return replace(
        base,
        name=f"{scheme}-{alpha:g}",
        group=scheme,
        learner=replace(base.learner, intrinsic=EpisodicCount(alpha=alpha, key="count_key")),
        params={**base.params, "alpha": alpha, "felt": round(alpha * share, 8), "debt": round(debt, 6)},
    )


CELLS = {base.name: base for delay in (STRONG, WEAK) for alpha in ALPHAS for base in (_cell(delay, alpha),)}


def _claim(kind: ClaimKind, statistic: str, one: str, other: str, words: str) -> Claim:
    found = compared("alpha", kind, statistic, CELLS[one], CELLS[other], words)
    return replace(found, statement=f"{CELLS[one].label} {words} {CELLS[other].label}", source=_SOURCE)


_PLATEAU = (0.01, 0.05)

GUIDANCE_ALPHA = Study(
    name="guidance-alpha",
    title="DoorKey-8x8: how large a bonus?",
    summary="The coefficient of a count bonus over two decades, at two fixed guidances.",
    cells=tuple(CELLS.values()),
    seeds=5,
    claims=(
        *(
            _claim("equal", "frames_to_solve", f"grm-{STRONG}-{alpha:g}", f"grm-{STRONG}-{BASE:g}", "solves as soon as")
            for alpha in _PLATEAU
        ),
        _claim("less", "frames_to_solve", f"grm-{STRONG}-{BASE:g}", f"grm-{STRONG}-0.0025", "solves sooner than"),
        _claim("less", "final_length", f"grm-{STRONG}-{BASE:g}", f"grm-{STRONG}-0.25", "ends shorter than"),
        *(
            _claim("equal", "frames_to_solve", f"grm-{STRONG}-{low:g}", f"grm-{WEAK}-{high:g}", "solves as soon as")
            for low, high in ((0.01, 0.025), (0.1, 0.25))
        ),
    ),
    groups=tuple(
        Group(name=f"grm-{d}", label=f"guidance {grm(d).guidance(LAMBDA):.2f} (GRM, delay {d}, lambda {LAMBDA:g})")
        for d in (STRONG, WEAK)
    ),
)
