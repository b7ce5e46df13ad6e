"""The environments that have a name of their own, on the command line and in Gymnasium."""

from typing import Any

from pbim.envs.cliff_walk import CliffWalk
from pbim.envs.doorkey import SIZES, DoorKey
from pbim.envs.protocol import Environment

ENVIRONMENTS: dict[str, Environment[Any]] = {
    "CliffWalk": CliffWalk(),
    "CliffWalkLong": CliffWalk(width=50, max_steps=100),
    **{f"DoorKey-{size}x{size}": DoorKey(size=size) for size in SIZES},
}
"""The paper's grids and MiniGrid's sizes; Gymnasium knows each as ``pbim/NAME-v0``."""


def gymnasium_id(name: str) -> str:
    """Return what Gymnasium calls one of ``ENVIRONMENTS``.

    >>> gymnasium_id("CliffWalk")
    'pbim/CliffWalk-v0'
    """
    return f"pbim/{name}-v0"
