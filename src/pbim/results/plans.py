"""Two plans of one study as one: what was published of it before, and the runs that are added."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pbim.errors import InputError
from pbim.results.records import Plan, PlannedCell

T = TypeVar("T")


def union(earlier: Plan, later: Plan) -> Plan:
    """Return a plan with the cells, runs and claims of both; where both say something, the later one counts.

    Raises:
        InputError: If they are of two studies, or one seed of a cell has two configurations.

    """
    if (earlier.study, earlier.quick) != (later.study, later.quick):
        raise InputError(
            f"results to be added must be of the published study, received {later.study!r} for {earlier.study!r} (or "
            "one of them at smoke size): choose another folder"
        )
    before = {cell.name: cell for cell in earlier.cells}
    cells = tuple(
        _cell(before[cell.name], cell) if cell.name in before else cell
        for cell in _both(earlier.cells, later.cells, lambda cell: cell.name)
    )
    paper = later.paper or earlier.paper
    if paper and earlier.paper:
        paper = replace(paper, rows=_both(earlier.paper.rows, paper.rows, lambda row: row.cell))
    return replace(
        later,
        cells=cells,
        claims=_both(earlier.claims, later.claims, lambda claim: claim.id),
        groups=_both(earlier.groups, later.groups, lambda group: group.name),
        heat=_both(earlier.heat, later.heat, lambda heat: (heat.title, heat.cells)),
        paper=paper,
    )


def _cell(earlier: PlannedCell, later: PlannedCell) -> PlannedCell:
    runs = {run.seed: run for run in earlier.runs}
    for run in later.runs:
        if runs.setdefault(run.seed, run).key != run.key:
            raise InputError(
                f"results to be added must have the settings of the published ones, received other settings of cell "
                f"{later.name!r}, seed {run.seed}: choose another folder"
            )
    return replace(later, runs=tuple(runs[seed] for seed in sorted(runs)))


def _both(earlier: Sequence[T], later: Sequence[T], name: Callable[[T], Any]) -> tuple[T, ...]:
    """Return the entries of both, once each: in the later order, each that only the earlier has after its neighbour."""
    found = list(later)
    place = 0
    for entry in earlier:
        names = [name(each) for each in found]
        if name(entry) in names:
            place = names.index(name(entry)) + 1
        else:
            found.insert(place, entry)
            place += 1
    return tuple(found)
