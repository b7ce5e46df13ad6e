"""Our own study: which exact conversion should a user pick? All of them at the paper's three settings."""

from typing import Any

from pbim.studies.doorkey import GROUPS, SCHEMES, SETTINGS, cell, shorter, solves
from pbim.studies.study import Study

FRAMES = 2_000_000
DELAYS, RATES = (1, 8, 32, 128), (0.01, 0.02, 0.05, 0.1)

CONVERSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **SCHEMES,
    **{f"grm-{d}": (f"GRM, delay {d}", {"kind": "grm", "delay": d, "centring": "running"}) for d in DELAYS},
    **{f"geometric-{r}": (f"Geometric, {r}", {"kind": "geometric", "rate": r, "centring": "running"}) for r in RATES},
}
MAIN = "025-995"
"""The setting with all the seeds; the others have half of them."""
BOUNDED = ("grm-32", "geometric-0.02")
_SOURCE = "pbim's own question, from prototypes of one to four seeds"


DOORKEY_CONVERSIONS = Study(
    name="doorkey-conversions",
    title="DoorKey-8x8: which conversion?",
    summary="Raw, PBIM, GRM and Geometric of several strengths, and no bonus, at the paper's three settings.",
    learner="ppo",
    cells=tuple(
        cell(scheme, label, shaping, group, total_frames=FRAMES, seeds=None if group == MAIN else 5)
        for group in SETTINGS
        for scheme, (label, shaping) in CONVERSIONS.items()
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
