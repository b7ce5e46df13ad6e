"""What whole episodes added up to, counted while they run."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Sums = tuple[Array, Array, Array]
"""Of the running episode (5, num_envs), of those that ended (5, num_envs), and the shortest lengths (num_envs,)."""


class Running(NamedTuple):
    """Sums over the running episode of each environment, (num_envs,): steps, and returns of R, F and F'.

    ``discounted`` is the return of F' with the learner's discount: 0 after a whole episode where F' cancels.
    ``recent`` (num_envs,) holds the lengths of the last episodes that ended, the latest last; 0 before there are any.
    ``optimal`` (num_envs,) is the length of the shortest way to the goal from where the episode started, None in an
    environment that does not know it.
    """

    length: Array
    extrinsic: Array
    intrinsic: Array
    shaping: Array
    discounted: Array
    recent: Array
    optimal: Array | None


class Finished(NamedTuple):
    """Sums over the episodes that ended in a rollout, (): how many, how they ended, steps and returns.

    ``logged_length`` and ``logged_std`` are the mean and the spread over what torch-ac logs: the episodes that ended in
    the rollout, or the last num_envs ones where fewer did. ``goal_length`` and ``gap`` sum length and
    (length - optimal) over the episodes that terminated; ``gap`` is NaN where the optimum is not known.
    """

    episodes: Array
    terminated: Array
    truncated: Array
    length: Array
    extrinsic: Array
    intrinsic: Array
    shaping: Array
    discounted: Array
    goal_length: Array
    gap: Array
    logged_length: Array
    logged_std: Array


def optimal_length(env: Any, state: Any) -> Array | None:
    """Return the shortest possible lengths of episodes that start in states (...), None if ``env`` does not know."""
    if not hasattr(env, "optimal_length"):
        return None
    shape = jax.tree.leaves(state)[0].shape
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(shape) :]), state)
    lengths: Array = jax.vmap(env.optimal_length)(flat)
    return lengths.reshape(shape).astype(jnp.float32)


def start(num_envs: int, optimal: Array | None = None) -> Running:
    """Return empty sums."""
    zero = jnp.zeros(num_envs)
    return Running(zero, zero, zero, zero, zero, zero, optimal)


def window_edges(running: Running, terminated: Array, max_steps: int) -> Array:
    """Return where windows of ``max_steps`` steps are full, (T, num_envs), in a task that goes on."""

    def body(length: Array, terminated: Array) -> tuple[Array, Array]:
        full = length + 1 >= max_steps
        return jnp.where(full | terminated, 0, length + 1), full

    return jax.lax.scan(body, running.length, terminated)[1]


def count(
    running: Running,
    terms: tuple[Array, Array, Array],
    terminated: Array,
    truncated: Array,
    following: Array | None = None,
    *,
    gamma: float,
) -> tuple[Running, Finished]:
    """Add a rollout's (R, F, F'), each (T, num_envs), to the running sums; return them and the finished totals.

    ``following`` (T, num_envs) holds the optimal lengths of the states after each step: read where an episode ended.
    ``gamma`` is the discount of F'.
    """
    ended = terminated | truncated
    rows = jnp.stack([jnp.ones_like(terms[0]), *terms], axis=1)
    unknown = jnp.full_like(rows[:, 0], jnp.nan)
    optimal = unknown[0] if running.optimal is None else running.optimal

    def body(carry: Sums, row: tuple[Array, ...]) -> tuple[Sums, tuple[Array, ...]]:
        sums, total, optimal = carry
        term, over, reached, fresh = row
        discounted = gamma ** sums[0] * term[3]
        sums = sums + jnp.concatenate([term, discounted[None]])
        after = jnp.where(over, 0, sums), total + jnp.where(over, sums, 0), jnp.where(over, fresh, optimal)
        return after, (sums[0], jnp.where(reached, sums[0] - optimal, 0))

    first = jnp.stack(running[:5])
    fresh = unknown if following is None else following
    (sums, total, optimal), (lengths, gaps) = jax.lax.scan(
        body, (first, jnp.zeros_like(first), optimal), (rows, ended, terminated, fresh), unroll=8
    )
    ends = (jnp.sum(ended), jnp.sum(terminated), jnp.sum(truncated & ~terminated))
    goal_length = jnp.sum(jnp.where(terminated, lengths, 0))
    recent, mean, spread = _log(running.recent, lengths, ended)
    length, extrinsic, intrinsic, shaping, discounted = jnp.sum(total, axis=1)
    sums_of_ended = length, extrinsic, intrinsic, shaping, discounted
    finished = Finished(*ends, *sums_of_ended, goal_length, jnp.sum(gaps), mean, spread)
    following_optimal = None if running.optimal is None else optimal
    return Running(sums[0], sums[1], sums[2], sums[3], sums[4], recent, following_optimal), finished


def _log(recent: Array, lengths: Array, ended: Array) -> tuple[Array, Array, Array]:
    """Return the lengths of the last num_envs episodes, and the mean and spread of what torch-ac logs of a rollout.

    torch-ac keeps a list of finished episodes, by time and then by process, which starts as one zero per process; an
    update logs its last max(finished, processes) entries (``keep`` in torch_ac/algos/base.py).
    """
    size = recent.shape[0]
    listed, known = jnp.concatenate([recent, lengths.ravel()]), jnp.concatenate([recent >= 0, ended.ravel()])
    keep = jnp.maximum(jnp.sum(ended), size)
    kept = known & (jnp.cumsum(known[::-1])[::-1] <= keep)
    mean = jnp.sum(jnp.where(kept, listed, 0)) / keep
    spread = jnp.sqrt(jnp.sum(jnp.where(kept, (listed - mean) ** 2, 0)) / keep)
    last = jax.lax.top_k(jnp.where(known, jnp.arange(known.shape[0]), -1), size)[1][::-1]
    return listed[last], mean, spread
