"""What a study's folder holds besides rows, as dataclasses: the same ones are written and read.

``study.json`` is a :class:`Plan`, a run's ``status.json`` a :class:`Status`, its ``certificate.json`` a
:class:`RunCertificate`. All files are strict JSON: what is not a number is null.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from pbim._files import first_line, replacing
from pbim.errors import InputError

SCHEMA = 2
"""The version of everything in the folder; readers refuse any other."""

RecordT = TypeVar("RecordT")
State = Literal["waiting", "running", "failed", "corrupt", "done"]
ClaimKind = Literal["less", "greater", "equal", "no-less", "estimate", "reaches", "never", "share"]


class Corrupt(InputError):  # noqa: N818 - what a file is
    """A file of the store cannot be read; ``path`` says which and ``why`` what is wrong with it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be read ({why}): run pbim reproduce again, which sets it aside and redoes its run"
        )
        self.path, self.why = path, why


_TEST = "Reproduced if Welch's test over seeds, Holm-corrected, has p < .05 and the mean is"
_SHARE = "Reproduced if the 95% Wilson interval of the share of seeds"

RULES: dict[ClaimKind, str] = {
    "less": f"{_TEST} lower; not reproduced if it is significantly higher{{or_small}}; else undecided",
    "greater": f"{_TEST} higher; not reproduced if it is significantly lower{{or_small}}; else undecided",
    "equal": "Reproduced if the 95% interval of the difference of means lies within {margin}; not reproduced if it "
    "lies wholly outside; else undecided",
    "no-less": "Reproduced if the 95% interval of the difference of means excludes a reduction of {margin}; not "
    "reproduced if it lies wholly below; else undecided",
    "estimate": "Reproduced if our mean over seeds is within {margin} of the paper's {value} or our 95% interval "
    "contains it; not reproduced if the interval lies wholly outside; else undecided",
    "reaches": f"{_SHARE} that reach it lies above one half; not reproduced if below; else undecided",
    "never": f"{_SHARE} that reach it lies below one half; not reproduced if above; else undecided",
    "share": f"{_SHARE} with the value {{value}} lies above one half; not reproduced if below; else undecided",
}
"""The decision rules of ``pbim.report`` in words, by kind of claim."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement with the test that decides it, fixed before anything ran (else ``source`` says so).

    Decided by ``pbim.report`` alone.

    Attributes:
        id: Its name, unique in the study.
        statement: What is claimed, in words.
        source: Where the paper says it, or whose question it is.
        paper: What the paper says; None for a claim of our own.
        kind: The decision rule: less, greater, equal and no-less compare ``cell`` with ``other``, estimate compares
            with the paper's ``value``, and reaches, never and share count seeds.
        cell: The cell it is about.
        statistic: The figure of each run that is compared.
        other: The cell it is compared with.
        value: The paper's figure.
        margin: The smallest effect that matters.
        reason: Why that margin.

    """

    id: str
    statement: str
    source: str
    paper: str | None = None
    kind: ClaimKind
    cell: str
    statistic: str
    other: str | None = None
    value: float | None = None
    margin: float | None = None
    reason: str = ""

    @property
    def rule(self) -> str:
        """The decision rule as one sentence."""
        margin, change = _plain(self.margin), "a reduction" if self.kind == "less" else "an increase"
        or_small = f" or the 95% interval of the difference excludes {change} of {margin}" if margin else ""
        rule = RULES[self.kind].format(margin=margin, value=_plain(self.value), or_small=or_small)
        if self.paper is None:
            rule = rule.replace("Reproduced if", "Supported if").replace("not reproduced if", "not supported if")
        return f"{rule} (margin: {self.reason})." if self.reason else f"{rule}."


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One seed of a cell, and the key of its configuration."""

    seed: int
    key: str


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """One configuration of a study, over its seeds.

    Attributes:
        name: Unique in the study.
        label: What tables and legends call it.
        scheme: What cells of several groups have in common.
        group: The group that it is shown in.
        params: What varies, for tables and heat maps.
        exact: Whether its conversion promises to cancel over every episode.
        runs: Its runs, one per seed.

    """

    name: str
    label: str
    scheme: str = ""
    group: str = ""
    params: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    exact: bool = True
    runs: tuple[PlannedRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Group:
    """Cells that are shown together."""

    name: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a run's rows that a report draws, with its label, its unit and the direction that is better."""

    metric: str
    label: str
    unit: str = ""
    better: Literal["lower", "higher"] | None = None


