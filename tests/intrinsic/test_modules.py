"""Examples run, imports stay light, and counting needs no JAX."""

import subprocess
import sys

import pytest

import pbim.intrinsic
import pbim.testing


@pytest.mark.parametrize("name", sorted(pbim.intrinsic.__all__))
def test_every_public_class_and_function_shows_an_example(name):
    if name in ("Bonus", "Intrinsic"):
        pytest.skip("a type, not something to call")
    assert ">>>" in getattr(pbim.intrinsic, name).__doc__


@pytest.mark.parametrize(
    "statement",
    [
        "import pbim",
        "import pbim.intrinsic",
        "from pbim.intrinsic import EpisodicCount; EpisodicCount()",
        "import pbim.testing",
    ],
)
def test_import_loads_neither_jax_nor_torch_nor_shaping(statement):
    heavy = "{'jax', 'torch', 'gymnasium', 'optax', 'pbim.shaping'}"
    code = f"import sys; {statement}; sys.exit(repr({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_are_listed_and_unknown_ones_refused():
    assert "RND" in dir(pbim.intrinsic)
    with pytest.raises(AttributeError, match="attribute RMD"):
        pbim.intrinsic.RMD  # noqa: B018
