"""The results of a study in a folder: one folder per run, named by its configuration; files are whole or not there."""

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars
from numpy.typing import NDArray

from pbim._files import arrays_in, first_line, replacing, write_arrays
from pbim.config import key_of
from pbim.errors import InputError
from pbim.results.checksums import CHECKSUMS, checked_content, write_checksums
from pbim.results.records import (
    SCHEMA,
    Corrupt,
    Plan,
    RunCertificate,
    State,
    Status,
    content_of,
    decode_record,
    json_bytes,
    read_record,
    write_json,
)

STUDY = "study.json"
"""The file of a study with its name, cells and claims."""
RUNS = "runs"
"""The folder of a study that holds one folder per run."""
CONFIG = "config.json"
"""The file of a run that says what it is: configuration, seed and versions."""
STATUS = "status.json"
"""The file of a run that says how far it is."""
METRICS = "metrics.parquet"
"""The curves of a run, one row per record."""
FINAL = "final.npz"
"""The arrays that a run ends with, such as its policy."""
CERTIFICATE = "certificate.json"
"""The certificate of a run."""
CHECKPOINT = "checkpoint.pbim"
"""What a run that was interrupted continues from."""
REPLAY = "replay.gif"
"""The film of a run's last policy."""
SET_ASIDE = "set-aside"
"""The folder of a study for runs whose files are damaged."""
_KEY = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One configuration and seed: what is stored of it. ``state`` is waiting, running, failed, corrupt or done."""

    key: str
    folder: Path
    cell: str = ""
    seed: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    status: Status = field(default_factory=Status)
    trouble: Corrupt | None = None
    """What cannot be read of a corrupt run."""

    @property
    def state(self) -> State:
        """How far it is."""
        return self.status.state

    def metrics(self) -> polars.DataFrame:
        """Return its rows; the learner's ``metrics`` say what the columns mean."""
        return read_table(self.folder / METRICS)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the agent is at the end: q, visits and the greedy path, or evaluations on held-out layouts."""
        return read_final(self.folder / FINAL)

    def certificate(self) -> RunCertificate:
        """Return how many episodes were checked for cancellation, and the worst residual."""
        path = self.folder / CERTIFICATE
        return decode_record(path, checked_content(path), RunCertificate)

    def check(self) -> None:
        """Read every file of a finished run; raises :class:`Corrupt` naming the first that cannot be read."""
        self.metrics()
        self.arrays()
        self.certificate()


class Store:
    """The folder of one study.

    >>> from pbim.results import Store
    >>> Store("out/no").plan()
    Traceback (most recent call last):
    ...
    pbim.errors.InputError: path must hold a study, received 'out/no', which has no study.json: pbim reproduce makes one
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
            Corrupt: If it cannot be read.

        """
        path = self.path / STUDY
        if not path.exists():
            raise InputError(
                f"path must hold a study, received {str(self.path)!r}, which has no {STUDY}: pbim reproduce makes one"
            )
        content = checked_content(path)
        schema = decode_record(path, content, dict[str, Any]).get("schema")
        if schema != SCHEMA:
            raise InputError(
                f"{str(path)!r} has schema {schema}, this pbim reads {SCHEMA}: use the pbim that wrote it, or another "
                "folder"
            )
        plan = decode_record(path, content, Plan)
        strange = [run.key for cell in plan.cells for run in cell.runs if not _KEY.fullmatch(run.key)]
        if strange:  # a key names a folder: it must not lead out of the store
            raise Corrupt(path, f"{strange[0]!r} is not the key of a run")
        return plan

    def write_plan(self, plan: Plan) -> None:
        """Write the study; its checksum goes first, so that it is never of another plan."""
        (self.path / CHECKSUMS).unlink(missing_ok=True)
        write_json(self.path / STUDY, plan)
        write_checksums(self.path, (STUDY,))

    def runs(self, where: Callable[[Run], bool] | None = None) -> list[Run]:
        """Return the runs of the study's plan, in its order; others in the folder are no part of it."""
        found = [self.run(run.key, cell=cell.name, seed=run.seed) for cell in self.plan().cells for run in cell.runs]
        return [run for run in found if where is None or where(run)]

    def run(self, key: str, *, cell: str = "", seed: int = 0) -> Run:
        """Return what is stored of one run; an unreadable or foreign config or status makes its state ``corrupt``."""
        folder = self.folder(key)
        run = Run(key=key, folder=folder, cell=cell, seed=seed)
        if not os.path.lexists(folder / STATUS) and not folder.is_file():
            return run
        try:
            status = read_record(folder / STATUS, Status)
            if status.state == "waiting":  # nobody writes that
                raise Corrupt(folder / STATUS, "it says nothing")
            read = checked_content if status.state == "done" else content_of
            read(folder / STATUS)
            config = decode_record(folder / CONFIG, read(folder / CONFIG), dict[str, Any])
            if not _is_of(config, key):
                raise Corrupt(folder / CONFIG, "it is of another configuration")
            return replace(run, config=config, status=status)
        except Corrupt as error:
            return replace(run, status=Status(state="corrupt", error=str(error)), trouble=error)

    def mend(self, run: Run, check: Callable[[Run], None] = Run.check) -> Corrupt | None:
        """Set a run aside that cannot be read, so that it is redone; returns what was wrong, None if nothing.

        Args:
            run: Any run; only a finished one is read.
            check: Raises :class:`Corrupt` for a finished run that cannot be used.

        """
        try:
            if run.trouble is not None:
                raise run.trouble
            if run.state == "done":
                check(run)
                if not (run.folder / CHECKSUMS).exists():  # of an older pbim: from now on damage is noticed
                    write_checksums(run.folder, (CONFIG, STATUS, METRICS, FINAL, CERTIFICATE))
        except Corrupt as error:
            self.set_aside(run.folder)
            return error
        return None

    def set_aside(self, path: Path) -> None:
        """Move a file or a run's folder away, beside earlier ones of the same name."""
        home = self.path / SET_ASIDE
        home.mkdir(parents=True, exist_ok=True)
        name, number = "-".join(part for part in path.relative_to(self.path).parts if part != RUNS), 1
        while os.path.lexists(home / f"{name}-{number}"):
            number += 1
        shutil.move(path, home / f"{name}-{number}")

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
        write_table(folder / METRICS, metrics)
        write_arrays(folder / FINAL, arrays)
        write_json(folder / CERTIFICATE, certificate)
        done = replace(status, state="done")
        write_checksums(folder, (CONFIG, METRICS, FINAL, CERTIFICATE), {STATUS: json_bytes(done)})
        write_json(folder / STATUS, done)


