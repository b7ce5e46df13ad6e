"""Bonus: the gain in novelty of a step, paid at the first visit of an episode only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._checks import positive, within
from pbim.intrinsic._visits import VisitsEdge
from pbim.intrinsic.protocol import Transition
from pbim.intrinsic.rnd import RND, RNDState


class NovelDState(NamedTuple):
    """RND's state, and the array counts (num_envs, num_keys) of compiled agents (None at the NumPy edge)."""

    rnd: RNDState
    counts: Array | None


@dataclass(frozen=True, kw_only=True)
class NovelD(VisitsEdge):
    """Pay ``max(novelty(s') - alpha * novelty(s), 0)`` at the first visit of s' in this episode, else 0.

    Novelty is the root of RND's summed squared error; pass ``rnd=RND(...)`` for its settings. ``key`` says what a
    visited state is, as in ``EpisodicCount`` (float observations need one); visits of an environment are forgotten
    after the step that terminates or truncates its episode. Memory: the networks and one dictionary entry per step of
    the running episode.

    Zhang et al. 2021 (NovelD, NeurIPS 34), Eq. 2 and 3. Shapes: transition (num_envs, ...) -> (num_envs,).

    >>> import numpy as np
    >>> bonus, no = NovelD(alpha=0.5, key=lambda t: t.next_obs.argmax(1)), np.array([False])
    >>> step = Transition(np.zeros((1, 5)), np.array([3]), np.ones((1, 5)), no, no, {})
    >>> first = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(first[0] > 0), float(bonus.reward(step)[0])
    (True, 0.0)
    """

    alpha: float = 0.5
    rnd: RND = field(default_factory=RND)

    reads: ClassVar[tuple[str, ...]] = ("obs", "next_obs")

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("NovelD", alpha=self.alpha)
        within("NovelD", 0, 1, alpha=self.alpha)

    def init(self, key: Array, example: Transition, num_keys: int | None = None) -> NovelDState:
        """Return RND's first state, and array counts if keys are integers below ``num_keys``."""
        return NovelDState(self.rnd.init(key, example), self.init_counts(example, num_keys))

    def bonus(self, next_novelty: Any, novelty: Any, n: Any) -> Any:
        """Return the bonus of a step between two novelties at the n-th visit."""
        return jnp.maximum(next_novelty - self.alpha * novelty, 0.0) * (n == 1)  # Eq. 2 and 3

    def novelty_fn(self, state: NovelDState, obs: Any) -> Array:
        """Return ||predictor(s) - target(s)||, (num_envs,)."""
        return jnp.sqrt(self.rnd.features * self.rnd.error_fn(state.rnd, obs))

    def reward_fn(self, state: NovelDState, transition: Transition, visits: Array | None = None) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        if visits is None:
            assert state.counts is not None
            visits = self.visits(state.counts, transition)
        novelties = self.novelty_fn(state, transition.next_obs), self.novelty_fn(state, transition.obs)
        return self.bonus(*novelties, visits)  # type: ignore[no-any-return]

    def update_fn(self, state: NovelDState, transition: Transition) -> NovelDState:
        """Return the state after training on and counting this step; pure, for jit, scan and vmap."""
        return NovelDState(self.rnd.update_fn(state.rnd, transition), self.count(state.counts, transition))
