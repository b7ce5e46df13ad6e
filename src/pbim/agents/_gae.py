"""Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438)."""

import jax
import jax.numpy as jnp
from jax import Array

from pbim.truncation import Ends


def gae(reward: Array, value: Array, next_value: Array, over: Array, *, gamma: float, lam: float) -> Array:
    """Return advantages (T, num_envs) of a rollout; all arguments have that shape.

    ``next_value`` is what the learner expects after each step, from :func:`next_values`; ``over`` cuts the sum over
    later steps where an episode is over.

    >>> import jax.numpy as jnp
    >>> one = jnp.ones((2, 1))
    >>> gae(one, 0 * one, 0 * one, jnp.array([[False], [True]]), gamma=0.5, lam=1.0)[:, 0].tolist()
    [1.5, 1.0]
    """
    delta = reward + gamma * next_value - value  # Eq. 10
    carries = gamma * lam * (1.0 - over)

    def body(following: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = row[0] + row[1] * following  # Eq. 16
        return advantage, advantage

    return jax.lax.scan(body, jnp.zeros_like(delta[0]), (delta, carries), reverse=True, unroll=8)[1]


def next_values(value: Array, last: Array, end: Ends[Array], final: Array | None = None) -> Array:
    """Return what the learner expects after each step, (num_values, T, num_envs): inside an episode, the next value.

    Args:
        value: The values of every step, (num_values, T, num_envs).
        last: The values of where the rollout stopped, (num_values, num_envs).
        end: What each step ends for the learner, (T, num_envs) each.
        final: The values of every step's true successor, of the shape of ``value``; read where an episode is over and
            the learner does not stop. None if it stops at every end.

    """
    at_end = 0.0 if final is None else jnp.where(end.stops, 0, final)
    return jnp.where(end.over, at_end, following_values(value, last))


def following_values(value: Array, last: Array) -> Array:
    """Return the values of the next observations, (num_values, T, num_envs), across ends of episodes."""
    return jnp.concatenate([value[:, 1:], last[:, None]], axis=1)
