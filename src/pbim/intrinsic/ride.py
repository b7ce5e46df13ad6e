"""Bonus: how far the step moved in a learned space, divided by the root of the visits in this episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._dynamics import DynamicsEdge, DynamicsState
from pbim.intrinsic._networks import mlp
from pbim.intrinsic._visits import VisitsEdge
from pbim.intrinsic.protocol import Transition


class RIDEState(NamedTuple):
    """The models, and the array counts (num_envs, num_keys) of compiled agents (None at the NumPy edge)."""

    dynamics: DynamicsState
    counts: Array | None


@dataclass(frozen=True, kw_only=True)
class RIDE(VisitsEdge, DynamicsEdge):
    """Pay ``||phi(s') - phi(s)|| / sqrt(n)``, n the visits of s' in this episode, this one included.

    ``phi`` is the encoder of ICM, trained by the same loss. ``key`` says what a visited state is, as in
    ``EpisodicCount`` (float observations need one); visits of an environment are forgotten after the step that
    terminates or truncates its episode. Memory: the networks and one dictionary entry per step of the running episode.

    Raileanu & Rocktaeschel 2020 (arXiv 2002.12292), Eq. 2. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> import numpy as np
    >>> bonus, no = RIDE(num_actions=4, features=8, key=lambda t: t.next_obs.argmax(1)), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.zeros((1, 5)), no, no, {})
    >>> bonus.reward(step).shape
    (1,)
    """

    def __post_init__(self) -> None:
        VisitsEdge.__post_init__(self)
        DynamicsEdge.__post_init__(self)

    def init(self, key: Array, example: Transition, num_keys: int | None = None) -> RIDEState:
        """Return random models, and array counts if keys are integers below ``num_keys``."""
        return RIDEState(self.init_models(key, example), self.init_counts(example, num_keys))

    def bonus(self, impact: Any, n: Any) -> Any:
        """Return the bonus of an impact at the n-th visit."""
        return impact / n**0.5  # Eq. 2

    def impact_fn(self, state: RIDEState, transition: Transition) -> Array:
        """Return ||phi(s') - phi(s)||, (num_envs,)."""
        encoder = state.dynamics.models.params.encoder
        step = mlp(encoder, self.encode(transition.next_obs)) - mlp(encoder, self.encode(transition.obs))
        return jnp.sqrt(jnp.sum(step**2, axis=-1))

    def reward_fn(self, state: RIDEState, transition: Transition, visits: Array | None = None) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        if visits is None:
            assert state.counts is not None
            visits = self.visits(state.counts, transition)
        return self.bonus(self.impact_fn(state, transition), visits)  # type: ignore[no-any-return]

    def update_fn(self, state: RIDEState, transition: Transition) -> RIDEState:
        """Return the state after training on and counting this step; pure, for jit, scan and vmap."""
        return RIDEState(self.train(state.dynamics, transition), self.count(state.counts, transition))
