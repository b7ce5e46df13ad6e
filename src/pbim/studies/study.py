"""What a study is: cells (configurations without a seed), how many seeds, and the claims it decides. Data only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pbim.errors import InputError, choose
from pbim.results import key_of

Config = Mapping[str, Any]
Learner = Literal["q_learning", "ppo"]
LATE = "claim added after runs had been seen"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One configuration: ``config`` is everything but the seed, ``params`` what varies, for tables and heat maps.

    ``exact`` says whether the conversion promises to cancel over every episode. ``seeds`` is the number of its runs
    where that is not the study's.
    """

    name: str
    label: str
    config: Config
    scheme: str
    group: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True
    seeds: int | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement with the test that decides it, fixed before anything ran (else ``source`` says LATE).

    Decided by ``pbim.report`` alone.

    ``kind`` names the decision rule: less, greater and equal compare ``cell`` with ``other``, estimate compares with
    the paper's ``value``, reaches, never and share count seeds. ``margin`` is the smallest effect that matters, and
    ``reason`` says why that one. ``paper`` is what the paper says, None for a claim of our own.
    """

    id: str
    statement: str
    source: str
    paper: str | None
    kind: Literal["less", "greater", "equal", "estimate", "reaches", "never", "share"]
    cell: str
    statistic: str
    other: str | None = None
    value: float | None = None
    margin: float | None = None
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """Return the claim as stored, with its decision rule in words."""
        names = (
            "id",
            "statement",
            "source",
            "paper",
            "kind",
            "cell",
            "other",
            "statistic",
            "value",
            "margin",
            "reason",
        )
        return {**{name: getattr(self, name) for name in names}, "rule": self.rule}

    @property
    def rule(self) -> str:
        """The decision rule as one sentence."""
        rule = RULES[self.kind].format(margin=_plain(self.margin), value=_plain(self.value))
        if self.paper is None:
            rule = rule.replace("Reproduced if", "Supported if").replace("not reproduced if", "not supported if")
        return f"{rule} (margin: {self.reason})." if self.reason else f"{rule}."


_TEST = "Reproduced if Welch's test over seeds, Holm-corrected, has p < .05 and the mean is"
_SHARE = "Reproduced if the 95% Wilson interval of the share of seeds"

RULES = {
    "less": f"{_TEST} lower; not reproduced if it is significantly higher or the 95% interval of the difference "
    "excludes a reduction of {margin}; else undecided",
    "greater": f"{_TEST} higher; not reproduced if it is significantly lower or the 95% interval of the difference "
    "excludes an increase of {margin}; else undecided",
    "equal": "Reproduced if the 95% interval of the difference of means lies within {margin}; not reproduced if it "
    "lies wholly outside; else undecided",
    "estimate": "Reproduced if our mean over seeds is within {margin} of the paper's {value} or our 95% interval "
    "contains it; not reproduced if the interval lies wholly outside; else undecided",
    "reaches": f"{_SHARE} that reach it lies above one half; not reproduced if below; else undecided",
    "never": f"{_SHARE} that reach it lies below one half; not reproduced if above; else undecided",
    "share": f"{_SHARE} with the value {{value}} lies above one half; not reproduced if below; else undecided",
}
"""The decision rules of ``pbim.report`` in words, by kind."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A set of runs and what they are to decide; the rest says what a report shows of them."""

    name: str
    title: str
    summary: str
    learner: Learner
    cells: tuple[Cell, ...]
    seeds: int
    claims: tuple[Claim, ...]
    groups: tuple[tuple[str, str], ...] = (("", ""),)
    grid: Mapping[str, Any] | None = None
    paper: Mapping[str, Any] | None = None
    heat: tuple[Mapping[str, Any], ...] = ()
    quick: bool = False

    def __post_init__(self) -> None:
        names = [cell.name for cell in self.cells]
        assert len(set(names)) == len(names), "cell names are unique"
        assert len({claim.id for claim in self.claims}) == len(self.claims), "claim ids are unique"

    def cell(self, name: str) -> Cell:
        """Return the cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)

    def runs(self) -> Iterator[tuple[Cell, int, dict[str, Any]]]:
        """Yield every run as (cell, seed, configuration); equal configurations of several cells are the same run."""
        for cell in self.cells:
            for seed in range(self.seeds_of(cell)):
                yield cell, seed, config_of(self, cell, seed)

    def seeds_of(self, cell: Cell) -> int:
        """Return how many runs a cell has."""
        return self.seeds if cell.seeds is None else cell.seeds

    def sized(
        self, *, seeds: int | None = None, only: tuple[str, ...] = (), frames: int | None = None, quick: bool = False
    ) -> "Study":
        """Return this study with other seeds, fewer schemes or cells, other frames, or at smoke size."""
        cells = self._chosen(only) if only else self.cells
        if seeds is None and quick:
            seeds = min(QUICK_SEEDS, self.seeds)
        if seeds is None:
            seeds = self.seeds
        elif seeds < 1:
            raise InputError(f"seeds must be at least 1, received {seeds}: leave it out for {self.seeds}")
        else:
            cells = tuple(replace(cell, seeds=None) for cell in cells)
        if quick:
            cells = tuple(replace(cell, config={**cell.config, **QUICK[self.learner]}) for cell in cells)
        if frames is not None:
            if self.learner != "ppo":
                raise InputError(f"frames is for the DoorKey studies, {self.name} counts episodes: leave it out")
            if frames < 1:
                raise InputError(f"frames must be at least 1, received {frames}: leave it out for the full length")
            cells = tuple(replace(cell, config={**cell.config, "total_frames": frames}) for cell in cells)
        kept = {cell.name for cell in cells}
        return replace(
            self,
            cells=cells,
            seeds=seeds,
            quick=quick,
            claims=tuple(claim for claim in self.claims if {claim.cell, claim.other or claim.cell} <= kept),
            groups=tuple(group for group in self.groups if group[0] in {cell.group for cell in cells}),
            heat=tuple(heat for heat in self.heat if set(heat["cells"]) <= kept),
            paper=self.paper and {**self.paper, "rows": [row for row in self.paper["rows"] if row["cell"] in kept]},
        )

    def _chosen(self, only: tuple[str, ...]) -> tuple[Cell, ...]:
        known = list(dict.fromkeys([cell.scheme for cell in self.cells] + [cell.name for cell in self.cells]))
        wanted = {choose("only", name, known) for name in only}
        return tuple(cell for cell in self.cells if {cell.scheme, cell.name} & wanted)

    def document(self, *, command: str, version: str, commit: str | None) -> dict[str, Any]:
        """Return the plan as ``study.json`` holds it."""
        q_learning = self.learner == "q_learning"
        reward, axis = ("return", "episode") if q_learning else ("extrinsic_return", "frames")
        return {
            "study": self.name,
            "title": self.title,
            "summary": self.summary,
            "quick": self.quick,
            "command": command,
            "version": version,
            "commit": commit,
            "learner": self.learner,
            "cells": [self._cell_document(cell) for cell in self.cells],
            "groups": [{"name": name, "label": label} for name, label in self.groups],
            "curves": [
                {"metric": "length", "label": "Episode length", "better": "lower"},
                {"metric": reward, "label": "Extrinsic return", "better": "higher"},
            ][:: -1 if q_learning else 1]
            + ([] if q_learning else ENDS),
            "x": {"metric": axis, "label": axis.capitalize()},
            "grid": self.grid,
            "paper": self.paper,
            "heat": list(self.heat),
            "claims": [claim.document() for claim in self.claims],
        }

    def _cell_document(self, cell: Cell) -> dict[str, Any]:
        return {
            "name": cell.name,
            "label": cell.label,
            "group": cell.group,
            "scheme": cell.scheme,
            "params": dict(cell.params),
            "exact": cell.exact,
            "runs": [{"seed": seed, "key": key_of(config_of(self, cell, seed))} for seed in range(self.seeds_of(cell))],
        }


ENDS = [
    {"metric": "goal_length", "label": "Length of the episodes that reach the goal"},
    {"metric": "settled_goal", "label": "F' at the last step before the goal"},
    {"metric": "settled_truncated", "label": "F' at the last step before truncation"},
    {"metric": "end_error", "label": "Critic's error at the last step"},
]
"""What a conversion does to the last step of an episode, of which PPO's rows hold the mean."""

QUICK_SEEDS = 3
QUICK: dict[str, dict[str, Any]] = {"q_learning": {"episodes": 60}, "ppo": {"total_frames": 8192}}
"""What smoke size changes: enough to see every step of the way, too little to decide anything."""


def config_of(study: Study, cell: Cell, seed: int) -> dict[str, Any]:
    """Return the whole configuration of a run: what its key is the hash of."""
    return {"schema": 1, "learner": study.learner, "exact": cell.exact, **cell.config, "seed": seed}


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:,.4g}"
