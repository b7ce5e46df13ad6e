"""Claims, the paper's and our own, decided by rules that were written down before anything ran.

Two are younger than the first runs: what is below the list, and that an interval of rounding alone is no effect.

A claim is data (``pbim.results.Claim``); its seeds' figures come in, a verdict comes out. The rules, in one place:

less, greater  Welch's p, Holm-corrected over the study, below .05 and the sign as claimed: reproduced. Below .05 with
               the other sign, no effect of size ``margin`` left in the interval, or an interval of rounding alone: not
               reproduced.
equal          interval of the difference inside +-margin: reproduced; wholly outside: not reproduced.
no-less        interval of the difference above -margin: reproduced; wholly below: not reproduced.
estimate       mean within ``margin`` of the paper's value, or the value in the interval: reproduced; interval wholly
               outside value +- margin: not reproduced.
reaches, never, share   Wilson interval of the share of seeds above one half (never: below): reproduced; on the other
               side: not reproduced.
Anything else, and fewer than three finished seeds in a cell: undecided.

A seed may have no figure because it never got there (frames to converge, a greedy path). Where the Wilson interval of
the share that got there lies below one half, an estimate is not reproduced, and neither is ``less``; ``less`` is
reproduced where that of the other cell does, and the first cell's lies above. ``no-less`` is the other way round:
reproduced where the first cell's lies below and the other's above, not reproduced where they are exchanged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pbim.errors import InputError, choose
from pbim.report import statistics
from pbim.report.statistics import Interval, Sample
from pbim.results import Claim

REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not reproduced", "undecided"
OUR_WORDS = {REPRODUCED: "supported", NOT_REPRODUCED: "not supported", UNDECIDED: UNDECIDED}
"""The verdicts on claims that the paper does not make: there is nothing to reproduce."""
COMPARED = ("less", "greater", "equal", "no-less")
TESTED = ("less", "greater")
SHARES = ("reaches", "never", "share")
LEAST = 3
ALPHA = 0.05
ROUNDING = 1e-6
"""Differences below this share of the larger mean are rounding: returns are added up in single precision."""
_NONE = Interval(math.nan, math.nan)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One statistic of one cell: one value per finished seed, NaN included, and how many seeds were planned.

    ``never``: a seed without a value never got there, which is evidence, too.
    """

    values: Mapping[int, float]
    planned: int
    never: bool = False

    @property
    def finite(self) -> Sample:
        """Return the values that are numbers, (n,), in the order of the seeds."""
        return np.array([value for _, value in sorted(self.values.items()) if math.isfinite(value)], np.float64)

    @property
    def missing(self) -> list[int]:
        """Return the finished seeds whose figure is not a number."""
        return sorted(seed for seed, value in self.values.items() if not math.isfinite(value))

    @property
    def share(self) -> Interval:
        """Return the Wilson interval of the share of finished seeds that have a number."""
        return statistics.wilson(len(self.finite), len(self.values))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A decided claim: the verdict, our figure (a mean, a difference of means or a share) with its interval, and why.

    ``means`` are the two cells' means (one for a single cell), ``n`` the values used, ``finished`` the seeds that could
    have one and ``planned`` the seeds asked for in each; ``p``, ``corrected`` and ``permutation`` belong to the
    comparing kinds. ``seeds`` would decide.
    """

    claim: Claim
    verdict: str
    figure: float = math.nan
    interval: Interval = _NONE
    means: tuple[float, ...] = ()
    n: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()
    planned: tuple[int, ...] = ()
    p: float = math.nan
    corrected: float = math.nan
    permutation: float = math.nan
    improvement: float = math.nan
    seeds: int | None = None
    note: str = ""
    smoke: bool = False

    @property
    def word(self) -> str:
        """The verdict as it is shown: a claim of our own is supported or not."""
        return self.verdict if self.claim.paper is not None else OUR_WORDS[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON, NaN as None."""
        found = {
            **asdict(self),
            "claim": {**asdict(self.claim), "rule": self.claim.rule},
            "interval": list(self.interval),
        }
        return {name: _plain(value) for name, value in found.items()}


