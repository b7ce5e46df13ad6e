"""A study's evidence made small enough to publish: figures and binned curves of every run instead of all its rows.

- ``study.json``: the plan, as in the results store.
- ``runs.parquet``: one row per finished or failed run: its figures and what made them (settings, commit, versions).
- ``curves.parquet``: the curves of every finished run, means over bins of ``x``.
- ``arrays.npz``: what the agents are at the end, by key.

A folder of these files is read as the store that it was made from.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pbim._files import read_arrays, replacing, write_arrays
from pbim.errors import InputError
from pbim.report.curves import Axis
from pbim.report.evidence import Evidence, RunEvidence, decided
from pbim.results import Run, RunCertificate, Status, Store

RUNS, CURVES, ARRAYS = "runs.parquet", "curves.parquet", "arrays.npz"
ABOUT = ("steps", "seconds", "commit", "finished", "error")
"""What is kept of a run's status as it is; its command is the study's, and may name folders of another machine."""


def is_archive(path: str | Path) -> bool:
    """Tell whether a folder holds published evidence, not a results store."""
    return (Path(path) / RUNS).exists()


def publish(evidence: Evidence, path: str | Path) -> list[Path]:
    """Write evidence to the folder ``path``; returns the files."""
    folder = Path(path)
    if not is_archive(folder) and (folder / "runs").exists():
        raise InputError(f"publish must name a folder of its own, received the results {str(path)!r}: choose another")
    ended = {entry.run.key: entry for entry in evidence.runs if entry.run.state in ("done", "failed")}
    done = {key: entry for key, entry in ended.items() if entry.done}
    names = list(evidence.statistics)
    rows = [_row(entry, names) for entry in ended.values()]
    curves: dict[str, Any] = {"key": [key for key in done for _ in range(evidence.axis.points)]}
    curves["x"] = np.tile(evidence.axis.middles, len(done))
    for curve in evidence.study.curves:
        metric = curve.metric
        curves[metric] = np.concatenate([entry.curves[metric] for entry in done.values()]).astype(np.float32)
    Store(folder).write_plan(evidence.study)
    _write(folder / CURVES, curves)
    arrays = {f"{key}/{name}": array for key, entry in done.items() for name, array in entry.arrays.items()}
    write_arrays(folder / ARRAYS, arrays, compress=True)
    _write(folder / RUNS, {name: [row[name] for row in rows] for name in rows[0]})
    return [folder / name for name in ("study.json", RUNS, CURVES, ARRAYS)]


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


def _write(path: Path, columns: dict[str, Any]) -> None:
    import polars

    with replacing(path) as file:
        polars.DataFrame(columns).write_parquet(file, compression="zstd", compression_level=19, statistics=False)


def read(path: str | Path) -> Evidence:
    """Return the evidence that :func:`publish` wrote; raises ``InputError`` where a file is missing or unreadable."""
    import polars

    folder = Path(path)
    study = Store(folder).plan()
    try:
        runs, curves = polars.read_parquet(folder / RUNS), polars.read_parquet(folder / CURVES)
    except (OSError, polars.exceptions.PolarsError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"path must hold published results, received {str(path)!r} ({why}): fetch it again") from None
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    for place, array in read_arrays(folder / ARRAYS).items():
        key, _, name = place.partition("/")
        arrays.setdefault(key, {})[name] = array
    lines = {
        str(key): {metric: part[metric].to_numpy().astype(np.float64) for metric in part.columns if metric != "key"}
        for (key,), part in curves.group_by("key", maintain_order=True)
    }
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
    return decided(study, entries, axis)


def _evidence_of(row: dict[str, Any], run: Run, curves: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RunEvidence:
    about = {name: row[name] for name in ("state", *ABOUT)}
    known = {"key", "seed", "versions", "config", "certificate", *about}
    done = row["state"] == "done"
    status = Status(**about, versions=json.loads(row["versions"]))
    return RunEvidence(
        run=replace(run, config=json.loads(row["config"]), status=status),
        figures={name: value for name, value in row.items() if name not in known} if done else {},
        curves=curves,
        arrays=arrays,
        certificate=msgspec.json.decode(row["certificate"], type=RunCertificate | None),
    )
