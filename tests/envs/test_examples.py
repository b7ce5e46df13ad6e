"""Every example in a docstring of the environments runs and says what it says."""

import doctest
import importlib
import pkgutil

import benchmarks
import pytest

import pbim.envs

MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (pbim.envs, benchmarks)
    for module in pkgutil.iter_modules(package.__path__)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= 12
