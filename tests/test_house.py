"""The rules of the house that no linter knows: private modules stay private, one name means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
FILES = sorted(SRC.rglob("*.py"))
SHARED = {"_arrays", "_deprecation", "_extras", "_files", "_jit", "_lazy"}
"""Private modules of the package itself, which all of it shares."""


def module_of(path):
    parts = path.relative_to(SRC).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(path):
    """Yield every module of pbim that a file imports, with the names it takes from it, as tuples of parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pbim":
            base = tuple(node.module.split("."))
            yield base
            yield from ((*base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names if alias.name.startswith("pbim."))


def test_a_module_that_starts_with_an_underscore_is_private_to_its_package():
    for path in FILES:
        here = module_of(path)
        for target in imported(path):
            private = next((i for i, part in enumerate(target) if part.startswith("_") and i > 0), None)
            if private is None or (private == 1 and target[1] in SHARED) or target[private].startswith("__"):
                continue
            home = target[:private]
            assert here[: len(home)] == home, f"{path.relative_to(SRC)} imports {'.'.join(target)}"


def test_no_two_classes_have_the_same_name():
    homes = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(str(path.relative_to(SRC)))
    twice = {name: sorted(places) for name, places in homes.items() if len(places) > 1}
    assert not twice


def test_no_name_is_a_past_participle_where_a_noun_or_a_verb_would_do():
    words = {"begun", "learnt", "told", "held", "seen"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [getattr(node, "name", None), getattr(node, "id", None), getattr(node, "arg", None)]
            found = {name for name in names if isinstance(name, str) and name.lstrip("_").lower() in words}
            assert not found, f"{path.relative_to(SRC)}:{getattr(node, 'lineno', 0)} {found}"
