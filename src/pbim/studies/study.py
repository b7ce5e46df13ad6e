"""What a study is: cells (learners without a seed), how many seeds, and the claims it decides."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pbim.config import JSON, key_of, kind_of, run_document
from pbim.errors import InputError, RepaymentWarning, choose
from pbim.metric import Metric
from pbim.results import Claim, Column, GridMap, Group, HeatPlan, PaperTable, Plan, PlannedCell, PlannedRun
from pbim.shaping import Shaping

LATE = "claim added after runs had been seen"
SEEDS = 3
"""Seeds of smoke size."""

MOST_SEEDS, MOST_FRAMES = 10_000, 2_000_000_000
"""What a plan can hold in a second, and a run can count in 32 bits."""

SMOKE: dict[str, dict[str, int]] = {"q-learning": {"episodes": 60}, "ppo": {"total_frames": 8192}}
"""What smoke size changes, by kind of learner: enough to see every step of the way, too little to decide anything."""


class Learner(Protocol):
    """What a study needs of a learner: ``PPO``, ``QLearning``, or anybody's frozen dataclass like them."""

    @property
    def env(self) -> Any:
        """The environment."""

    @property
    def intrinsic(self) -> Any:
        """The bonus; None without one."""

    @property
    def shaping(self) -> Shaping[Any]:
        """The conversion."""

    @property
    def exact(self) -> bool:
        """Whether the shaping reward promises to cancel over every episode."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The columns of a run's rows."""

    @property
    def axis(self) -> str:
        """The column that curves are drawn over."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One configuration of a study.

    Attributes:
        name: Unique in the study.
        learner: The configuration, everything but the seed.
        label: What tables and legends call it; the label of the method or the conversion if left out.
        scheme: What cells of several groups have in common; the name if left out.
        group: The group that it is shown in.
        params: What varies, for tables and heat maps.
        seeds: The number of its runs where that is not the study's.
        first_seed: The least seed of its runs.

    """

    name: str
    learner: Any
    label: str = ""
    scheme: str = ""
    group: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        what = getattr(self.learner, "method", None) or self.learner.shaping
        object.__setattr__(self, "label", self.label or what.label)
        object.__setattr__(self, "scheme", self.scheme or self.name)

    def document(self, seed: int) -> dict[str, JSON]:
        """Return the whole configuration of a run: what its key is the hash of."""
        return run_document(self.learner, seed)

    def seeds_from_first(self, seeds: int) -> range:
        """Return so many seeds."""
        return range(self.first_seed, self.first_seed + seeds)

    def planned(self, seeds: int) -> PlannedCell:
        """Return the cell as a plan holds it."""
        return PlannedCell(
            name=self.name,
            label=self.label,
            scheme=self.scheme,
            group=self.group,
            params=dict(self.params),
            exact=self.learner.exact,
            runs=tuple(PlannedRun(seed=seed, key=key_of(self.document(seed))) for seed in self.seeds_from_first(seeds)),
        )


