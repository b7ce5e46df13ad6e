"""Recurrent PPO on DoorKey-8x8: ours, torch-ac's and sb3-contrib's, frames per second on one core in one run.

Each trainer lives in a process of its own, all on one core, and they take turns: only one of them is ever at work. The
peers train without a bonus, ours with the paper's count bonus, a conversion and its certificate.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks._ppo_worker import EPOCHS, FRAMES
from benchmarks._timing import one_core
from pbim.training.compiled import ONE_THREAD

INSTALL = "pip install -r benchmarks/requirements-ppo.txt"
PEERS = ("torch-ac", "sb3-contrib")
UPDATES = {"pbim": 16, "pbim-no-bonus": 16, "torch-ac": 1, "sb3-contrib": 1}

# Multiply-adds of one frame's forward pass: three convolutions, the LSTM's gates, both heads. The share of the peak
# counts the convolutions of every frame, though ours computes them once per distinct view.
CONVOLUTIONS = 36 * 12 * 16 + 4 * 64 * 32 + 128 * 64
FORWARD = CONVOLUTIONS + 128 * 256 + 64 * 128 + 64 * 8
GRADIENT = 3 * FORWARD - 36 * 12 * 16  # nothing flows back into the image


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure all trainers; ratios are medians over paired rounds, by the clock and on the core, None if missing."""
    with one_core() as core, tempfile.TemporaryDirectory() as cache, ExitStack() as stack:
        workers = {name: stack.enter_context(_Worker(name, cache)) for name in UPDATES}
        clock, busy = _rounds({name: worker for name, worker in workers.items() if worker.runs}, 3 if quick else 7)
        with _Worker("pbim", cache) as again:
            warm = again.about.get("compile_seconds")
    about = workers["pbim"].about
    peak, flops = about["matmul_peak_gflops"], 2 * (FORWARD + EPOCHS * GRADIENT)
    return {
        "benchmark": "ppo",
        "quick": quick,
        "core": core,
        **_ratios("", clock),
        **_ratios("core_", busy),
        "frames_per_second": {name: round(median(rates)) for name, rates in clock.items()},
        "frames_per_core_second": {name: round(median(rates)) for name, rates in busy.items()},
        "missing": {peer: INSTALL for peer in PEERS if peer not in clock},
        "parameters": {name: worker.about["parameters"] for name, worker in workers.items() if worker.runs},
        "update_ms": round(1000 * FRAMES / median(clock["pbim"]), 1),
        "bonus_and_conversion_share": round(1 - _paired(busy["pbim"], busy["pbim-no-bonus"]), 4),
        "conversion_and_certificate_share": round(about["conversion_seconds"] * median(busy["pbim"]) / FRAMES, 4),
        "matmul_peak_gflops": round(peak, 1),
        "share_of_matmul_peak": round(median(busy["pbim"]) * flops / 1e9 / peak, 3),
        "compile_seconds_cold": round(about["compile_seconds"], 1),
        "compile_seconds_warm": warm and round(warm, 1),
    }


Rates = dict[str, list[float]]


def _ratios(prefix: str, rates: Rates) -> dict[str, float | None]:
    return {
        f"{prefix}ratio_{peer.replace('-', '_')}": round(_paired(rates["pbim"], rates[peer]), 2)
        if peer in rates
        else None
        for peer in PEERS
    }


def _rounds(workers: "dict[str, _Worker]", rounds: int) -> tuple[Rates, Rates]:
    """Return frames per second by the clock and by time on the core, one number a round, after one warm-up each."""
    for name, worker in workers.items():
        worker.seconds(UPDATES[name])
    clock: Rates = {name: [] for name in workers}
    busy: Rates = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            seconds, core_seconds = worker.seconds(UPDATES[name])
            clock[name].append(UPDATES[name] * FRAMES / seconds)
            busy[name].append(UPDATES[name] * FRAMES / core_seconds)
    return clock, busy


def _paired(ours: list[float], theirs: list[float]) -> float:
    """Return how many times faster ours is: the median over rounds."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


class _Worker:
    """A trainer in its own process group, asked for one measurement at a time."""

    def __init__(self, name: str, cache: str) -> None:
        environment = os.environ | ONE_THREAD | {"JAX_COMPILATION_CACHE_DIR": cache}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._ppo_worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        answer = self._read()
        self.about: dict[str, Any] = json.loads(answer) if answer else {"missing": "it stopped before it could train"}

    @property
    def runs(self) -> bool:
        """Tell whether the trainer could be imported."""
        return "missing" not in self.about

    def seconds(self, updates: int) -> tuple[float, float]:
        """Return what so many updates took, by the clock and on the core."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{updates}\n".encode())
        self.process.stdin.flush()
        answer = self._read()
        if not answer:
            raise RuntimeError(
                f"{self.process.args!r} stopped with code {self.process.poll()}: is there enough memory?"
            )
        clock, busy = map(float, answer.split())
        return clock, busy

    def _read(self) -> str:
        """Return the next answer, "" if the process is gone (its children may keep the pipe open)."""
        assert self.process.stdout is not None
        source, text = self.process.stdout.fileno(), ""
        while True:
            ready, _, _ = select.select([source], [], [], 1.0)
            got = os.read(source, 4096).decode() if ready else ""
            if not got and (ready or self.process.poll() is not None):
                return ""
            text += got
            *lines, text = text.split("\n")
            for line in lines:
                if line.startswith(("{", *"0123456789")):
                    return line

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
