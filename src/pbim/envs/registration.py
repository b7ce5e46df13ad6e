"""The environments' names in Gymnasium: ``import pbim.envs`` and ``gymnasium.make("pbim/DoorKey-8x8-v0")`` work.

``gymnasium.make("pbim.envs:pbim/DoorKey-8x8-v0")`` needs no import. Keyword arguments change the environment's fields.
"""

from gymnasium.envs.registration import register, registry

from pbim.envs.catalogue import ENVIRONMENTS, gymnasium_id


def register_environments() -> None:
    """Tell Gymnasium about every environment, once; nothing is built before it is made.

    >>> import gymnasium, pbim.envs
    >>> env = gymnasium.make("pbim/CliffWalk-v0")
    >>> env.reset(seed=0)[0]
    36
    """
    for name in ENVIRONMENTS:
        if gymnasium_id(name) not in registry:
            register(
                id=gymnasium_id(name),
                entry_point="pbim.envs.gymnasium_single:make",
                vector_entry_point="pbim.envs.gymnasium_vector:make",
                kwargs={"name": name},
            )