@dataclass(frozen=True, kw_only=True)
class Study:
    """A set of runs and what they are to decide; the rest says what a report shows of them.

    Attributes:
        name: Its name on the command line.
        title: Its name in words.
        summary: What it asks, in one sentence.
        cells: What is run; all cells have the same kind of learner.
        seeds: Runs per cell.
        claims: What is decided.
        groups: Cells that are shown together.
        grid: A grid world to draw policies on.
        paper: The paper's table, to be shown beside ours.
        heat: Maps of a statistic over two parameters.
        quick: Whether it has smoke size, which decides nothing.

    """

    name: str
    title: str
    summary: str
    cells: tuple[Cell, ...]
    seeds: int
    claims: tuple[Claim, ...]
    groups: tuple[Group, ...] = (Group(name="", label=""),)
    grid: GridMap | None = None
    paper: PaperTable | None = None
    heat: tuple[HeatPlan, ...] = ()
    quick: bool = False

    def __post_init__(self) -> None:
        names = [cell.name for cell in self.cells]
        kinds = sorted({kind_of(cell.learner) for cell in self.cells})
        if len(set(names)) < len(names) or len({claim.id for claim in self.claims}) < len(self.claims):
            raise InputError(f"cells and claims of {self.name} must have different names, received one twice: rename")
        if len(kinds) != 1:
            raise InputError(f"cells of {self.name} must have one kind of learner, received {kinds}: make two studies")
        if self.grid is not None:
            size = (self.grid.width * self.grid.height, len(self.grid.actions))
            for cell in self.cells:
                table = (getattr(cell.learner, "num_states", None), getattr(cell.learner.env, "num_actions", None))
                if table != size:  # a report could not draw what it learns
                    raise InputError(
                        f"grid of {self.name} must have the states and actions of every cell, received {size} and "
                        f"{table} in {cell.name}: make two studies, or leave the grid out"
                    )

    @property
    def learner(self) -> str:
        """The kind of learner of all cells."""
        return kind_of(self.cells[0].learner)

    def cell(self, name: str) -> Cell:
        """Return the cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)

    def runs(self) -> Iterator[tuple[Cell, int, dict[str, JSON]]]:
        """Yield every run as (cell, seed, configuration); equal configurations of several cells are the same run."""
        for cell in self.cells:
            for seed in cell.seeds_from_first(self.seeds_of(cell)):
                yield cell, seed, cell.document(seed)

    def seeds_of(self, cell: Cell) -> int:
        """Return how many runs a cell has."""
        return self.seeds if cell.seeds is None else cell.seeds

    def sized(
        self,
        *,
        seeds: int | None = None,
        only: tuple[str, ...] | None = None,
        frames: int | None = None,
        quick: bool = False,
    ) -> "Study":
        """Return this study with other seeds, fewer schemes, groups or cells, other frames, or at smoke size.

        Raises:
            InputError: If a number is too small or too large, no name is given or an unknown one, or ``frames`` is
                given to a study of episodes.

        """
        cells = self.cells if only is None else self._chosen(only)
        if seeds is None and quick:
            seeds = min(SEEDS, self.seeds)
        if seeds is None:
            seeds = self.seeds
        elif not 1 <= seeds <= MOST_SEEDS:
            raise InputError(f"seeds must be from 1 to {MOST_SEEDS:,}, received {seeds}: leave it out for {self.seeds}")
        else:
            cells = tuple(replace(cell, seeds=None) for cell in cells)
        if quick:
            cells = _with(cells, **SMOKE.get(self.learner, {}))
        if frames is not None:
            if not hasattr(cells[0].learner, "total_frames"):
                raise InputError(f"frames is for the DoorKey studies, {self.name} counts episodes: leave it out")
            if not 1 <= frames <= MOST_FRAMES:
                raise InputError(
                    f"frames must be from 1 to {MOST_FRAMES:,}, received {frames}: leave it out for the full length"
                )
            cells = _with(cells, total_frames=frames)
        kept = {cell.name for cell in cells}
        rows = () if self.paper is None else tuple(row for row in self.paper.rows if row.cell in kept)
        return replace(
            self,
            cells=cells,
            seeds=seeds,
            quick=quick,
            claims=tuple(claim for claim in self.claims if {claim.cell, claim.other or claim.cell} <= kept),
            groups=tuple(group for group in self.groups if group.name in {cell.group for cell in cells}),
            heat=tuple(heat for heat in self.heat if set(heat.cells) <= kept),
            paper=self.paper and replace(self.paper, rows=rows),
        )

    def _chosen(self, only: tuple[str, ...]) -> tuple[Cell, ...]:
        names = [{cell.scheme, cell.group, cell.name} - {""} for cell in self.cells]
        known = [cell.scheme for cell in self.cells] + [group.name for group in self.groups if group.name]
        known = list(dict.fromkeys(known + [cell.name for cell in self.cells]))
        if not only:
            raise InputError(f"only must name a scheme, a group or a cell, received none: choose of {', '.join(known)}")
        wanted = {choose("only", name, known) for name in only}
        return tuple(cell for cell, mine in zip(self.cells, names, strict=True) if mine & wanted)

    def plan(self, *, command: str, version: str, commit: str | None) -> Plan:
        """Return the study as ``study.json`` holds it."""
        learner: Learner = self.cells[0].learner
        metrics = learner.metrics
        return Plan(
            study=self.name,
            title=self.title,
            summary=self.summary,
            learner=self.learner,
            cells=tuple(cell.planned(self.seeds_of(cell)) for cell in self.cells),
            claims=self.claims,
            curves=tuple(_column(name, metric) for name, metric in metrics.items() if metric.curve),
            x=_column(learner.axis, metrics[learner.axis]),
            groups=self.groups,
            grid=self.grid,
            paper=self.paper,
            heat=self.heat,
            quick=self.quick,
            command=command,
            version=version,
            commit=commit,
        )


@contextmanager
def large_repayments() -> Iterator[None]:
    """Make learners without a warning about the size of their repayment: it is the subject of a study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepaymentWarning)
        yield


def _with(cells: tuple[Cell, ...], **changes: Any) -> tuple[Cell, ...]:
    with large_repayments():
        return tuple(replace(cell, learner=replace(cell.learner, **changes)) for cell in cells)


def _column(name: str, metric: Metric) -> Column:
    return Column(metric=name, label=metric.label, unit=metric.unit, better=metric.better)
