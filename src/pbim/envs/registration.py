"""The environments' names in Gymnasium: ``import pbim.envs`` and ``gymnasium.make("pbim/DoorKey-8x8-v0")`` work.

``gymnasium.make("pbim.envs:pbim/DoorKey-8x8-v0")`` needs no import. Keyword arguments go to the environment's config.
"""

from typing import Any

from gymnasium.envs.registration import register, registry

from pbim.envs.doorkey import SIZES

_ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pbim/CliffWalk-v0": ("cliff_walk", {}),
    "pbim/CliffWalkLong-v0": ("cliff_walk", {"width": 50, "max_steps": 100}),
    **{f"pbim/DoorKey-{size}x{size}-v0": ("doorkey", {"size": size}) for size in SIZES},
}


def register_environments() -> None:
    """Tell Gymnasium about every environment, once; nothing is built before it is made.

    >>> import gymnasium, pbim.envs
    >>> env = gymnasium.make("pbim/CliffWalk-v0")
    >>> env.reset(seed=0)[0]
    36
    """
    for name, (kind, config) in _ENVIRONMENTS.items():
        if name not in registry:
            register(
                id=name,
                entry_point=f"pbim.envs.gymnasium_single:make_{kind}",
                vector_entry_point=f"pbim.envs.gymnasium_vector:make_{kind}",
                kwargs=config,
            )