def decide(
    claims: Sequence[Claim], cells: Mapping[str, Mapping[str, Figures]], *, seed: int, smoke: bool = False
) -> list[Verdict]:
    """Return one verdict per claim; ``cells`` maps a cell's name and a statistic's name to its figures."""
    samples = [_samples(claim, cells) for claim in claims]
    tested = [i for i, claim in enumerate(claims) if claim.kind in TESTED]
    pvalues = [
        statistics.welch(*(figures.finite for figures in samples[i])) if _enough(samples[i]) else math.nan
        for i in tested
    ]
    corrected = dict(zip(tested, statistics.holm(pvalues), strict=True))
    verdicts = []
    for i, (claim, figures) in enumerate(zip(claims, samples, strict=True)):
        found = _decided(claim, figures, corrected=corrected.get(i, math.nan), tests=len(tested), seed=seed)
        verdicts.append(replace(found, smoke=smoke))
    return verdicts


def _samples(claim: Claim, cells: Mapping[str, Mapping[str, Figures]]) -> list[Figures]:
    """Return the figures of the claim's cell, and of the other for a comparison; cells that were not run have none."""
    choose(f"claim {claim.id}: kind", claim.kind, (*COMPARED, "estimate", *SHARES))
    names = [claim.cell, claim.other or ""] if claim.kind in COMPARED else [claim.cell]
    needs = {"equal": ("margin",), "no-less": ("margin",), "estimate": ("value", "margin"), "share": ("value",)}
    for name in needs.get(claim.kind, ()):
        if getattr(claim, name) is None:
            raise InputError(f"claim {claim.id} of kind {claim.kind} must have a {name}, received none: add it")
    samples = []
    for name in names:
        known = cells.get(name, {})
        if known:
            choose(f"claim {claim.id}: statistic", claim.statistic, known)
        samples.append(known.get(claim.statistic, Figures(values={}, planned=0)))
    return samples


def _enough(samples: Sequence[Figures]) -> bool:
    return all(len(figures.finite) >= LEAST for figures in samples)


def _decided(claim: Claim, samples: list[Figures], *, corrected: float, tests: int, seed: int) -> Verdict:
    kind = claim.kind
    counted = [len(figures.values) if kind in SHARES else len(figures.finite) for figures in samples]
    base = Verdict(
        claim=claim,
        verdict=UNDECIDED,
        n=tuple(counted),
        finished=tuple(len(figures.values) for figures in samples),
        planned=tuple(figures.planned for figures in samples),
        means=tuple(float(np.mean(figures.finite)) if len(figures.finite) else math.nan for figures in samples),
        note=_note(claim, samples),
    )
    if kind in SHARES and counted[0]:
        base = _counted(base, samples[0])
    if kind in ("less", "no-less", "estimate") and all(
        figures.never and len(figures.values) >= LEAST for figures in samples
    ):
        base = _reached(base, samples)
        if base.verdict != UNDECIDED:
            return base
    if min(counted) < LEAST:
        few = f"a verdict needs {LEAST} seeds per cell, received {' and '.join(map(str, counted))}"
        return replace(base, verdict=UNDECIDED, note=_joined(few, base.note))
    if kind in SHARES:
        return base
    if kind in TESTED:
        return _tested(base, samples, corrected=corrected, tests=tests, seed=seed)
    if kind in ("equal", "no-less"):
        return _equal(base, samples, seed=seed)
    return _estimated(base, samples[0], seed=seed)


def _reached(base: Verdict, samples: list[Figures]) -> Verdict:
    """Decide by the shares of seeds that got there at all, where they are clear."""
    first, *others = (figures.share for figures in samples)
    found = replace(base, note=_joined("decided by how many seeds got there at all", base.note))
    sooner = first.low > 0.5 and any(other.high < 0.5 for other in others)
    later = first.high < 0.5 and (base.claim.kind != "no-less" or others[0].low > 0.5)
    if sooner or later:
        holds = sooner if base.claim.kind != "no-less" else later
        return replace(found, verdict=REPRODUCED if holds else NOT_REPRODUCED)
    share = len(samples[0].finite) / len(samples[0].values)
    return replace(base, seeds=_to_tell_share(share, base.finished))


def _to_tell_share(share: float, have: tuple[int, ...]) -> int | None:
    return _fewest([statistics.seeds_to_tell(0.25, share - 0.5, power=0.5)], have)


def _note(claim: Claim, samples: list[Figures]) -> str:
    """Return what the reader must know of the seeds: unfinished ones, and those without a figure."""
    names = [claim.cell, claim.other] if len(samples) == 2 else [claim.cell]
    notes = []
    for name, figures in zip(names, samples, strict=True):
        if not figures.planned:
            notes.append(f"{name} was not run")
        elif len(figures.values) < figures.planned:
            notes.append(f"{name}: {len(figures.values)} of {figures.planned} seeds finished")
        if figures.missing and claim.kind not in SHARES:
            seeds = ", ".join(map(str, figures.missing))
            notes.append(f"{name}: no {claim.statistic} in {len(figures.missing)} seeds ({seeds}), left out")
    return "; ".join(notes)


