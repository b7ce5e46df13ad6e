"""Every command and every example in README, docs and examples runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pbim.shaping import recommended

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{number}", code)
        for page in PAGES
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S), start=1)
    ]


@pytest.mark.parametrize(("place", "code"), blocks("python"), ids=[place for place, _ in blocks("python")])
def test_python_examples_run(place, code, tmp_path):
    for package in re.findall(
        r"^from (rsl_rl|stable_baselines3|torchrl)\b", code, re.M
    ):  # in an environment of their own
        pytest.importorskip(package)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"# prints: (.*)", code):
        assert expected in done.stdout


@pytest.mark.parametrize(("place", "code"), blocks("bash"), ids=[place for place, _ in blocks("bash")])
def test_commands_exist(place, code):
    for line in code.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["make"]:
            assert subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True).returncode == 0, line
        if words[:1] == ["pbim"]:
            run = [sys.executable, "-m", "pbim", *words[1:], *(["--quick"] if "bench" in words else [])]
            assert subprocess.run(run, capture_output=True).returncode == 0, line


@pytest.mark.parametrize(
    "example", ["procrastination.py", "verify_toy_text.py", "audit_stories.py"]
)  # the others: tests/adapters
def test_examples_run(example, tmp_path):
    command = [sys.executable, ROOT / "examples" / example]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=_headless())
    assert done.returncode == 0, done.stderr
    assert done.stdout


def _headless() -> dict[str, str]:
    import os

    return {**os.environ, "MPLBACKEND": "agg"}


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if target.startswith("generated/"):  # the site makes these of the names in the reference
                name = target.removeprefix("generated/").removesuffix(".rst")
                assert any(f"   {name}\n" in other.read_text() for other in page.parent.glob("*.md")), name
                continue
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_readme_starts_with_the_recommended_conversion():
    """Commands, messages and examples name what ``recommended`` returns; README says it in full."""
    named = re.findall(r"pbim\.Geometric\(gamma=(\d[\d.]*), rate=([\d.]+)\)", (ROOT / "README.md").read_text())
    assert named
    assert {float(rate) for _, rate in named} == {recommended(float(gamma)).rate for gamma, _ in named}
    start = re.search(r"Start with `pbim\.(\w+)\(gamma=\.\.\., rate=([\d.]+)\)`", (ROOT / "README.md").read_text())
    assert start
    assert (start[1], float(start[2])) == (type(recommended(0.99)).__name__, recommended(0.99).rate)
