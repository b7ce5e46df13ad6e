"""The paper's environments, pure JAX: CliffWalk and DoorKey, and the protocol that agents see them through."""

from importlib.util import find_spec

from pbim.envs._layout import DoorKeyState
from pbim.envs.cliff_walk import CLIFF_WALK, CLIFF_WALK_LONG, CliffWalk, CliffWalkArrays, CliffWalkState
from pbim.envs.doorkey import DoorKey
from pbim.envs.optimal import optimal_steps
from pbim.envs.protocol import Autoreset, Environment, Timestep, autoreset_batch, autoreset_step
from pbim.envs.render import frame

__all__ = [
    "CLIFF_WALK",
    "CLIFF_WALK_LONG",
    "Autoreset",
    "CliffWalk",
    "CliffWalkArrays",
    "CliffWalkState",
    "DoorKey",
    "DoorKeyState",
    "Environment",
    "Timestep",
    "autoreset_batch",
    "autoreset_step",
    "frame",
    "optimal_steps",
]

if find_spec("gymnasium") is not None:
    from pbim.envs.registration import register_environments

    register_environments()
