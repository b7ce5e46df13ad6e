"""What whole episodes added up to, counted while they run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Running(NamedTuple):
    """Sums over the running episode of each environment, (num_envs,): steps, and returns of R, F and F'."""

    length: Array
    extrinsic: Array
    intrinsic: Array
    shaping: Array


class Finished(NamedTuple):
    """Sums over the episodes that ended in a rollout, (): how many, how they ended, steps and undiscounted returns."""

    episodes: Array
    terminated: Array
    truncated: Array
    length: Array
    extrinsic: Array
    intrinsic: Array
    shaping: Array


def start(num_envs: int) -> Running:
    """Return empty sums."""
    zero = jnp.zeros(num_envs)
    return Running(zero, zero, zero, zero)


def count(
    running: Running, extrinsic: Array, intrinsic: Array, shaping: Array, terminated: Array, truncated: Array
) -> tuple[Running, Finished]:
    """Add a rollout (T, num_envs) to the running sums; return them and the totals of the episodes that ended."""
    ended = terminated | truncated
    terms = jnp.stack([jnp.ones_like(extrinsic), extrinsic, intrinsic, shaping], axis=1)

    def body(carry: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        sums, total = carry
        term, over = row
        sums = sums + term
        return (jnp.where(over, 0, sums), total + jnp.where(over, sums, 0)), None

    first = jnp.stack(running)
    (sums, total), _ = jax.lax.scan(body, (first, jnp.zeros_like(first)), (terms, ended), unroll=8)
    finished = Finished(jnp.sum(ended), jnp.sum(terminated), jnp.sum(truncated & ~terminated), *jnp.sum(total, axis=1))
    return Running(*sums), finished
