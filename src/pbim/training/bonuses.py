"""A bonus by its name, with the settings that an environment asks for."""

from dataclasses import fields
from typing import Any

from pbim.config import find
from pbim.errors import InputError


def bonus_for(name: str, env: Any) -> Any:
    """Return the bonus that a kind or an import path names, made for an environment.

    Args:
        name: A kind such as ``rnd``, or ``package.module:Class``.
        env: The environment: how many actions it has, whether its observations are numbers of states, and whether it
            tells what counting bonuses count.

    Raises:
        InputError: If the name is unknown, or the class needs what the environment does not tell.

    """
    from pbim.envs import Skills
    from pbim.intrinsic import DIAYN, RND, one_hot

    cls = find("intrinsic", name)
    offered: dict[str, Any] = {"num_actions": env.num_actions}
    if tuple(env.obs_shape) == ():
        offered |= {"encode": one_hot(env.num_states), "normalize": False}
        offered["rnd"] = RND(encode=offered["encode"], normalize=False)
    if hasattr(env, "num_count_keys"):
        offered["key"] = "count_key"
    if isinstance(env, Skills):
        offered["count"] = env.count
    elif cls is DIAYN:
        raise InputError(f"intrinsic {name} needs episodes that follow skills, received {env}: add --skills 8")
    if hasattr(env, "arrays"):
        offered["transition"] = env.arrays()[0]
    known = {field.name for field in fields(cls) if field.init}
    try:
        return cls(**{field: value for field, value in offered.items() if field in known})
    except TypeError as error:
        raise InputError(f"intrinsic {name} cannot be made for {type(env).__name__} ({error}): use Python") from None
