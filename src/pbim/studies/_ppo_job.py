"""Training one seed of recurrent PPO, and what is measured of the trained agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from pbim.agents.ppo import PPO
from pbim.config import canonical, key_of
from pbim.errors import InputError
from pbim.results import CHECKPOINT, REPLAY, RunCertificate, Store
from pbim.studies.job import Clock, Config, Job, Progress, begin, resume, status
from pbim.training import checkpoint
from pbim.training.run import Backend, CompiledBackend, backend_of, shapes_of

CHUNK, LARGEST_CHUNK = 8, 32
"""Updates in one program, and the most of them where another number leaves no rest, which would be a second program.

Checkpoints fall between chunks, so an update's program depends on its number alone.
"""

LAYOUTS, HOST_LAYOUTS = 256, 32
"""How many held-out layouts the trained agent plays, greedily; each is an environment of its own on the host."""

REPLAYED = 200
"""Steps of an episode that are drawn: an agent that is stuck for thousands would fill the memory with pictures."""

Rows = dict[str, NDArray[Any]]


def train(job: Job, store: Store) -> Iterator[Progress]:
    """Yield the run's progress chunk by chunk; it is written when the last update is done."""
    begin(job, store)
    backend = backend_of(job.learner, int(job.configs[0]["seed"]))
    try:
        yield from _train(job, store, backend)
    finally:
        backend.close()


def _train(job: Job, store: Store, backend: Backend) -> Iterator[Progress]:
    (config,) = job.configs
    learner: PPO = job.learner
    key, path = key_of(config), store.folder(key_of(config)) / CHECKPOINT
    carry, rows, before, note = _start(learner, config, store, backend)
    clock, done, chunk = Clock(job.save_every, before), int(carry.updates), chunk_of(learner.updates)
    while done < learner.updates:
        size = chunk if learner.updates - done >= chunk else 1
        carry, metrics = backend.advance(carry, size)
        for name, values in jax.device_get(metrics)._asdict().items():
            rows[name][done : done + size] = values
        done += size
        files: tuple[str, ...] = ()
        if done < learner.updates and clock.due():
            about = {"seconds": clock.seconds}
            checkpoint.save(path, {"carry": carry, "rows": rows}, config=canonical(config), about=about)
            files = (CHECKPOINT,)
        if done < learner.updates:
            yield Progress(key, done, learner.updates, done * learner.frames, _figures(rows, done), files, note=note)
            note = ""
    _finish(job, store, backend, carry, rows, clock)
    yield Progress(key, done, learner.updates, done * learner.frames, _figures(rows, done), (), True, note)


def chunk_of(updates: int) -> int:
    """Return how many updates one program makes: the number next to CHUNK that divides them all, if there is one.

    >>> chunk_of(1465), chunk_of(977)
    (5, 8)

    """
    whole = [size for size in range(2, LARGEST_CHUNK + 1) if updates % size == 0]
    return min(whole, key=lambda size: abs(size - CHUNK), default=CHUNK)


def _start(learner: PPO, config: Config, store: Store, backend: Backend) -> tuple[Any, Rows, float, str]:
    """Return the run where it was last saved, else at its start, its rows, the seconds spent on it and a note."""
    rows = {name: np.zeros(learner.updates, metric.dtype) for name, metric in learner.metrics.items()}
    like: dict[str, Any] = {"carry": shapes_of(learner), "rows": rows}
    found = resume(store, config, like)
    if isinstance(found, tuple):
        saved, seconds = found
        rows = {name: np.array(saved["rows"][name]) for name in rows}
        return backend.resume(saved["carry"]), rows, seconds, ""
    return backend.start(), rows, 0.0, found or ""


def _figures(rows: Rows, done: int) -> dict[str, float]:
    """Return the mean length and return of the episodes of the last 100 updates."""
    late = slice(max(0, done - 100), done)
    weights = rows["episodes"][late].astype(float)
    ended = weights > 0
    if not ended.any():
        return {"return": float("nan"), "length": float("nan")}
    names = {"return": "extrinsic_return", "length": "length"}
    return {
        name: float(np.average(rows[column][late][ended], weights=weights[ended])) for name, column in names.items()
    }


def _finish(job: Job, store: Store, backend: Backend, carry: Any, rows: Rows, clock: Clock) -> None:
    (config,) = job.configs
    learner: PPO = job.learner
    key, params = key_of(config), carry.learner.params
    played = backend.evaluate(params, episodes=LAYOUTS if isinstance(backend, CompiledBackend) else HOST_LAYOUTS)
    optimal = np.asarray(played.optimal)
    worst, episodes = float(rows["residual"].max()), int(rows["episodes"].sum())
    tolerance = float(np.sqrt(np.finfo(np.float32).eps))
    if job.replay:
        write_replay(store.folder(key) / REPLAY, learner, params)
    store.finish(
        key,
        metrics=rows,
        arrays={
            "evaluation_lengths": np.asarray(played.lengths).astype(np.int32),
            "evaluation_goals": np.asarray(played.terminated),
            "optimal_lengths": optimal if np.isnan(optimal).any() else optimal.astype(np.int32),
        },
        certificate=RunCertificate(
            episodes=episodes,
            worst=worst if np.isfinite(worst) else None,
            ok=episodes > 0 and worst <= tolerance,
            exact=learner.exact,
            tolerance=tolerance,
        ),
        status=status(job, state="done", steps=learner.updates * learner.frames, seconds=clock.seconds),
    )
    (store.folder(key) / CHECKPOINT).unlink(missing_ok=True)


def write_replay(path: Path, learner: PPO, params: Any) -> None:
    """Write a moving picture of the agent on a held-out layout, where Pillow is installed."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        return
    from pbim.training.replay import play, write

    try:
        pictures, _ = play(learner, params, episodes=1, most=REPLAYED)
    except InputError:  # nobody knows how to draw this environment
        return
    write(path, pictures, frames_per_second=8)
