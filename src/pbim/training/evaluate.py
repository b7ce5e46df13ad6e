"""Greedy evaluation on fixed layouts: the extrinsic reward alone decides."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pbim._jit import jit
from pbim.agents import episodes as _episodes
from pbim.agents.networks import Network, Params
from pbim.envs import Environment

HELD_OUT = 1_000_003
"""The seed of the layouts that no training run resets to (training keys are split, never folded with this number)."""


class Evaluation(NamedTuple):
    """Per layout, (episodes,): the return of R, the length, whether the episode terminated, the shortest length.

    ``optimal`` is NaN in an environment that does not know it.
    """

    returns: Array
    lengths: Array
    terminated: Array
    optimal: Array

    def summary(self) -> dict[str, float | None]:
        """Return the means, with the gap to the shortest length over the episodes that terminated."""
        reached, gaps = np.asarray(self.terminated), np.asarray(self.lengths - self.optimal)
        gap = float(gaps[reached].mean()) if reached.any() else math.nan
        return {
            "evaluation_return": float(np.mean(self.returns)),
            "evaluation_length": float(np.mean(self.lengths)),
            "evaluation_goals": float(np.mean(reached)),
            "evaluation_gap": None if math.isnan(gap) else gap,
        }


@jit(static_argnums=(0, 1), static_argnames=("episodes",))
def evaluate(env: Environment[Any], network: Network, params: Params, *, episodes: int = 64) -> Evaluation:
    """Play one greedy episode on each of ``episodes`` held-out layouts, the same ones at every call.

    Args:
        env: A compiled environment.
        network: The actor-critic.
        params: Its parameters.
        episodes: How many layouts.

    """
    key = jax.random.fold_in(jax.random.key(HELD_OUT), 0)
    state, obs = jax.vmap(env.reset)(jax.random.split(key, episodes))
    zero = jnp.zeros(episodes)

    def body(carry: Any) -> Any:
        state, obs, memory, running, found, step = carry
        memory, core = network.step(params, network.embed(params, network.prepare(obs)), memory)
        action = jnp.argmax(network.logits(params, core), axis=0)
        keys = jax.random.split(jax.random.fold_in(key, step), episodes)
        out = jax.vmap(env.step)(keys, state, action)
        found = Evaluation(
            found.returns + running * out.reward,
            found.lengths + running,
            found.terminated | ((running > 0) & out.terminated),
            found.optimal,
        )
        running = running * (1.0 - (out.terminated | out.truncated))
        return out.state, out.obs, memory, running, found, step + 1

    optimal = _episodes.optimal_length(env, state)
    first = Evaluation(zero, zero, zero > 0, zero + jnp.nan if optimal is None else optimal)
    memory = jnp.zeros((network.memory_size, episodes))
    begin = (state, obs, memory, zero + 1, first, jnp.zeros((), jnp.int32))
    found: Evaluation = jax.lax.while_loop(lambda carry: jnp.any(carry[3] > 0), body, begin)[4]
    return found
