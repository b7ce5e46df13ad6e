"""Our own study: which exact conversion should a user pick? All of them at the paper's three settings."""

from typing import Any

from pbim.studies.doorkey import GROUPS, SCHEMES, SETTINGS, STEP, cell
from pbim.studies.study import Claim, Study

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


def _solves(scheme: str, group: str, solves: bool) -> Claim:
    return Claim(
        id=f"conversions-{scheme}-solves-{group}",
        statement=f"{CONVERSIONS[scheme][0]} {'solves' if solves else 'does not solve'} DoorKey within "
        f"{FRAMES:,} frames at (alpha, gamma) = {SETTINGS[group]}",
        source=_SOURCE,
        paper="not in the paper",
        kind="reaches" if solves else "never",
        cell=f"{scheme}-{group}",
        statistic="frames_to_solve",
    )


def _shorter(scheme: str, other: str, group: str) -> Claim:
    return Claim(
        id=f"conversions-{scheme}-shorter-{other}-{group}",
        statement=f"{CONVERSIONS[scheme][0]} ends with shorter episodes than {CONVERSIONS[other][0]} at "
        f"(alpha, gamma) = {SETTINGS[group]}",
        source=_SOURCE,
        paper="not in the paper",
        kind="less",
        cell=f"{scheme}-{group}",
        other=f"{other}-{group}",
        statistic="final_length",
        margin=1.0,
        reason=STEP,
    )


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
        *(_solves(scheme, group, True) for group in SETTINGS for scheme in BOUNDED),
        *(_solves("pbim", group, False) for group in SETTINGS),
        *(
            _shorter(scheme, other, group)
            for group in SETTINGS
            for scheme in BOUNDED
            for other in ("im", "pbim", "none")
        ),
    ),
    groups=GROUPS,
)
