"""A study's evidence made small enough to publish: figures and binned curves of every run instead of all its rows.

- ``study.json``: the plan, as in the results store.
- ``runs.parquet``: one row per finished or failed run: its figures and what made them (settings, commit, versions).
- ``curves.parquet``: the curves of every finished run, means over bins of ``x``.
- ``arrays.npz``: what the agents are at the end, by key.
- ``SHA256SUMS``: the checksums of these files; what was published earlier has none.

A folder of these files is read as the store that it was made from.
"""

import json
import math
import os
import shlex
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pbim._files import first_line, write_arrays
from pbim.errors import InputError
from pbim.report.curves import Axis
from pbim.report.evidence import Evidence, RunEvidence, check_plan, check_shown, decided
from pbim.results import (
    CHECKSUMS,
    STUDY,
    Corrupt,
    Plan,
    Run,
    RunCertificate,
    Status,
    Store,
    read_final,
    read_table,
    write_checksums,
    write_table,
)

RUNS, CURVES, ARRAYS = "runs.parquet", "curves.parquet", "arrays.npz"
LOCAL = {"--out", "--published", "--jobs", "--checkpoint-every", "--address"}
"""Options of a command that change no number."""
FILES = (STUDY, CURVES, ARRAYS, RUNS)
SMALL: dict[str, Any] = {"compression_level": 19, "statistics": False}
ABOUT = ("steps", "seconds", "commit", "finished", "error")
"""What is kept of a run's status as it is; its command is the study's, and may name folders of another machine."""


def is_archive(path: str | Path) -> bool:
    """Tell whether a folder holds published evidence, not a results store."""
    return (Path(path) / RUNS).exists()


def publish(evidence: Evidence, path: str | Path) -> list[Path]:
    """Write evidence to the folder ``path``, all of it or nothing; returns the files.

    Raises:
        InputError: If the folder holds the results of a study, or another study's publication.

    """
    folder = Path(path)
    _check_target(evidence, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".part-") as part:
        _write_all(evidence, Path(part))
        write_checksums(Path(part), FILES)
        for name in (*FILES, CHECKSUMS):  # checksums last: half of each is noticed
            os.replace(Path(part) / name, folder / name)
    return [folder / name for name in FILES]


def _check_target(evidence: Evidence, folder: Path) -> None:
    """Refuse a folder of something else, and one whose published runs would be lost."""
    if not is_archive(folder):
        foreign = sorted(path.name for path in folder.glob("*") if path.name != "report") if folder.is_dir() else []
        if foreign:
            raise InputError(
                f"publish must name a folder of its own, received {str(folder)!r}, which holds {foreign[0]}: choose "
                "another"
            )
        return
    there, here = Store(folder).plan(), evidence.study
    if there.study != here.study or (here.quick and not there.quick):
        size = " at smoke size" if here.quick else ""
        raise InputError(
            f"publish must name a folder of its own, received {str(folder)!r}, which holds {there.study}, not "
            f"{here.study}{size}: choose another"
        )
    try:
        kept = {str(key) for key in read_table(folder / RUNS)["key"]}
    except (Corrupt, KeyError):
        return  # what cannot be read cannot be lost
    lost = kept - {entry.run.key for entry in evidence.runs if entry.run.state in ("done", "failed")}
    if lost:
        raise InputError(
            f"publish must not lose runs, received {str(folder)!r}, {len(lost)} of whose {len(kept)} runs are not "
            "among these results: publish them together, or choose another folder"
        )


def _write_all(evidence: Evidence, folder: Path) -> None:
    ended = {entry.run.key: entry for entry in evidence.runs if entry.run.state in ("done", "failed")}
    done = {key: entry for key, entry in ended.items() if entry.done}
    names = list(evidence.statistics)
    rows = [_row(entry, names) for entry in ended.values()]
    curves: dict[str, Any] = {"key": [key for key in done for _ in range(evidence.axis.points)]}
    curves["x"] = np.tile(evidence.axis.middles, len(done))
    for curve in evidence.study.curves:
        metric = curve.metric
        curves[metric] = np.concatenate([entry.curves[metric] for entry in done.values()]).astype(np.float32)
    Store(folder).write_plan(replace(evidence.study, command=_anywhere(evidence.study.command)))
    write_table(folder / CURVES, curves, **SMALL)
    arrays = {f"{key}/{name}": array for key, entry in done.items() for name, array in entry.arrays.items()}
    write_arrays(folder / ARRAYS, arrays, compress=True)
    write_table(folder / RUNS, {name: [row[name] for row in rows] for name in rows[0]}, **SMALL)


