"""What one rollout, collected on the device or on the host, does to a run: bonus, conversion, advantages, learning."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import _bonus, _episodes, _learn, _rollout
from pbim.agents._config import PPO
from pbim.agents._convert import convert
from pbim.agents._gae import gae, next_values
from pbim.agents._learn import Batch, Learner
from pbim.agents._rollout import Steps, World
from pbim.verification import Certificate


class Carry(NamedTuple):
    """Everything a run is: learner, environments, ledgers, certificate, running sums, random key, updates done."""

    learner: Learner
    world: World
    shaping: Any
    certificate: Any
    running: _episodes.Running
    key: Array
    updates: Array


class Metrics(NamedTuple):
    """One update's figures, (): means over the episodes that ended in it (NaN if none did) and over its minibatches.

    ``gap`` is the mean excess over the shortest possible length, over the episodes that terminated, in environments
    that know it (NaN elsewhere). ``residual`` is the largest relative discounted sum of F' over the episodes that
    ended: 0 means that F' cancelled. ``settled_goal`` and ``settled_truncated`` are F' at the last step of the episodes
    that ended so: what the conversion takes back there. ``end_error`` is how far the critic was off at the last steps.
    """

    frames: Array
    episodes: Array
    goals: Array
    truncations: Array
    length: Array
    goal_length: Array
    gap: Array
    extrinsic_return: Array
    intrinsic_return: Array
    shaping_return: Array
    settled_goal: Array
    settled_truncated: Array
    end_error: Array
    residual: Array
    entropy: Array
    value: Array
    policy_loss: Array
    value_loss: Array
    gradient_norm: Array


def begin(config: PPO, params_key: Array, world: World, key: Array) -> Carry:
    """Return a run that has done nothing yet."""
    like = jnp.zeros(0)
    return Carry(
        _learn.start(config, params_key),
        world,
        config.shaping.init(config.num_envs, like=like),
        Certificate(gamma=config.bonus_gamma).init(config.num_envs, like=like),
        _episodes.start(config.num_envs, _episodes.optimal_length(config.env, world.state)),
        key,
        jnp.zeros((), jnp.int32),
    )


def finish(config: PPO, carry: Carry, world: World, steps: Steps, key: Array) -> tuple[Carry, Metrics]:
    """Return the run after it learnt from ``steps``, which led from ``carry.world`` to ``world``."""
    world, bonus = _paid(config, world, steps)
    ended = steps.terminated | steps.truncated
    shaping, shaped = convert(config, carry.shaping, bonus, steps.terminated, steps.truncated)
    value, next_value = _values(config, carry.learner.params, world, steps)
    if config.correction is not None:
        seen = carry.updates * config.frames + config.num_envs * jnp.arange(config.num_steps)[:, None]
        shaped = config.correction.corrected(
            shaped,
            steps.reward,
            value / config.reward_scale,
            next_value / config.reward_scale,
            gamma=config.gamma,
            seen=seen,
        )
    certificate = Certificate(gamma=config.bonus_gamma).update(
        carry.certificate._replace(worst=jnp.zeros(())), shaped, ended
    )
    batch = _batch(config, steps, shaped, value, next_value)
    learner, losses = _learn.learn(config, carry.learner, batch, key)
    following = None if steps.following is None else _episodes.optimal_length(config.env, steps.following)
    running, finished = _episodes.count(
        carry.running, (steps.reward, bonus, shaped), steps.terminated, steps.truncated, following
    )
    updates = carry.updates + 1
    share = 1 / finished.episodes.astype(jnp.float32)
    metrics = Metrics(
        frames=updates * config.frames,
        episodes=finished.episodes,
        goals=finished.terminated,
        truncations=finished.truncated,
        length=finished.length * share,
        goal_length=finished.goal_length / finished.terminated,
        gap=finished.gap / finished.terminated,
        extrinsic_return=finished.extrinsic * share,
        intrinsic_return=finished.intrinsic * share,
        shaping_return=finished.shaping * share,
        settled_goal=_mean(shaped, steps.terminated),
        settled_truncated=_mean(shaped, steps.truncated & ~steps.terminated),
        end_error=_mean(jnp.abs(batch.advantage), ended),
        residual=certificate.worst,
        **losses._asdict(),
    )
    return Carry(learner, world, shaping, certificate, running, carry.key, updates), metrics


def _mean(values: Array, where: Array) -> Array:
    """Return the mean over the marked entries, NaN without one."""
    return jnp.sum(jnp.where(where, values, 0)) / jnp.sum(where)


def _paid(config: PPO, world: World, steps: Steps) -> tuple[World, Array]:
    """Return the scaled bonus (T, num_envs); a bonus that waited for the end of the rollout learns from it now."""
    bonus, pays = steps.bonus, config.intrinsic
    if steps.transition is not None and config.pays_stepwise:
        state, bonus = jax.lax.scan(
            lambda state, step: (pays.update_fn(state, step), pays.reward_fn(state, step)),
            world.bonus,
            steps.transition,
        )
        world = world._replace(bonus=state)
    elif steps.transition is not None:
        rows = _bonus.flat(steps.transition)
        bonus = pays.reward_fn(world.bonus, rows).reshape(bonus.shape)
        world = world._replace(bonus=pays.update_fn(world.bonus, rows))
    return world, config.intrinsic_scale * bonus


def _values(config: PPO, params: Any, world: World, steps: Steps) -> tuple[Array, Array]:
    """Return the critics' values at every step and after it, (num_values, T, num_envs) each."""
    network = config.network
    value = _rollout.values(network, params, steps)
    last = _rollout.last_values(network, params, world)
    ended = steps.terminated | steps.truncated
    at_end: Array | float = 0.0
    if config.truncation == "bootstrap":
        at_end = jnp.where(steps.terminated, 0, _rollout.final_values(network, params, steps, world))
    next_value = jax.vmap(next_values, in_axes=(0, 0, None, 0 if config.truncation == "bootstrap" else None))(
        value, last, ended, at_end
    )
    if config.critics == "separate":  # F' is settled at every end, so its stream never bootstraps there
        next_value = next_value.at[1].set(jnp.where(ended, 0, next_value[1]))
    return value, next_value


def _batch(config: PPO, steps: Steps, shaped: Array, value: Array, next_value: Array) -> Batch:
    """Return what is learnt from: advantages of r + F' with one critic, the sum of both streams' with two."""
    ended = steps.terminated | steps.truncated
    if config.critics == "joint":
        streams = [(steps.reward + shaped, config.gamma)]
    else:
        streams = [(steps.reward, config.gamma), (shaped, config.bonus_gamma)]
    advantage = jnp.stack(
        [
            gae(
                config.reward_scale * reward, value[index], next_value[index], ended, gamma=gamma, lam=config.gae_lambda
            )
            for index, (reward, gamma) in enumerate(streams)
        ]
    )
    log_prob = jax.nn.log_softmax(steps.logits, axis=1)
    chosen = jnp.arange(config.network.num_actions)[:, None] == steps.action[:, None]
    return Batch(
        steps.rows,
        steps.memory,
        steps.mask,
        steps.action,
        jnp.sum(jnp.where(chosen, log_prob, 0), axis=1),
        jnp.sum(advantage, axis=0),
        value,
        value + advantage,
    )
