"""What a user installs: light to import, typed, and complete in an empty environment."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import pbim

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else ""


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
    assert sdist.stat().st_size > 10_000
    pages = {f"pbim/report/page.{kind}" for kind in ("html", "css", "js")}
    assert pages <= set(zipfile.ZipFile(wheel).namelist())
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    empty = tmp_path / "empty" / "bin" / "python"
    install = [empty, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, capture_output=True)
    example = re.search(r"```python\n(.*?)```", README, re.S)
    assert example is not None
    assert "cancelled" in python(example[1], str(empty))
    listing = subprocess.run([tmp_path / "empty" / "bin" / "pbim", "list"], check=True, capture_output=True, text=True)
    assert "geometric" in listing.stdout
    missing = subprocess.run([tmp_path / "empty" / "bin" / "pbim", "train"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert missing.stderr == "pbim: pbim.agents needs jax, which is not installed: pip install 'pbim[jax]'\n"
    from_python = "import pbim\ntry:\n    pbim.RND\nexcept ImportError as error:\n    print(error)"
    assert python(from_python, str(empty)) == "pbim.RND needs jax, which is not installed: pip install 'pbim[jax]'\n"
    typed = "import importlib.resources as r; print((r.files('pbim') / 'py.typed').is_file())"
    assert python(typed, str(empty)) == "True\n"


def test_type_checkers_see_the_same_names():
    stub = (ROOT / "src" / "pbim" / "__init__.pyi").read_text()
    assert set(re.findall(r"(\w+) as \1", stub)) == set(pbim.__all__)
