"""A study's evidence made small enough to publish: figures and binned curves of every run instead of all its rows.

- ``study.json``: the plan, as in the results store.
- ``runs.parquet``: a row a finished or failed run: its figures, and what made them (configuration, commit, versions).
- ``curves.parquet``: the curves of every finished run, means over bins of ``x``.
- ``arrays.npz``: what the runs learnt, by key.

A folder of these files is read as the store that it was made from.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._files import read_arrays, replacing, write_arrays
from pbim.errors import InputError
from pbim.report.curves import Axis
from pbim.report.evidence import Evidence, Seen, decided
from pbim.results import Run, Store

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
    told = {seen.run.key: seen for seen in evidence.runs if seen.run.state in ("done", "failed")}
    done = {key: seen for key, seen in told.items() if seen.done}
    names = list(evidence.statistics)
    rows = [_row(seen, names) for seen in told.values()]
    curves: dict[str, Any] = {"key": [key for key in done for _ in range(evidence.axis.points)]}
    curves["x"] = np.tile(evidence.axis.middles, len(done))
    for curve in evidence.study["curves"]:
        metric = curve["metric"]
        curves[metric] = np.concatenate([seen.curves[metric] for seen in done.values()]).astype(np.float32)
    Store(folder).write_study(evidence.study)
    _write(folder / CURVES, curves)
    arrays = {f"{key}/{name}": array for key, seen in done.items() for name, array in seen.arrays.items()}
    write_arrays(folder / ARRAYS, arrays, compress=True)
    _write(folder / RUNS, {name: [row[name] for row in rows] for name in rows[0]})
    return [folder / name for name in ("study.json", RUNS, CURVES, ARRAYS)]


def _row(seen: Seen, names: list[str]) -> dict[str, Any]:
    status = seen.run.status
    return {
        "key": seen.run.key,
        "seed": seen.run.seed,
        "state": seen.run.state,
        **{name: status.get(name) for name in ABOUT},
        "versions": json.dumps(status.get("versions") or {}, sort_keys=True),
        "config": json.dumps(seen.run.config, sort_keys=True),
        "certificate": json.dumps(seen.certificate, sort_keys=True),
        **{name: seen.figures.get(name, math.nan) for name in names},
    }


def _write(path: Path, columns: dict[str, Any]) -> None:
    import polars

    with replacing(path) as file:
        polars.DataFrame(columns).write_parquet(file, compression="zstd", compression_level=19, statistics=False)


def read(path: str | Path) -> Evidence:
    """Return the evidence that :func:`publish` wrote; raises ``InputError`` where a file is missing or unreadable."""
    import polars

    folder = Path(path)
    study = Store(folder).study()
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
    axis = Axis(metric=study["x"]["metric"], last=float(middles[-1]), middles=middles)
    stored = {row["key"]: row for row in runs.iter_rows(named=True)}
    waiting = {"state": "waiting", "error": None}
    seen = []
    for cell in study["cells"]:
        for planned in cell["runs"]:
            key = planned["key"]
            about = {"key": key, "folder": folder, "cell": cell["name"], "seed": planned["seed"]}
            if key in stored:
                seen.append(_seen(stored[key], about, lines.get(key, {}), arrays.get(key, {})))
            else:
                seen.append(Seen(run=Run(**about, status=waiting)))
    return decided(study, seen, axis)


def _seen(row: dict[str, Any], about: dict[str, Any], curves: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Seen:
    status = {"state": row["state"], **{name: row[name] for name in ABOUT}, "versions": json.loads(row["versions"])}
    known = {"key", "seed", "state", *ABOUT, "versions", "config", "certificate"}
    done = row["state"] == "done"
    return Seen(
        run=Run(**about, config=json.loads(row["config"]), status=status),
        figures={name: value for name, value in row.items() if name not in known} if done else {},
        curves=curves,
        arrays=arrays,
        certificate=json.loads(row["certificate"]),
    )
