"""Gymnasium's spaces as the network wants them: observations as indices, vectors or images; actions as 0 .. n-1."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformAction, TransformObservation

from pbim.envs.protocol import SMALLEST_IMAGE
from pbim.errors import InputError


def plain(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return ``env`` with observations that are indices, vectors or images, and actions that start at 0.

    Of a Dict, the entry "image" is taken; arrays of other forms, and images too small for the convolutions, become
    vectors.
    """
    return _plain_observations(_plain_actions(env))


def _plain_actions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        name = env.spec.id if env.spec else "the environment"
        env.close()
        raise InputError(
            f"env must have a Discrete action space, received {name} with {space}: choose one with discrete actions, "
            "or train with Stable-Baselines3 through pbim.adapters.sb3"
        )
    first = int(space.start)
    if first == 0:
        return env
    return TransformAction(env, lambda action: action + first, spaces.Discrete(int(space.n)))


def _plain_observations(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    space: Any = env.observation_space
    if isinstance(space, spaces.Dict) and "image" in space.spaces:
        env = TransformObservation(env, lambda obs: obs["image"], space["image"])
        space = space["image"]
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return TransformObservation(env, lambda obs: int(obs) - first, spaces.Discrete(int(space.n))) if first else env
    if not isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        name = env.spec.id if env.spec else "the environment"
        env.close()
        raise InputError(
            f"env must have observations that are a Box, Discrete or a Dict with an image, received {name} with "
            f"{space}: wrap it with gymnasium.wrappers.FlattenObservation and register the result"
        )
    return TransformObservation(env, *_as_vector_or_image(space))


def _as_vector_or_image(space: Any) -> tuple[Any, spaces.Box]:
    """Return a function of observations and the space it leads to."""
    is_image = len(space.shape) == 3 and min(space.shape[:2]) >= SMALLEST_IMAGE
    shape = space.shape if is_image else (int(np.prod(space.shape)),)
    dtype: Any = space.dtype if space.dtype in (np.uint8, np.int8) else np.float32
    low, high = (-np.inf, np.inf) if dtype is np.float32 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return (lambda obs: np.asarray(obs, dtype).reshape(shape)), spaces.Box(low, high, shape, dtype)
