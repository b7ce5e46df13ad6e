"""The count tables as JAX arrays over keys 0 .. num_keys-1, for agents that compile the whole loop.

Keys outside the range are clipped to it by JAX, as every traced index is; nothing can be raised from compiled code.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic.protocol import Transition, ended


def valid_rows(transition: Transition) -> Array:
    """Return which rows are real steps, shape (num_envs,)."""
    valid = getattr(transition, "valid", None)
    return jnp.ones(transition.terminated.shape, dtype=bool) if valid is None else jnp.asarray(valid)


def episodic_including(counts: Array, keys: Any) -> Array:
    """Return n, the visits of (num_envs,) keys including the present one, from counts (num_envs, num_keys)."""
    return counts[jnp.arange(counts.shape[0]), keys] + 1


def episodic_add(counts: Array, keys: Any, transition: Transition) -> Array:
    """Count one visit of each environment's key, then forget the environments whose episode ended."""
    valid = valid_rows(transition)
    counts = counts.at[jnp.arange(counts.shape[0]), keys].add(valid.astype(counts.dtype))
    return jnp.where((ended(transition) & valid)[:, None], 0, counts)
