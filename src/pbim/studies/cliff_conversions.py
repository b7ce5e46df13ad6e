"""Our own study: which exact conversion of RND works on the paper's two cliff walks, and with which input?"""

from typing import Any

from pbim.studies.cliff import BASE, NONE, PBIM, RAW, RETURN_MARGIN, RETURN_REASON, RND
from pbim.studies.cliff_long import LONG
from pbim.studies.study import Cell, Claim, Study

RATES, DELAYS = (0.02, 0.1, 1.0), (8, 32)
_CENTRED = {"centring": "running"}

SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("No IM", NONE),
    "rnd": ("RND", RAW),
    "pbim": ("PBIM", PBIM),
    **{
        f"geometric-{rate}": (
            f"Geometric, {rate}",
            {"intrinsic": RND, "shaping": {"kind": "geometric", "rate": rate, **_CENTRED}},
        )
        for rate in RATES
    },
    **{
        f"grm-{delay}": (
            f"GRM, delay {delay}",
            {"intrinsic": RND, "shaping": {"kind": "grm", "delay": delay, **_CENTRED}},
        )
        for delay in DELAYS
    },
}
GROUPS: dict[str, tuple[str, dict[str, Any], str, int | None]] = {
    "one-hot": ("4x12, one-hot input", BASE, "one-hot", None),
    "coordinates": ("4x12, (x, y) input", BASE, "coordinates", None),
    "long": ("4x50, one-hot input", LONG, "one-hot", 10),
}
_SOURCE = "pbim's own question, from prototypes of two to four seeds"


def _cell(scheme: str, group: str) -> Cell:
    label, parts = SCHEMES[scheme]
    _, base, encoding, seeds = GROUPS[group]
    intrinsic = parts["intrinsic"] and {**parts["intrinsic"], "encoding": encoding}
    return Cell(
        name=f"{scheme}-{group}",
        label=label,
        scheme=scheme,
        group=group,
        config={**base, **parts, "intrinsic": intrinsic},
        params={"scheme": scheme, "encoding": encoding},
        exact=scheme != "rnd",
        seeds=seeds,
    )


def _against(scheme: str, group: str, other: str, kind: str) -> Claim:
    words = {"greater": "a higher", "less": "a lower"}[kind]
    statistic = "late_return" if group == "long" else "final_return"
    return Claim(
        id=f"cliff-conversions-{scheme}-{kind}-{other}-{group}",
        statement=f"{SCHEMES[scheme][0]} ends with {words} return than {SCHEMES[other][0]}: {GROUPS[group][0]}",
        source=_SOURCE,
        paper=None,
        kind=kind,  # type: ignore[arg-type]
        cell=f"{scheme}-{group}",
        other=f"{other}-{group}",
        statistic=statistic,
        margin=RETURN_MARGIN,
        reason=RETURN_REASON,
    )


CLIFF_CONVERSIONS = Study(
    name="cliff-conversions",
    title="Cliff walking: which conversion of RND?",
    summary="No bonus, RND, PBIM, Geometric and GRM on both grids, with one-hot and with (x, y) input.",
    learner="q_learning",
    cells=tuple(_cell(scheme, group) for group in GROUPS for scheme in SCHEMES),
    seeds=30,
    claims=(
        *(_against("geometric-0.1", group, "none", "greater") for group in ("one-hot", "coordinates")),
        *(_against("geometric-0.1", group, "pbim", "greater") for group in ("one-hot", "coordinates")),
        *(_against("pbim", group, "none", "less") for group in GROUPS),
        _against("geometric-1.0", "long", "none", "greater"),
        _against("geometric-1.0", "long", "pbim", "greater"),
    ),
    groups=tuple((name, words[0]) for name, words in GROUPS.items()),
)
