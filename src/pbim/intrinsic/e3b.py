"""Bonus: how new the features are to this episode, measured by the ellipse of those before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.intrinsic._checks import positive
from pbim.intrinsic._dynamics import DynamicsEdge, DynamicsState
from pbim.intrinsic._networks import mlp
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.protocol import Transition, ended


class E3BState(NamedTuple):
    """The models and C^-1 of each environment's running episode, (num_envs, features, features)."""

    dynamics: DynamicsState
    inverse: Array


@dataclass(frozen=True, kw_only=True)
class E3B(DynamicsEdge):
    """Pay ``phi(s')^T C^-1 phi(s')``, C the ``ridge`` plus the sum of phi phi^T over this episode's earlier arrivals.

    ``phi`` is trained by an inverse model alone (``beta`` 0). C^-1 is kept by rank-one updates, one matrix per
    environment, and returns to the identity / ridge after the step that terminates or truncates the episode.
    Memory: bounded, num_envs x features x features floats.

    Henaff et al. 2022 (arXiv 2210.05805), Eq. 3 and Algorithm 1. Shapes: transition (num_envs, ...) -> (num_envs,).

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

    episodic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("E3B", ridge=self.ridge)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Empty the ellipses of the episodes that were abandoned, where true (num_envs,)."""
        state = self._memory.state
        if state is not None:
            empty = jnp.eye(self.features) / self.ridge
            self._memory.state = state._replace(inverse=jnp.where(where[:, None, None], empty, state.inverse))

    def init(self, key: Array, example: Transition) -> E3BState:
        """Return random models and, for each environment, the inverse of an empty ellipse."""
        empty = jnp.eye(self.features) / self.ridge
        num_envs = example.terminated.shape[0]
        return E3BState(self.init_models(key, example), jnp.tile(empty, (num_envs, 1, 1)))

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
        empty = jnp.eye(self.features) / self.ridge
        inverse = jnp.where(ended(transition)[:, None, None], empty, grown)
        return E3BState(self.train(state.dynamics, transition), jnp.where(valid, inverse, state.inverse))
