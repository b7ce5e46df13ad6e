"""Bonus: how rare the next state is in this episode, by its nearest neighbours, more where it is new to training."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import positive
from pbim.intrinsic._dynamics import DynamicsBonus, DynamicsState
from pbim.intrinsic._moments import Moments, merge, spread
from pbim.intrinsic._neighbours import Ring, empty, forget, nearest, neighbours, write_each
from pbim.intrinsic._networks import mlp
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.protocol import Spec, Transition, ended
from pbim.intrinsic.rnd import RND, RNDState


class NGUState(NamedTuple):
    """The encoder's models, RND, what each running episode has seen, the mean of d^2 and the moments of the errors."""

    dynamics: DynamicsState
    rnd: RNDState
    memory: Ring
    distances: Moments
    errors: Moments


@dataclass(frozen=True, kw_only=True)
class NGU(DynamicsBonus):
    """Pay ``r min(max(alpha, 1), most)``: r falls with the visits in this episode, alpha rises with RND's error.

    ``r = 1 / (sqrt(sum of K over the k nearest) + c)`` with ``K = epsilon / (max(d^2 / mean d^2 - cluster, 0) +
    epsilon)`` and d the distance between features of an inverse model: about 1 / sqrt(n) for the n-th visit, about 30
    for a state unlike all others; 0 where the sum of the root and c exceeds ``similar``. ``alpha = 1 + (error - mean) /
    std`` is the lifelong part. Memory: bounded, num_envs x capacity x features floats, beside the networks.

    **Past-only.** A step is compared with its episode's earlier arrivals, by the networks, mean d^2 and moments of
    before the step; the paper's mean includes the step itself. RLeXplore compares with a buffer that already holds the
    whole rollout, later steps included, keeps it across episodes and divides by the mean over these k alone. Missing
    neighbours, in the first k steps of an episode, count as if at the mean distance (the sum of the paper would be
    empty and pay 1 / c), and enter that mean by the length of the features.

    Badia et al. 2020 (arXiv 2002.06038), Eq. 1 to 3, Algorithm 1. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        k: How many neighbours.
        capacity: How many arrivals of an episode are remembered; the oldest are forgotten first.
        epsilon: The kernel's constant.
        cluster: The relative squared distance up to which two states are one.
        c: The constant of the pseudo-count.
        similar: The similarity above which nothing is paid, s_m in the paper.
        most: The largest factor of the lifelong part, L in the paper.
        rnd: The settings of RND; its seed is not used.
        num_actions: How many discrete actions there are; None means continuous vectors.
        hidden: Widths of the hidden layers.
        features: Width of the features.
        learning_rate: Of the optimiser of the inverse model.
        optimizer: A function of optax: a learning rate in, a GradientTransformation out.
        init_scheme: How first weights are drawn: ``"orthogonal"`` with gain sqrt 2 and no biases, or as in PyTorch,
            ``"torch"``: weights and biases uniform in +-1 / sqrt(inputs), which makes the first errors far smaller.
        batch_size: Rows per minibatch of an update; None makes one of all.
        beta: The weight of the forward model's loss; the inverse model's has 1 - beta.
        encode: Turns observations into vectors: ``flatten``, ``concatenate``, ``one_hot(n)``, any pure function.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

    >>> import numpy as np
    >>> bonus, no = NGU(num_actions=4), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.arange(5.0)[None], no, no, {})
    >>> before = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(bonus.reward(step)[0] < 0.1 * before[0])
    True

    """

    features: int = 32
    beta: float = 0.0
    learning_rate: float = 5e-4
    k: int = 10
    capacity: int = 1024
    epsilon: float = 1e-4
    cluster: float = 0.008
    c: float = 0.001
    similar: float = 8.0
    most: float = 5.0
    rnd: RND = field(default_factory=RND)

    kind: ClassVar[str] = "ngu"
    episodic: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True
    averaged: ClassVar[tuple[str, ...]] = (
        "dynamics.models",
        "rnd.predictor",
        "rnd.moments",
        "distances",
        "errors",
    )

    def __post_init__(self) -> None:
        neighbours("NGU", self.k, self.capacity)
        positive("NGU", epsilon=self.epsilon, c=self.c, similar=self.similar, most=self.most)
        if self.cluster != 0:
            positive("NGU", cluster=self.cluster)
        if self.most < 1:
            raise InputError(f"NGU: most must be at least 1, received {self.most!r}: 1 leaves the lifelong part out")
        if not isinstance(self.rnd, RND):
            raise InputTypeError(f"NGU: rnd must be an RND, received {self.rnd!r}: pass RND(), or leave it out")
        super().__post_init__()

    def init(self, key: Array, spec: Spec) -> NGUState:
        """Return random models, and an empty memory for each environment."""
        models_key, rnd_key = jax.random.split(key)
        nothing = Moments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))
        memory = empty(self.capacity, self.features, spec.num_envs)
        return NGUState(self.init_models(models_key, spec), self.rnd.init(rnd_key, spec), memory, nothing, nothing)

    def restart_fn(self, state: NGUState, where: Any) -> NGUState:
        """Return the state with empty memories where true (num_envs,); pure."""
        return state._replace(memory=forget(state.memory, jnp.asarray(where)))

    def embed(self, state: NGUState, transition: Transition) -> Array:
        """Return the features of the next observation, (num_envs, features)."""
        features: Array = mlp(state.dynamics.models.params.encoder, self.encode(transition.next_obs))
        return features

    def episodic_fn(self, state: NGUState, transition: Transition) -> Array:
        """Return r, the episodic part, (num_envs,); pure."""
        squared = nearest(state.memory, self.embed(state, transition), self.k)
        mean = state.distances.mean
        relative = jnp.where(squared == jnp.inf, 1.0, squared / (mean + (mean == 0)))
        kernel = self.epsilon / (jnp.maximum(relative - self.cluster, 0.0) + self.epsilon)  # Eq. 3
        similarity = jnp.sqrt(kernel.sum(axis=1)) + self.c
        return jnp.where(similarity > self.similar, 0.0, 1.0 / similarity)  # Eq. 2

    def lifelong_fn(self, state: NGUState, transition: Transition) -> Array:
        """Return alpha between 1 and ``most``, the lifelong part, (num_envs,); pure."""
        error = self.rnd.error_fn(state.rnd, transition.next_obs)
        surprise = (error - state.errors.mean) / jnp.sqrt(spread(state.errors) + 1e-8)
        known = state.errors.count > 1  # a mean of nothing is no reason to be surprised
        return jnp.clip(1.0 + known * surprise, 1.0, self.most)  # Eq. 1

    def reward_fn(self, state: NGUState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.episodic_fn(state, transition) * self.lifelong_fn(state, transition)  # Eq. 1

    def update_fn(self, state: NGUState, transition: Transition) -> NGUState:
        """Return the state with this arrival remembered and the networks trained; pure, for jit, scan and vmap."""
        valid, features = valid_rows(transition), self.embed(state, transition)
        weights = valid.astype(jnp.float32)
        squared = nearest(state.memory, features, self.k)
        length = jnp.sum(features**2, axis=1, keepdims=True)
        squared = jnp.where(squared == jnp.inf, length, squared).mean(axis=1)
        memory = forget(write_each(state.memory, features, valid), valid & ended(transition))
        return NGUState(
            self.train(state.dynamics, transition),
            self.rnd.update_fn(state.rnd, transition),
            memory,
            merge(state.distances, squared, weights),
            merge(state.errors, self.rnd.error_fn(state.rnd, transition.next_obs), weights),
        )
