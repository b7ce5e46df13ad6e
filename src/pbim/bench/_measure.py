"""Timing several ways of doing the same thing side by side: machines drift, ratios in one run do not."""

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each way over ``repeats`` rounds, in each of which every way has three calls."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            seconds[name].append(min(_seconds(way) for _ in range(3)))
    return {name: statistics.median(times) for name, times in seconds.items()}


def _seconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start
