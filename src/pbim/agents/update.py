"""What one rollout, collected on the device or on the host, does to a run: bonus, conversion, advantages, learning."""

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents import _learn, bonus as _bonus, episodes as _episodes, rollout as _rollout
from pbim.agents._config import PPO
from pbim.agents._gae import following_values, next_values
from pbim.agents._learn import Batch, LearnerState
from pbim.agents._metrics import Metrics
from pbim.agents.conversion import certify, convert, ledger_ends, ledgers
from pbim.agents.method import Experience, Lesson
from pbim.agents.networks import Params
from pbim.agents.rollout import Steps, World
from pbim.shaping import State
from pbim.truncation import Ends, ends
from pbim.verification import Certificate, CertificateState


class Carry(NamedTuple):
    """Everything a run is: learner, environments, ledgers, certificate, running sums, random key, updates done.

    ``method`` is what the method knows; nothing without one.
    """

    learner: LearnerState
    world: World
    shaping: State
    certificate: CertificateState
    running: _episodes.Running
    key: Array
    updates: Array
    method: Any = ()


def start(config: PPO, params_key: Array, world: World, key: Array) -> Carry:
    """Return a run that has done nothing yet."""
    like, endless = jnp.zeros(0), config.restart == "continue"  # an episode may start anywhere
    return Carry(
        _learn.start(config, params_key),
        world,
        config.shaping.init(config.num_envs, like=like),
        Certificate(gamma=config.bonus_gamma).init(config.num_envs, like=like),
        _episodes.start(config.num_envs, None if endless else _episodes.optimal_length(config.env, world.state)),
        key,
        jnp.zeros((), jnp.int32),
        config.way.init(),
    )


def finish(config: PPO, carry: Carry, world: World, steps: Steps, key: Array) -> tuple[Carry, Metrics]:
    """Return the run after it learned from ``steps``, which led from ``carry.world`` to ``world``.

    Args:
        config: The run.
        carry: The run before the rollout.
        world: The environments after the rollout.
        steps: The rollout.
        key: The randomness of the minibatches.

    """
    if config.truncation == "continue":
        edges = _episodes.window_edges(carry.running, steps.terminated, config.env.max_steps)
        steps = steps._replace(truncated=edges)
    end = ends(config.truncation, steps.terminated, steps.truncated)
    world, bonus = _pay(config, world, steps)
    ledger_end = ledger_ends(config, steps.terminated, steps.truncated)
    shaping, shaped = convert(config, carry.shaping, bonus, ledger_end)
    frames = carry.updates * config.frames + config.num_envs * jnp.arange(config.num_steps)[:, None]
    owed = ledgers(config, carry.shaping.ledger, shaped, ledger_end) if config.network.sees_ledger else None
    values = _values(config, carry.learner.params, world, steps, end, owed)
    task = steps.reward if config.task_reward == "full" else jnp.zeros_like(steps.reward)
    experience = Experience(task, shaped, *values, end.over, frames)
    lesson = config.way.lesson(config, carry.method, experience)
    shaped = lesson.shaped
    certificate = certify(config, carry.certificate, shaped, end)
    batch = _batch(config, steps, values[0], lesson)._replace(ledger=None if owed is None else owed[:-1])
    learner, losses = _learn.learn(config, carry.learner, batch, key)
    method = config.way.after(config, carry.method, experience, partial(_learn.gain, config, learner.params, batch))
    following = None if steps.following is None else _episodes.optimal_length(config.env, steps.following)
    terms = steps.reward, bonus, shaped
    running, finished = _episodes.count(
        carry.running, terms, steps.terminated, steps.truncated, following, gamma=config.bonus_gamma
    )
    updates = carry.updates + 1
    metrics = Metrics(
        frames=updates * config.frames,
        **_episode_figures(finished),
        settled_goal=_mean(shaped, steps.terminated),
        settled_truncated=_mean(shaped, steps.truncated & ~steps.terminated),
        end_error=_mean(jnp.abs(batch.advantage.reshape(-1, *shaped.shape)[0]), steps.terminated | steps.truncated),
        residual=certificate.worst,
        bonus_weight=config.way.bonus_weight(carry.method),
        **losses._asdict(),
    )
    return Carry(learner, world, shaping, certificate, running, carry.key, updates, method), metrics


def _episode_figures(finished: _episodes.Finished) -> dict[str, Array]:
    """Return how many episodes ended, and the means over them."""
    share = 1 / finished.episodes.astype(jnp.float32)
    return {
        "episodes": finished.episodes,
        "goals": finished.terminated,
        "truncations": finished.truncated,
        "length": finished.length * share,
        "extrinsic_return": finished.extrinsic * share,
        "intrinsic_return": finished.intrinsic * share,
        "shaping_return": finished.shaping * share,
        "discounted_shaping": finished.discounted * share,
        "goal_length": finished.goal_length / finished.terminated,
        "gap": finished.gap / finished.terminated,
        "logged_length": finished.logged_length,
        "logged_std": finished.logged_std,
    }


def _mean(values: Array, where: Array) -> Array:
    """Return the mean over the marked entries, NaN without one."""
    return jnp.sum(jnp.where(where, values, 0)) / jnp.sum(where)


def _pay(config: PPO, world: World, steps: Steps) -> tuple[World, Array]:
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


def _values(
    config: PPO, params: Params, world: World, steps: Steps, end: Ends[Array], owed: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return the critics' values at every step, after it, and of the next observation, (num_values, T, num_envs)."""
    network = config.network
    value = _rollout.values(network, params, steps)
    last = _rollout.last_values(network, params, world)
    if owed is not None:
        known = cast(Array, params.ledger)[:, None, None] * owed
        value, last = value + known[:, :-1], last + known[:, -1]
    final = None if steps.final_rows is None else _rollout.final_values(network, params, steps, world)
    return value, next_values(value, last, end, final), following_values(value, last)


def _batch(config: PPO, steps: Steps, value: Array, lesson: Lesson) -> Batch:
    """Return what is learned from, frame by frame."""
    log_prob = jax.nn.log_softmax(steps.logits, axis=1)
    chosen = jnp.arange(config.network.num_actions)[:, None] == steps.action[:, None]
    return Batch(
        steps.rows,
        steps.memory,
        steps.mask,
        steps.action,
        jnp.sum(jnp.where(chosen, log_prob, 0), axis=1),
        lesson.advantage,
        value,
        lesson.target,
        lesson.critics,
    )
