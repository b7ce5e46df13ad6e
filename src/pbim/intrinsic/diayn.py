"""Bonus: how well the next state tells which skill the agent follows."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import integers, network_sizes, positive, widths
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic._networks import MLP, Fitted, Init, Optimizer, adam, fit, minibatches, mlp, mlp_init, weighted_mean
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, flatten, width
from pbim.intrinsic.protocol import Spec, Transition


class DIAYNState(NamedTuple):
    """The classifier with its optimiser, and the next random key."""

    classifier: Fitted
    key: Array


@dataclass(frozen=True, kw_only=True)
class DIAYN(LearnedBonus):
    """Pay ``log q(z | s') - log p(z)``: z the skill of this episode, q a trained classifier, p uniform.

    An observation ends with its skill: the last ``count`` entries of its last axis are the one-hot z, as
    ``pbim.envs.Skills`` makes them. The classifier reads all that comes before, never the skill itself. Skills that
    lead to states of their own pay up to log ``count``; states that all skills visit pay 0 or less. Meant for training
    without a task (``pbim train --task-reward none --shaping raw``); converted, for a task that starts from the skills.
    Causal: a step is judged by the classifier of before it learned from that step. Memory: bounded by the network.

    Eysenbach et al. 2018 (arXiv 1802.06070), Eq. 3. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        count: How many skills there are.
        hidden: Widths of the classifier's hidden layers.
        learning_rate: Of the optimiser.
        optimizer: A function of optax: a learning rate in, a GradientTransformation out.
        init_scheme: How first weights are drawn: ``"orthogonal"`` with gain sqrt 2 and no biases, or as in PyTorch,
            ``"torch"``: weights and biases uniform in +-1 / sqrt(inputs), which makes first guesses milder.
        batch_size: Rows per minibatch of an update; None makes one of all.
        encode: Turns what comes before the skill into vectors: ``flatten``, or any pure function.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range, or observations are too short to end with a skill.

    >>> import numpy as np
    >>> bonus, no = DIAYN(count=2), np.array([False, False])
    >>> next_obs = np.array([[0.3, 1.0, 0.0], [-0.9, 0.0, 1.0]])  # a state each, then the skills 0 and 1
    >>> step = Transition(next_obs, np.array([0, 0]), next_obs, no, no, {})
    >>> for _ in range(200):
    ...     bonus.update(step)
    >>> bool((bonus.reward(step) > 0.6).all())  # nearly log 2
    True

    """

    count: int = 8
    hidden: tuple[int, ...] = (256,)
    learning_rate: float = 1e-3
    optimizer: Optimizer = adam
    init_scheme: Init = "torch"
    batch_size: int | None = None
    encode: Encode = flatten

    kind: ClassVar[str] = "diayn"
    reads: ClassVar[tuple[str, ...]] = ("next_obs",)
    averaged: ClassVar[tuple[str, ...]] = ("classifier",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", widths("DIAYN", self.hidden))
        integers("DIAYN", count=self.count)
        if self.count < 2:
            raise InputError(f"DIAYN: count must be at least 2, received {self.count!r}: one skill tells nothing apart")
        positive("DIAYN", learning_rate=self.learning_rate)
        network_sizes("DIAYN", self.count, self.batch_size)
        super().__post_init__()

    def split(self, obs: Any) -> tuple[Any, Array]:
        """Return what comes before the skill, (num_envs, ..., n), and the one-hot skill, (num_envs, count)."""
        if not hasattr(obs, "shape") or len(obs.shape) < 2 or obs.shape[-1] <= self.count:
            shape = getattr(obs, "shape", type(obs).__name__)
            raise InputTypeError(
                f"DIAYN: observations must be arrays whose last axis ends with {self.count} entries for the skill, "
                f"received {shape}: wrap the environment in pbim.envs.Skills(env=..., count={self.count})"
            )
        skill = jnp.asarray(obs)[..., -self.count :]
        return obs[..., : -self.count], skill.reshape(skill.shape[0], -1, self.count)[:, 0].astype(jnp.float32)

    def init(self, key: Array, spec: Spec) -> DIAYNState:
        """Return a random classifier for observations of the shape of ``spec.example.next_obs``."""
        classifier_key, key = jax.random.split(key)
        before = jax.eval_shape(lambda obs: self.split(obs)[0], spec.example.next_obs)
        sizes = (width("DIAYN", self.encode, before), *self.hidden, self.count)
        params = mlp_init(classifier_key, sizes, self.init_scheme)
        return DIAYNState(Fitted(params, self.optimizer(self.learning_rate).init(params)), key)

    def reward_fn(self, state: DIAYNState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        before, skill = self.split(transition.next_obs)
        return math.log(self.count) - surprise(state.classifier.params, self.encode(before), skill)  # Eq. 3

    def update_fn(self, state: DIAYNState, transition: Transition) -> DIAYNState:
        """Return the state after one pass of training on this step; pure, for jit, scan and vmap."""
        key, shuffle = jax.random.split(state.key)
        before, skill = self.split(transition.next_obs)
        weights = valid_rows(transition).astype(jnp.float32)
        rows = minibatches(shuffle, weights, self.batch_size)
        optimizer = self.optimizer(self.learning_rate)
        return DIAYNState(fit(classifier_loss, optimizer, state.classifier, (self.encode(before), skill), *rows), key)


def surprise(classifier: MLP, states: Array, skill: Array) -> Array:
    """Return -log q(z | s) for each row."""
    return -jnp.sum(skill * jax.nn.log_softmax(mlp(classifier, states)), axis=-1)


def classifier_loss(classifier: MLP, data: tuple[Array, Array], weights: Array) -> Array:
    """Return the mean cross-entropy over the rows of weight 1."""
    return weighted_mean(surprise(classifier, *data), weights)
