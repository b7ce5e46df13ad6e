"""Every command and every example in README, docs and examples runs."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pbim.cli import _parsed
from pbim.shaping import Geometric, recommended

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_ENVIRONMENT = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
"""No window, and one thread of PyTorch: two of them wait for each other where the cores are busy."""


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
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=_ENVIRONMENT)
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


def long_commands() -> list[str]:
    """Return the commands that no test can wait for: those in blocks of text."""
    found, language = [], None
    for line in (line for page in PAGES for line in page.read_text().splitlines()):
        if fence := re.match(r"```(.*)", line):
            language = fence[1].strip() if language is None else None
        elif language in ("", "text") and line.startswith("pbim "):
            found.append(line)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("line", long_commands())
def test_commands_that_take_long_are_understood(line):
    words = shlex.split(line.partition(" > ")[0])
    assert callable(_parsed(*words[1:]).run)


@pytest.mark.parametrize(
    "example", ["procrastination.py", "verify_toy_text.py", "audit_stories.py"]
)  # the others: tests/adapters
def test_examples_run(example, tmp_path):
    command = [sys.executable, ROOT / "examples" / example]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=_ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if target.startswith("generated/"):  # the site makes these of the names in the reference
                name = target.removeprefix("generated/").removesuffix(".rst")
                assert any(f"   {name}\n" in other.read_text() for other in page.parent.glob("*.md")), name
                continue
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_readme_links_to_files_of_the_repository_that_the_package_names():
    """``[project.urls]`` alone decides the address; every link of README is absolute, so that it opens anywhere."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    owner, name = re.fullmatch(r"https://github\.com/([\w-]+)/([\w-]+)", urls["Repository"]).groups()
    assert urls["Documentation"] == f"https://{owner}.github.io/{name}"
    for file in ("CITATION.cff", "conda/meta.yaml"):
        found = set(re.findall(r"^ *(?:url|home|doc_url|repository-code): (\S+)$", (ROOT / file).read_text(), re.M))
        assert {urls["Repository"], urls["Documentation"]} <= found <= set(urls.values()), file
    assert urls["Changelog"] == f"{urls['Repository']}/blob/main/CHANGELOG.md"
    readme = _readme()
    targets = re.findall(r"\]\(([^)]+)\)", readme)
    assert f"git clone {urls['Repository']} " in readme
    assert urls["Paper"] in targets
    for target in targets:
        inside = re.fullmatch(rf"{urls['Repository']}/(blob|raw)/main/([^#]+)(#.*)?", target)
        assert inside or target == urls["Documentation"] or target.startswith("https://arxiv.org/abs/"), target
        if inside:
            assert (ROOT / inside[2]).exists(), target
            assert (inside[1] == "raw") == (f"![{_text_of(readme, target)}]({target})" in readme), target


def _readme() -> str:
    return (ROOT / "README.md").read_text()


def _text_of(page: str, target: str) -> str:
    return re.search(rf"\[([^\]]*)\]\({re.escape(target)}\)", page)[1]


def test_the_readme_goes_from_the_problem_to_the_paper():
    """One screen after the other, code that fits a narrow one, and the two commands that need no other word."""
    readme = _readme()
    order = (
        ".gif",
        "## Install",
        "six lines",
        "## what it guarantees",
        "<!-- begin cells",
        "## audit",
        "**the paper**",
    )
    places = [readme.lower().index(words.lower()) for words in order]
    assert places == sorted(places)
    assert max(len(line) for code in re.findall(r"```\w+\n(.*?)```", readme, re.S) for line in code.splitlines()) <= 80
    assert {"make demo", "make test"} <= set(re.findall(r"^(make \w+)", readme, re.M))
    assert (ROOT / "docs/images/dithering.gif").stat().st_size < 2_000_000


def test_the_readme_starts_with_the_recommended_conversion():
    """Commands, messages and examples name what ``recommended`` returns; README says it in full."""
    named = re.findall(r"pbim\.Geometric\(gamma=(\d[\d.]*), rate=([\d.]+)\)", _readme())
    assert named
    assert {float(rate) for _, rate in named} == {recommended(float(gamma)).rate for gamma, _ in named}
    share = re.search(r"It is ([\d.]+) for `Geometric` with rate ([\d.]+) at lambda (\d\.\d+)", _readme())
    assert share
    g, rate, gae_lambda = map(float, share.groups())
    assert g == round(Geometric(gamma=0.99, rate=rate).guidance(gae_lambda=gae_lambda), 2)
    start = re.search(
        r"Start with `pbim\.(\w+)\(gamma=\.\.\.\)`, whose rate follows from gamma \(([\d.]+) at 0\.99\)", _readme()
    )
    assert start
    assert (start[1], float(start[2])) == (type(recommended(0.99)).__name__, recommended(0.99).rate)
    assert Geometric(gamma=0.99).rate == recommended(0.99).rate
