"""Bonus: how badly a trained network predicts a fixed random one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.intrinsic._checks import integers, positive, within
from pbim.intrinsic._distinct import Distinct, distinct_rows
from pbim.intrinsic._edge import Edge, compiled_reward, compiled_update
from pbim.intrinsic._moments import Moments, merge, standardize
from pbim.intrinsic._networks import MLP, Fitted, Optimizer, adam, fit, minibatches, mlp, mlp_init, weighted_mean
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, flatten
from pbim.intrinsic.protocol import Transition


class RNDState(NamedTuple):
    """The fixed target, the predictor with its optimiser, the statistics of the inputs and the next random key."""

    target: MLP
    predictor: Fitted
    moments: Moments
    key: Array


@dataclass(frozen=True, kw_only=True)
class RND(Edge):
    """Pay the mean squared error of a predictor of a fixed random network's features of the next observation.

    ``encode`` turns observations into vectors (``flatten``; ``one_hot(n)`` for Discrete; any pure function).
    With ``normalize`` they are then centred, divided by their running standard deviation and clipped, with the
    statistics of earlier updates. ``update`` adds the batch to the statistics, then trains once through it in
    minibatches of ``batch_size`` (None: one step on all) on a random share ``update_proportion`` of its rows.
    A rollout of many steps may be given as one batch. Memory: bounded by the networks.

    Burda et al. 2019 (arXiv 1810.12894), Sections 2.2 and 2.4. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> import numpy as np
    >>> from pbim.intrinsic import one_hot
    >>> bonus, no = RND(encode=one_hot(48), hidden=(64, 64), features=16, normalize=False), np.array([False])
    >>> step = Transition(np.array([36]), np.array([0]), np.array([24]), no, no, {})
    >>> before = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(bonus.reward(step)[0] < before[0])
    True
    """

    hidden: tuple[int, ...] = (256,)
    features: int = 128
    learning_rate: float = 1e-3
    optimizer: Optimizer = adam
    batch_size: int | None = None
    update_proportion: float = 1.0
    encode: Encode = flatten
    normalize: bool = True
    clip: float = 5.0

    reads: ClassVar[tuple[str, ...]] = ("next_obs",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        positive("RND", learning_rate=self.learning_rate, update_proportion=self.update_proportion, clip=self.clip)
        within("RND", 0, 1, update_proportion=self.update_proportion)
        integers("RND", features=self.features, **{f"hidden[{i}]": size for i, size in enumerate(self.hidden)})
        if self.batch_size is not None:
            integers("RND", batch_size=self.batch_size)

    def init(self, key: Array, example: Transition) -> RNDState:
        """Return random networks and empty statistics, for observations of the shape of ``example.next_obs``."""
        inputs = jax.eval_shape(self.encode, example.next_obs).shape[1]
        sizes = (inputs, *self.hidden, self.features)
        target_key, predictor_key, key = jax.random.split(key, 3)
        params = mlp_init(predictor_key, sizes)
        fitted = Fitted(params, self.optimizer(self.learning_rate).init(params))
        moments = Moments(jnp.zeros(()), jnp.zeros(inputs), jnp.zeros(inputs))
        return RNDState(mlp_init(target_key, sizes), fitted, moments, key)

    def inputs(self, moments: Moments, obs: Any) -> Array:
        """Return what both networks read, (num_envs, inputs)."""
        x = self.encode(obs)
        return standardize(moments, x, self.clip) if self.normalize else x

    def error_fn(self, state: RNDState, obs: Any) -> Array:
        """Return the prediction error of observations, (num_envs,)."""
        x = self.inputs(state.moments, obs)
        return squared_error(state.predictor.params, x, mlp(state.target, x))

    def reward_fn(self, state: RNDState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.error_fn(state, transition.next_obs)

    def update_fn(self, state: RNDState, transition: Transition) -> RNDState:
        """Return the state after one pass of training on this step; pure, for jit, scan and vmap."""
        weights = valid_rows(transition).astype(jnp.float32)
        return self.train(state, transition.next_obs, weights, *self.schedule(state, weights))

    def schedule(self, state: RNDState, weights: Array) -> tuple[Array, Array]:
        """Return the minibatches of the next pass over rows of these weights, as indices and weights."""
        return minibatches(jax.random.split(state.key)[1], weights, self.batch_size, self.update_proportion)

    def train(self, state: RNDState, obs: Any, weights: Array, index: Array, batch_weights: Array) -> RNDState:
        """Return the state after adding observations of these weights to the statistics and training on minibatches."""
        moments = merge(state.moments, self.encode(obs), weights) if self.normalize else state.moments
        x = self.inputs(moments, obs)
        optimizer = self.optimizer(self.learning_rate)
        data = (x, mlp(state.target, x))
        predictor = fit(rnd_loss, optimizer, state.predictor, data, index, batch_weights)
        return RNDState(state.target, predictor, moments, jax.random.split(state.key)[0])

    def reward(self, transition: Transition, /) -> NDArray[np.float64]:
        """Return the bonus of this step, shape (num_envs,); repeated observations are looked at once."""
        step = self.checked(transition)
        state, repeated = self.state_for(step), self._repeated(step.next_obs)
        if repeated is None:
            return np.asarray(compiled_reward(self, state, step), dtype=np.float64)
        paid = compiled_reward(self, state, step._replace(next_obs=repeated.rows))
        return np.asarray(paid, dtype=np.float64)[repeated.which]

    def update(self, transition: Transition, /) -> None:
        """Learn from this step; repeated observations are looked at once per minibatch and weighted."""
        step = self.checked(transition)
        if not step.valid.any():
            return
        state, repeated = self.state_for(step), self._repeated(step.next_obs)
        if repeated is None:
            self._memory.state = compiled_update(self, state, step)
            return
        weights = step.valid.astype(np.float32)
        index, batch_weights = repeated.merged(*map(np.asarray, _schedule(self, state, weights)))
        self._memory.state = _train(self, state, repeated.rows, repeated.totals(weights), index, batch_weights)
        self._memory.distinct = None

    def _repeated(self, obs: Any) -> Distinct | None:
        """Return the table of repeated observations, kept from ``reward`` for the ``update`` of the same step."""
        table: Distinct | None = self._memory.distinct
        if table is None or not table.covers(obs):
            table = self._memory.distinct = distinct_rows(obs)
        return table


@partial(jax.jit, static_argnums=0)
def _schedule(bonus: RND, state: RNDState, weights: Array) -> tuple[Array, Array]:
    return bonus.schedule(state, weights)


@partial(jax.jit, static_argnums=0)
def _train(bonus: RND, state: RNDState, obs: Any, weights: Array, index: Array, batch_weights: Array) -> RNDState:
    return bonus.train(state, obs, weights, index, batch_weights)


def squared_error(predictor: MLP, x: Array, target: Array) -> Array:
    """Return ||predictor(x) - target||^2 / features for each row."""
    return jnp.mean((mlp(predictor, x) - target) ** 2, axis=-1)


def rnd_loss(predictor: MLP, data: tuple[Array, Array], weights: Array) -> Array:
    """Return the mean squared error over the rows of weight 1."""
    return weighted_mean(squared_error(predictor, *data), weights)
