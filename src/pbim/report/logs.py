"""Runs that were trained anywhere, read from their logs: TensorBoard, CSV, RLlib's result.json, pbim's metrics.jsonl.

A log becomes rows of (step, return, length). The return is the task's own where the log has it: a column or tag whose
last part is ``extrinsic_return``, as pbim's callbacks write it. Elsewhere it is what the log calls the episode's
return, and :attr:`Log.column` says which name was taken.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._files import first_line
from pbim.errors import InputError
from pbim.report import measures
from pbim.report.curves import axis_of, binned
from pbim.report.evidence import Evidence, RunEvidence, decided
from pbim.report.markup import plural
from pbim.results import Claim, Column, Plan, PlannedCell, PlannedRun, Run, RunCertificate, Status

Series = dict[str, NDArray[np.float64]]
LEARNER = "logs"
TRAINING = "metrics.jsonl"
"""The log of ``pbim train``."""
LEAST = 2
"""Rows that a curve needs."""
NAMES: dict[str, tuple[str, ...]] = {
    "step": (
        "frames",
        "num_env_steps_sampled_lifetime",
        "total_timesteps",
        "timesteps_total",
        "global_step",
        "timesteps",
        "steps",
        "step",
    ),
    "return": (
        "extrinsic_return",
        "episode_return_mean",
        "episode_reward_mean",
        "ep_rew_mean",
        "episodic_return",
        "episode_return",
        "return",
        "r",
    ),
    "length": ("length", "episode_len_mean", "ep_len_mean", "episodic_length", "episode_length", "l"),
}
"""What logs call a figure, the best first; a name with slashes counts by its last part."""
COLUMNS = (
    Column(metric="return", label="Return", unit="reward", better="higher"),
    Column(metric="length", label="Episode length", unit="steps"),
)


@dataclass(frozen=True, kw_only=True)
class Log:
    """One run: ``step``, ``return`` and ``length`` by name, (rows,) each, and what its log calls the return.

    ``missing`` counts the rows after the last return, in which it is NaN.
    """

    path: Path
    rows: Series
    column: str
    missing: int = 0
    certificate: RunCertificate | None = None

    @property
    def last(self) -> float:
        """The last step."""
        return float(self.rows["step"][-1])


def is_training(path: str | Path) -> bool:
    """Tell whether a folder is a run of ``pbim train``."""
    return (Path(path) / TRAINING).is_file()


def read(path: str | Path, names: Mapping[str, str] | None = None) -> Log:
    """Return the run that a log file, or a folder with one, tells of.

    Args:
        path: The file or folder.
        names: What the log calls ``step``, ``return`` or ``length``, where it is none of the usual names.

    Raises:
        InputError: If there is no log, no such column, or fewer than two rows.

    """
    path = Path(path)
    kind, files = _find(path)
    try:
        columns = READERS[kind](files)
    except InputError:
        raise
    except Exception as error:  # a foreign file, read by foreign packages
        raise InputError(
            f"logs must be readable, received {str(path)!r} ({type(error).__name__}: {first_line(error)}): fetch or "
            "write it again"
        ) from error
    return _log(path, columns, names or {})


def _find(path: Path) -> tuple[str, list[Path]]:
    """Return the kind of a log and its files; in a folder the best kind that is there."""
    for kind, pattern in PATTERNS.items():
        if path.is_file() and path.match(pattern):
            return kind, [path]
        files = sorted(path.rglob(pattern)) if path.is_dir() else []
        if files:
            return kind, _of_one_run(path, kind, files)
    raise InputError(
        f"logs must name files or folders with one of {', '.join(PATTERNS.values())}, received {str(path)!r}: "
        "correct it"
    )


def _of_one_run(path: Path, kind: str, files: list[Path]) -> list[Path]:
    """Return the files that lie highest in a folder, or refuse them if they are of several runs."""
    depth = min(len(file.parts) for file in files)
    highest = [file for file in files if len(file.parts) == depth]
    places = {file.parent for file in highest} if kind in ("monitor", "tensorboard") else set(highest)
    if len(places) > 1:
        raise InputError(
            f"logs must name one run per path, received {str(path)!r} with the logs of {len(places)}: name each, such "
            f"as {path / '*'}"
        )
    return highest


def _json_lines(files: list[Path]) -> Series:
    rows = []
    for line in files[0].read_text(errors="replace").splitlines(keepends=True):
        if line.endswith("\n"):  # the last line may have been cut off as it was written
            rows.append(dict(_flat(_object(json.loads(line)))))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, math.nan) for row in rows], np.float64) for name in names}


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"a line is no JSON object but {type(value).__name__}")
    return value


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested mappings, their names joined by slashes."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


def _csv(files: list[Path]) -> Series:
    import polars

    none = ["nan", "NaN", "NA", "None", "null", "inf", "-inf"]
    frame = polars.read_csv(files[0], infer_schema_length=None, comment_prefix="#", null_values=none)
    numbers = [
        name for name in frame.columns if frame[name].dtype.is_numeric() or frame[name].null_count() == len(frame)
    ]
    return {name: frame[name].cast(polars.Float64).fill_null(math.nan).to_numpy() for name in numbers}


def _monitors(files: list[Path]) -> Series:
    """Read the files of SB3's Monitor, one per environment: one row per episode, in the order in which they ended."""
    parts = [_csv([file]) for file in files]
    merged = {name: np.concatenate([part[name] for part in parts]) for name in ("r", "l", "t")}
    order = np.argsort(merged["t"], kind="stable")
    return {"r": merged["r"][order], "l": merged["l"][order], "step": np.cumsum(merged["l"][order])}


