"""Adapters whose framework is not installed have no examples to run here; any other import error is a failure."""

from importlib.util import find_spec

FRAMEWORKS = {
    "rllib": "tree",
    "rsl_rl": "rsl_rl",
    "sb3": "stable_baselines3",
    "torchrl": "torchrl",
}
"""The module that each file of ``pbim/adapters`` needs; private files begin with an underscore and the same name."""
PRIVATE = {"sb3": ["_sb3_callback", "_sb3_vec_env"], "torchrl": ["_torchrl_lanes"], "rllib": ["_rllib_lanes"]}
MISSING = [name for name, framework in FRAMEWORKS.items() if find_spec(framework) is None]
collect_ignore = [f"pbim/adapters/{file}.py" for name in MISSING for file in (name, *PRIVATE.get(name, []))]
if find_spec("torch") is None:
    collect_ignore += ["pbim/adapters/_torch.py"]
