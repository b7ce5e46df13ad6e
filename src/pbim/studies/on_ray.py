"""The Ray engine: the same jobs as tasks of an existing cluster, their files streamed back to the driver.

Nodes need pbim installed but no disk in common. Every checkpoint comes back too, so a job whose node died continues
elsewhere from its last one; the driver alone writes into the store, and writes a finished run once.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pbim._extras import require
from pbim._files import first_line, replacing
from pbim.errors import InputError
from pbim.results import CHECKPOINT, STATUS, Store
from pbim.studies import job as jobs_module
from pbim.studies._worker import decode, encode
from pbim.studies.job import Event, Job, Progress
from pbim.studies.local import MEMORY
from pbim.training.compiled import ONE_THREAD

RETRIES = 5
"""How often a job is started again because its node died."""

PATIENCE = 12.0
"""Seconds in which a cluster has to answer; one that lives takes about two."""

_ANSWER = "pbim: "
_TRIAL = f"""
import sys, logging, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.WARNING)
except Exception as error:
    sys.exit("{_ANSWER}" + ((str(error).splitlines() or [""])[0] or type(error).__name__))
"""

Files = dict[str, bytes]


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to a running cluster, the one Ray finds if ``address`` is None.

    Raises:
        InputError: If there is none, it wants a token, or it does not answer within ``PATIENCE`` seconds.

    """
    require("--engine ray", "ray")
    import ray

    if (trouble := _trial(address)) is not None:
        raise InputError(f"address must be of a running Ray cluster, received {address!r} ({trouble[0]}): {trouble[1]}")
    ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.WARNING)
    try:
        yield
    finally:
        ray.shutdown()


def _trial(address: str | None) -> tuple[str, str] | None:
    """Connect once in a process of its own; returns what went wrong and the way out, None if nothing.

    ``ray.init`` asks a dead address for minutes, ignores SIGTERM meanwhile, and only prints that a token is missing.
    """
    start = "start one with ray start --head"
    if (why := _unreachable(address)) is not None:
        return why, start
    with tempfile.TemporaryFile() as output:
        trial = subprocess.Popen(
            [sys.executable, "-c", _TRIAL, address or "auto"], stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = _ended(trial, output)
        finally:
            trial.kill()
            trial.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code == 0:
        return None
    if _wants_token(text):
        return "it wants a token", "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH"
    why = text.rpartition(_ANSWER)[2].strip() if code is not None else f"no answer in {PATIENCE:g} s"
    return why.partition("\n")[0] or f"it ended with code {code}", start


def _unreachable(address: str | None) -> str | None:
    """Return why nobody listens at an address of the form host:port, None if somebody does or it has another form."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        return None
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError as error:
        return error.strerror or first_line(error)
    return None


def _ended(trial: "subprocess.Popen[bytes]", output: IO[bytes]) -> int | None:
    """Return the exit code of a process, None once it was told that its token is wrong or its time is over."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return trial.wait(0.2)
        except subprocess.TimeoutExpired:
            if _wants_token(os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")):
                break
    return None


def _wants_token(text: str) -> bool:
    return "Unauthenticated" in text or "AuthenticationError" in text


def run(jobs: Sequence[Job], root: Path, *, workers: int | None = None) -> Generator[Event | None, None, None]:
    """Yield what happens to the jobs until all are over, and None now and then; closing the generator cancels them."""
    import ray

    store, waiting, tasks = Store(root), deque(jobs), dict[Any, Job]()
    attempts: dict[str, int] = {}
    try:
        while waiting or tasks:
            while waiting and len(tasks) < (workers or _cpus()):
                job = waiting.popleft()
                attempts[job.name] = attempts.get(job.name, 0) + 1
                tasks[_submit(job, store)] = job
                yield Event(job, "started")
            ready, _ = ray.wait(list(tasks), timeout=0.5)
            for stream in ready:
                job = tasks[stream]
                event = _next(stream, job, store, last=attempts[job.name] > RETRIES)
                if event.kind == "lost":
                    waiting.append(job)
                if event.kind != "progress":
                    del tasks[stream]
                yield event
            yield None
    finally:
        for stream in tasks:
            ray.cancel(stream, force=True)


def _cpus() -> int:
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]


def _submit(job: Job, store: Store) -> Any:
    """Start a job with the checkpoints the driver has of it; one process per job, one core, its memory reserved."""
    import ray

    jobs_module.begin(job, store)
    saved = {key: store.folder(key) / CHECKPOINT for key in job.keys}
    files = {f"{key}/{CHECKPOINT}": path.read_bytes() for key, path in saved.items() if path.exists()}
    memory = MEMORY.get(job.kind, 1300) * 1_000_000
    remote = ray.remote(num_cpus=1, memory=memory, max_retries=0, max_calls=1)(work)
    return remote.remote(encode(job), files)


def work(line: bytes, files: Files) -> Iterator[tuple[Progress, Files]]:
    """Do a job on a node, in a folder of its own, and yield its progress with the files written since."""
    os.environ.update(ONE_THREAD)
    with tempfile.TemporaryDirectory(prefix="pbim-") as folder:
        store = Store(folder)
        for name, content in files.items():
            key, _, file_name = name.partition("/")
            _write(store.folder(key) / file_name, content)
        for progress in jobs_module.run(decode(line), store.path):
            here = store.folder(progress.key)
            names = sorted(os.listdir(here)) if progress.finished else progress.files
            yield progress, {f"{progress.key}/{name}": (here / name).read_bytes() for name in names}


def _next(stream: Any, job: Job, store: Store, *, last: bool) -> Event:
    """Return what the next answer of a task means; a job whose node died is to be started again."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        progress, files = ray.get(next(stream))
    except StopIteration:
        return Event(job, "ended")
    except RayTaskError as error:
        return Event(job, "failed", error=(str(error.cause) or repr(error.cause)).splitlines()[-1])
    except RayError as error:
        why = f"its node was lost {RETRIES + 1} times ({type(error).__name__})"
        return Event(job, "failed", error=why) if last else Event(job, "lost")
    _keep(store, progress, files)
    return Event(job, "progress", progress)


def _keep(store: Store, progress: Progress, files: Files) -> None:
    """Write what a node sent; the status of a finished run comes last, its checkpoint goes."""
    for name in sorted(files, key=lambda name: name.endswith(STATUS)):
        key, _, file_name = name.partition("/")
        _write(store.folder(key) / file_name, files[name])
    if progress.finished:
        (store.folder(progress.key) / CHECKPOINT).unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)
