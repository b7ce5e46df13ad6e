"""A job: runs that one program trains together, as a generator of progress. The same for every engine.

It writes into the results store in ``root``, and continues from the checkpoints there: bit for bit what it would have
been without the interruption, because programs, lanes and chunks are fixed by the configuration alone.
"""

import json
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pbim.config import JSON, canonical, decode, key_of
from pbim.errors import InputError
from pbim.results import CHECKPOINT, Status, Store
from pbim.results.records import State
from pbim.studies.study import Study, large_repayments
from pbim.training import checkpoint

T = TypeVar("T")

Config = Mapping[str, JSON]
"""A run's configuration, as ``pbim.config.run_document`` returns it."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Runs of one cell (a block of lanes of Q-learning, one seed of PPO), and what their status says of them.

    ``save_every`` is the seconds between two checkpoints, ``replay`` whether pictures are written at the end.
    """

    cell: str
    configs: tuple[Config, ...]
    command: str = ""
    commit: str | None = None
    save_every: float = 5.0
    replay: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The runs' keys."""
        return tuple(map(key_of, self.configs))

    @property
    def kind(self) -> str:
        """The kind of learner."""
        return str(self.configs[0]["learner"]["kind"])

    @property
    def learner(self) -> Any:
        """The learner of all its runs, the same object for all seeds, so that JAX compiles it once."""
        return learner_of(self.configs[0])

    @property
    def name(self) -> str:
        """The cell and its seeds."""
        seeds = [str(config["seed"]) for config in self.configs]
        return f"{self.cell} seed {seeds[0]}" if len(seeds) == 1 else f"{self.cell} seeds {seeds[0]}-{seeds[-1]}"


class Progress(NamedTuple):
    """How far a run is: ``done`` of ``total`` (episodes or updates), the figures of late, files written since.

    ``note`` is what the user should know: that its checkpoint could not be read, for one.
    """

    key: str
    done: int
    total: int
    steps: int
    figures: Mapping[str, float]
    files: tuple[str, ...] = ()
    finished: bool = False
    note: str = ""


class Event(NamedTuple):
    """What an engine says of a job: it started, a run got further, its node was lost, it ended or failed."""

    job: Job
    kind: Literal["started", "progress", "lost", "ended", "failed"]
    progress: Progress | None = None
    error: str | None = None


def learner_of(config: Config) -> Any:
    """Return the learner of a run."""
    return _learner(canonical(config["learner"]))


@lru_cache(maxsize=8)
def _learner(text: str) -> Any:
    with large_repayments():
        return decode(json.loads(text))


def jobs_of(
    study: Study, keys: set[str], *, command: str, commit: str | None = None, save_every: float = 5.0
) -> list[Job]:
    """Return the jobs that train the runs of these keys, once each; one of every cell first, the long ones first."""
    blocks: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    cells, taken = {cell.name: index for index, cell in enumerate(study.cells)}, set[str]()
    for cell, seed, config in study.runs():
        key = key_of(config)
        if key in keys and key not in taken:
            taken.add(key)
            block = seed // getattr(cell.learner, "lanes", 1)
            blocks.setdefault((block, cell.name, cell.learner.intrinsic is None), []).append(config)
    order = sorted(blocks, key=lambda place: (place[0], place[2], cells[place[1]]))
    return [
        Job(
            cell=place[1],
            configs=tuple(blocks[place]),
            command=command,
            commit=commit,
            save_every=save_every,
            replay=place[0] == 0,
        )
        for place in order
    ]


def run(job: Job, root: Path) -> Iterator[Progress]:
    """Train the job's runs in the store ``root``, and yield how far each is after every chunk of about a second."""
    from pbim.agents import QLearning
    from pbim.training.compiled import keep_compiled

    keep_compiled()
    if isinstance(job.learner, QLearning):
        from pbim.studies._q_job import train
    else:
        from pbim.studies._ppo_job import train
    yield from train(job, Store(root))


def begin(job: Job, store: Store) -> None:
    """Write configuration and status of every run; drop what a killed process was about to write."""
    for config in job.configs:
        for part in store.begin(config, status(job)).glob("*.part"):
            part.unlink()


def resume(store: Store, config: Config, like: T) -> tuple[T, float] | str | None:
    """Return where a run was last saved and the seconds spent on it, or None where it was not.

    A checkpoint that cannot be read is set aside, and a sentence says so: the run starts over, with the same rows.
    """
    path = store.folder(key_of(config)) / CHECKPOINT
    if not path.exists():
        return None
    try:
        state = checkpoint.load(path, like, config=canonical(config))
        seconds = checkpoint.about(path)["about"].get("seconds")
    except InputError as error:
        store.set_aside(path)
        return f"set aside: {error}; the run starts over"
    return state, seconds if isinstance(seconds, float) else 0.0


def status(
    job: Job, *, state: State = "running", steps: int = 0, seconds: float = 0.0, error: str | None = None
) -> Status:
    """Return what a run's status says."""
    return Status(
        state=state,
        error=error,
        steps=steps,
        seconds=round(seconds, 3),
        versions=versions(),
        commit=job.commit,
        command=job.command,
        finished=datetime.now(UTC).isoformat(timespec="seconds") if state == "done" else None,
    )


def versions() -> dict[str, str]:
    """Return what made the numbers: Python, pbim and the packages that compute."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("pbim", "jax", "jaxlib", "numpy", "optax", "polars"):
        found[package] = metadata.version(package)
    return found


class Clock:
    """When the next checkpoint is due, and how many seconds the work has taken in all."""

    def __init__(self, every: float, before: float = 0.0) -> None:
        self.every, self.before = every, before
        self.start = self.saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of work, those before an interruption included."""
        return self.before + time.monotonic() - self.start

    def due(self) -> bool:
        """Tell whether to save now, and start over counting if so."""
        if time.monotonic() - self.saved < self.every:
            return False
        self.saved = time.monotonic()
        return True
