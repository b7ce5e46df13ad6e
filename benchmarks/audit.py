"""Audit a log of a million transitions over a hundred thousand states, on one core: seconds, and peak memory.

Each case runs in a process of its own, so that the peak is its own. ``cpu_seconds`` is what the core worked, which a
busy machine does not change much.
"""

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks._timing import one_core

TRANSITIONS, STATES, GAMMA = 1_000_000, 100_000, 0.99
CASES = ("safe", "safe, rows of 4 numbers", "unsafe", "gamma forgotten", "safe, no ends")


def log_of(case: str, transitions: int, states: int) -> dict[str, Any]:
    """Return a log of random transitions with a random potential, spoilt as the case says."""
    rng = np.random.default_rng(0)
    here, there = rng.integers(0, states, (2, transitions))
    terminated = np.zeros(transitions, bool) if "no ends" in case else there < states // 100
    kept = np.ones(transitions, bool) if "no ends" in case else here >= states // 100
    here, there, terminated = here[kept], there[kept], terminated[kept]
    potential = rng.normal(size=states)
    term = (1.0 if "forgotten" in case else GAMMA) * np.where(terminated, 0, potential[there]) - potential[here]
    if case == "unsafe":
        term = term + 0.1 * (there % 7 == 0)
    obs, next_obs = here, there
    if "rows" in case:
        obs, next_obs = (np.stack([states // 10 - part, part, part % 5, part * 0], axis=1) for part in (here, there))
    extrinsic = terminated.astype(float)
    return {
        "obs": obs, "next_obs": next_obs, "term": term, "terminated": terminated, "gamma": GAMMA,
        "extrinsic": extrinsic, "episode": np.arange(len(term)) // 100,
    }  # fmt: skip


def measure(case: str, transitions: int, states: int) -> dict[str, Any]:
    """Return seconds, peak memory and the verdict of one audit; the peak includes the log and the imports."""
    import pbim

    log = log_of(case, transitions, states)
    pbim.audit(**{name: column[:100] if name != "gamma" else column for name, column in log.items()})  # imports
    with one_core():
        began, worked = time.perf_counter(), time.process_time()
        report = pbim.audit(**log)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    return {
        "case": case,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "reason": report.reason,
    }


def run(*, quick: bool = False) -> dict[str, Any]:
    """Return one line per case, and the slowest and the largest of them."""
    size = (TRANSITIONS // 10, STATES // 10) if quick else (TRANSITIONS, STATES)
    cases = []
    for case in CASES[:1] if quick else CASES:
        code = f"import json; from benchmarks.audit import measure; print(json.dumps(measure({case!r}, *{size!r})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        cases.append(json.loads(done.stdout))
    return {
        "transitions": size[0],
        "states": size[1],
        "seconds": max(case["seconds"] for case in cases),
        "cpu_seconds": max(case["cpu_seconds"] for case in cases),
        "peak_megabytes": max(case["peak_megabytes"] for case in cases),
        "cases": cases,
    }