def _compared(base: Verdict, samples: list[Figures], seed: int) -> Verdict:
    first, second = (figures.finite for figures in samples)
    return replace(
        base,
        figure=float(np.mean(first) - np.mean(second)),
        interval=statistics.difference_interval(first, second, seed=seed),
        p=statistics.welch(first, second),
        permutation=statistics.permutation(first, second, seed=seed),
        improvement=statistics.improvement(first, second),
    )


def _tested(base: Verdict, samples: list[Figures], *, corrected: float, tests: int, seed: int) -> Verdict:
    found = replace(_compared(base, samples, seed), corrected=corrected)
    sign, margin = (1 if base.claim.kind == "greater" else -1), base.claim.margin
    effect, most = sign * found.figure, max(sign * found.interval.low, sign * found.interval.high)
    if corrected < ALPHA:
        return replace(found, verdict=REPRODUCED if effect > 0 else NOT_REPRODUCED)
    if margin is not None and most < margin:
        return replace(found, verdict=NOT_REPRODUCED, note=_joined(f"no effect of {margin:g} left", found.note))
    rounding = ROUNDING * max(abs(float(np.mean(figures.finite))) for figures in samples)
    if found.interval.inside(-rounding, rounding):
        return replace(found, verdict=NOT_REPRODUCED, note=_joined("equal but for rounding", found.note))
    spread = sum(statistics.variance(figures.finite) for figures in samples)
    needed = [statistics.seeds_to_tell(spread, effect, alpha=ALPHA / tests)]
    if margin is not None and effect < margin:
        needed.append(statistics.seeds_to_tell(spread, margin - effect))
    return replace(found, seeds=_fewest(needed, found.n))


def _equal(base: Verdict, samples: list[Figures], *, seed: int) -> Verdict:
    found, margin = _compared(base, samples, seed), float(base.claim.margin or 0)
    most = margin if base.claim.kind == "equal" else math.inf
    if found.interval.inside(-margin, most):
        return replace(found, verdict=REPRODUCED)
    if found.interval.low > most or found.interval.high < -margin:
        return replace(found, verdict=NOT_REPRODUCED)
    spread = sum(statistics.variance(figures.finite) for figures in samples)
    room = min(margin + found.figure, most - found.figure)
    return replace(found, seeds=_fewest([statistics.seeds_to_tell(spread, room)], found.n))


def _estimated(base: Verdict, figures: Figures, *, seed: int) -> Verdict:
    value, margin = float(base.claim.value or 0), float(base.claim.margin or 0)
    sample = figures.finite
    found = replace(base, figure=float(np.mean(sample)), interval=statistics.interval(sample, seed=seed))
    if abs(found.figure - value) <= margin or found.interval.contains(value):
        return replace(found, verdict=REPRODUCED)
    if found.interval.low > value + margin or found.interval.high < value - margin:
        return replace(found, verdict=NOT_REPRODUCED)
    gap = abs(found.figure - value) - margin
    return replace(found, seeds=_fewest([statistics.seeds_to_tell(statistics.variance(sample), gap)], found.n))


def _counted(base: Verdict, figures: Figures) -> Verdict:
    """Decide by the share of all finished seeds; for ``never`` the share that does reach must lie below one half."""
    claim, values = base.claim, list(figures.values.values())
    if claim.kind == "share":
        hits = sum(math.isclose(value, claim.value or 0, rel_tol=1e-9, abs_tol=1e-12) for value in values)
    else:
        hits = sum(map(math.isfinite, values))
    share = hits / len(values)
    found = replace(base, figure=share, interval=statistics.wilson(hits, len(values)), means=(share,))
    above, below = found.interval.low > 0.5, found.interval.high < 0.5
    if claim.kind == "never":
        above, below = below, above
    if above or below:
        return replace(found, verdict=REPRODUCED if above else NOT_REPRODUCED)
    return replace(found, seeds=_to_tell_share(share, found.n))


def _fewest(needed: Sequence[int | None], have: tuple[int, ...]) -> int | None:
    """Return the fewest seeds that would decide, always more than there are; None where none would."""
    known = [count for count in needed if count is not None]
    return max(min(known), min(have) + 1) if known else None


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
