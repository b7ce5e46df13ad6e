"""The encoder of ICM, RIDE and E3B: features shaped by an inverse model, and a forward model in their space."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError
from pbim.intrinsic._checks import integers, network_sizes, positive, widths, within
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic._networks import MLP, Fitted, Init, Optimizer, adam, fit, minibatches, mlp, mlp_init, weighted_mean
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, encode_action, flatten, width
from pbim.intrinsic.protocol import Spec, Transition


class Dynamics(NamedTuple):
    """Encoder phi(s), inverse model (phi(s), phi(s')) -> a, forward model (phi(s), a) -> phi(s')."""

    encoder: MLP
    inverse: MLP
    forward: MLP


class StepRows(NamedTuple):
    """What the models read: encoded observations (rows, inputs) and actions (rows, actions)."""

    obs: Array
    action: Array
    next_obs: Array


def dynamics_init(key: Array, rows: StepRows, hidden: tuple[int, ...], features: int, init: Init) -> Dynamics:
    """Return random models for rows of these shapes."""
    encoder, inverse, forward = jax.random.split(key, 3)
    actions = rows.action.shape[1]
    return Dynamics(
        mlp_init(encoder, (rows.obs.shape[1], *hidden, features), init),
        mlp_init(inverse, (2 * features, *hidden, actions), init),
        mlp_init(forward, (features + actions, *hidden, features), init),
    )


def inverse_error(models: Dynamics, rows: StepRows, discrete: bool) -> Array:
    """Return L_I per row: cross-entropy of a discrete action, half the squared error of a continuous one."""
    phi, next_phi = mlp(models.encoder, rows.obs), mlp(models.encoder, rows.next_obs)
    predicted = mlp(models.inverse, jnp.concatenate([phi, next_phi], axis=1))
    if discrete:
        return -jnp.sum(rows.action * jax.nn.log_softmax(predicted), axis=1)
    return 0.5 * jnp.sum((predicted - rows.action) ** 2, axis=1)


def forward_error(models: Dynamics, rows: StepRows) -> Array:
    """Return L_F per row: half the squared distance of the predicted next features from the true ones."""
    phi, next_phi = mlp(models.encoder, rows.obs), mlp(models.encoder, rows.next_obs)
    predicted = mlp(models.forward, jnp.concatenate([phi, rows.action], axis=1))
    return 0.5 * jnp.sum((predicted - next_phi) ** 2, axis=1)


def dynamics_loss(models: Dynamics, rows: StepRows, weights: Array, beta: float, discrete: bool) -> Array:
    """Return (1 - beta) L_I + beta L_F, the mean over the rows of weight 1."""
    inverse = weighted_mean(inverse_error(models, rows, discrete), weights)
    return (1 - beta) * inverse + beta * weighted_mean(forward_error(models, rows), weights)


class DynamicsState(NamedTuple):
    """The models with their optimiser, and the next random key."""

    models: Fitted
    key: Array


@dataclass(frozen=True, kw_only=True)
class DynamicsBonus(LearnedBonus):
    """Settings and training shared by the bonuses that read features of learned dynamics."""

    num_actions: int | None = None
    hidden: tuple[int, ...] = (256,)
    features: int = 128
    beta: float = 0.2
    learning_rate: float = 1e-3
    optimizer: Optimizer = adam
    init_scheme: Init = "orthogonal"
    batch_size: int | None = None
    encode: Encode = flatten

    averaged: ClassVar[tuple[str, ...]] = ("models",)

    def __post_init__(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "hidden", widths(who, self.hidden))
        positive(who, learning_rate=self.learning_rate)
        within(who, 0, 1, beta=self.beta)
        network_sizes(who, self.features, self.batch_size)
        if self.num_actions is not None:
            integers(who, num_actions=self.num_actions)
        super().__post_init__()

    def rows(self, transition: Transition) -> StepRows:
        """Return the transition as vectors."""
        action = encode_action(type(self).__name__, transition.action, self.num_actions)
        return StepRows(self.encode(transition.obs), action, self.encode(transition.next_obs))

    def init_models(self, key: Array, spec: Spec) -> DynamicsState:
        """Return random models for transitions of the shapes of ``spec.example``."""
        if self.num_actions is not None and spec.num_actions not in (None, self.num_actions):
            raise InputError(
                f"{type(self).__name__}: num_actions must be that of the environment, {spec.num_actions}, received "
                f"{self.num_actions}: pass it, or leave it out on the command line"
            )
        models_key, key = jax.random.split(key)
        width(type(self).__name__, self.encode, spec.example.next_obs)
        shapes = jax.eval_shape(self.rows, spec.example)
        models = dynamics_init(models_key, shapes, self.hidden, self.features, self.init_scheme)
        return DynamicsState(Fitted(models, self.optimizer(self.learning_rate).init(models)), key)

    def train(self, state: DynamicsState, transition: Transition) -> DynamicsState:
        """Return the models after one pass over this step."""
        key, shuffle = jax.random.split(state.key)
        weights = valid_rows(transition).astype(jnp.float32)
        loss = partial(dynamics_loss, beta=self.beta, discrete=self.num_actions is not None)
        optimizer = self.optimizer(self.learning_rate)
        models = fit(
            loss, optimizer, state.models, self.rows(transition), *minibatches(shuffle, weights, self.batch_size)
        )
        return DynamicsState(models, key)
