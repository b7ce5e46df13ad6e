"""Observations and actions as vectors: pure functions for the ``encode`` argument of the learned bonuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from pbim.config import Component
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import integers

Encode: TypeAlias = Callable[[Any], Array]


def flatten(obs: Any) -> Array:
    """Return each row of an array as one vector of floats: (num_envs, ...) -> (num_envs, features).

    Raises:
        InputTypeError: If the observation is a dict or a tuple.

    >>> import numpy as np
    >>> flatten(np.zeros((2, 7, 7, 3), np.uint8)).shape
    (2, 147)

    """
    if isinstance(obs, dict | tuple | list):
        names = ", ".join(map(repr, obs)) if isinstance(obs, dict) else f"{len(obs)} parts"
        raise InputTypeError(
            f"encode=flatten must read one array per observation, received a {type(obs).__name__} with {names}: pass "
            f"encode=a function that returns one array, such as lambda obs: flatten(obs['image']) or concatenate"
        )
    rows = jnp.asarray(obs)
    return rows.reshape(rows.shape[0], -1).astype(jnp.float32)


def width(who: str, encode: Encode, obs: Any) -> int:
    """Return how long the vectors are that ``encode`` makes of observations like ``obs``.

    Raises:
        InputError: If it does not make one vector per environment.

    """
    shape = jax.eval_shape(encode, obs).shape
    if len(shape) != 2:
        raise InputError(
            f"{who}: encode must return one vector per environment, (num_envs, n), received shape {shape}: flatten it, "
            "as in lambda obs: flatten(obs['image'])"
        )
    return int(shape[1])


def concatenate(obs: Any) -> Array:
    """Return all arrays of a dict or tuple side by side: (num_envs, ...) each -> (num_envs, features).

    >>> import numpy as np
    >>> concatenate({"image": np.zeros((2, 4)), "direction": np.zeros(2)}).shape
    (2, 5)
    """
    return jnp.concatenate([flatten(leaf) for leaf in jax.tree.leaves(obs)], axis=1)


@dataclass(frozen=True)
class one_hot(Component):  # noqa: N801 - used like the functions beside it
    """Return whole numbers below n as one-hot vectors, for Discrete spaces: (num_envs,) -> (num_envs, n).

    Args:
        n: How many integers there are.

    Raises:
        InputError: If n is below 2.

    >>> import numpy as np
    >>> one_hot(3)(np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    """

    n: int

    kind: ClassVar[str] = "one-hot"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n < 2:
            raise InputError(f"one_hot: n must be at least 2, received {self.n!r}: pass env.observation_space.n")

    def __call__(self, obs: Any) -> Array:
        """Return one row per integer, (num_envs, n)."""
        values = jnp.asarray(obs)
        if values.ndim != 1 or not jnp.issubdtype(values.dtype, jnp.integer):
            raise InputTypeError(
                f"encode=one_hot({self.n}) must read integers of shape (num_envs,), received {values.dtype} of shape "
                f"{values.shape}: use encode=flatten for arrays"
            )
        return jax.nn.one_hot(values, self.n)


@dataclass(frozen=True)
class coordinates(Component):  # noqa: N801 - used like the functions beside it
    """Return cells of a grid, numbered row by row, as (column, row): (num_envs,) -> (num_envs, 2).

    Args:
        width: How many columns the grid has.

    Raises:
        InputError: If width is below 1.

    >>> import numpy as np
    >>> coordinates(12)(np.array([36, 13])).tolist()
    [[0.0, 3.0], [1.0, 1.0]]

    """

    width: int

    kind: ClassVar[str] = "coordinates"

    def __post_init__(self) -> None:
        super().__post_init__()
        integers("coordinates", width=self.width)

    def __call__(self, cells: Any) -> Array:
        """Return one pair per cell, (num_envs, 2)."""
        cells = jnp.asarray(cells)
        return jnp.stack([cells % self.width, cells // self.width], axis=1).astype(jnp.float32)


def encode_action(who: str, action: Any, num_actions: int | None) -> Array:
    """Return actions as vectors: one-hot if there are ``num_actions`` of them, flattened floats if it is None."""
    action = jnp.asarray(action)
    if num_actions is not None:
        return one_hot(num_actions)(action)
    if jnp.issubdtype(action.dtype, jnp.integer):
        raise InputTypeError(
            f"{who}: num_actions must be given for integer actions, received None: pass num_actions=env.action_space.n"
        )
    return flatten(action)
