"""The tutorials run from top to bottom, print what their text says, and take less than a minute each."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
SAYS = {
    "minigrid_sb3": [r"raw: +DID NOT CANCEL", r"converted: cancelled"],
    "torch_loop": ["^cancelled: "],
    "dense_reward": ["^UNSAFE", r"Inversions: with the term \d+ of", r"goes .*True", r"dawdles .*True"],
    "verify": [
        "NOT PRESERVED",
        "^PRESERVED",
        r"1/2 False",
        r"1/20 True",
        "^UNSAFE",
        "Raw .*False",
        "Geometric .*True",
        "^True$",
    ],
    "compare_seeds": [r"Geometric\(1\) minus no bonus: "],
}


def cells(page: Path) -> str:
    """Return the code of a notebook that is written as Markdown."""
    return "\n".join(re.findall(r"```\{code-cell\} ipython3\n(.*?)```", page.read_text(), re.S))


def run(page: Path, folder: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", cells(page)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_tutorial_is_listed():
    assert {page.stem for page in TUTORIALS.glob("*.md")} == set(SAYS)


@pytest.mark.learning
@pytest.mark.parametrize("name", SAYS)
def test_tutorials_run_and_print_what_they_say(name, tmp_path):
    printed = run(TUTORIALS / f"{name}.md", tmp_path)
    for pattern in SAYS[name]:
        assert re.search(pattern, printed, re.M), printed


def test_the_dense_term_changes_the_ranking_and_the_converted_one_does_not(tmp_path):
    printed = run(TUTORIALS / "dense_reward.md", tmp_path)
    figures = [tuple(map(float, found)) for found in re.findall(r"task +(-?[\d.]+) .*?term +(-?[\d.]+)", printed)]
    (task_goes, raw_goes), (task_dawdles, raw_dawdles), *converted = figures
    assert task_goes > task_dawdles
    assert raw_goes < raw_dawdles
    assert all(abs(task - learner) <= 0.1 for task, learner in converted)
