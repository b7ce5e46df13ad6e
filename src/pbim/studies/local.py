"""The local engine: every job is a process of its own on one core, as many at once as cores and memory allow."""

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pbim.studies._worker import encode, progress_of
from pbim.studies.job import Event, Job
from pbim.training.compiled import ONE_THREAD

MEMORY = {"q-learning": 500, "ppo": 1300}
"""Megabytes that a job needs at most, measured while it compiles, with room to spare."""

SILENCE = 600.0
"""Seconds without a word after which a process is taken to hang and its job starts again from its checkpoints."""

_PATIENCE = 5.0


def run(
    jobs: Sequence[Job], root: Path, *, workers: int | None = None, silence: float = SILENCE
) -> Generator[Event | None, None, None]:
    """Yield what happens to the jobs until all are over, and None now and then; closing the generator ends them."""
    waiting, running, replaced = deque(jobs), list[_Process](), set[str]()
    limit = workers or cores()
    try:
        while waiting or running:
            while waiting and len(running) < limit and (not running or _fits(waiting[0])):
                running.append(_Process(waiting.popleft(), root))
                yield Event(running[-1].job, "started")
            for process in _ready(running):
                yield from process.events()
            for process in running:
                if process.hangs(silence):
                    process.end()
                    again = process.job.name not in replaced
                    yield Event(process.job, "lost" if again else "failed", error=f"silent for {silence:g} s, twice")
                    waiting.extend([process.job] if again else [])
                    replaced.add(process.job.name)
            running = [process for process in running if not process.over]
            yield None
    finally:
        for process in running:
            process.popen.terminate()
        for process in running:
            process.stop()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_megabytes() -> float:
    """Return the memory that new processes could have; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))


def _fits(job: Job) -> bool:
    return free_megabytes() > MEMORY.get(job.kind, 1300)


class _Process:
    """A job at work."""

    def __init__(self, job: Job, root: Path) -> None:
        self.job, self.over, self.text, self.error = job, False, "", ""
        self.heard = time.monotonic()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "pbim.studies._worker", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | ONE_THREAD,
            start_new_session=True,  # Ctrl-C is the driver's to deal with
        )
        assert self.popen.stdin is not None
        with suppress(BrokenPipeError):  # it ended already: events() says how
            self.popen.stdin.write(encode(job))
            self.popen.stdin.close()

    def events(self) -> Iterator[Event]:
        """Yield what the process has written; at its end, how it ended."""
        assert self.popen.stdout is not None
        chunk = os.read(self.popen.stdout.fileno(), 1 << 16)
        self.heard = time.monotonic()
        *lines, self.text = (self.text + chunk.decode()).split("\n")
        for answer in map(progress_of, lines):
            if isinstance(answer, str):
                self.error = answer
            else:
                yield Event(self.job, "progress", answer)
        if not chunk:
            self.over = True
            code = self.popen.wait()
            yield Event(self.job, "failed", error=self._complaint(code)) if code else Event(self.job, "ended")
            self.stop()

    def hangs(self, silence: float) -> bool:
        """Tell whether the process lives but has not said anything for so many seconds."""
        return not self.over and time.monotonic() - self.heard > silence

    def end(self) -> None:
        """Kill the process."""
        self.popen.kill()
        self.over = True
        self.stop()

    def _complaint(self, code: int) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        killed = f"killed by signal {-code}, perhaps for lack of memory (fewer --jobs?)"
        return self.error or (killed if code < 0 else lines[-1] if lines else f"ended with code {code}")

    def stop(self) -> None:
        """End the process and close what it held."""
        try:
            self.popen.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self.errors.close()


def _ready(running: Sequence[_Process], seconds: float = 0.5) -> list[_Process]:
    """Return the processes that have something to say, after at most so many seconds."""
    with selectors.DefaultSelector() as selector:
        for process in running:
            assert process.popen.stdout is not None
            selector.register(process.popen.stdout, selectors.EVENT_READ, process)
        return [key.data for key, _ in selector.select(seconds)]
