"""Adapters whose framework is not installed have no examples to run here; any other import error is a failure."""

from importlib.util import find_spec

FRAMEWORKS = {
    "rllib": "tree",
    "rsl_rl": "rsl_rl",
    "sb3": "stable_baselines3",
    "torch": "torch",
    "torchrl": "torchrl",
}
"""The module that each file of ``pbim/adapters`` needs; its private files are ``_NAME.py`` and ``_NAME_*.py``."""
MISSING = [name for name, framework in FRAMEWORKS.items() if find_spec(framework) is None]
collect_ignore_glob = [f"pbim/adapters/{file}.py" for name in MISSING for file in (name, f"_{name}", f"_{name}_*")]
