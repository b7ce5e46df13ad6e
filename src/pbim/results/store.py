"""The results of a study in a folder: one folder a run, named by its configuration; files are whole or not there."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pbim._files import read_arrays, replacing, write_arrays
from pbim.errors import InputError
from pbim.results.schema import SCHEMA, key_of

if TYPE_CHECKING:
    import polars

STUDY, CONFIG, STATUS, METRICS, FINAL = "study.json", "config.json", "status.json", "metrics.parquet", "final.npz"
CERTIFICATE, CHECKPOINT, REPLAY = "certificate.json", "checkpoint.pbim", "replay.gif"
RUNS, SET_ASIDE = "runs", "set-aside"


class Corrupt(InputError):  # noqa: N818 - what a file is
    """A file of the store cannot be read; ``path`` says which."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be read ({why}): run pbim reproduce again, which sets it aside and redoes its run"
        )
        self.path = path


@dataclass(frozen=True, kw_only=True)
class Run:
    """One configuration and seed: what is stored of it. ``state`` is waiting, running, failed, corrupt or done."""

    key: str
    folder: Path
    cell: str = ""
    seed: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """How far it is."""
        return str(self.status["state"])

    def metrics(self) -> "polars.DataFrame":
        """Return its rows; columns as in ``pbim.results.COLUMNS``."""
        import polars

        path = self.folder / METRICS
        try:
            return polars.read_parquet(path, glob=False, use_statistics=False)
        except (OSError, polars.exceptions.PolarsError) as error:
            raise Corrupt(path, _first_line(error)) from None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what it learnt: q, visits and the greedy path, or evaluations on held-out layouts."""
        path = self.folder / FINAL
        try:
            return read_arrays(path)
        except InputError as error:
            raise Corrupt(path, _first_line(error)) from None

    def certificate(self) -> dict[str, Any]:
        """Return how many episodes were checked for cancellation, and the worst residual."""
        return read_json(self.folder / CERTIFICATE)

    def check(self) -> None:
        """Read every file of a finished run; raises :class:`Corrupt` naming the first that cannot be read."""
        read_json(self.folder / CONFIG)
        self.metrics()
        self.arrays()
        self.certificate()


class Store:
    """The folder of one study.

    >>> from pbim.results import Store
    >>> Store("out/none").study()
    Traceback (most recent call last):
    ...
    pbim.errors.InputError: path must hold a study, received 'out/none', which has no study.json: pbim reproduce cliff
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        """Return where the run of that key lives."""
        return self.path / RUNS / key

    def study(self) -> dict[str, Any]:
        """Return the plan: cells with their runs, claims, what to plot."""
        path = self.path / STUDY
        if not path.exists():
            raise InputError(
                f"path must hold a study, received {str(self.path)!r}, which has no {STUDY}: pbim reproduce cliff"
            )
        study = read_json(path)
        if study.get("schema") != SCHEMA:
            raise InputError(
                f"{str(path)!r} has schema {study.get('schema')}, this pbim reads {SCHEMA}: use the pbim that wrote it"
            )
        return study

    def write_study(self, study: Mapping[str, Any]) -> None:
        """Write the plan."""
        write_json(self.path / STUDY, {"schema": SCHEMA, **study})

    def runs(self, where: Callable[[Run], bool] | None = None) -> list[Run]:
        """Return the runs of the study's plan, in its order; others in the folder are no part of it."""
        found = [
            self.run(run["key"], cell=cell["name"], seed=run["seed"])
            for cell in self.study()["cells"]
            for run in cell["runs"]
        ]
        return [run for run in found if where is None or where(run)]

    def run(self, key: str, *, cell: str = "", seed: int = 0) -> Run:
        """Return what is stored of one run; an unreadable or foreign config or status makes its state ``corrupt``."""
        folder = self.folder(key)
        about: dict[str, Any] = {"key": key, "folder": folder, "cell": cell, "seed": seed}
        if not (folder / STATUS).exists():
            return Run(**about, status={"state": "waiting", "error": None})
        try:
            config = read_json(folder / CONFIG)
            if key_of(config) != key:
                raise Corrupt(folder / CONFIG, "it is of another configuration")
            status = read_json(folder / STATUS)
            if "state" not in status:
                raise Corrupt(folder / STATUS, "it says no state")
        except Corrupt as error:
            return Run(**about, status={"state": "corrupt", "error": str(error)})
        return Run(**about, config=config, status=status)

    def mend(self, run: Run) -> Corrupt | None:
        """Set a run with an unreadable file aside, so that it is redone; returns what was wrong, None if nothing."""
        try:
            if run.state == "corrupt":
                raise Corrupt(run.folder, str(run.status["error"]))
            if run.state == "done":
                run.check()
        except Corrupt as error:
            self.set_aside(run.key)
            return error
        return None

    def set_aside(self, key: str) -> None:
        """Move a run's folder away, beside earlier ones of the same key."""
        home = self.path / SET_ASIDE
        home.mkdir(parents=True, exist_ok=True)
        number = 1
        while (home / f"{key}-{number}").exists():
            number += 1
        shutil.move(self.folder(key), home / f"{key}-{number}")

    def begin(self, config: Mapping[str, Any], status: Mapping[str, Any]) -> Path:
        """Write what is known before a run starts, and return its folder."""
        folder = self.folder(key_of(config))
        write_json(folder / CONFIG, config)
        write_json(folder / STATUS, {**status, "state": "running"})
        return folder

    def finish(
        self,
        key: str,
        *,
        metrics: Mapping[str, NDArray[Any]],
        arrays: Mapping[str, NDArray[Any]],
        certificate: Mapping[str, Any],
        status: Mapping[str, Any],
    ) -> None:
        """Write a finished run; its status comes last, so that done means that all of it is there."""
        folder = self.folder(key)
        write_metrics(folder / METRICS, metrics)
        write_arrays(folder / FINAL, arrays)
        write_json(folder / CERTIFICATE, certificate)
        write_json(folder / STATUS, {**status, "state": "done"})


def frame(path: str | os.PathLike[str]) -> "polars.DataFrame":
    """Return the rows of all finished runs of a study as one table, with columns cell, seed and key in front."""
    import polars

    def tables() -> Iterator[polars.DataFrame]:
        for run in Store(path).runs(lambda run: run.state == "done"):
            named = {"cell": run.cell, "seed": run.seed, "key": run.key}
            yield run.metrics().select(*(polars.lit(value).alias(name) for name, value in named.items()), polars.all())

    found = list(tables())
    return polars.concat(found, how="diagonal") if found else polars.DataFrame()


def write_metrics(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write rows as parquet."""
    import polars

    with replacing(path) as file:
        polars.DataFrame(dict(columns)).write_parquet(file, compression="zstd")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, one name a line."""
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, or raise :class:`Corrupt`."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Corrupt(path, _first_line(error)) from None
    if not isinstance(content, dict):
        raise Corrupt(path, "it is not a JSON object")
    return content


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
