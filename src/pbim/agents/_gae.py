"""Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438)."""

import jax
import jax.numpy as jnp
from jax import Array


def gae(reward: Array, value: Array, next_value: Array, ended: Array, *, gamma: float, lam: float) -> Array:
    """Return advantages (T, num_envs) of a rollout; all arguments have that shape.

    ``next_value`` is what the learner expects after each step: 0 at an end without bootstrap, the value of the final
    observation at an end with one, else the next step's value. ``ended`` cuts the sum over later steps.

    >>> import jax.numpy as jnp
    >>> one = jnp.ones((2, 1))
    >>> gae(one, 0 * one, 0 * one, jnp.array([[False], [True]]), gamma=0.5, lam=1.0)[:, 0].tolist()
    [1.5, 1.0]
    """
    delta = reward + gamma * next_value - value  # Eq. 10
    carries = gamma * lam * (1.0 - ended)

    def body(following: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = row[0] + row[1] * following  # Eq. 16
        return advantage, advantage

    return jax.lax.scan(body, jnp.zeros_like(delta[0]), (delta, carries), reverse=True, unroll=8)[1]


def next_values(value: Array, last: Array, ended: Array, at_end: Array | float = 0.0) -> Array:
    """Return the value after each step: (T, num_envs) values shifted by one, ``at_end`` where the episode ended."""
    return jnp.where(ended, at_end, jnp.concatenate([value[1:], last[None]]))
