"""Bonus: how new the features are to this episode, measured by the ellipse of those before."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._checks import positive
from pbim.intrinsic._dynamics import DynamicsBonus, DynamicsState
from pbim.intrinsic._networks import mlp
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.protocol import Spec, Transition, ended


class E3BState(NamedTuple):
    """The models and C^-1 of each environment's running episode, (num_envs, features, features)."""

    dynamics: DynamicsState
    inverse: Array


@dataclass(frozen=True, kw_only=True)
class E3B(DynamicsBonus):
    """Pay ``phi(s')^T C^-1 phi(s')``, C the ``ridge`` plus the sum of phi phi^T over this episode's earlier arrivals.

    ``phi`` is trained by an inverse model alone (``beta`` 0). C^-1 is kept by rank-one updates, one matrix per
    environment, and returns to the identity / ridge after the step that terminates or truncates the episode.
    Memory: bounded, num_envs x features x features floats.

    Henaff et al. 2022 (arXiv 2210.05805), Eq. 3 and Algorithm 1. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        ridge: What C is before the first arrival, times the identity.
        num_actions: How many discrete actions there are; None means continuous vectors.
        hidden: Widths of the hidden layers.
        features: Width of phi.
        learning_rate: Of the optimiser.
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
    >>> bonus, no = E3B(num_actions=4, features=8), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.arange(5.0)[None], no, no, {})
    >>> before = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(bonus.reward(step)[0] < before[0])
    True

    """

    features: int = 64
    beta: float = 0.0
    ridge: float = 0.1

    kind: ClassVar[str] = "e3b"
    episodic: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True
    averaged: ClassVar[tuple[str, ...]] = ("dynamics.models",)

    def __post_init__(self) -> None:
        positive("E3B", ridge=self.ridge)
        super().__post_init__()

    @property
    def empty(self) -> Array:
        """The inverse of an ellipse without features, (features, features)."""
        return jnp.eye(self.features) / self.ridge

    def init(self, key: Array, spec: Spec) -> E3BState:
        """Return random models and, for each environment, the inverse of an empty ellipse."""
        return E3BState(self.init_models(key, spec), jnp.tile(self.empty, (spec.num_envs, 1, 1)))

    def restart_fn(self, state: E3BState, where: Any) -> E3BState:
        """Return the state with empty ellipses where true (num_envs,); pure."""
        return state._replace(inverse=jnp.where(where[:, None, None], self.empty, state.inverse))

    def reward_fn(self, state: E3BState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        phi = mlp(state.dynamics.models.params.encoder, self.encode(transition.next_obs))
        return jnp.einsum("ni,nij,nj->n", phi, state.inverse, phi)  # Eq. 3

    def update_fn(self, state: E3BState, transition: Transition) -> E3BState:
        """Return the state with this arrival in the ellipse and the encoder trained; pure, for jit, scan and vmap."""
        phi = mlp(state.dynamics.models.params.encoder, self.encode(transition.next_obs))
        u = jnp.einsum("nij,nj->ni", state.inverse, phi)
        gain = 1 + jnp.einsum("ni,ni->n", phi, u)
        grown = state.inverse - jnp.einsum("ni,nj->nij", u, u) / gain[:, None, None]  # Sherman-Morrison
        valid = valid_rows(transition)[:, None, None]
        inverse = jnp.where(ended(transition)[:, None, None], self.empty, grown)
        return E3BState(self.train(state.dynamics, transition), jnp.where(valid, inverse, state.inverse))
