"""The example and the benchmark run as their docstrings say."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_three_verdicts_on_toy_text():
    printed = run("examples/verify_toy_text.py")
    for part in printed.split("== ")[1:]:
        assert "Raw   NOT preserved" in part
        assert "PBIM  preserved" in part
    assert [line.split(",")[0] for line in printed.splitlines() if line.startswith("==")] == [
        "== FrozenLake-v1",
        "== CliffWalking-v1",
        "== Taxi-v4",
    ]


def test_the_benchmark_prints_one_json_object():
    results = json.loads(run("benchmarks/verify.py", "--histories", "2000").splitlines()[-1])
    assert results["float"]["histories"] == results["exact"]["histories"] >= 2000
    assert results["float"]["preserved"]
    assert results["exact"]["preserved"]
