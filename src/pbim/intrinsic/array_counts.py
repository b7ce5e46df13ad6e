"""The count tables as JAX arrays over keys 0 .. num_keys-1, for agents that compile the whole loop.

Keys outside the range are clipped to it by JAX, as every traced index is; nothing can be raised from compiled code.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError
from pbim.intrinsic._keys import Key, select
from pbim.intrinsic.protocol import Spec, Transition, ended


def table_size(who: str, key: Key, spec: Spec, field: str = "next_obs") -> int:
    """Return how many keys a table must hold, after checking that a loop of this ``spec`` can count them.

    Raises:
        InputError: If keys are not whole numbers, or nobody knows how many there are.

    """
    keys = jax.eval_shape(lambda step: select(who, key, step, getattr(step, field)), spec.example)
    shape, dtype = getattr(keys, "shape", None), getattr(keys, "dtype", None)
    if shape != (spec.num_envs,) or dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise InputError(
            f"intrinsic {who} must count whole numbers of shape ({spec.num_envs},) to run compiled, received "
            f"{dtype} of shape {shape}: pass key='count_key' for an environment that has one"
        )
    if spec.num_keys is None:
        raise InputError(
            f"intrinsic {who} must know num_keys, how many states there are, received None from the environment: "
            "choose a bonus on observations such as RND, or give the environment count_key and num_count_keys"
        )
    return spec.num_keys


def valid_rows(transition: Transition) -> Array:
    """Return which rows are real steps, shape (num_envs,)."""
    valid = getattr(transition, "valid", None)
    return jnp.ones(transition.terminated.shape, dtype=bool) if valid is None else jnp.asarray(valid)


class EpisodicCounts:
    """Visits of each key in the running episode of each environment, as an array (num_envs, num_keys)."""

    def __init__(self, who: str, key: Key) -> None:
        self.who, self.key = who, key

    def init(self, spec: Spec) -> Array:
        """Return empty counts."""
        return jnp.zeros((spec.num_envs, table_size(self.who, self.key, spec)), dtype=jnp.int32)

    def visits(self, counts: Array, transition: Transition) -> Array:
        """Return n, the visits of each environment's key with the present one, (num_envs,)."""
        return counts[jnp.arange(counts.shape[0]), self._keys(transition)] + 1

    def add(self, counts: Array, transition: Transition) -> Array:
        """Return the counts with this step's arrivals, without the environments whose episode ended."""
        valid = valid_rows(transition)
        counts = counts.at[jnp.arange(counts.shape[0]), self._keys(transition)].add(valid.astype(counts.dtype))
        return jnp.where((ended(transition) & valid)[:, None], 0, counts)

    def _keys(self, transition: Transition) -> Any:
        return select(self.who, self.key, transition, transition.next_obs)
