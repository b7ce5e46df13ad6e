"""Bonuses inside a compiled loop: start any pure core of ``pbim.intrinsic`` with what the environment offers."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.envs import Environment
from pbim.errors import InputError
from pbim.intrinsic import Transition


def info(env: Any, state: Any) -> dict[str, Array]:
    """Return what an environment tells of batched states beyond observations: its ``count_key``, if it has one."""
    return {"count_key": jax.vmap(env.count_key)(state)} if hasattr(env, "count_key") else {}


def num_keys(env: Any) -> int | None:
    """Return how many states a table must tell apart, None if the environment does not say."""
    return getattr(env, "num_count_keys", None) or getattr(env, "num_states", None)


def start(bonus: Any, env: Environment[Any], key: Array, example: Transition) -> Any:
    """Return a bonus's first state; ``example`` is a transition of the right shapes, (num_envs, ...)."""
    if bonus is None:
        return ()
    missing = [name for name in ("init", "reward_fn", "update_fn") if not hasattr(bonus, name)]
    if missing:
        raise InputError(
            f"intrinsic must have a pure core to run compiled, {type(bonus).__name__} lacks {', '.join(missing)}: "
            "use it through pbim.wrap with a Gymnasium environment instead"
        )
    offered: dict[str, Any] = {
        "key": key,
        "example": example,
        "num_envs": example.terminated.shape[0],
        "num_keys": num_keys(env),
        "num_states": getattr(env, "num_states", None) or num_keys(env),
        "num_actions": env.num_actions,
    }
    table = {"num_keys", "num_states"} & set(inspect.signature(bonus.init).parameters)
    if table and getattr(bonus, "key", None) is None and env.obs_shape != ():
        raise InputError(
            f"intrinsic {type(bonus).__name__} counts whole numbers, but {type(env).__name__} has observations of "
            f"shape {env.obs_shape}: pass key='count_key' for an environment that has one"
        )
    arguments = {}
    for name, parameter in inspect.signature(bonus.init).parameters.items():
        value = offered.get(name)
        if value is not None:
            arguments[name] = value
        elif parameter.default is inspect.Parameter.empty:
            raise InputError(
                f"intrinsic {type(bonus).__name__} needs {name}, which {type(env).__name__} does not offer: "
                "choose a bonus on observations such as RND, or give the environment count_key and num_count_keys"
            )
    return bonus.init(**arguments)


def is_stepwise(bonus: Any) -> bool:
    """Tell whether a bonus must learn at every step: tables and episodic memories do, networks may wait."""
    return bonus is not None and (getattr(bonus, "episodic", False) or not hasattr(bonus, "learning_rate"))


def flat(transition: Transition) -> Transition:
    """Return a rollout's transition (T, num_envs, ...) as one batch (T * num_envs, ...)."""
    merged: Transition = jax.tree.map(lambda x: jnp.reshape(x, (-1, *x.shape[2:])), transition)
    return merged