def frame(path: str | os.PathLike[str]) -> polars.DataFrame:
    """Return the rows of all finished runs of a study as one table, with columns cell, seed and key in front."""

    def tables() -> Iterator[polars.DataFrame]:
        for run in Store(path).runs(lambda run: run.state == "done"):
            named = {"cell": run.cell, "seed": run.seed, "key": run.key}
            yield run.metrics().select(*(polars.lit(value).alias(name) for name, value in named.items()), polars.all())

    found = list(tables())
    return polars.concat(found, how="diagonal") if found else polars.DataFrame()


def write_table(path: Path, columns: Mapping[str, Any], **options: Any) -> None:
    """Write columns as parquet, with polars' options; no room is an ``OSError``, as for any other file."""
    content = io.BytesIO()
    polars.DataFrame(dict(columns)).write_parquet(content, compression="zstd", **options)
    with replacing(path) as file:
        file.write(content.getbuffer())


def _is_of(config: Mapping[str, Any], key: str) -> bool:
    try:
        return isinstance(config.get("defaults", {}), Mapping) and key_of(config) == key
    except (ValueError, RecursionError):  # numbers too long and lists too deep to write again
        return False


def read_table(path: Path) -> polars.DataFrame:
    """Return the rows of a parquet file, its checksum checked.

    Raises:
        Corrupt: If it is missing or damaged.

    """
    content = checked_content(path)
    try:
        return polars.read_parquet(io.BytesIO(content), use_statistics=False)
    except (OSError, ValueError, MemoryError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise Corrupt(path, first_line(error)) from None


def read_final(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file, its checksum checked.

    Raises:
        Corrupt: If it is missing or damaged.

    """
    content = checked_content(path)
    try:
        return arrays_in(content)
    except ValueError as error:
        raise Corrupt(path, first_line(error)) from None
