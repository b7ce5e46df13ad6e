"""Collecting experience: environment, policy and bonus in one scan."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import bonus as _bonus
from pbim.agents.networks import Network, Params
from pbim.envs import Environment, autoreset_batch
from pbim.intrinsic import Transition
from pbim.truncation import Truncation, ends


class World(NamedTuple):
    """Where the environments are: states and observations (num_envs, ...), memory, 0 where an episode starts."""

    state: Any
    obs: Array
    memory: Array
    mask: Array
    bonus: Any


class Steps(NamedTuple):
    """A rollout, leading axes (T, num_envs) unless said otherwise.

    ``rows`` (T, num_envs, K), ``memory`` (T, rows, num_envs) before each step and not yet masked, ``core``
    (T, rows, num_envs) and ``logits`` (T, num_actions, num_envs). ``transition`` is None where no bonus waits for it.
    ``following``: the states gone on from, None in environments that do not know their optimal lengths.
    """

    rows: Array
    memory: Array
    mask: Array
    core: Array
    logits: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    bonus: Array
    final_rows: Array | None
    transition: Transition | None
    following: Any = None


def reset(env: Environment[Any], network: Network, bonus: Any, num_envs: int, key: Array) -> World:
    """Return freshly reset environments with empty memories and a fresh bonus."""
    env_key, bonus_key = jax.random.split(key)
    state, obs = jax.vmap(env.reset)(jax.random.split(env_key, num_envs))
    no = jnp.zeros(num_envs, bool)
    example = Transition(obs, jnp.zeros(num_envs, jnp.int32), obs, no, no, _bonus.info(env, state))
    return World(
        state,
        obs,
        jnp.zeros((network.memory_size, num_envs)),
        jnp.ones(num_envs),
        _bonus.start(bonus, env, bonus_key, example),
    )


def collect(
    env: Environment[Any],
    network: Network,
    bonus: Any,
    params: Params,
    world: World,
    key: Array,
    *,
    num_steps: int,
    stepwise: bool,
    truncation: Truncation,
    restart: Truncation,
    policy: Array | None = None,
) -> tuple[World, Steps]:
    """Act for ``num_steps`` steps; randomness is drawn for the whole rollout at once.

    ``truncation`` says what a time limit is to the learner and its memory, ``restart`` what it is to the environment
    and the bonus, ``policy`` which of several acts. A ``stepwise`` bonus is paid and learns inside the loop; for any
    other the transitions are handed back. Where the learner bootstraps at a ``truncation``, the prepared true
    successors are handed back too.
    """
    num_envs = world.mask.shape[0]
    noise_key, env_key = jax.random.split(key)
    noise = jax.random.gumbel(noise_key, (num_steps, network.num_actions, num_envs))

    def body(world: World, row: tuple[Array, Array]) -> tuple[World, Steps]:
        rows = network.prepare(world.obs)
        memory, core = network.step(params, network.embed(params, rows), world.memory * world.mask)
        logits = network.logits(params, core, policy)
        action = jnp.argmax(logits + row[0], axis=0)  # a draw from softmax(logits)
        out = autoreset_batch(env, row[1], world.state, action, restart)
        step = out.timestep
        over, fresh = (ends(kind, step.terminated, step.truncated).over for kind in (truncation, restart))
        transition = Transition(
            world.obs, action, step.obs, step.terminated, step.truncated & fresh, _bonus.info(env, step.state)
        )
        state, paid = world.bonus, jnp.zeros(num_envs)
        if stepwise:
            state, paid = bonus.update_fn(state, transition), bonus.reward_fn(state, transition)
        following = World(out.state, out.obs, memory, 1.0 - over, state)
        return following, Steps(
            rows,
            world.memory,
            world.mask,
            core,
            logits,
            action,
            step.reward,
            step.terminated,
            step.truncated,
            paid,
            network.prepare(step.obs) if truncation == "bootstrap" else None,
            None if stepwise or bonus is None else transition,
            out.state if restart != "continue" and hasattr(env, "optimal_length") else None,
        )

    return jax.lax.scan(body, world, (noise, jax.random.split(env_key, num_steps)))


def values(network: Network, params: Params, steps: Steps) -> Array:
    """Return the critics' values of a rollout, (num_values, T, num_envs)."""
    length, rows, num_envs = steps.core.shape
    core = steps.core.swapaxes(0, 1).reshape(rows, length * num_envs)
    return network.values(params, core).reshape(-1, length, num_envs)


def last_values(network: Network, params: Params, world: World) -> Array:
    """Return the values (num_values, num_envs) of where the rollout stopped."""
    _, core = network.step(params, network.embed(params, network.prepare(world.obs)), world.memory * world.mask)
    return network.values(params, core)


def final_values(network: Network, params: Params, steps: Steps, world: World) -> Array:
    """Return the values (num_values, T, num_envs) of every step's true successor, seen with the memory after it."""
    assert steps.final_rows is not None
    length, num_envs, width = steps.final_rows.shape
    rows = steps.final_rows.reshape(length * num_envs, width)
    after = jnp.concatenate([steps.memory[1:], world.memory[None]]).swapaxes(0, 1).reshape(-1, length * num_envs)
    _, core = network.step(params, network.embed(params, rows), after)
    return network.values(params, core).reshape(-1, length, num_envs)
