"""Bonus: how badly the next features are predicted, in a space that keeps what actions change."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from pbim.intrinsic._checks import positive
from pbim.intrinsic._dynamics import DynamicsEdge, DynamicsState, forward_error
from pbim.intrinsic.protocol import Transition


@dataclass(frozen=True, kw_only=True)
class ICM(DynamicsEdge):
    """Pay ``eta / 2 * ||predicted - true next features||^2``, the error of a forward model in a learned space.

    The space is an encoder trained, with the forward model, on ``(1 - beta) L_inverse + beta L_forward``; gradients of
    both reach it. ``num_actions`` makes actions discrete; without it they are continuous vectors.
    Memory: bounded by the networks.

    Pathak et al. 2017 (arXiv 1705.05363), Eq. 5, 6 and 7. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> import numpy as np
    >>> bonus, no = ICM(num_actions=4, features=8), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.zeros((1, 5)), no, no, {})
    >>> before = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(bonus.reward(step)[0] < before[0])
    True
    """

    eta: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("ICM", eta=self.eta)

    def init(self, key: Array, example: Transition) -> DynamicsState:
        """Return random models, for transitions of the shapes of ``example``."""
        return self.init_models(key, example)

    def reward_fn(self, state: DynamicsState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.eta * forward_error(state.models.params, self.rows(transition))  # Eq. 6

    def update_fn(self, state: DynamicsState, transition: Transition) -> DynamicsState:
        """Return the models after one pass of training on this step; pure, for jit, scan and vmap."""
        return self.train(state, transition)
