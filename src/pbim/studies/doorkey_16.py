"""A larger grid on which nothing was tuned: DoorKey-16x16, at the setting at which the conversions were chosen on 8x8.

Three seeds per cell; Geometric and GRM got eight, and a claim that compares them, when three had shown Geometric ahead.
"""

from pbim.envs import DoorKey
from pbim.studies.doorkey import GROUPS, cell, shorter
from pbim.studies.doorkey_conversions import CONVERSIONS, MAIN
from pbim.studies.doorkey_default import CENTRED, KNOWN
from pbim.studies.study import LATE, Study

ENV = DoorKey(size=16, reward="paper", max_steps=2560)
"""MiniGrid's own limit, 10 size^2."""
FRAMES = 4_000_000
BOUNDED = ("geometric-0.02", "grm-32", "bounded-0.3")
SCHEMES = {
    name: {**CONVERSIONS, **CENTRED}[name] for name in ("none", "im", "pbim", "geometric-0.02", "grm-32", "bounded-0.3")
}
_SOURCE = "pbim's own question: does what was chosen on DoorKey-8x8 hold here?"


DOORKEY_16 = Study(
    name="doorkey-16",
    title="DoorKey-16x16, held out",
    summary="The bounded conversions chosen on DoorKey-8x8, PBIM, the raw bonus and none on a larger grid.",
    cells=tuple(
        cell(scheme, *parts, MAIN, env=ENV, total_frames=FRAMES, seeds=8 if scheme in KNOWN else None)
        for scheme, parts in SCHEMES.items()
    ),
    seeds=3,
    claims=(
        *(
            shorter("doorkey-16", SCHEMES, scheme, other, MAIN, _SOURCE)
            for scheme in BOUNDED
            for other in ("none", "im", "pbim")
        ),
        shorter("doorkey-16", SCHEMES, *KNOWN, MAIN, f"{_SOURCE} ({LATE})"),
    ),
    groups=tuple(group for group in GROUPS if group.name == MAIN),
)
