"""Everything a report needs of a study's folder, read once: figures, curves and certificates of every run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._files import first_line
from pbim.errors import InputError, choose
from pbim.report import measures
from pbim.report.claims import OUR_WORDS, Figures, Verdict, decide
from pbim.report.curves import Axis, axis_of, binned, coarser, most_points
from pbim.results import (
    METRICS,
    REPLAY,
    STUDY,
    Corrupt,
    Group,
    Plan,
    PlannedCell,
    Run,
    RunCertificate,
    Store,
    union,
)

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

    def setting(self, cell: PlannedCell) -> str:
        """Return what the group of a cell is called; "" where there is only one."""
        return next((group.label for group in self.groups[len(self.groups) < 2 :] if group.name == cell.group), "")

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


def gather(path: str | Path, *, earlier: Evidence | None = None) -> Evidence:
    """Return what a study's folder says.

    Args:
        path: A results store, a folder that :func:`pbim.report.archive.publish` wrote, or one of ``pbim train``.
        earlier: What was published of the same study before, to which the runs of a results store are added.

    Raises:
        InputError: If there is no study, no finished run or a file that cannot be read, or if the study in the folder
            is not the one that was published.

    """
    from pbim.report import archive, logs

    if archive.is_archive(path):
        return archive.read(path)
    if logs.is_training(path):
        name = Path(path).resolve().name
        return logs.evidence({name: [logs.read(path)]}, name=name, title=f"A run of pbim train: {name}")
    store = Store(path)
    study = store.plan()
    check_plan(study, store.path / STUDY)
    if earlier is not None:
        study = union(earlier.study, study)
    runs = [store.run(run.key, cell=cell.name, seed=run.seed) for cell in study.cells for run in cell.runs]
    for run in runs:
        if run.trouble is not None:
            raise run.trouble
    done = [run for run in runs if run.state == "done"]
    if not done and earlier is None:
        raise InputError(
            f"folder must hold at least one finished run, received {str(path)!r} with 0 of {len(runs)}: "
            f"run {study.command} first"
        )
    axis = earlier.axis if earlier else _axis_of(done[0], study, curves=len(done) * max(1, len(study.curves)))
    once = {run.key: run for run in runs}
    read = {key: _evidence_of(run, study, axis) for key, run in once.items()}
    for entry in earlier.runs if earlier else ():
        if entry.done and not read[entry.run.key].done:
            read[entry.run.key] = entry
    points = most_points(sum(entry.done for entry in read.values()) * max(1, len(study.curves)))
    if axis.points > points:  # the earlier runs were fewer
        axis = replace(axis, middles=coarser(axis.middles[None], points)[0])
        read = {key: _coarser(entry, points) for key, entry in read.items()}
    return decided(study, [_placed(read[run.key], run) for run in runs], axis)


def _coarser(entry: RunEvidence, points: int) -> RunEvidence:
    return replace(entry, curves={name: coarser(curve[None], points)[0] for name, curve in entry.curves.items()})


def _placed(entry: RunEvidence, run: Run) -> RunEvidence:
    """Return what is known of a run in the place of one of the cells that share it."""
    return replace(entry, run=replace(entry.run, cell=run.cell, seed=run.seed))


def decided(study: Plan, entry: list[RunEvidence], axis: Axis) -> Evidence:
    """Return runs as evidence: with every claim of the study decided."""
    figures = {cell.name: _figures(cell, entry, study.learner) for cell in study.cells}
    verdicts = decide(study.claims, figures, seed=SEED, smoke=bool(study.quick))
    return Evidence(study=study, runs=entry, axis=axis, verdicts=verdicts)


def check_plan(study: Plan, path: Path) -> None:
    """Refuse a plan whose learner has no figures, or that maps what is not there.

    Raises:
        InputError: If the learner is not one of ours.
        Corrupt: If the plan in ``path`` contradicts itself.

    """
    known = measures.MEASURES[choose("learner", study.learner, measures.MEASURES)]
    names = {cell.name for cell in study.cells}
    for heat in study.heat:
        if not names.issuperset(heat.cells) or heat.statistic not in known:
            raise Corrupt(path, f"it maps {heat.statistic} of cells that it has not")


def check(run: Run, study: Plan) -> None:
    """Read a finished run as a report does.

    Raises:
        Corrupt: If a report could not show it.

    """
    _evidence_of(run, study, _axis_of(run, study, curves=1))


def _axis_of(run: Run, study: Plan, *, curves: int) -> Axis:
    return axis_of(study.x.metric, _columns(run, study)[study.x.metric], curves=curves)


def _evidence_of(run: Run, study: Plan, axis: Axis) -> RunEvidence:
    if run.state != "done":
        return RunEvidence(run=run)
    columns, arrays = _columns(run, study), run.arrays()
    try:
        figures = measures.measured(study.learner, measures.Data(metrics=columns, arrays=arrays, grid=study.grid))
        curves = {curve.metric: binned(axis, columns, curve.metric) for curve in study.curves}
        entry = RunEvidence(run=run, figures=figures, curves=curves, arrays=arrays, certificate=run.certificate())
        check_shown(entry, study, axis)
    except Corrupt:
        raise
    except KeyError as missing:
        raise Corrupt(run.folder, f"it has no {missing}") from None
    except (IndexError, TypeError, ValueError, ArithmeticError) as error:  # numbers that nobody could have computed
        raise Corrupt(run.folder, first_line(error)) from error
    return entry


def _columns(run: Run, study: Plan) -> dict[str, NDArray[Any]]:
    """Return a run's rows as columns of numbers, of which ``x`` increases."""
    path, frame = run.folder / METRICS, run.metrics()
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    for name, values in columns.items():
        if values.dtype.kind not in "biuf":
            raise Corrupt(path, f"{name} is not a column of numbers")
    x = np.asarray(columns.get(study.x.metric, ()), np.float64)
    if not len(x) or not np.isfinite(x).all() or not (np.diff(x) > 0).all():
        raise Corrupt(path, f"it has no rows with increasing {study.x.metric}")
    return columns


def check_shown(entry: RunEvidence, study: Plan, axis: Axis) -> None:
    """Refuse a run whose curves or arrays cannot be drawn.

    Raises:
        KeyError: If one is missing.
        ValueError: If one has another shape than the study's axis or grid.

    """
    if not entry.done:
        return
    for curve in study.curves:
        if entry.curves[curve.metric].shape != (axis.points,):
            raise ValueError(f"the curve of {curve.metric} has not {axis.points} points")
    if study.grid is not None:
        arrays, size = entry.arrays, (study.grid.width * study.grid.height, len(study.grid.actions))
        if arrays["q"].shape != size or arrays["visits"].shape != size:
            raise ValueError(f"q and visits are not of shape {size}")
        if arrays["path"].ndim != 1 or not np.isin(arrays["path"], np.arange(size[0])).all():
            raise ValueError("path leads out of the grid")


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
