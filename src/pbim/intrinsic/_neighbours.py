"""Ring memories of a fixed size, and the distances to what they hold: what RE3 and NGU are made of.

A memory holds rows (..., capacity, features) and how many were written (...). The oldest rows give way first, and only
what was written before a question is found by it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError
from pbim.intrinsic._checks import integers


class Ring(NamedTuple):
    """Rows (..., capacity, features), where the next one goes (...), and how many there are (...)."""

    rows: Array
    place: Array
    filled: Array

    @property
    def capacity(self) -> int:
        """How many rows fit."""
        return self.rows.shape[-2]


def neighbours(who: str, k: int, capacity: int) -> None:
    """Refuse a memory that cannot hold k neighbours."""
    integers(who, k=k, capacity=capacity)
    if k > capacity:
        raise InputError(
            f"{who}: k must be at most capacity, {capacity}, received {k}: a memory of {capacity} arrivals never holds "
            "that many neighbours; lower k, or raise capacity"
        )


def empty(capacity: int, features: int, *batch: int) -> Ring:
    """Return a memory without rows, or a batch of them."""
    return Ring(
        jnp.zeros((*batch, capacity, features), jnp.float32), jnp.zeros(batch, jnp.int32), jnp.zeros(batch, jnp.int32)
    )


def nearest(ring: Ring, queries: Array, k: int) -> Array:
    """Return the squared distances (num_envs, k) to the nearest rows, ascending; infinity where there are fewer.

    Args:
        ring: One memory for all environments, or one per environment.
        queries: One row per environment, (num_envs, features).
        k: How many, at most the capacity.

    """
    squared = jnp.sum((ring.rows - queries[:, None].astype(jnp.float32)) ** 2, axis=-1)
    written = jnp.arange(ring.capacity) < ring.filled[..., None]
    return -jax.lax.top_k(-jnp.where(written, squared, jnp.inf), k)[0]


def write_shared(ring: Ring, rows: Array, valid: Array) -> Ring:
    """Return one memory with the valid of these rows (num_envs, features) written, the first environment's first."""
    capacity, total = ring.capacity, valid.sum(dtype=jnp.int32)
    order = jnp.cumsum(valid, dtype=jnp.int32) - 1
    kept = valid & (order >= total - capacity)  # of more rows than fit, the last
    place = jnp.where(kept, (ring.place + order) % capacity, capacity)
    return Ring(
        ring.rows.at[place].set(rows.astype(ring.rows.dtype), mode="drop"),
        (ring.place + total) % capacity,
        jnp.minimum(ring.filled + total, capacity),
    )


def write_each(ring: Ring, rows: Array, valid: Array) -> Ring:
    """Return one memory per environment, each with its own row written where valid (num_envs,)."""
    capacity, once = ring.capacity, valid.astype(jnp.int32)
    place = jnp.where(valid, ring.place, capacity)
    return Ring(
        ring.rows.at[jnp.arange(rows.shape[0]), place].set(rows.astype(ring.rows.dtype), mode="drop"),
        (ring.place + once) % capacity,
        jnp.minimum(ring.filled + once, capacity),
    )


def forget(ring: Ring, where: Array) -> Ring:
    """Return one memory per environment, without rows where true (num_envs,)."""
    return ring._replace(place=jnp.where(where, 0, ring.place), filled=jnp.where(where, 0, ring.filled))
