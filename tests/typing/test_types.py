"""Public signatures say types: ``assert_type`` on the README's lines, ``wrap``, ``rollout`` and ``train``."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REVEALED = ROOT / "tests" / "typing" / "revealed.py"


def check(*command):
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def test_mypy_sees_the_types():
    done = check("mypy", "--config-file", str(ROOT / "pyproject.toml"), str(REVEALED))
    assert done.returncode == 0, done.stdout


def test_pyright_sees_the_types():
    pytest.importorskip("basedpyright")
    done = check("basedpyright", "--level", "error", str(REVEALED))
    assert done.returncode == 0, done.stdout


def test_a_wrong_type_is_noticed(tmp_path):
    """The file above can fail: with one type changed, mypy says so."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(REVEALED.read_text().replace("assert_type(carry, Carry)", "assert_type(carry, Metrics)"))
    done = check("mypy", "--config-file", str(ROOT / "pyproject.toml"), str(wrong))
    assert done.returncode == 1
    assert "[assert-type]" in done.stdout
