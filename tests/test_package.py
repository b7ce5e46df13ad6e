"""What a user installs: light to import, typed, and complete in an empty environment."""

import random
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from scripts import release

import pbim

ROOT = Path(__file__).parents[1]


def python(code: str, executable: str = sys.executable) -> str:
    return subprocess.run([executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_pbim_loads_nothing_heavy():
    loaded = python("import sys, pbim; print(*sys.modules)").split()
    heavy = {"jax", "torch", "gymnasium", "numpy", "matplotlib", "polars", "scipy", "equinox", "rich", "tyro"}
    assert not heavy & set(loaded)


def test_converting_with_numpy_loads_no_other_library():
    code = "import sys, pbim; pbim.PBIM(gamma=0.9).init(2); pbim.residuals; print(*sys.modules)"
    assert not {"jax", "torch", "gymnasium", "matplotlib"} & set(python(code).split())


def test_every_public_name_exists_and_is_listed():
    for name in pbim.__all__:
        assert getattr(pbim, name) is not None
    assert set(dir(pbim)) == set(pbim.__all__)
    with pytest.raises(AttributeError, match=r"attribute .?PBIN"):
        pbim.PBIN  # noqa: B018


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == pbim.__version__
    assert f"## {pbim.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {pbim.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_wheel_and_sdist_install_in_an_empty_environment_and_pass_the_readme_example(tmp_path):
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert 10_000 < sdist.stat().st_size < 1_000_000
    assert release.problems(wheel, sdist) == []
    pages = {f"pbim/report/page.{kind}" for kind in ("html", "css", "js")}
    assert pages <= set(zipfile.ZipFile(wheel).namelist())
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    empty = tmp_path / "empty" / "bin" / "python"
    install = [empty, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, capture_output=True)
    examples, _ = release.examples("none", "README.md")
    assert examples
    for example in examples:
        assert all(words in python(example, str(empty)) for words in re.findall(r"# prints: (.*)", example))
    listing = subprocess.run([tmp_path / "empty" / "bin" / "pbim", "list"], check=True, capture_output=True, text=True)
    assert "geometric" in listing.stdout
    missing = subprocess.run([tmp_path / "empty" / "bin" / "pbim", "train"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert missing.stderr == "pbim: pbim.agents needs jax, which is not installed: pip install 'pbim[jax]'\n"
    from_python = "import pbim\ntry:\n    pbim.RND\nexcept ImportError as error:\n    print(error)"
    assert python(from_python, str(empty)) == "pbim.RND needs jax, which is not installed: pip install 'pbim[jax]'\n"
    typed = "import importlib.resources as r; print((r.files('pbim') / 'py.typed').is_file())"
    assert python(typed, str(empty)) == "True\n"


def test_a_release_runs_all_of_the_readme_on_one_python_and_some_of_it_on_all():
    everything, left = release.examples("sb3", "README.md")
    assert everything
    assert left == 0
    some, _ = release.examples("gymnasium", "README.md", "docs/start.md")
    assert any("certificate" in code for code in some)


def test_what_must_not_be_published_is_noticed(tmp_path):
    wheel, sdist, row = tmp_path / "pbim.whl", tmp_path / "pbim.tar.gz", tmp_path / "runs.parquet"
    row.write_bytes(random.Random(0).randbytes(release.MOST_BYTES))
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("pbim/__init__.py", "")
        file.writestr("benchmarks/ppo.py", "")
    with tarfile.open(sdist, "w:gz") as file:
        file.add(row, "pbim-0.1.0/docs/results/cliff/runs.parquet")
    found = " ".join(release.problems(wheel, sdist))
    assert "benchmarks/ppo.py" in found
    assert "docs/results/cliff/runs.parquet" in found
    assert "bytes" in found


def test_classifiers_and_conda_name_what_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert tuple(named) == release.PYTHONS
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    needs = re.findall(r"^    - (\S+) (>=\S+)$", recipe.split("  run:")[1].split("test:")[0], re.M)
    wanted = [tuple(re.fullmatch(r"([\w-]+)(>=.*)", each).groups()) for each in project["dependencies"]]
    assert needs == [("python", project["requires-python"]), *wanted]
    assert f'version = "{pbim.__version__}"' in recipe


def test_the_citation_names_the_paper_and_the_software():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["type"], citation["version"]) == ("software", pbim.__version__)
    (paper,) = citation["references"]
    assert paper["title"] in (ROOT / "docs" / "cite.md").read_text()
    assert paper["title"] in (ROOT / "paper" / "paper.bib").read_text()


def test_workflows_call_targets_that_exist():
    runs = []
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            runs += [step["run"] for step in job["steps"] if "run" in step]
    called = {word for line in runs if line.startswith("make ") for word in line.split()[1:]}
    assert {"lint", "types", "test", "release", "docs"} <= called
    for target in called:
        assert subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True).returncode == 0, target


def test_the_workflow_tests_every_python_and_every_adapter():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    named = jobs["matrix"]["strategy"]["matrix"]["environment"]
    lists = {name: (ROOT / "environments" / f"{name}.txt").read_text() for name in named}
    assert all("# tests " in text for text in lists.values())
    pythons = {re.match(r"# python (\S+)", text)[1] for text in lists.values()}
    assert pythons == set(release.PYTHONS)
    assert {"oldest", "rllib", "torchrl"} <= set(named)


def test_the_demo_installs_what_it_needs_and_the_tests_come_on_top():
    def recipe(target):
        plan = ["make", "-n", "-B", target, "PYTHON=python3"]
        return subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert ".[studies]" in recipe("demo")
    assert "torch" not in recipe("demo")
    assert recipe("test").index(".[studies]") < recipe("test").index(".[test,lint]")


def test_type_checkers_see_the_same_names():
    stub = (ROOT / "src" / "pbim" / "__init__.pyi").read_text()
    assert set(re.findall(r"(\w+) as \1", stub)) == set(pbim.__all__)
