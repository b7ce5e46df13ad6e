"""Observations and actions as vectors: pure functions for the ``encode`` argument of the learned bonuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError, InputTypeError

Encode: TypeAlias = Callable[[Any], Array]


def flatten(obs: Any) -> Array:
    """Return each row of an array as one vector of floats: (num_envs, ...) -> (num_envs, features).

    >>> import numpy as np
    >>> flatten(np.zeros((2, 7, 7, 3), np.uint8)).shape
    (2, 147)
    """
    if isinstance(obs, dict | tuple | list):
        names = ", ".join(map(repr, obs)) if isinstance(obs, dict) else f"{len(obs)} parts"
        raise InputTypeError(
            f"encode=flatten reads one array per observation, got a {type(obs).__name__} with {names}; pass encode=a "
            f"function that returns one array, such as lambda obs: flatten(obs['image']) or concatenate."
        )
    rows = jnp.asarray(obs)
    return rows.reshape(rows.shape[0], -1).astype(jnp.float32)


def concatenate(obs: Any) -> Array:
    """Return all arrays of a dict or tuple side by side: (num_envs, ...) each -> (num_envs, features).

    >>> import numpy as np
    >>> concatenate({"image": np.zeros((2, 4)), "direction": np.zeros(2)}).shape
    (2, 5)
    """
    return jnp.concatenate([flatten(leaf) for leaf in jax.tree.leaves(obs)], axis=1)


class one_hot:  # noqa: N801 - used like the functions beside it
    """Return integers 0 .. n-1 as one-hot vectors, for Discrete spaces: (num_envs,) -> (num_envs, n).

    >>> import numpy as np
    >>> one_hot(3)(np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, n: int) -> None:
        if n < 2:
            raise InputError(f"one_hot: n must be at least 2, got {n!r}.")
        self.n = n

    def __call__(self, obs: Any) -> Array:
        """Return one row per integer, (num_envs, n)."""
        values = jnp.asarray(obs)
        if values.ndim != 1 or not jnp.issubdtype(values.dtype, jnp.integer):
            raise InputTypeError(
                f"encode=one_hot({self.n}) reads integers of shape (num_envs,), got {values.dtype} of shape "
                f"{values.shape}; use encode=flatten for arrays."
            )
        return jax.nn.one_hot(values, self.n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, one_hot) and other.n == self.n

    def __hash__(self) -> int:
        return hash((one_hot, self.n))


def encode_action(who: str, action: Any, num_actions: int | None) -> Array:
    """Return actions as vectors: one-hot if there are ``num_actions`` of them, flattened floats if it is None."""
    action = jnp.asarray(action)
    if num_actions is not None:
        return one_hot(num_actions)(action)
    if jnp.issubdtype(action.dtype, jnp.integer):
        raise InputTypeError(f"{who}: actions are integers; pass num_actions=env.action_space.n.")
    return flatten(action)
