"""The API reference is complete: every public name stands on a page of docs/api, and every name there exists."""

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

import pbim

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    f"pbim.{name}" for name in pbim.__all__ if (ROOT / "src" / "pbim" / name).is_dir() or name in ("config", "errors")
)
ADAPTERS = sorted(
    f"pbim.adapters.{path.stem}"
    for path in (ROOT / "src" / "pbim" / "adapters").glob("*.py")
    if not path.stem.startswith("_")
)


def source_of(module: str) -> Path:
    """Return the file that lists a module's public names: the stub where names load on first use."""
    path = ROOT / "src" / Path(*module.split("."))
    return next(
        each
        for each in (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".pyi"), path.with_suffix(".py"))
        if each.exists()
    )


def public_names(module: str) -> set[str]:
    """Return ``__all__``, or else what type checkers call public: definitions, and imports ``x as x``."""
    tree = ast.parse(source_of(module).read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = {target.id for target in targets if isinstance(target, ast.Name)}
            if "__all__" in found and isinstance(node.value, ast.List):
                return set(ast.literal_eval(node.value))
            type_variable = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "TypeVar"
            names |= set() if type_variable else found
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname == alias.name}
    return {name for name in names if not name.startswith("_")}


def names_on(page: Path) -> list[str]:
    """Return every dotted name below an autosummary of a page."""
    blocks = re.findall(r"\.\. autosummary::\n(.*?)```", page.read_text(), re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip().startswith("pbim.")]


def listed() -> set[str]:
    """Return every dotted name of docs/api."""
    return {name for page in (ROOT / "docs" / "api").glob("*.md") for name in names_on(page)}


def object_at(place: str) -> object:
    """Return what a dotted name names."""
    module, name = place.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def same(place: str, other: str) -> bool:
    """Tell whether two dotted names name one thing; equal last names must do where a framework is not installed."""
    try:
        return object_at(place) is object_at(other)
    except pbim.MissingExtraError:
        return True


@pytest.mark.parametrize("module", ["pbim", *PACKAGES, *ADAPTERS])
def test_every_public_name_has_a_page(module):
    """A module has a page of its name; anything else is listed once, here or where it also stands."""
    pages = {f"pbim.{page.stem}" for page in (ROOT / "docs" / "api").glob("*.md")}
    places = listed()
    elsewhere = defaultdict(list)
    for place in places:
        elsewhere[place.rsplit(".", 1)[1]].append(place)
    missing = {
        f"{module}.{name}"
        for name in public_names(module)
        if f"{module}.{name}" not in places | pages
        and not any(same(place, f"{module}.{name}") for place in elsewhere[name])
    }
    assert not missing, f"list in docs/api: {sorted(missing)}"


def test_every_listed_name_exists_and_is_listed_once():
    listing = [place for page in sorted((ROOT / "docs" / "api").glob("*.md")) for place in names_on(page)]
    assert len(listing) == len(set(listing))
    for place in listing:
        try:
            assert object_at(place) is not None
        except pbim.MissingExtraError:  # an adapter's framework is not installed: its source has the name
            module, name = place.rsplit(".", 1)
            assert name in public_names(module), place


def test_a_name_without_a_page_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "docs" / "api").mkdir(parents=True)
    (tmp_path / "docs" / "api" / "pbim.md").write_text("```{eval-rst}\n.. autosummary::\n\n   pbim.PBIM\n```\n")
    (tmp_path / "src").symlink_to(ROOT / "src")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError, match=r"pbim\.GRM"):
        test_every_public_name_has_a_page("pbim")
