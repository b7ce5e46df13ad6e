"""``python -m benchmarks``: one JSON object for machines, and a baseline that is what it says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from benchmarks.shaping import plain_python

import pbim

ROOT = Path(__file__).parents[2]


def benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_shaping_prints_one_json_object_as_its_last_line():
    done = benchmarks("shaping", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result) == {"ratio", "ns_per_transition", "cases"}
    ratios = {case["case"]: case["ratio"] for case in result["cases"]}
    assert ratios["plain Python"] == 1
    assert result["ratio"] == min(ratios["PBIM, NumPy"], ratios["PBIM, JAX"])


def test_audit_prints_seconds_and_memory():
    done = benchmarks("audit", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["transitions"], result["states"]) == (100_000, 10_000)
    assert result["cases"][0]["reason"] == "safe"
    assert 0 < result["cpu_seconds"] < 10
    assert result["peak_megabytes"] < 1024


def test_a_near_miss_only_suggests():
    done = benchmarks("shapin")
    assert done.returncode == 2
    assert "did you mean 'shaping'?" in done.stderr


def test_the_baseline_of_the_benchmark_is_equation_30():

    rng = np.random.default_rng(0)
    bonus, ended = rng.random((40, 5)), rng.random((40, 5)) < 0.1
    shaping = pbim.PBIM(gamma=0.9, normalize=False)
    plain = plain_python(bonus.tolist(), ended.tolist(), 0.9)
    np.testing.assert_allclose(plain, shaping.rollout(shaping.init(5), bonus, ended)[1])
