"""Run the tests of the adapters in every environment of environments/, and print versions x adapters.

An environment takes part if its list has a line "# tests ...", which names what to run there. "newest" is the
environment that runs this script. Each cell is the worst residual of a finished episode, relative to the largest F'.
A row says of which commit it is. --write puts it in place of the row of the same environment; the others stay.

usage: scripts/matrix.py [--write FILE] [--quick] [NAME ...]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "environments"
NEWEST, NAME = "newest", "environment"
TESTS = "tests/testing/test_check_adapter.py tests/adapters --ignore tests/adapters/test_examples.py"
QUICK = "tests/testing/test_check_adapter.py tests/adapters/test_gymnasium.py"
"""What --quick runs instead, in every environment."""
PACKAGES = {"numpy": "NumPy", "gymnasium": "Gymnasium", "stable-baselines3": "SB3", "jax": "JAX"}
FRAMEWORKS = {
    "ray": "Ray",
    "torchrl": "TorchRL",
    "rsl-rl-lib": "RSL-RL",
    "envpool": "EnvPool",
    "pettingzoo": "PettingZoo",
    "ale-py": "ale-py",
    "minihack": "MiniHack",
    "gymnax": "gymnax",
    "craftax": "Craftax",
}
"""What only some environments have: one column names them all."""
MARKS = ("<!-- matrix -->", "<!-- end of matrix -->")


@dataclass
class Row:
    """What one environment said."""

    name: str
    measured: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    tests: str = ""
    ok: bool = False


def environments() -> dict[str, str]:
    """Return the tests of every environment, by its name."""
    found = {NEWEST: TESTS}
    for path in sorted(LISTS.glob("*.txt")):
        line = re.search(r"^# tests (.*)$", path.read_text(), re.MULTILINE)
        if line:
            found[path.stem] = line[1]
    return found


def run(name: str, tests: str) -> Row:
    """Make an environment if it is missing, run its tests and return what they recorded."""
    python = Path(sys.executable)
    if name != NEWEST:
        made = subprocess.run([ROOT / "scripts/environment", name], cwd=ROOT, stdout=sys.stderr)
        if made.returncode:
            return Row(name, tests="no such Python here" if made.returncode == 3 else "cannot be made")
        python = ROOT / ".envs" / name / "bin/python"
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.xml"
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={record}",
            "-o",
            "junit_family=xunit1",
        ]
        done = subprocess.run([*command, *tests.split()], cwd=ROOT, env=settings, stdout=sys.stderr)
        suite = ET.parse(record).getroot()[0]
    row = Row(name, measured=measured(), versions=versions(python), ok=done.returncode == 0)
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    passed = int(suite.get("tests", 0)) - failed - int(suite.get("skipped", 0))
    row.tests = f"{passed} passed" + (f", {failed} FAILED" if failed else "")
    for adapter, residual in recorded(suite):
        row.residuals[adapter] = max(residual, row.residuals.get(adapter, 0.0))
    return row


def recorded(suite: ET.Element) -> Iterator[tuple[str, float]]:
    """Yield what tests recorded: an adapter and its residual."""
    for case in suite.iter("testcase"):
        entries = {entry.get("name"): entry.get("value", "") for entry in case.iter("property")}
        if {"adapter", "residual"} <= entries.keys():
            yield entries["adapter"], float(entries["residual"])


def versions(python: Path) -> dict[str, str]:
    """Return the versions of Python and of the packages that an environment has."""
    code = (
        "import sys, importlib.metadata as m\n"
        "print('Python', '%d.%d' % sys.version_info[:2])\n"
        f"have = {{d.name.lower().replace('_', '-'): d.version for d in m.distributions()}}\n"
        f"[print(label, have[name]) for name, label in {PACKAGES | FRAMEWORKS!r}.items() if name in have]"
    )
    lines = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split() for line in lines)


def measured() -> str:
    """Return of what commit a row is, with "+" if files have changed since, and of what day."""
    commit, changed = (
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    return f"{commit}{'+' if changed else ''}, {datetime.now(UTC).date()}"


def cells(row: Row) -> dict[str, str]:
    """Return what stands in each column of a row: its versions, the worst residual of each adapter, the tests."""
    labels = {label: row.versions.get(label, "") for label in ("Python", *PACKAGES.values())}
    others = ", ".join(f"{label} {row.versions[label]}" for label in FRAMEWORKS.values() if label in row.versions)
    residuals = {name: f"{residual:.0e}" for name, residual in row.residuals.items()}
    return {NAME: row.name, "measured": row.measured, **labels, "frameworks": others, **residuals, "tests": row.tests}


def table(rows: Iterable[dict[str, str]]) -> str:
    """Return one line per row, with the columns of all of them; the tests come last."""
    rows = list(rows)
    head = [*dict.fromkeys(name for row in rows for name in row if name != "tests"), "tests"]
    lines = [head, ["---"] * len(head), *([row.get(name, "") for name in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def published(text: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """Put rows into the table between the marks of a page, in place of those of the same environments."""
    before, rest = path.read_text().split(MARKS[0])
    old, after = rest.split(MARKS[1])
    known = {row[NAME]: row for row in [*published(old), *rows]}
    path.write_text(f"{before}{MARKS[0]}\n{table(known.values())}\n{MARKS[1]}{after}")


def main() -> int:
    """Run what the command line names; 1 if a test failed or an environment could not be made."""
    known = environments()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all by default")
    parser.add_argument("--write", type=Path, help="a page with the marks of the table, such as docs/matrix.md")
    parser.add_argument("--quick", action="store_true", help=f"run {QUICK} only")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - known.keys())
    if unknown:
        parser.error(f"no environment {', '.join(unknown)}; there are {', '.join(known)}")
    rows = [run(name, QUICK if arguments.quick else known[name]) for name in arguments.names or known]
    lines = [cells(row) for row in rows]
    print(table(lines))
    if arguments.write:
        write(arguments.write, lines)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