def _anywhere(command: str) -> str:
    """Return a command without the options that say where and how fast it ran: they name folders of one machine.

    >>> _anywhere("pbim reproduce cliff --seeds 30 --out '/mnt/big disk/cliff' --jobs 1")
    'pbim reproduce cliff --seeds 30'
    """
    words = shlex.split(command)
    return shlex.join(word for word, before in zip(words, ["", *words], strict=False) if not {word, before} & LOCAL)


def _row(entry: RunEvidence, names: list[str]) -> dict[str, Any]:
    status = entry.run.status
    return {
        "key": entry.run.key,
        "seed": entry.run.seed,
        "state": entry.run.state,
        **{name: getattr(status, name) for name in ABOUT},
        "versions": json.dumps(dict(status.versions), sort_keys=True),
        "config": json.dumps(entry.run.config, sort_keys=True),
        "certificate": msgspec.json.encode(entry.certificate, order="sorted").decode(),
        **{name: entry.figures.get(name, math.nan) for name in names},
    }


def read(path: str | Path) -> Evidence:
    """Return the evidence that :func:`publish` wrote; raises ``InputError`` where a file is missing or unreadable."""
    folder = Path(path)
    try:
        study = Store(folder).plan()
        check_plan(study, folder / STUDY)
        runs, curves, final = read_table(folder / RUNS), read_table(folder / CURVES), read_final(folder / ARRAYS)
    except Corrupt as error:
        raise _unreadable(folder, f"{error.path.name}: {error.why}") from None
    try:
        axis, entries = _entries(folder, study, runs, curves, final)
        return decided(study, entries, axis)
    except KeyError as missing:
        raise _unreadable(folder, f"it has no {missing}") from None
    except (IndexError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise _unreadable(folder, first_line(error)) from error


def _unreadable(folder: Path, why: str) -> InputError:
    return InputError(f"path must hold published results, received {str(folder)!r} ({why}): fetch it again")


def _entries(folder: Path, study: Plan, runs: Any, curves: Any, final: Any) -> tuple[Axis, list[RunEvidence]]:
    """Return what tables and arrays say of every run of the plan."""
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    for place, array in final.items():
        key, _, name = place.partition("/")
        arrays.setdefault(key, {})[name] = array
    lines = {
        str(key): {metric: part[metric].to_numpy().astype(np.float64) for metric in part.columns if metric != "key"}
        for (key,), part in curves.group_by("key", maintain_order=True)
    }
    if not lines:
        raise ValueError(f"{CURVES} has no rows")
    middles = next(iter(lines.values()))["x"]
    axis = Axis(metric=study.x.metric, last=float(middles[-1]), middles=middles)
    stored = {row["key"]: row for row in runs.iter_rows(named=True)}
    entries = []
    for cell in study.cells:
        for planned in cell.runs:
            run = Run(key=planned.key, folder=folder, cell=cell.name, seed=planned.seed)
            if planned.key in stored:
                mine = lines.get(planned.key, {}), arrays.get(planned.key, {})
                entries.append(_evidence_of(stored[planned.key], run, *mine))
            else:
                entries.append(RunEvidence(run=run))
    for entry in entries:
        check_shown(entry, study, axis)
    return axis, entries


def _evidence_of(row: dict[str, Any], run: Run, curves: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RunEvidence:
    about = {name: row[name] for name in ("state", *ABOUT)}
    known = {"key", "seed", "versions", "config", "certificate", *about}
    done = row["state"] == "done"
    status = msgspec.convert({**about, "versions": json.loads(row["versions"])}, Status)
    return RunEvidence(
        run=replace(run, config=json.loads(row["config"]), status=status),
        figures={name: float(value) for name, value in row.items() if name not in known} if done else {},
        curves=curves,
        arrays=arrays,
        certificate=msgspec.json.decode(row["certificate"], type=RunCertificate | None),
    )
