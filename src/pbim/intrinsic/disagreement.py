"""Bonus: how much an ensemble of forward models disagrees about the next features."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError
from pbim.intrinsic._checks import network_sizes, positive, widths, within
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic._networks import MLP, Fitted, Init, Optimizer, adam, fit, minibatches, mlp, mlp_init, weighted_mean
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, encode_action, flatten, width
from pbim.intrinsic.protocol import Spec, Transition


class DisagreementState(NamedTuple):
    """The fixed random encoder, the ensemble (a leading members axis) with its optimiser, and the next random key."""

    encoder: MLP
    ensemble: Fitted
    key: Array


@dataclass(frozen=True, kw_only=True)
class Disagreement(LearnedBonus):
    """Pay the variance over an ensemble of forward models of the predicted next features, averaged over features.

    The features are those of a fixed random network. Members start from different weights and each learns from its own
    random share ``subset`` of every batch, so they agree only where there was data. Noise that cannot be predicted is
    averaged by all alike and pays nothing in the end. Memory: bounded by the networks.

    Pathak et al. 2019 (arXiv 1906.04161), Eq. 1. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        num_actions: How many discrete actions there are; None means continuous vectors.
        members: How many models there are.
        subset: The random share of a batch that each member learns from.
        hidden: Widths of the hidden layers.
        features: Width of the output.
        learning_rate: Of the optimiser.
        optimizer: A function of optax: a learning rate in, a GradientTransformation out.
        init_scheme: How first weights are drawn: ``"orthogonal"`` with gain sqrt 2 and no biases, or as in PyTorch,
            ``"torch"``: weights and biases uniform in +-1 / sqrt(inputs), which makes the first errors far smaller.
        batch_size: Rows per minibatch of an update; None makes one of all.
        encode: Turns observations into vectors: ``flatten``, ``concatenate``, ``one_hot(n)``, any pure function.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

    >>> import numpy as np
    >>> bonus, no = Disagreement(num_actions=4, features=8), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.zeros((1, 5)), no, no, {})
    >>> before = bonus.reward(step)
    >>> for _ in range(20):
    ...     bonus.update(step)
    >>> bool(bonus.reward(step)[0] < before[0])
    True

    """

    num_actions: int | None = None
    members: int = 5
    subset: float = 0.8
    hidden: tuple[int, ...] = (256,)
    features: int = 128
    learning_rate: float = 1e-3
    optimizer: Optimizer = adam
    init_scheme: Init = "orthogonal"
    batch_size: int | None = None
    encode: Encode = flatten

    kind: ClassVar[str] = "disagreement"
    averaged: ClassVar[tuple[str, ...]] = ("ensemble",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", widths("Disagreement", self.hidden))
        positive("Disagreement", learning_rate=self.learning_rate, subset=self.subset)
        within("Disagreement", 0, 1, subset=self.subset)
        network_sizes("Disagreement", self.features, self.batch_size)
        if self.members < 2:
            raise InputError(f"Disagreement: members must be at least 2, received {self.members!r}: 5 is usual")
        super().__post_init__()

    def init(self, key: Array, spec: Spec) -> DisagreementState:
        """Return a random encoder and ensemble, for transitions of the shapes of ``spec.example``."""
        encoder_key, ensemble_key, key = jax.random.split(key, 3)
        inputs = width("Disagreement", self.encode, spec.example.next_obs)
        encoder = mlp_init(encoder_key, (inputs, *self.hidden, self.features), self.init_scheme)
        read = jax.eval_shape(lambda step: self.inputs(encoder, step), spec.example).shape[1]
        sizes = (read, *self.hidden, self.features)
        members = jax.vmap(lambda k: mlp_init(k, sizes, self.init_scheme))(jax.random.split(ensemble_key, self.members))
        return DisagreementState(encoder, Fitted(members, self.optimizer(self.learning_rate).init(members)), key)

    def inputs(self, encoder: MLP, transition: Transition) -> Array:
        """Return what a member reads, the features of the observation beside the action."""
        action = encode_action("Disagreement", transition.action, self.num_actions)
        return jnp.concatenate([mlp(encoder, self.encode(transition.obs)), action], axis=1)

    def reward_fn(self, state: DisagreementState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        x = self.inputs(state.encoder, transition)
        predicted = jax.vmap(mlp, in_axes=(0, None))(state.ensemble.params, x)
        variance: Array = predicted.var(axis=0)
        return variance.mean(axis=-1)  # Eq. 1

    def update_fn(self, state: DisagreementState, transition: Transition) -> DisagreementState:
        """Return the state after one pass of training on this step; pure, for jit, scan and vmap."""
        key, shuffle, draw = jax.random.split(state.key, 3)
        weights = valid_rows(transition).astype(jnp.float32)
        chosen = jax.random.bernoulli(draw, self.subset, (weights.shape[0], self.members)).astype(jnp.float32)
        target = mlp(state.encoder, self.encode(transition.next_obs))
        data = (self.inputs(state.encoder, transition), target, chosen)
        optimizer = self.optimizer(self.learning_rate)
        ensemble = fit(ensemble_loss, optimizer, state.ensemble, data, *minibatches(shuffle, weights, self.batch_size))
        return DisagreementState(state.encoder, ensemble, key)


def ensemble_loss(members: Any, data: tuple[Array, Array, Array], weights: Array) -> Array:
    """Return the sum over members of the mean squared error over the rows chosen for each."""
    x, target, chosen = data

    def loss(member: MLP, mine: Array) -> Array:
        return weighted_mean(jnp.mean((mlp(member, x) - target) ** 2, axis=-1), weights * mine)

    return jax.vmap(loss, in_axes=(0, 1))(members, chosen).sum()