@dataclass(frozen=True, kw_only=True)
class HeatPlan:
    """A map of one statistic over two parameters of some cells."""

    title: str
    x: str
    y: str
    statistic: str
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GridMap:
    """A grid world to draw policies on; states are row-major."""

    width: int
    height: int
    start: int
    goal: int
    cliff: tuple[int, ...]
    actions: tuple[str, ...]
    shortest: int
    step_reward: float = -1.0
    cliff_reward: float = -100.0
    goal_reward: float = 100.0


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One row of the paper's table: frames to convergence (None: did not), mean length and its deviation."""

    cell: str
    T: float | None
    mean: float
    std: float


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of the paper, to be shown beside ours."""

    caption: str
    rows: tuple[PaperRow, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study as ``study.json`` holds it: what is run, what it is to decide, and what a report shows."""

    study: str
    title: str
    summary: str
    learner: str
    cells: tuple[PlannedCell, ...]
    claims: tuple[Claim, ...]
    curves: tuple[Column, ...]
    x: Column
    groups: tuple[Group, ...] = (Group(name="", label=""),)
    grid: GridMap | None = None
    paper: PaperTable | None = None
    heat: tuple[HeatPlan, ...] = ()
    quick: bool = False
    command: str = ""
    version: str = ""
    commit: str | None = None
    schema: int = SCHEMA

    def cell(self, name: str) -> PlannedCell:
        """Return the cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a run is, and what made its numbers.

    Attributes:
        state: waiting, running, failed, corrupt or done.
        error: Why it failed, or what cannot be read.
        steps: Steps of all environments so far.
        seconds: Seconds of work, those before an interruption included.
        versions: Of Python, pbim and the packages that compute.
        commit: Of the repository that pbim is in.
        command: That started it.
        finished: When, in UTC.

    """

    state: State = "waiting"
    error: str | None = None
    steps: int | None = None
    seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    command: str = ""
    finished: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunCertificate:
    """Whether a run's shaping reward cancelled: episodes checked, the worst relative residual, and the verdict.

    Attributes:
        episodes: How many finished episodes were checked.
        worst: The largest relative residual; None where it overflowed.
        ok: Whether there was an episode and all cancelled within ``tolerance``.
        exact: Whether the conversion promises to cancel.
        tolerance: What rounding may leave.

    """

    episodes: int
    worst: float | None
    ok: bool
    exact: bool
    tolerance: float

    @property
    def overflowed(self) -> bool:
        """Whether the shaping reward left the range of its numbers."""
        return self.worst is None

    @property
    def residual(self) -> float:
        """The largest relative residual, infinite where it overflowed."""
        return math.inf if self.worst is None else self.worst


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write a record or plain data as strict JSON, whole or not at all; NaN and infinity become null."""
    with replacing(Path(path)) as file:
        file.write(json_bytes(content))


def json_bytes(content: Any) -> bytes:
    """Return a record or plain data as :func:`write_json` writes it."""
    plain = asdict(content) if is_dataclass(content) and not isinstance(content, type) else content
    return msgspec.json.format(msgspec.json.encode(plain, order="sorted"), indent=1) + b"\n"


def read_record(path: Path, kind: type[RecordT]) -> RecordT:
    """Return the record in a JSON file.

    Raises:
        Corrupt: If it is missing or damaged, or not one.

    """
    return decode_record(path, content_of(path), kind)


def decode_record(path: Path, content: bytes, kind: type[RecordT]) -> RecordT:
    """Return the record in the bytes of a JSON file; raises :class:`Corrupt` if there is none."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise Corrupt(path, first_line(error)) from None


def content_of(path: Path) -> bytes:
    """Return the bytes of a file of the store.

    Raises:
        Corrupt: If they cannot be read. A file that may not be read is not damaged: that stays an ``OSError``.

    """
    try:
        return path.read_bytes()
    except PermissionError:
        raise
    except OSError as error:
        raise Corrupt(path, error.strerror or first_line(error)) from None


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:,.4g}"
