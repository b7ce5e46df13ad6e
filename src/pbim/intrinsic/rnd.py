"""Bonus: how badly a trained network predicts a fixed random one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.intrinsic._checks import network_sizes, positive, widths, within
from pbim.intrinsic._core import Compiled, LearnedBonus, call
from pbim.intrinsic._distinct import Distinct, distinct_rows
from pbim.intrinsic._moments import Moments, merge, standardize
from pbim.intrinsic._networks import MLP, Fitted, Init, Optimizer, adam, fit, minibatches, mlp, mlp_init, weighted_mean
from pbim.intrinsic._shell import Shell
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, flatten, width
from pbim.intrinsic.protocol import Spec, Transition

SMALL_BATCH = 64
"""Rows up to which NumPy is faster than a call of compiled code."""


class RNDState(NamedTuple):
    """The fixed target, the predictor with its optimiser, the statistics of the inputs and the next random key."""

    target: MLP
    predictor: Fitted
    moments: Moments
    key: Array


@dataclass(frozen=True, kw_only=True)
class RND(LearnedBonus):
    """Pay the mean squared error of a predictor of a fixed random network's features of the next observation.

    ``update`` adds the batch to the statistics, then trains once through it. A rollout of many steps may be given as
    one batch. Memory: bounded by the networks.

    The errors have no unit: untrained networks pay tens in an episode, against which a goal worth 1 is lost. Bring them
    to a size of your choice, as the paper does: ``Scaled(RunningStdScaled(RND(), gamma=0.99), 0.025)``.

    Burda et al. 2019 (arXiv 1810.12894), Sections 2.2 and 2.4. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        hidden: Widths of the hidden layers.
        features: Width of the output.
        learning_rate: Of the optimiser.
        optimizer: A function of optax: a learning rate in, a GradientTransformation out.
        init_scheme: How first weights are drawn: ``"orthogonal"`` with gain sqrt 2 and no biases, or as in PyTorch,
            ``"torch"``: weights and biases uniform in +-1 / sqrt(inputs), which makes the first errors far smaller.
        batch_size: Rows per minibatch of an update; None makes one of all.
        update_proportion: The random share of the rows that an update trains on.
        encode: Turns observations into vectors: ``flatten``, ``concatenate``, ``one_hot(n)``, any pure function.
        normalize: Whether to centre the vectors and divide them by their running standard deviation, with the
            statistics of earlier updates.
        clip: The largest magnitude of a normalised entry.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

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
    init_scheme: Init = "orthogonal"
    batch_size: int | None = None
    update_proportion: float = 1.0
    encode: Encode = flatten
    normalize: bool = True
    clip: float = 5.0

    kind: ClassVar[str] = "rnd"
    reads: ClassVar[tuple[str, ...]] = ("next_obs",)
    averaged: ClassVar[tuple[str, ...]] = ("predictor", "moments")

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", widths("RND", self.hidden))
        positive("RND", learning_rate=self.learning_rate, update_proportion=self.update_proportion, clip=self.clip)
        within("RND", 0, 1, update_proportion=self.update_proportion)
        network_sizes("RND", self.features, self.batch_size)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return Shell(self, core=_Repeats(self))

    def init(self, key: Array, spec: Spec) -> RNDState:
        """Return random networks and empty statistics, for observations of the shape of ``spec.example.next_obs``."""
        inputs = width("RND", self.encode, spec.example.next_obs)
        sizes = (inputs, *self.hidden, self.features)
        target_key, predictor_key, key = jax.random.split(key, 3)
        params = mlp_init(predictor_key, sizes, self.init_scheme)
        fitted = Fitted(params, self.optimizer(self.learning_rate).init(params))
        moments = Moments(jnp.zeros(()), jnp.zeros(inputs), jnp.zeros(inputs))
        return RNDState(mlp_init(target_key, sizes, self.init_scheme), fitted, moments, key)

    def inputs(self, moments: Moments, obs: Any) -> Array:
        """Return what both networks read, (num_envs, inputs)."""
        x = self.encode(obs)
        return standardize(moments, x, self.clip) if self.normalize else x

    def error_fn(self, state: RNDState, obs: Any) -> Array:
        """Return the prediction error of observations, (num_envs,)."""
        x = self.inputs(state.moments, obs)
        error: Array = squared_error(state.predictor.params, x, mlp(state.target, x))
        return error

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


class _Repeats(Compiled):
    """RND's state at the NumPy edge: of a large batch, repeated observations are looked at once and weighted."""

    def __init__(self, bonus: RND) -> None:
        super().__init__(bonus)
        self.table: Distinct | None = None
        self.host: RNDState | None = None

    def pay(self, step: Transition) -> NDArray[np.float64]:
        """Return the bonus of a checked step, (num_envs,).

        A small batch goes through the networks in NumPy: that is less work than calling a compiled function.
        """
        _, state = self.ready(step)
        obs = step.next_obs
        if self.bonus.encode is flatten and isinstance(obs, np.ndarray) and len(obs) <= SMALL_BATCH:
            if self.host is None:
                self.host = jax.tree.map(np.asarray, state._replace(key=()))
            x = obs.reshape(len(obs), -1).astype(np.float32)
            if self.bonus.normalize:
                x = standardize(self.host.moments, x, self.bonus.clip).astype(np.float32)
            return np.asarray(squared_error(self.host.predictor.params, x, mlp(self.host.target, x)), np.float64)
        distinct = self.distinct(step.next_obs)
        if distinct is None:
            return super().pay(step)
        return super().pay(step._replace(next_obs=distinct.rows))[distinct.which]

    def learn(self, step: Transition) -> RNDState:
        """Return the state after a checked step."""
        self.host = None
        distinct = self.distinct(step.next_obs)
        if distinct is None:
            learned: RNDState = super().learn(step)
            return learned
        weights = np.asarray(step.valid, np.float32)
        ready = self.ready(step)
        minibatches = map(np.asarray, call(*ready, "schedule", weights))
        batch = (distinct.rows, distinct.totals(weights), *distinct.merged(*minibatches))
        self.table = None
        trained: RNDState = call(*ready, "train", *batch)
        return trained

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from saved arrays."""
        super().load_state_dict(arrays)
        self.host = None

    def distinct(self, obs: Any) -> Distinct | None:
        """Return the table of repeated observations; ``update`` finds that of ``reward`` if the values are the same."""
        if self.table is None or not self.table.covers(obs):
            self.table = distinct_rows(obs)
        return self.table


def squared_error(predictor: MLP, x: Any, target: Any) -> Any:
    """Return ||predictor(x) - target||^2 / features for each row, of JAX or of NumPy."""
    return ((mlp(predictor, x) - target) ** 2).mean(axis=-1)


def rnd_loss(predictor: MLP, data: tuple[Array, Array], weights: Array) -> Array:
    """Return the mean squared error over the rows of weight 1."""
    return weighted_mean(squared_error(predictor, *data), weights)
