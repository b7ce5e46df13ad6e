"""Greedy evaluation on fixed layouts: the extrinsic reward alone decides."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents._networks import Network, Params
from pbim.envs import Environment

HELD_OUT = 1_000_003
"""The seed of the layouts that no training run resets to (training keys are split, never folded with this number)."""


class Evaluation(NamedTuple):
    """Per layout, (episodes,): the return of R, the length, and whether the episode terminated."""

    returns: Array
    lengths: Array
    terminated: Array


@partial(jax.jit, static_argnums=(0, 1), static_argnames=("episodes",))
def evaluate(env: Environment[Any], network: Network, params: Params, *, episodes: int = 64) -> Evaluation:
    """Play one greedy episode on each of ``episodes`` held-out layouts, the same ones at every call."""
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
        )
        running = running * (1.0 - (out.terminated | out.truncated))
        return out.state, out.obs, memory, running, found, step + 1

    first = Evaluation(zero, zero, zero > 0)
    memory = jnp.zeros((network.memory_size, episodes))
    begin = (state, obs, memory, zero + 1, first, jnp.zeros((), jnp.int32))
    found: Evaluation = jax.lax.while_loop(lambda carry: jnp.any(carry[3] > 0), body, begin)[4]
    return found
