"""The matrix of releases: every list is pinned, names tests that exist, and its lower bounds are those we declare."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = {path.stem: path.read_text() for path in sorted((ROOT / "environments").glob("*.txt"))}
ROWS = [name for name, text in LISTS.items() if "\n# tests " in text]


def pins(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("name", ROWS)
def test_every_package_is_pinned_and_every_test_exists(name: str) -> None:
    assert all(pins(LISTS[name]).values()), name
    for line in re.findall(r"^# tests (.*)$", LISTS[name], re.MULTILINE):
        for word in line.split():
            assert not word.startswith("tests/") or (ROOT / word.partition("::")[0]).exists(), word


@pytest.mark.parametrize("name", [*ROWS, "newest"])
def test_every_environment_has_a_row_of_residuals_in_the_page(name: str) -> None:
    rows = [line for line in (ROOT / "docs/matrix.md").read_text().splitlines() if line.startswith(f"| {name} | ")]
    assert len(rows) == 1
    assert re.search(r"^\| \S+ \| [0-9a-f]{7,}\+?, \d{4}-\d\d-\d\d \| .* \de-\d\d \|.* \d+ passed \|$", rows[0])


def test_a_row_that_is_measured_again_replaces_its_own_alone(tmp_path: Path) -> None:
    specification = importlib.util.spec_from_file_location("matrix", ROOT / "scripts/matrix.py")
    matrix = importlib.util.module_from_spec(specification)
    sys.modules["matrix"] = matrix  # where its dataclass looks for it
    specification.loader.exec_module(matrix)

    def published(path: Path) -> dict[str, dict[str, str]]:
        text = path.read_text().partition(matrix.MARKS[0])[2].partition(matrix.MARKS[1])[0]
        return {row["environment"]: row for row in matrix.published(text)}

    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs/matrix.md").read_text())
    row = matrix.Row("rllib", measured="abcdef0, 2026-01-31", residuals={"rllib": 2e-16, "new": 1e-9}, tests="9 passed")
    matrix.write(page, [matrix.cells(row)])
    before, after = (published(path) for path in (ROOT / "docs/matrix.md", page))
    assert list(before) == list(after)
    assert {name for name in before if before[name] | {"new": ""} != after[name]} == {"rllib"}
    assert after["rllib"]["measured"] == "abcdef0, 2026-01-31"
    assert [after["rllib"][name] for name in ("rllib", "new", "tests")] == ["2e-16", "1e-09", "9 passed"]


def test_the_oldest_environment_holds_the_lower_bounds_we_declare() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["jax"], *extras["gymnasium"], *extras["sb3"]]
    oldest = pins(LISTS["oldest"])
    for requirement in declared:
        name, _, bound = requirement.partition(">=")
        if bound:
            found = oldest[name.lower().replace("_", "-")]
            assert re.sub(r"(\.0)+$", "", found) == re.sub(r"(\.0)+$", "", bound), requirement


def test_an_unknown_environment_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/matrix.py", "youngest"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no environment youngest; there are newest, " in done.stderr
    script = subprocess.run([ROOT / "scripts/environment", "youngest"], capture_output=True, text=True)
    assert script.returncode == 2
    assert "scripts/environment needs one of: " in script.stderr
