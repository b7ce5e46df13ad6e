"""Everything a report needs of a study's folder, read once: figures, curves and certificates of every run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError
from pbim.report import measures
from pbim.report.claims import OUR_WORDS, Figures, Verdict, decide
from pbim.report.curves import Axis, axis_of, binned
from pbim.results import REPLAY, Group, Plan, PlannedCell, Run, RunCertificate, Store

SEED = 20240506
"""Of the bootstrap and the permutation tests: the same store gives the same report, byte for byte."""


@dataclass(frozen=True, kw_only=True)
class RunEvidence:
    """One run of the plan: what is stored of it, and if it is done its figures, curves by metric and final arrays."""

    run: Run
    figures: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    certificate: RunCertificate | None = None

    @property
    def done(self) -> bool:
        """Whether it has finished."""
        return self.run.state == "done"

    @property
    def replay(self) -> Path | None:
        """Return the picture of its agent, if there is one."""
        path = self.run.folder / REPLAY
        return path if path.exists() else None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A study, its runs in the plan's order, and its claims decided."""

    study: Plan
    runs: list[RunEvidence]
    axis: Axis
    verdicts: list[Verdict]

    @property
    def done(self) -> int:
        """How many runs have finished; cells may share one, which counts once."""
        return len({entry.run.key for entry in self.runs if entry.done})

    @property
    def planned(self) -> int:
        """How many runs the study has."""
        return len({entry.run.key for entry in self.runs})

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the settings; a study without any has one without a name."""
        return self.study.groups or (Group(name="", label=""),)

    @property
    def statistics(self) -> Mapping[str, measures.Measure]:
        """Return the figures that the study's runs have, by name; of those that not all runs have, the ones found."""
        return {
            name: measure
            for name, measure in measures.MEASURES[self.study.learner].items()
            if not measure.optional or any(math.isfinite(entry.figures.get(name, math.nan)) for entry in self.runs)
        }

    def cells(self, group: str | None = None) -> Iterator[tuple[PlannedCell, list[RunEvidence]]]:
        """Yield every cell of the study, or of one group, with its runs; unknown groups count as the first."""
        names = [each.name for each in self.groups]
        for cell in self.study.cells:
            home = cell.group if cell.group in names else names[0]
            if group in (None, home):
                yield cell, [entry for entry in self.runs if entry.run.cell == cell.name]

    def colour(self, label: str) -> int:
        """Return which colour a scheme has: the same in every group."""
        return list(dict.fromkeys(cell.label for cell in self.study.cells)).index(label)

    @property
    def tally(self) -> list[tuple[str, str, int]]:
        """Return how many claims there are of each verdict, as (word, verdict, count)."""
        own = all(found.claim.paper is None for found in self.verdicts)
        verdicts = [found.verdict for found in self.verdicts]
        return [(word if own else name, name, verdicts.count(name)) for name, word in OUR_WORDS.items()]

    @property
    def headline(self) -> str:
        """Return the report in one sentence."""
        parts = [f"{count} {word}" for word, _, count in self.tally if count]
        total = len(self.verdicts)
        claims = f"Of {total} claim{'s' * (total != 1)}, {_listed(parts)}" if total else "This study tests no claims"
        return f"{claims}; {self.done} of {self.planned} runs finished."


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def gather(path: str | Path) -> Evidence:
    """Return what a study's folder says; raises ``InputError`` for no study, no finished run or an unreadable file.

    The folder is a results store or one that :func:`pbim.report.archive.publish` wrote.
    """
    from pbim.report import archive

    if archive.is_archive(path):
        return archive.read(path)
    store = Store(path)
    study = store.plan()
    runs = store.runs()
    for run in runs:
        if run.state == "corrupt":
            raise InputError(str(run.status.error))
    done = [run for run in runs if run.state == "done"]
    if not done:
        raise InputError(
            f"folder must hold at least one finished run, received {str(path)!r} with 0 of {len(runs)}: "
            f"run {study.command} first"
        )
    metrics = [curve.metric for curve in study.curves]
    x = study.x.metric
    axis = axis_of(x, done[0].metrics()[x].to_numpy(), curves=len(done) * max(1, len(metrics)))
    once = {run.key: run for run in runs}
    read = {key: _evidence_of(run, study, axis, metrics) for key, run in once.items()}
    return decided(study, [replace(read[run.key], run=run) for run in runs], axis)


def decided(study: Plan, entry: list[RunEvidence], axis: Axis) -> Evidence:
    """Return runs as evidence: with every claim of the study decided."""
    figures = {cell.name: _figures(cell, entry, study.learner) for cell in study.cells}
    verdicts = decide(study.claims, figures, seed=SEED, smoke=bool(study.quick))
    return Evidence(study=study, runs=entry, axis=axis, verdicts=verdicts)


def _evidence_of(run: Run, study: Plan, axis: Axis, metrics: list[str]) -> RunEvidence:
    if run.state != "done":
        return RunEvidence(run=run)
    frame, arrays = run.metrics(), run.arrays()
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    try:
        figures = measures.measured(study.learner, measures.Data(metrics=columns, arrays=arrays, grid=study.grid))
        curves = {metric: binned(axis, columns, metric) for metric in metrics}
    except KeyError as missing:
        raise InputError(
            f"the run in {str(run.folder)!r} must have {missing}, received a file without: run {study.command} again"
        ) from None
    return RunEvidence(run=run, figures=figures, curves=curves, arrays=arrays, certificate=run.certificate())


def _figures(cell: PlannedCell, runs: list[RunEvidence], learner: str) -> dict[str, Figures]:
    mine = [entry for entry in runs if entry.run.cell == cell.name]
    done = [entry for entry in mine if entry.done]
    return {
        name: Figures(
            values={entry.run.seed: entry.figures.get(name, math.nan) for entry in done},
            planned=len(cell.runs),
            never=measure.never,
        )
        for name, measure in measures.MEASURES[learner].items()
    }
