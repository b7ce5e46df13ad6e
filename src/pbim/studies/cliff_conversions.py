"""Our own study: which exact conversion of RND works on the paper's two cliff walks, and with which input?

RND is that of our first reading, orthogonal weights and Adam, which PBIM fails with.
"""

from dataclasses import replace
from typing import Literal

from pbim.agents import QLearning
from pbim.results import Claim, Group
from pbim.shaping import GRM, Geometric
from pbim.studies.cliff import FIRST_SCHEMES, RETURN
from pbim.studies.cliff_long import LATE_RETURN, lengthened
from pbim.studies.cliff_sensitivity import ENCODINGS, with_bonus
from pbim.studies.study import Cell, Study

RATES, DELAYS = (0.02, 0.1, 1.0), (8, 32)
RAW = FIRST_SCHEMES["rnd"][1]

SCHEMES: dict[str, tuple[str, QLearning]] = {
    **{name: FIRST_SCHEMES[name] for name in ("none", "rnd", "pbim")},
    **{
        f"geometric-{rate}": (f"Geometric, {rate}", replace(RAW, shaping=Geometric(gamma=0.99, rate=rate)))
        for rate in RATES
    },
    **{f"grm-{d}": (f"GRM, delay {d}", replace(RAW, shaping=GRM(gamma=0.99, delay=d))) for d in DELAYS},
}
GROUPS = {"one-hot": "4x12, one-hot input", "coordinates": "4x12, (x, y) input", "long": "4x50, one-hot input"}
_SOURCE = "pbim's own question, from prototypes of two to four seeds"


def _cell(scheme: str, group: str) -> Cell:
    label, learner = SCHEMES[scheme]
    encoding = "coordinates" if group == "coordinates" else "one-hot"
    if group == "long":
        learner = lengthened(learner)
    elif learner.intrinsic is not None:
        learner = with_bonus(learner, encode=ENCODINGS[encoding])
    return Cell(
        name=f"{scheme}-{group}",
        label=label,
        scheme=scheme,
        group=group,
        learner=learner,
        params={"scheme": scheme, "encoding": encoding},
        seeds=10 if group == "long" else None,
    )


def _against(scheme: str, group: str, other: str, kind: Literal["greater", "less"]) -> Claim:
    words = {"greater": "a higher", "less": "a lower"}[kind]
    return Claim(
        id=f"cliff-conversions-{scheme}-{kind}-{other}-{group}",
        statement=f"{SCHEMES[scheme][0]} ends with {words} return than {SCHEMES[other][0]}: {GROUPS[group]}",
        source=_SOURCE,
        kind=kind,
        cell=f"{scheme}-{group}",
        other=f"{other}-{group}",
        **(LATE_RETURN if group == "long" else RETURN),
    )


CLIFF_CONVERSIONS = Study(
    name="cliff-conversions",
    title="Cliff walking: which conversion of RND?",
    summary="No bonus, RND, PBIM, Geometric and GRM on both grids, with one-hot and with (x, y) input.",
    cells=tuple(_cell(scheme, group) for group in GROUPS for scheme in SCHEMES),
    seeds=30,
    claims=(
        *(_against("geometric-0.1", group, "none", "greater") for group in ("one-hot", "coordinates")),
        *(_against("geometric-0.1", group, "pbim", "greater") for group in ("one-hot", "coordinates")),
        *(_against("pbim", group, "none", "less") for group in GROUPS),
        _against("geometric-1.0", "long", "none", "greater"),
        _against("geometric-1.0", "long", "pbim", "greater"),
    ),
    groups=tuple(Group(name=name, label=label) for name, label in GROUPS.items()),
)
