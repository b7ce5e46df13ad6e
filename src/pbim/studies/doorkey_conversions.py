"""Our own study: which exact conversion should a user pick? All of them at the paper's three settings."""

from typing import Any

from pbim.shaping import GRM, Geometric, Shaping
from pbim.studies.doorkey import GAMMA, GROUPS, SCHEMES, SETTINGS, cell, shorter, solves
from pbim.studies.study import Study

FRAMES = 2_000_000
DELAYS, RATES = (1, 8, 32, 128), (0.01, 0.02, 0.05, 0.1)

CONVERSIONS: dict[str, tuple[str, Shaping[Any]]] = {
    **SCHEMES,
    **{f"grm-{d}": (f"GRM, delay {d}", GRM(gamma=GAMMA, delay=d)) for d in DELAYS},
    **{f"geometric-{r}": (f"Geometric, {r}", Geometric(gamma=GAMMA, rate=r)) for r in RATES},
}
MAIN = "025-995"
"""The setting with all the seeds; the others have half of them."""
BOUNDED = ("grm-32", "geometric-0.02")
_SOURCE = "pbim's own question, from prototypes of one to four seeds"


DOORKEY_CONVERSIONS = Study(
    name="doorkey-conversions",
    title="DoorKey-8x8: which conversion?",
    summary="Raw, PBIM, GRM and Geometric of several strengths, and no bonus, at the paper's three settings.",
    cells=tuple(
        cell(scheme, *parts, group, total_frames=FRAMES, seeds=None if group == MAIN else 5)
        for group in SETTINGS
        for scheme, parts in CONVERSIONS.items()
    ),
    seeds=10,
    claims=(
        *(
            solves("conversions", CONVERSIONS, scheme, group, FRAMES, _SOURCE)
            for group in SETTINGS
            for scheme in BOUNDED
        ),
        *(solves("conversions", CONVERSIONS, "pbim", group, FRAMES, _SOURCE, does=False) for group in SETTINGS),
        *(
            shorter("conversions", CONVERSIONS, scheme, other, group, _SOURCE)
            for group in SETTINGS
            for scheme in BOUNDED
            for other in ("im", "pbim", "none")
        ),
    ),
    groups=GROUPS,
)
