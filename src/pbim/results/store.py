"""The results of a study in a folder: one folder per run, named by its configuration; files are whole or not there."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars
from numpy.typing import NDArray

from pbim._files import read_arrays, replacing, write_arrays
from pbim.config import key_of
from pbim.errors import InputError
from pbim.results.records import SCHEMA, Corrupt, Plan, RunCertificate, State, Status, read_record, write_json

STUDY, CONFIG, STATUS, METRICS, FINAL = "study.json", "config.json", "status.json", "metrics.parquet", "final.npz"
CERTIFICATE, CHECKPOINT, REPLAY = "certificate.json", "checkpoint.pbim", "replay.gif"
RUNS, SET_ASIDE = "runs", "set-aside"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One configuration and seed: what is stored of it. ``state`` is waiting, running, failed, corrupt or done."""

    key: str
    folder: Path
    cell: str = ""
    seed: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    status: Status = field(default_factory=Status)

    @property
    def state(self) -> State:
        """How far it is."""
        return self.status.state

    def metrics(self) -> polars.DataFrame:
        """Return its rows; the learner's ``metrics`` say what the columns mean."""
        path = self.folder / METRICS
        try:
            return polars.read_parquet(path, glob=False, use_statistics=False)
        except (OSError, polars.exceptions.PolarsError) as error:
            raise Corrupt(path, _first_line(error)) from None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the agent is at the end: q, visits and the greedy path, or evaluations on held-out layouts."""
        path = self.folder / FINAL
        try:
            return read_arrays(path)
        except InputError as error:
            raise Corrupt(path, _first_line(error)) from None

    def certificate(self) -> RunCertificate:
        """Return how many episodes were checked for cancellation, and the worst residual."""
        return read_record(self.folder / CERTIFICATE, RunCertificate)

    def check(self) -> None:
        """Read every file of a finished run; raises :class:`Corrupt` naming the first that cannot be read."""
        self.metrics()
        self.arrays()
        self.certificate()


class Store:
    """The folder of one study.

    >>> from pbim.results import Store
    >>> Store("out/none").plan()
    Traceback (most recent call last):
    ...
    pbim.errors.InputError: path must hold a study, received 'out/none', which has no study.json: pbim reproduce cliff
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        """Return where the run of that key lives."""
        return self.path / RUNS / key

    def plan(self) -> Plan:
        """Return the study: cells with their runs, claims, what to plot.

        Raises:
            InputError: If the folder holds no study, or one of another version of pbim.

        """
        path = self.path / STUDY
        if not path.exists():
            raise InputError(
                f"path must hold a study, received {str(self.path)!r}, which has no {STUDY}: pbim reproduce cliff"
            )
        schema = read_record(path, dict[str, Any]).get("schema")
        if schema != SCHEMA:
            raise InputError(f"{str(path)!r} has schema {schema}, this pbim reads {SCHEMA}: use the pbim that wrote it")
        return read_record(path, Plan)

    def write_plan(self, plan: Plan) -> None:
        """Write the study."""
        write_json(self.path / STUDY, plan)

    def runs(self, where: Callable[[Run], bool] | None = None) -> list[Run]:
        """Return the runs of the study's plan, in its order; others in the folder are no part of it."""
        found = [self.run(run.key, cell=cell.name, seed=run.seed) for cell in self.plan().cells for run in cell.runs]
        return [run for run in found if where is None or where(run)]

    def run(self, key: str, *, cell: str = "", seed: int = 0) -> Run:
        """Return what is stored of one run; an unreadable or foreign config or status makes its state ``corrupt``."""
        folder = self.folder(key)
        run = Run(key=key, folder=folder, cell=cell, seed=seed)
        if not (folder / STATUS).exists():
            return run
        try:
            config = read_record(folder / CONFIG, dict[str, Any])
            if key_of(config) != key:
                raise Corrupt(folder / CONFIG, "it is of another configuration")
            return replace(run, config=config, status=read_record(folder / STATUS, Status))
        except Corrupt as error:
            return replace(run, status=Status(state="corrupt", error=str(error)))

    def mend(self, run: Run) -> Corrupt | None:
        """Set a run with an unreadable file aside, so that it is redone; returns what was wrong, None if nothing."""
        try:
            if run.state == "corrupt":
                raise Corrupt(run.folder, str(run.status.error))
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

    def begin(self, config: Mapping[str, Any], status: Status) -> Path:
        """Write what is known before a run starts, and return its folder."""
        folder = self.folder(key_of(config))
        write_json(folder / CONFIG, config)
        write_json(folder / STATUS, replace(status, state="running"))
        return folder

    def finish(
        self,
        key: str,
        *,
        metrics: Mapping[str, NDArray[Any]],
        arrays: Mapping[str, NDArray[Any]],
        certificate: RunCertificate,
        status: Status,
    ) -> None:
        """Write a finished run; its status comes last, so that done means that all of it is there."""
        folder = self.folder(key)
        write_metrics(folder / METRICS, metrics)
        write_arrays(folder / FINAL, arrays)
        write_json(folder / CERTIFICATE, certificate)
        write_json(folder / STATUS, replace(status, state="done"))


def frame(path: str | os.PathLike[str]) -> polars.DataFrame:
    """Return the rows of all finished runs of a study as one table, with columns cell, seed and key in front."""

    def tables() -> Iterator[polars.DataFrame]:
        for run in Store(path).runs(lambda run: run.state == "done"):
            named = {"cell": run.cell, "seed": run.seed, "key": run.key}
            yield run.metrics().select(*(polars.lit(value).alias(name) for name, value in named.items()), polars.all())

    found = list(tables())
    return polars.concat(found, how="diagonal") if found else polars.DataFrame()


def write_metrics(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write rows as parquet."""
    with replacing(path) as file:
        polars.DataFrame(dict(columns)).write_parquet(file, compression="zstd")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