def _tensorboard(files: list[Path]) -> Series:
    try:
        from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
            EventAccumulator,
        )
        from tensorboard.util.tensor_util import make_ndarray  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("tensorboard is not installed: pip install tensorboard, or compare CSV files") from None
    series: dict[str, dict[int, float]] = {}
    for folder in dict.fromkeys(file.parent for file in files):
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            series.setdefault(tag, {}).update({event.step: event.value for event in events.Scalars(tag)})
        for tag in events.Tags()["tensors"]:  # how TensorFlow 2 and tensorboard.summary write numbers
            points = {event.step: make_ndarray(event.tensor_proto) for event in events.Tensors(tag)}
            numbers = {
                step: float(value) for step, value in points.items() if value.ndim == 0 and value.dtype.kind == "f"
            }
            series.setdefault(tag, {}).update(numbers)
    steps = sorted({step for points in series.values() for step in points})
    found = {tag: np.array([points.get(step, math.nan) for step in steps]) for tag, points in series.items()}
    return {**found, "frames": np.array(steps, np.float64)}


READERS: dict[str, Callable[[list[Path]], Series]] = {
    "pbim": _json_lines,
    "rllib": _json_lines,
    "progress": _csv,
    "monitor": _monitors,
    "tensorboard": _tensorboard,
    "csv": _csv,
}
PATTERNS = {
    "pbim": TRAINING,
    "rllib": "result.json",
    "progress": "progress.csv",
    "monitor": "*monitor.csv",
    "tensorboard": "events.out.tfevents*",
    "csv": "*.csv",
}
"""The kinds of logs and their files; in a folder the first kind counts."""


def _log(path: Path, columns: Series, names: Mapping[str, str]) -> Log:
    chosen = {figure: _column(path, columns, figure, names.get(figure)) for figure in NAMES}
    if chosen["step"] is None or chosen["return"] is None:
        figure = "step" if chosen["step"] is None else "return"
        raise InputError(
            f"logs must have a column for the {figure}, received {str(path)!r} with "
            f"{', '.join(sorted(columns)[:12]) or 'no column of numbers'}: name it with --{figure}-name"
        )
    rows = {figure: columns[name] for figure, name in chosen.items() if name is not None}
    if "length" not in rows:
        rows["length"] = np.full(len(rows["step"]), math.nan)
    kept = np.isfinite(rows["step"]) & np.isfinite(rows["return"])
    steps, last = np.unique(rows["step"][kept][::-1], return_index=True)  # of rows with one step the last counts
    if len(steps) < LEAST:
        raise InputError(
            f"logs must have at least {LEAST} rows with a step and a return, received {str(path)!r} with {len(steps)}: "
            "train for longer, or leave it out"
        )
    rows = {figure: values[kept][::-1][last] for figure, values in rows.items()}
    missing = len(kept) - 1 - int(np.flatnonzero(kept)[-1])
    certificate = _certificate(columns)
    return Log(path=path, rows=rows, column=chosen["return"], missing=missing, certificate=certificate)


