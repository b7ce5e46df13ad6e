"""The PPO update: epochs of minibatches of masked subsequences, and one clipped Adam step each."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jax import Array
from jax.custom_batching import custom_vmap

from pbim.agents import _layers, _views
from pbim.agents._views import Views
from pbim.agents.networks import Output, Params

if TYPE_CHECKING:
    from pbim.agents._config import PPO


USUAL_SHARE = 5 / 8
"""Distinct views per frame of a minibatch that are nearly always enough (see ``_views``)."""


class LearnerState(NamedTuple):
    """Parameters, the optimiser's memory, and the epochs done so far () (every other one shifts the cuts)."""

    params: Params
    optimizer: Any
    epochs: Array


class Batch(NamedTuple):
    """A rollout to learn from: (T, num_envs) unless said otherwise.

    ``rows`` (T, num_envs, K), ``memory`` (T, rows, num_envs) before each step, ``mask`` 0 where an episode
    starts, ``value`` and ``target`` (num_values, T, num_envs), with several policies ``advantage`` (num_policies, T,
    num_envs). ``critics`` (num_values,) weighs the critics' losses; None learns all alike. ``ledger`` is L_t, where the
    critics see it.
    """

    rows: Array
    memory: Array
    mask: Array
    action: Array
    log_prob: Array
    advantage: Array
    value: Array
    target: Array
    critics: Array | None = None
    ledger: Array | None = None


class Minibatch(NamedTuple):
    """Subsequences: obs (K, steps * n), memory (rows, n), mask (steps, n), the others (..., steps * n).

    With ``which`` (steps * n,) the frames show ``obs[:, which]``, all among the first ``views`` () columns.
    """

    obs: Array
    memory: Array
    mask: Array
    action: Array
    log_prob: Array
    advantage: Array
    value: Array
    target: Array
    weight: Array
    which: Array | None = None
    views: Array | None = None
    critics: Array | None = None
    ledger: Array | None = None


class Draw(NamedTuple):
    """A minibatch: subsequences and weights (n,), their frames (steps, n), their rows of ``_on_end`` (K,), views."""

    sequences: Array
    weight: Array
    frames: Array
    rows: Array
    views: Views | None


class Losses(NamedTuple):
    """The parts of the loss of one gradient step, ()."""

    entropy: Array
    value: Array
    policy_loss: Array
    value_loss: Array
    gradient_norm: Array


Gradient = tuple[Params, tuple[Losses, list[Array]]]


def start(config: "PPO", key: Array) -> LearnerState:
    """Return a learner with fresh parameters."""
    params = config.network.init(key)
    return LearnerState(params, _adam(config).init(params), jnp.zeros((), jnp.int32))


def learn(config: "PPO", learner: LearnerState, batch: Batch, key: Array) -> tuple[LearnerState, Losses]:
    """Return the learner after all epochs on one rollout, and the mean of its gradient steps' losses."""
    cuts = config.cuts
    may_be_empty = cuts.shift > 0 and cuts.num_envs >= cuts.per_minibatch  # so many are left out of a shifted epoch
    columns = _columns(config, batch)
    rows = batch.rows.reshape(-1, batch.rows.shape[-1])
    numbers = _views.number(rows)
    first = cuts.starts(batch.memory, jnp.zeros((), bool))
    begin = jnp.where(learner.epochs % 2 == 1, cuts.starts(batch.memory, jnp.ones((), bool)), first)

    def epoch(carry: tuple[LearnerState, Array], key: Array) -> tuple[tuple[LearnerState, Array], Losses]:
        learner, starts = carry
        shifted = learner.epochs % 2 == 1
        order, weights = cuts.draw(key, shifted)
        frames = jax.vmap(cuts.frames, in_axes=(0, None))(order, shifted)
        views, shown = None, frames.reshape(len(frames), -1)
        if numbers is not None:
            views = jax.vmap(partial(_views.distinct, below=config.frames))(numbers[shown])
            shown = jnp.take_along_axis(shown, views.first, axis=1)
        on_end = _on_end(rows, shown)
        places = jnp.arange(on_end.shape[0]).reshape(len(order), -1)

        def step(inner: tuple[Params, Any], draw: Draw) -> tuple[tuple[Params, Any], tuple[Losses, Array]]:
            minibatch = _minibatch(config, on_end, columns, starts, draw)._replace(critics=batch.critics)
            params, optimizer, losses, memories = gradient_step(config, *inner, minibatch)
            after = (params, optimizer)
            if may_be_empty:
                after = jax.tree.map(lambda new, old: jnp.where(jnp.any(draw.weight > 0), new, old), after, inner)
            return after, (losses, _memory_at_cut(config, memories, shifted))

        (params, optimizer), (losses, passed) = jax.lax.scan(
            step, (learner.params, learner.optimizer), Draw(order, weights, frames, places, views)
        )
        if config.refresh_memories and cuts.shift and config.memory != "none":
            starts = cuts.refresh(order, passed, first, shifted)
        return (LearnerState(params, optimizer, learner.epochs + 1), starts), losses

    (learner, _), losses = jax.lax.scan(epoch, (learner, begin), jax.random.split(key, config.epochs))
    return learner, jax.tree.map(jnp.nanmean if may_be_empty else jnp.mean, losses)  # empty minibatches have NaN


