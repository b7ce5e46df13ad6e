"""A job: runs that one program trains together, as a generator of progress. The same for every engine.

It writes into the results store in ``root``, and continues from the checkpoints there: bit for bit what it would have
been without the interruption, because programs, lanes and chunks are fixed by the configuration alone.
"""

import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pbim.results import Store, key_of
from pbim.studies.study import Config, Study


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
    def name(self) -> str:
        """The cell and its seeds."""
        seeds = [str(config["seed"]) for config in self.configs]
        return f"{self.cell} seed {seeds[0]}" if len(seeds) == 1 else f"{self.cell} seeds {seeds[0]}-{seeds[-1]}"


class Progress(NamedTuple):
    """How far a run is: ``done`` of ``total`` (episodes or updates), the figures of late, files written since."""

    key: str
    done: int
    total: int
    steps: int
    figures: Mapping[str, float]
    files: tuple[str, ...] = ()
    finished: bool = False


class Event(NamedTuple):
    """What an engine says of a job: it started, a run got further, its node was lost, it ended or failed."""

    job: Job
    kind: Literal["started", "progress", "lost", "ended", "failed"]
    progress: Progress | None = None
    error: str | None = None


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
            block = seed // config.get("lanes", 1)
            blocks.setdefault((block, cell.name, config["intrinsic"] is None), []).append(config)
    order = sorted(blocks, key=lambda place: (place[0], place[2], cells[place[1]]))
    return [
        Job(
            cell=place[1],
            configs=tuple(blocks[place]),
            command=command,
            commit=commit,
            save_every=save_every,
            replay=study.learner == "ppo" and place[0] == 0,
        )
        for place in order
    ]


def run(job: Job, root: Path) -> Iterator[Progress]:
    """Train the job's runs in the store ``root``, and yield how far each is after every chunk of about a second."""
    from pbim.training.compiled import keep_compiled

    keep_compiled()
    if job.configs[0]["learner"] == "q_learning":
        from pbim.studies._q_job import train
    else:
        from pbim.studies._ppo_job import train
    yield from train(job, Store(root))


def begun(job: Job, store: Store) -> None:
    """Write configuration and status of every run; drop what a killed process was about to write."""
    for config in job.configs:
        for part in store.begin(config, status(job, steps=0, seconds=0.0)).glob("*.part"):
            part.unlink()


def status(job: Job, *, steps: int, seconds: float, error: str | None = None, finished: bool = False) -> dict[str, Any]:
    """Return what a run's status says besides its state."""
    return {
        "error": error,
        "steps": steps,
        "seconds": round(seconds, 3),
        "versions": versions(),
        "commit": job.commit,
        "command": job.command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds") if finished else None,
    }


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
