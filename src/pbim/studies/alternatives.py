"""Every remedy of the related work on the same task: which one learns, how quickly, and what is left of the bonus?

DoorKey-8x8 at the paper's three settings. All schemes but two share the paper's count bonus: BSRS has none, and RND is
as Burda et al. have it. The claims are our expectations, written before anything ran but the cells that
``doorkey-conversions`` shares: no bonus, raw, PBIM, GRM. EIPO's episodes are of both its policies; its greedy figures
are of the mixed one.

After the first seed of every cell two critics ended far shorter than all others. ``CONTROLS`` ask why, at the hardest
setting. Their episodic counts start anew with each episode, while their returns of the bonus go on: ending an episode
is paid, by the next one's first visits. And with 2 A_R the entropy bonus counts half.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pbim.agents import BSRS, EIPO, Adopes, Adops, TwoCritics
from pbim.intrinsic import RND, EpisodicCount, RunningStdScaled
from pbim.results import Claim
from pbim.results.records import ClaimKind
from pbim.shaping import PBIM, PIES, NoBonus, Raw, Shaping, recommended
from pbim.studies.doorkey import BASE, GAMMA, GROUPS, LENGTH, SETTINGS, cell, solves
from pbim.studies.doorkey_conversions import MAIN
from pbim.studies.study import LATE, Cell, Study

FRAMES = 2_000_000
SMALL = "005-99"
"""The setting at which even the raw bonus is known to be learnt."""
_SOURCE = "pbim's own expectation"
End = Literal["equal", "less", "greater"]


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A row of the table, and what we expect of it.

    Attributes:
        label: What it is called.
        settings: What one has to choose beyond PPO's own settings: their names.
        shaping: The conversion, or the kind whose recommended member for the discount it is.
        share: The share of alpha that is paid.
        changes: What else differs in the learner.
        solves: Whether we expect it to solve the task, at the small bonus and at the large ones.
        quicker: Whether we expect it to solve sooner than no bonus, at the small bonus and at the large ones.
        ends: How we expect its final length to compare with that of no bonus, at the small bonus and at the large ones.

    """

    label: str
    settings: tuple[str, ...] = ("alpha",)
    shaping: Shaping[Any] | Literal["grm", "geometric"] = field(default_factory=Raw)
    share: float = 1.0
    changes: Mapping[str, Any] = field(default_factory=dict)
    solves: tuple[bool, bool] = (True, True)
    quicker: tuple[bool, bool] = (True, True)
    ends: tuple[End, End] = ("equal", "equal")

    def conversion(self, gamma: float) -> Shaping[Any]:
        """Return the conversion for a discount."""
        return recommended(gamma, BASE.gae_lambda, self.shaping) if isinstance(self.shaping, str) else self.shaping


def _with(method: Any, **changes: Any) -> dict[str, Any]:
    needed = {name: value for name, value in method.goes_with.items() if name != "shaping"}
    return {"method": method, **needed, **changes}


HACKED: dict[str, Any] = {"solves": (True, False), "quicker": (True, False), "ends": ("greater", "greater")}
"""What the raw bonus is known to do."""
TWO = ("alpha", "intrinsic gamma", "extrinsic coefficient", "intrinsic coefficient")

SCHEMES: dict[str, Scheme] = {
    "none": Scheme(label="No bonus", settings=(), shaping=NoBonus()),
    "im": Scheme(label="Raw", **HACKED),
    "raw-2": Scheme(label="Raw, alpha / 2", share=1 / 2, **HACKED),
    "raw-4": Scheme(label="Raw, alpha / 4", share=1 / 4, ends=("equal", "greater")),
    "raw-8": Scheme(label="Raw, alpha / 8", share=1 / 8, ends=("equal", "greater")),
    **{
        f"pies-{steps // 1000}k": Scheme(
            label=f"PIES, {steps:,} frames",
            settings=("alpha", "decay steps"),
            shaping=PIES(decay_steps=steps),
            quicker=(True, False),
        )
        for steps in (500_000, 1_500_000)
    },
    "eipo": Scheme(
        label="EIPO",
        settings=("alpha", "multiplier", "multiplier's rate", "multiplier's clip"),
        changes=_with(EIPO()),
        **HACKED,
    ),
    "adops": Scheme(label="ADOPS", settings=("alpha", "epsilon"), changes=_with(Adops()), quicker=(False, False)),
    "adopes": Scheme(
        label="ADOPES", settings=("alpha", "epsilon", "rise frames"), changes=_with(Adopes()), quicker=(True, False)
    ),
    "bsrs": Scheme(label="BSRS", settings=("eta",), shaping=NoBonus(), changes=_with(BSRS()), quicker=(False, False)),
    "two-critics": Scheme(
        label="Two critics", settings=TWO, changes=_with(TwoCritics(), intrinsic_gamma=0.99), **HACKED
    ),
    "rnd-two-critics": Scheme(
        label="RND, two critics",
        settings=(*TWO[1:], "hidden", "features", "learning rate"),
        changes=_with(
            TwoCritics(), intrinsic_gamma=0.99, intrinsic=RunningStdScaled(RND(), gamma=0.99), intrinsic_scale=1.0
        ),
        solves=(False, False),
        quicker=(False, False),
        ends=("greater", "greater"),
    ),
    "pbim": Scheme(
        label="PBIM",
        shaping=PBIM(gamma=GAMMA),
        solves=(False, False),
        quicker=(False, False),
        ends=("greater", "greater"),
    ),
    "grm": Scheme(label="GRM, recommended", shaping="grm", ends=("equal", "less")),
    "geometric": Scheme(label="Geometric, recommended", shaping="geometric", ends=("equal", "less")),
}