def gradient_step(
    config: "PPO", params: Params, optimizer: Any, minibatch: Minibatch
) -> tuple[Params, Any, Losses, list[Array]]:
    """Take one Adam step on a minibatch, with the gradient's norm clipped."""
    gradient, (losses, memories) = _gradient(config, params, minibatch)
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, config.max_gradient_norm / (norm + 1e-6))
    updates, optimizer = _adam(config).update(jax.tree.map(lambda leaf: leaf * scale, gradient), optimizer, params)
    params = optax.apply_updates(params, updates)
    return params, optimizer, losses._replace(gradient_norm=norm), memories


def _gradient(config: "PPO", params: Params, minibatch: Minibatch) -> Gradient:
    """Return the gradient of the loss, its parts, and the memories on the way.

    Only as many views are embedded as a minibatch usually has; where it has more, all its frames are.
    """

    def embedding(size: int, params: Params, minibatch: Minibatch) -> Gradient:
        def objective(params: Params) -> tuple[Array, tuple[Losses, list[Array]]]:
            rows = minibatch.obs[:, :size].T
            output, memories = config.network.unroll(params, rows, minibatch.memory, minibatch.mask, minibatch.which)
            if minibatch.ledger is not None:
                output = output._replace(values=output.values + cast(Array, params.ledger)[:, None] * minibatch.ledger)
            loss, losses = ppo_loss(config, output, minibatch)
            return loss, (losses, memories)

        found: Gradient = jax.grad(objective, has_aux=True)(params)
        return found

    frames = minibatch.obs.shape[1]
    few, every = math.ceil(USUAL_SHARE * frames), partial(embedding, frames)
    if minibatch.views is None:
        return every(params, minibatch)

    @custom_vmap
    def either(params: Params, minibatch: Minibatch) -> Gradient:
        found: Gradient = jax.lax.cond(
            cast(Array, minibatch.views) <= few, partial(embedding, few), every, params, minibatch
        )
        return found

    @either.def_vmap
    def _(seeds: int, batched: Any, *arguments: Any) -> Any:  # a condition per seed would compute both
        axes = jax.tree.map(lambda has: 0 if has else None, tuple(batched))
        found = jax.vmap(every, in_axes=axes, axis_size=seeds)(*arguments)
        return found, jax.tree.map(lambda _: True, found)

    found: Gradient = either(params, minibatch)
    return found


def ppo_loss(config: "PPO", output: Output, minibatch: Minibatch) -> tuple[Array, Losses]:
    """Return the clipped objective to minimise, and its parts (Schulman et al. 2017, Eq. 7 and 9)."""
    weight = minibatch.weight / jnp.sum(minibatch.weight)
    policy, entropy = _policies(config, output.logits, minibatch, weight)
    error = (output.values - minibatch.target) ** 2
    if config.clip_values:
        near = minibatch.value + jnp.clip(output.values - minibatch.value, -config.clip, config.clip)
        error = jnp.maximum(error, (near - minibatch.target) ** 2)
    if minibatch.critics is not None:
        error = minibatch.critics[:, None] * error

    policy_loss, mean_entropy = jnp.vdot(weight, policy), jnp.vdot(weight, entropy)
    value_loss = jnp.vdot(weight, jnp.sum(error, axis=0))
    loss = policy_loss - config.entropy_coefficient * mean_entropy + config.value_coefficient * value_loss  # Eq. 9
    value = jnp.vdot(weight, jnp.sum(output.values, axis=0))
    return loss, Losses(mean_entropy, value, policy_loss, value_loss, jnp.zeros(()))


def _policies(config: "PPO", logits: Array, minibatch: Minibatch, weight: Array) -> tuple[Array, Array]:
    """Return the objective to minimise (Eq. 7) and the entropy of every frame, (n,), summed over the policies."""
    several = config.network.num_policies
    if several == 1:
        return _policy(config, logits, minibatch, minibatch.advantage, weight)
    parts = [
        _policy(config, one, minibatch, advantage, weight)
        for one, advantage in zip(jnp.split(logits, several), minibatch.advantage, strict=True)
    ]
    policy, entropy = (jnp.sum(jnp.stack(part), axis=0) for part in zip(*parts, strict=True))
    return policy, entropy


