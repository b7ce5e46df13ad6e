"""Fair timing on a shared machine: one core for everybody, and turns taken round by round."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

NameT = TypeVar("NameT")


@contextmanager
def one_core() -> Iterator[int | None]:
    """Keep every thread of this process, present and future, on one core; yields its number, None if impossible."""
    tasks = Path("/proc/self/task")
    if not hasattr(os, "sched_setaffinity") or not tasks.exists():
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    _pin(tasks, {core})
    try:
        yield core
    finally:
        _pin(tasks, before)


def _pin(tasks: Path, cores: set[int]) -> None:
    for task in tasks.iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:  # a thread that ended meanwhile needs no core
            continue


def interleaved(
    workloads: Mapping[NameT, Callable[[], object]], *, rounds: int, at_least: float = 0.2
) -> dict[NameT, list[float]]:
    """Time every workload once per round, in turn, after one warm-up each; returns seconds per call, (rounds,) each.

    A turn repeats its workload for at least ``at_least`` seconds, so that a busy machine disturbs short and long ones
    alike.

    >>> from benchmarks._timing import interleaved
    >>> sorted(interleaved({"a": lambda: None, "b": lambda: None}, rounds=3, at_least=0))
    ['a', 'b']
    """
    for work in workloads.values():
        work()
    seconds: dict[NameT, list[float]] = {name: [] for name in workloads}
    for _ in range(rounds):
        for name, work in workloads.items():
            start, calls, elapsed = time.perf_counter(), 0, 0.0
            while calls == 0 or elapsed < at_least:
                work()
                calls += 1
                elapsed = time.perf_counter() - start
            seconds[name].append(elapsed / calls)
    return seconds


def in_turn(workloads: Mapping[NameT, Callable[[], object]], *, rounds: int) -> dict[NameT, NDArray[np.float64]]:
    """Return the processor time of this thread in every workload, in seconds, (rounds,) each.

    A turn is one call, and every other round goes backwards, so that nobody always follows the same one.

    >>> from benchmarks._timing import in_turn
    >>> [len(seconds) for seconds in in_turn({"a": lambda: None, "b": lambda: None}, rounds=3).values()]
    [3, 3]
    """
    taken: dict[NameT, list[float]] = {name: [] for name in workloads}
    for index in range(rounds):
        for name in list(workloads)[:: -1 if index % 2 else 1]:
            begin = time.thread_time()
            workloads[name]()
            taken[name].append(time.thread_time() - begin)
    return {name: np.array(seconds) for name, seconds in taken.items()}
