"""Recurrent PPO, compiled end to end: environment, bonus, conversion, advantages and updates in one program.

Schulman et al. 2017 (arXiv 1707.06347). Defaults are those of torch-ac and rl-starter-files, the code base that the
paper's DoorKey experiments grew from: stored hidden states, no bootstrap at the end of an episode, advantages as they
are, clipped values.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import _bonus, _episodes, _learn, _rollout
from pbim.agents._config import PPO as PPO
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

    ``residual`` is the largest relative discounted sum of F' over these episodes: 0 means that F' cancelled.
    """

    frames: Array
    episodes: Array
    goals: Array
    truncations: Array
    length: Array
    extrinsic_return: Array
    intrinsic_return: Array
    shaping_return: Array
    residual: Array
    entropy: Array
    value: Array
    policy_loss: Array
    value_loss: Array
    gradient_norm: Array


@partial(jax.jit, static_argnums=0)
def init(config: PPO, key: Array) -> Carry:
    """Return a run before its first update."""
    params_key, world_key, key = jax.random.split(key, 3)
    like = jnp.zeros(0)
    return Carry(
        _learn.start(config, params_key),
        _rollout.reset(config.env, config.network, config.intrinsic, config.num_envs, world_key),
        config.shaping.init(config.num_envs, like=like),
        Certificate(gamma=config.bonus_gamma).init(config.num_envs, like=like),
        _episodes.start(config.num_envs),
        key,
        jnp.zeros((), jnp.int32),
    )


@partial(jax.jit, static_argnums=(0, 2), donate_argnums=1)
def update_chunk(config: PPO, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
    """Return the run after ``updates`` more updates, and their metrics, (updates,) each; ``carry`` is used up."""
    return _scan(config, carry, updates)


@partial(jax.jit, static_argnums=0)
def train(config: PPO, key: Array) -> tuple[Carry, Metrics]:
    """Run the whole of ``config.total_frames``: a pure function of the key, so seeds are a ``jax.vmap``.

    >>> import jax
    >>> from pbim.agents.ppo import PPO, train
    >>> from pbim.envs import DoorKey
    >>> config = PPO(env=DoorKey(size=5), num_envs=2, num_steps=8, minibatch_size=8, total_frames=32)
    >>> carry, metrics = train(config, jax.random.key(0))
    >>> metrics.frames.tolist()
    [16, 32]
    """
    return _scan(config, init(config, key), config.updates)


def _scan(config: PPO, carry: Carry, updates: int) -> tuple[Carry, Metrics]:
    return jax.lax.scan(lambda carry, _: update(config, carry), carry, None, length=updates)


def update(config: PPO, carry: Carry) -> tuple[Carry, Metrics]:
    """Collect one rollout and learn from it."""
    key, rollout_key, learn_key = jax.random.split(carry.key, 3)
    params = carry.learner.params
    stepwise = _bonus.is_stepwise(config.intrinsic) or (config.bonus_learns == "step" and config.intrinsic is not None)
    world, steps = _rollout.collect(
        config.env,
        config.network,
        config.intrinsic,
        params,
        carry.world,
        rollout_key,
        num_steps=config.num_steps,
        stepwise=stepwise,
        keep_final=config.truncation == "bootstrap",
    )
    world, bonus = _paid(config, world, steps)
    ended = steps.terminated | steps.truncated
    shaping, shaped = convert(config, carry.shaping, bonus, steps.terminated, steps.truncated)
    certificate = Certificate(gamma=config.bonus_gamma).update(
        carry.certificate._replace(worst=jnp.zeros(())), shaped, ended
    )
    batch = _batch(config, carry, world, steps, shaped)
    learner, losses = _learn.learn(config, carry.learner, batch, learn_key)
    running, finished = _episodes.count(carry.running, steps.reward, bonus, shaped, steps.terminated, steps.truncated)
    updates = carry.updates + 1
    share = 1 / finished.episodes.astype(jnp.float32)
    metrics = Metrics(
        frames=updates * config.frames,
        episodes=finished.episodes,
        goals=finished.terminated,
        truncations=finished.truncated,
        length=finished.length * share,
        extrinsic_return=finished.extrinsic * share,
        intrinsic_return=finished.intrinsic * share,
        shaping_return=finished.shaping * share,
        residual=certificate.worst,
        **losses._asdict(),
    )
    return Carry(learner, world, shaping, certificate, running, key, updates), metrics


def _paid(config: PPO, world: World, steps: Steps) -> tuple[World, Array]:
    """Return the scaled bonus (T, num_envs); a bonus that waited for the end of the rollout learns from it now."""
    bonus = steps.bonus
    if steps.transition is not None:
        rows = _bonus.flat(steps.transition)
        bonus = config.intrinsic.reward_fn(world.bonus, rows).reshape(bonus.shape)
        world = world._replace(bonus=config.intrinsic.update_fn(world.bonus, rows))
    return world, config.intrinsic_scale * bonus


def _batch(config: PPO, carry: Carry, world: World, steps: Steps, shaped: Array) -> Batch:
    """Return what is learnt from: advantages of r + F' with one critic, the sum of both streams' with two."""
    network, params = config.network, carry.learner.params
    value = _rollout.values(network, params, steps)
    last = _rollout.last_values(network, params, world)
    ended = steps.terminated | steps.truncated
    at_end: Array | float = 0.0
    if config.truncation == "bootstrap":
        at_end = jnp.where(steps.terminated, 0, _rollout.final_values(network, params, steps, world))
    next_value = jax.vmap(next_values, in_axes=(0, 0, None, 0 if config.truncation == "bootstrap" else None))(
        value, last, ended, at_end
    )
    if config.critics == "joint":
        streams = [(steps.reward + shaped, config.gamma)]
    else:  # F' is settled at every end, so its stream never bootstraps there
        next_value = next_value.at[1].set(jnp.where(ended, 0, next_value[1]))
        streams = [(steps.reward, config.gamma), (shaped, config.bonus_gamma)]
    advantage = jnp.stack(
        [
            gae(reward, value[index], next_value[index], ended, gamma=gamma, lam=config.gae_lambda)
            for index, (reward, gamma) in enumerate(streams)
        ]
    )
    log_prob = jax.nn.log_softmax(steps.logits, axis=1)
    chosen = jnp.arange(network.num_actions)[:, None] == steps.action[:, None]
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
