"""Our own study: candidates for the conversion to recommend, chosen on DoorKey-8x8 at (alpha, gamma) = (.025, .995).

The goal pays 1 and a first visit .025, so a ledger may owe between 4 and 40 first visits here (limits .1 to 1). The
cells of ``doorkey-conversions`` are the same runs: in one folder they are trained once. What is chosen here is tried on
tasks on which nothing was tuned: ``held-out`` and ``doorkey-16``.
"""

from typing import Any

from pbim.shaping import GRM, Bounded, Geometric, Ledger, Mixture, Shaping
from pbim.studies.doorkey import GAMMA, GROUPS, SETTINGS, cell, shorter, solves
from pbim.studies.doorkey_conversions import CONVERSIONS, FRAMES, MAIN
from pbim.studies.study import Study

_SOURCE = "pbim's own question"


def _half_each(one: Ledger, other: Ledger) -> Mixture:
    return Mixture(members=(one, other), weights=(0.5, 0.5))


KNOWN = ("geometric-0.02", "grm-32")
CENTRED: dict[str, tuple[str, Shaping[Any]]] = {
    "bounded-0.1": ("Bounded, 0.1", Bounded(gamma=GAMMA, limit=0.1)),
    "bounded-0.3": ("Bounded, 0.3", Bounded(gamma=GAMMA, limit=0.3)),
    "bounded-1": ("Bounded, 1", Bounded(gamma=GAMMA, limit=1.0)),
    "bounded-0.3-0.02": ("Bounded, 0.3, rate 0.02", Bounded(gamma=GAMMA, limit=0.3, rate=0.02)),
    "mixture-geometric": (
        "Half Geometric 0.01, half 0.1",
        _half_each(Geometric(gamma=GAMMA, rate=0.01), Geometric(gamma=GAMMA, rate=0.1)),
    ),
    "mixture-grm": (
        "Half GRM 32, half Geometric 0.02",
        _half_each(GRM(gamma=GAMMA, delay=32), Geometric(gamma=GAMMA, rate=0.02)),
    ),
}
PLAIN: dict[str, tuple[str, Shaping[Any]]] = {
    "geometric-0.02-no-norm": ("Geometric, 0.02, no norm", Geometric(gamma=GAMMA, rate=0.02, normalize=False)),
    "grm-32-no-norm": ("GRM, delay 32, no norm", GRM(gamma=GAMMA, delay=32, normalize=False)),
    "bounded-0.3-no-norm": ("Bounded, 0.3, no norm", Bounded(gamma=GAMMA, limit=0.3, normalize=False)),
}
CANDIDATES = {**{name: CONVERSIONS[name] for name in KNOWN}, **CENTRED, **PLAIN}


DOORKEY_DEFAULT = Study(
    name="doorkey-default",
    title="DoorKey-8x8: which conversion by default?",
    summary=f"Bounded ledgers, mixtures, with and without centring, at (alpha, gamma) = {SETTINGS[MAIN]}.",
    cells=tuple(cell(scheme, *parts, MAIN, total_frames=FRAMES) for scheme, parts in CANDIDATES.items()),
    seeds=5,
    claims=(
        *(solves("default", CANDIDATES, scheme, MAIN, FRAMES, _SOURCE) for scheme in CANDIDATES),
        *(shorter("default", CANDIDATES, scheme, "geometric-0.02", MAIN, _SOURCE) for scheme in CENTRED),
        *(shorter("default", CANDIDATES, scheme.removesuffix("-no-norm"), scheme, MAIN, _SOURCE) for scheme in PLAIN),
    ),
    groups=tuple(group for group in GROUPS if group.name == MAIN),
)
