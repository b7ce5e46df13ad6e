"""Bonuses inside a compiled loop: start any pure core of ``pbim.intrinsic`` with what the environment offers."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.envs import Environment
from pbim.intrinsic import Spec, Transition
from pbim.intrinsic.protocol import check_core


def info(env: Any, state: Any) -> dict[str, Array]:
    """Return what an environment tells of batched states beyond observations: ``count_key`` and ``skill``, if any."""
    return {name: jax.vmap(getattr(env, name))(state) for name in ("count_key", "skill") if hasattr(env, name)}


def num_keys(env: Any) -> int | None:
    """Return how many states a table must tell apart, None if the environment does not say."""
    return getattr(env, "num_count_keys", None) or getattr(env, "num_states", None)


def start(bonus: Any, env: Environment[Any], key: Array, example: Transition) -> Any:
    """Return a bonus's first state.

    Args:
        bonus: A bonus with a pure core, or None.
        env: The environment it is paid in.
        key: What it draws its first weights from.
        example: A transition of the right shapes, (num_envs, ...).

    Raises:
        InputError: If the bonus has no pure core, or needs what the environment does not offer.

    """
    if bonus is None:
        return ()
    check_core(bonus)
    return bonus.init(key, Spec(example=example, num_actions=env.num_actions, num_keys=num_keys(env)))


def is_stepwise(bonus: Any) -> bool:
    """Tell whether a bonus declares that it must learn at every step: tables and episodic memories do."""
    return bool(getattr(bonus, "stepwise", False))


def flat(transition: Transition) -> Transition:
    """Return a rollout's transition (T, num_envs, ...) as one batch (T * num_envs, ...)."""
    merged: Transition = jax.tree.map(lambda x: jnp.reshape(x, (-1, *x.shape[2:])), transition)
    return merged