def _column(path: Path, columns: Series, figure: str, given: str | None) -> str | None:
    if given is not None:
        if given not in columns:
            raise InputError(
                f"{figure}_name must be a column of the log, received {given!r}; {str(path)!r} has "
                f"{', '.join(sorted(columns))}: choose one"
            )
        return given
    for usual in NAMES[figure]:
        found = sorted((name for name in columns if name.rpartition("/")[2] == usual), key=len)
        if found:
            return found[0]
    return None


def _certificate(columns: Series) -> RunCertificate | None:
    """Return what pbim's callbacks logged of the cancellation, the last of it."""
    found = {name.rpartition("/")[2]: values[np.isfinite(values)] for name, values in columns.items()}
    worst, episodes = (found.get(name, np.zeros(0)) for name in ("certificate_worst", "episodes_certified"))
    if not len(worst) or not len(episodes):
        return None
    tolerance = float(np.sqrt(np.finfo(np.float32).eps))
    residual = float(worst[-1])
    ok = residual <= tolerance
    return RunCertificate(episodes=int(episodes[-1]), worst=residual, ok=ok, exact=ok, tolerance=tolerance)


def evidence(
    cells: Mapping[str, Sequence[Log]],
    *,
    claims: tuple[Claim, ...] = (),
    name: str = "logs",
    title: str = "Runs from their logs",
    command: str = "",
) -> Evidence:
    """Return logs as the evidence of a study; runs of different lengths are cut where the shortest ends.

    Args:
        cells: The runs of every cell, one per seed.
        claims: What is decided about the cells.
        name: The study's name.
        title: Its name in words.
        command: That made it.

    Raises:
        InputError: If the runs have no common stretch.

    """
    logs = [log for runs in cells.values() for log in runs]
    keys = [_key(log) for log in logs]
    again = next((log for place, log in enumerate(logs) if keys[place] in keys[:place]), None)
    if again is not None:
        raise InputError(f"logs must name each run once, received {str(again.path)!r} twice: a copy is no other seed")
    last = min(log.last for log in logs)
    shortest = next(log for log in logs if log.last == last)
    longest = max(log.last for log in logs)
    ends = f"has its last return ({plural(shortest.missing, 'row')} without one follow)" if shortest.missing else "ends"
    cut = f" Cut at {last:,.0f} steps, where {shortest.path} {ends}." if longest > last else ""
    planned = {
        cell: tuple(PlannedRun(seed=seed, key=_key(log)) for seed, log in enumerate(runs))
        for cell, runs in cells.items()
    }
    plan = Plan(
        study=name,
        title=title,
        summary=f"Return and length of every run, as its log has them.{cut}",
        learner=LEARNER,
        cells=tuple(
            PlannedCell(name=cell, label=cell, scheme=cell, exact=_exact(cells[cell]), runs=runs)
            for cell, runs in planned.items()
        ),
        claims=claims,
        curves=COLUMNS,
        x=Column(metric="step", label="Steps"),
        command=command,
    )
    rows = {_key(log): _until(log, last) for log in logs}
    axis = axis_of("step", rows[_key(shortest)]["step"], curves=len(logs) * len(COLUMNS))
    runs = []
    for cell, logs_of_cell in cells.items():
        for seed, log in enumerate(logs_of_cell):
            mine = rows[_key(log)]
            figures = measures.measured(LEARNER, measures.Data(metrics=mine, arrays={}))
            status = Status(state="done", steps=int(mine["step"][-1]))
            about: dict[str, Any] = {"config": {"log": log.path.name}, "status": status}
            run = Run(key=_key(log), folder=log.path, cell=cell, seed=seed, **about)
            curves = {column.metric: binned(axis, mine, column.metric) for column in COLUMNS}
            runs.append(RunEvidence(run=run, figures=figures, curves=curves, certificate=log.certificate))
    return decided(plan, runs, axis)


def _until(log: Log, last: float) -> Series:
    kept = log.rows["step"] <= last
    if kept.sum() < LEAST:
        raise InputError(
            f"logs must overlap, received {str(log.path)!r}, which has {int(kept.sum())} rows up to step {last:,.0f}, "
            "where the shortest run ends: leave one of them out"
        )
    return {figure: values[kept] for figure, values in log.rows.items()}


def _exact(logs: Sequence[Log]) -> bool:
    return all(log.certificate is not None and log.certificate.exact for log in logs)


def _key(log: Log) -> str:
    """Return a name for where the log is, so that a longer log of the same run replaces it."""
    return sha256(str(log.path.resolve()).encode()).hexdigest()[:16]