def _policy(config: "PPO", logits: Array, minibatch: Minibatch, advantage: Array, weight: Array) -> tuple[Array, Array]:
    if config.normalize_advantages:
        mean = jnp.sum(weight * advantage)
        advantage = (advantage - mean) / (jnp.sqrt(jnp.sum(weight * (advantage - mean) ** 2)) + 1e-8)
    log_probs = jax.nn.log_softmax(logits, axis=0)
    log_prob = chosen(log_probs, minibatch.action)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=0)
    return -surrogate(config, log_prob, minibatch.log_prob, advantage), entropy


def chosen(log_probs: Array, action: Array) -> Array:
    """Return the log-probabilities (n,) of actions (n,) among those of all, (num_actions, n)."""
    taken = jnp.arange(log_probs.shape[0])[:, None] == action
    return jnp.sum(jnp.where(taken, log_probs, 0), axis=0)


def surrogate(config: "PPO", log_prob: Array, before: Array, advantage: Array) -> Array:
    """Return what a policy gains over the one that acted, clipped (Schulman et al. 2017, Eq. 7), of any shape."""
    ratio = jnp.exp(log_prob - before)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    return jnp.minimum(ratio * advantage, clipped * advantage)


def gain(config: "PPO", params: Params, batch: Batch, policy: int, advantage: Array) -> Array:
    """Return the mean of :func:`surrogate` over a rollout under a policy of ``params``; advantage (T, num_envs)."""
    cuts, first = config.cuts, jnp.zeros((), bool)
    frames = cuts.frames(jnp.arange(cuts.sequences), first)
    rows = batch.rows.reshape(config.frames, -1)[frames.ravel()]
    memory = cuts.starts(batch.memory, first).T
    output, _ = config.network.unroll(params, rows, memory, batch.mask.reshape(-1)[frames])
    logits = jnp.split(output.logits, config.network.num_policies)[policy]
    action, before, advantage = (x.reshape(-1)[frames.ravel()] for x in (batch.action, batch.log_prob, advantage))
    return jnp.mean(surrogate(config, chosen(jax.nn.log_softmax(logits, axis=0), action), before, advantage))


def _adam(config: "PPO") -> optax.GradientTransformation:
    rate: Any = config.learning_rate
    if config.learning_rate_schedule == "linear":
        steps = config.updates * config.epochs * (config.frames // config.minibatch_size)
        rate = optax.linear_schedule(config.learning_rate, 0.0, steps)
    return optax.adam(rate, eps=config.adam_epsilon)


def _columns(config: "PPO", batch: Batch) -> Array:
    """Return a frame's numbers side by side, (frames, columns), so that a minibatch is one gather."""
    advantage = batch.advantage.reshape(-1, *batch.mask.shape)
    parts = [batch.mask, batch.action.astype(jnp.float32), batch.log_prob, *advantage, *batch.value, *batch.target]
    parts += [] if batch.ledger is None else [batch.ledger]
    return jnp.stack(parts, axis=-1).reshape(config.frames, -1)


def _on_end(rows: Array, frames: Array) -> Array:
    """Return rows of frames (minibatches, n) as columns, (minibatches * K, n), once for an epoch.

    A minibatch takes its part by a gather, which XLA writes down once; a slice it would repeat in every window.
    """
    taken = _layers.take_rows(rows, frames)
    return taken.swapaxes(1, 2).reshape(-1, taken.shape[1]).astype(jnp.float32)


def _minibatch(config: "PPO", on_end: Array, columns: Array, starts: Array, draw: Draw) -> Minibatch:
    mask, action, log_prob, *values = _layers.take_rows(columns, draw.frames.reshape(-1)).T
    policies, critics = config.network.num_policies, config.network.num_values
    advantages, values = values[:policies], values[policies:]
    return Minibatch(
        obs=_layers.take_rows(on_end, draw.rows),
        memory=_layers.take_rows(starts, draw.sequences).T,
        mask=mask.reshape(draw.frames.shape),
        action=action.astype(jnp.int32),
        log_prob=log_prob,
        advantage=advantages[0] if policies == 1 else jnp.stack(advantages),
        value=jnp.stack(values[:critics]),
        target=jnp.stack(values[critics : 2 * critics]),
        weight=jnp.tile(draw.weight, draw.frames.shape[0]),
        which=None if draw.views is None else draw.views.which,
        views=None if draw.views is None else draw.views.total,
        ledger=values[-1] if config.network.sees_ledger else None,
    )


def _memory_at_cut(config: "PPO", memories: list[Array], shifted: Array) -> Array:
    """Return the memory where the next epoch's cut falls inside the subsequences."""
    shift = config.cuts.shift
    return jnp.where(shifted, memories[config.recurrence - shift], memories[shift])