HALF: dict[str, Any] = {"entropy_coefficient": BASE.entropy_coefficient / 2}
CONTROLS: dict[str, Scheme] = {
    "two-critics-episodic": replace(
        SCHEMES["two-critics"],
        label="Two critics, episodic",
        changes=_with(TwoCritics(episodic=True), intrinsic_gamma=0.99),
    ),
    "none-half-entropy": replace(SCHEMES["none"], label="No bonus, half the entropy", changes=HALF),
    "grm-half-entropy": replace(SCHEMES["grm"], label="GRM, recommended, half the entropy", changes=HALF),
    "eipo-fast": replace(
        SCHEMES["eipo"], label="EIPO, multiplier 25 times as fast", changes=_with(EIPO(alpha_rate=0.5))
    ),
}
"""What could make two critics end so short and EIPO's coefficient stay, one thing at a time; named after it."""

COMPUTE: dict[str, float] = {
    "none": 1.0,
    **dict.fromkeys(("im", "raw-2", "raw-4", "raw-8"), 1.0),
    **dict.fromkeys(("pies-500k", "pies-1500k"), 0.99),
    **dict.fromkeys(("eipo", "eipo-fast"), 1.07),
    **dict.fromkeys(("adops", "adopes"), 1.0),
    "bsrs": 0.99,
    **dict.fromkeys(("two-critics", "two-critics-episodic"), 1.01),
    "rnd-two-critics": 1.56,
    "pbim": 0.99,
    **dict.fromkeys(("grm", "grm-half-entropy", "geometric"), 1.0),
    "none-half-entropy": 1.0,
}
"""Time on the core per frame, in units of no bonus: ``python -m benchmarks methods``."""


def _cell(name: str, scheme: Scheme, group: str) -> Cell:
    alpha, gamma = SETTINGS[group]
    known = {"settings": len(scheme.settings), "compute": COMPUTE[name]}
    changes = {**scheme.changes, "total_frames": FRAMES}
    bonus = changes.pop("intrinsic", EpisodicCount(alpha=alpha * scheme.share, key="count_key"))
    base = cell(name, scheme.label, scheme.conversion(gamma), group, params=known)
    paid = base.learner.intrinsic if isinstance(base.learner.shaping, NoBonus) else bonus
    return replace(base, learner=replace(base.learner, intrinsic=paid, **changes))


CELLS = {(name, group): _cell(name, scheme, group) for group in SETTINGS for name, scheme in SCHEMES.items()}
CELLS |= {(name, MAIN): _cell(name, scheme, MAIN) for name, scheme in CONTROLS.items()}
SOONER = {"statistic": "frames_to_solve", "margin": 25_000.0, "reason": "1.25% of the training given"}
_WORDS = {"less": "ends shorter than", "equal": "ends within a step of", "greater": "ends longer than"}


def _claims(name: str, scheme: Scheme, group: str) -> list[Claim]:
    """Return what we expect of a scheme at a setting: whether it solves, how soon, and how it ends."""
    place = 0 if group == SMALL else 1
    labels = {name: (scheme.label, scheme.conversion(SETTINGS[group][1]))}
    found = [solves("alternatives", labels, name, group, FRAMES, _SOURCE, does=scheme.solves[place])]
    if name == "none":
        return found
    kind: ClaimKind = "less" if scheme.quicker[place] else "no-less"
    words = "solves sooner than" if scheme.quicker[place] else "solves no sooner than"
    pairs: list[tuple[ClaimKind, str, dict[str, Any]]] = [
        (kind, words, SOONER),
        (scheme.ends[place], _WORDS[scheme.ends[place]], LENGTH),
    ]
    return found + [
        Claim(
            id=f"alternatives-{name}-{decided['statistic']}-{group}",
            statement=f"{scheme.label} {words} no bonus at (alpha, gamma) = {SETTINGS[group]}",
            source=_SOURCE,
            kind=kind,
            cell=f"{name}-{group}",
            other=f"none-{group}",
            **decided,
        )
        for kind, words, decided in pairs
    ]


def _control(name: str, varied: str, kind: ClaimKind, words: str) -> Claim:
    """Return what we expect of a control beside the scheme that it varies."""
    labels = CONTROLS[name].label, SCHEMES[varied].label.lower()
    return Claim(
        id=f"alternatives-{name}-beside-{varied}",
        statement=f"{labels[0]}, {words} {labels[1]} at (alpha, gamma) = {SETTINGS[MAIN]}",
        source=f"{_SOURCE} ({LATE})",
        kind=kind,
        cell=f"{name}-{MAIN}",
        other=f"{varied}-{MAIN}",
        **LENGTH,
    )


ALTERNATIVES = Study(
    name="alternatives",
    title="DoorKey-8x8: every alternative",
    summary="Decay, scaling, EIPO, ADOPS, BSRS, two critics and the exact conversions at the paper's three settings.",
    cells=tuple(CELLS.values()),
    seeds=5,
    claims=(
        *(claim for group in SETTINGS for name, scheme in SCHEMES.items() for claim in _claims(name, scheme, group)),
        _control("two-critics-episodic", "two-critics", "greater", "ends longer than"),
        _control("none-half-entropy", "none", "less", "ends shorter than"),
        _control("grm-half-entropy", "grm", "less", "ends shorter than"),
        _control("eipo-fast", "eipo", "less", "ends shorter than"),
    ),
    groups=GROUPS,
)
