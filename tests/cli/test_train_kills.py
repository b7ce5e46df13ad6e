"""``pbim train`` killed at any moment by any signal, and resumed: it ends as the run that was left alone."""

import itertools
import json
import random
import signal
import subprocess
import sys
import time

import pytest

from pbim.training import checkpoint
from pbim.training.run import CHECKPOINT, METRICS

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP)
MOMENTS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # of the time that a whole run takes
QUICK = ["--intrinsic", "count", "--num-envs", "2", "--num-steps", "16", "--minibatch-size", "16", "--chunk", "1"]
QUICK += ["--checkpoint-every", "3", "--evaluate-every", "0", "--frames", "1600"]


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Start a run of the command line; programs are compiled once for all of them."""
    cache = tmp_path_factory.mktemp("cache")
    command = [sys.executable, "-m", "pbim", "train", "CliffWalk", *QUICK]

    def start(folder, *words):
        env = {"XDG_CACHE_HOME": str(cache), "PATH": "/usr/bin:/bin", "HOME": str(cache)}
        return subprocess.Popen([*command, "--out", str(folder), *words], env=env, stderr=subprocess.DEVNULL)

    return start


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """A run that was left alone: its weights, its metrics and how long it took with its programs compiled."""
    first, folder = (tmp_path_factory.mktemp("whole") / name for name in ("compiles", "runs"))
    assert train(first).wait() == 0
    start = time.monotonic()
    assert train(folder).wait() == 0
    return checkpoint.about(folder / CHECKPOINT)["sha256"], rows(folder), time.monotonic() - start


def rows(folder):
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "frames_per_second"} for row in lines]


def killed_and_resumed(train, folder, number, seconds):
    """Kill a run after so many seconds and resume it; return the exit code of the kill."""
    process = train(folder)
    time.sleep(seconds)
    process.send_signal(number)
    code = process.wait(timeout=120)
    words = ["--resume"] if (folder / CHECKPOINT).exists() else []
    again = train(folder, *words)
    assert again.wait(timeout=300) == 0
    return code


def check(train, whole, folder, number, moment):
    weights, metrics, seconds = whole
    code = killed_and_resumed(train, folder, number, moment * seconds)
    assert code in ({0, 130} if number == signal.SIGINT else {0, -number}), code
    assert checkpoint.about(folder / CHECKPOINT)["sha256"] == weights
    assert rows(folder) == metrics


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_killed_run_resumes_bit_for_bit(number, train, whole, tmp_path):
    check(train, whole, tmp_path / "run", number, random.uniform(0.3, 0.9))


@pytest.mark.learning
@pytest.mark.parametrize(("number", "moment"), list(itertools.product(SIGNALS, MOMENTS)))
def test_every_signal_at_six_moments(number, moment, train, whole, tmp_path):
    check(train, whole, tmp_path / "run", number, moment)


def test_control_c_while_programs_compile_stops_without_a_crash(tmp_path):
    """An error raised inside XLA's compiler crashes the process; the exit code must be 130 at any moment."""
    command = [sys.executable, "-m", "pbim", "train", "CliffWalk", *QUICK]
    for delay in (0.2, 1.0):
        env = {"XDG_CACHE_HOME": str(tmp_path / f"cache-{delay}"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        words = [*command, "--out", str(tmp_path / f"run-{delay}")]
        with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if "compiling" in line:
                    break
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130


INTERRUPT = (
    "import os, signal, sys; stop = lambda *_: os.kill(os.getpid(), signal.SIGINT); sys.argv = ['pbim', 'list']; "
)
HOOK = "{'find_spec': lambda name, *_: stop() if name == 'pbim.cli' else None}"
COMMAND = "from pbim.__main__ import command; sys.exit(command())"


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (f"sys.meta_path.insert(0, type('Hook', (), {HOOK})); ", 130),
        ("import pbim.cli; pbim.cli._run = lambda _: exec('stop()') or 0; ", 130),
        ("import pbim.cli; pbim.cli._run = lambda _: stop() or 0; ", 130),
        ("import atexit; atexit.register(stop); ", 0),
    ],
    ids=["while it loads", "inside exec", "at work", "on the way out"],
)
def test_control_c_at_any_moment_of_the_command_has_one_exit_code(moment, expected):
    finished = subprocess.run([sys.executable, "-c", INTERRUPT + moment + COMMAND], capture_output=True, text=True)
    assert finished.returncode == expected, finished.stderr
    assert "Traceback" not in finished.stderr
