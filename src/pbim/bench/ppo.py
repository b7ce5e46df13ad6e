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

from pbim.bench._ppo_worker import EPOCHS, FRAMES
from pbim.bench._timing import one_core

INSTALL = "pip install -r benchmarks/requirements-ppo.txt"
PEERS = ("torch-ac", "sb3-contrib")
UPDATES = {"pbim": 8, "pbim-no-bonus": 8, "torch-ac": 1, "sb3-contrib": 1}
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}

# Multiply-adds of one frame's forward pass: three convolutions, the LSTM's gates, both heads.
CONVOLUTIONS = 36 * 12 * 16 + 4 * 64 * 32 + 128 * 64
FORWARD = CONVOLUTIONS + 128 * 256 + 64 * 128 + 64 * 8
GRADIENT = 3 * FORWARD - 36 * 12 * 16  # nothing flows back into the image


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure all trainers; ``ratio_torch_ac`` and ``ratio_sb3_contrib`` are medians over paired rounds, None if missing."""
    with one_core() as core, tempfile.TemporaryDirectory() as cache, ExitStack() as stack:
        workers = {name: stack.enter_context(_Worker(name, cache)) for name in UPDATES}
        rates = _rounds({name: worker for name, worker in workers.items() if worker.runs}, 3 if quick else 7)
        with _Worker("pbim", cache) as again:
            warm = again.about["compile_seconds"]
    ours, about = rates["pbim"], workers["pbim"].about
    flops = 2 * (FORWARD + EPOCHS * GRADIENT)
    found = {name: round(median(rate)) for name, rate in rates.items()}
    return {
        "benchmark": "ppo",
        "quick": quick,
        "core": core,
        "frames_per_second": {name: found.get(name) for name in UPDATES},
        **{
            f"ratio_{peer.replace('-', '_')}": round(_paired(ours, rates[peer]), 2) if peer in rates else None
            for peer in PEERS
        },
        "missing": {peer: INSTALL for peer in PEERS if peer not in rates},
        "parameters": {name: worker.about.get("parameters") for name, worker in workers.items() if worker.runs},
        "update_ms": round(1000 * FRAMES / median(ours), 1),
        "bonus_and_conversion_share": round(1 - _paired(ours, rates["pbim-no-bonus"]), 4),
        "matmul_peak_gflops": round(about["matmul_peak_gflops"], 1),
        "share_of_matmul_peak": round(median(ours) * flops / 1e9 / about["matmul_peak_gflops"], 3),
        "compile_seconds_cold": round(about["compile_seconds"], 1),
        "compile_seconds_warm": round(warm, 1),
    }


def _rounds(workers: "dict[str, _Worker]", rounds: int) -> dict[str, list[float]]:
    for name, worker in workers.items():
        worker.rate(UPDATES[name])
    rates: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            rates[name].append(worker.rate(UPDATES[name]))
    return rates


def _paired(ours: list[float], theirs: list[float]) -> float:
    """Return how many times faster ours is: the median over rounds."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


class _Worker:
    """A trainer in its own process group, asked for one measurement at a time."""

    def __init__(self, name: str, cache: str) -> None:
        environment = os.environ | ONE_THREAD | {"JAX_COMPILATION_CACHE_DIR": cache}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pbim.bench._ppo_worker", name],
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

    def rate(self, updates: int) -> float:
        """Return the frames per second of so many updates."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{updates}\n".encode())
        self.process.stdin.flush()
        answer = self._read()
        if not answer:
            raise RuntimeError(f"{self.process.args} stopped with code {self.process.poll()}: is there enough memory?")
        return float(answer)

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
