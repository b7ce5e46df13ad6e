"""Bonus: the gain in novelty of a step, paid at the first visit of an episode only."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._checks import positive, within
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic._keys import Key, check_key
from pbim.intrinsic._shell import Shell
from pbim.intrinsic._visits import VisitedState, visits_shell
from pbim.intrinsic.array_counts import EpisodicCounts
from pbim.intrinsic.protocol import Spec, Transition
from pbim.intrinsic.rnd import RND, RNDState


@dataclass(frozen=True, kw_only=True)
class NovelD(LearnedBonus):
    """Pay ``max(novelty(s') - alpha * novelty(s), 0)`` at the first visit of s' in this episode, else 0.

    Novelty is the root of RND's summed squared error. Visits of an environment are forgotten after the step that
    terminates or truncates its episode. Memory: the networks and one dictionary entry per step of the running episode.

    Zhang et al. 2021 (NovelD, NeurIPS 34), Eq. 2 and 3. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        alpha: The share of the old novelty that is subtracted.
        rnd: The settings of RND; its seed is not used.
        key: What a visited state is, as in ``EpisodicCount``; float observations need one.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

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
    key: Key = None

    kind: ClassVar[str] = "noveld"
    episodic: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("obs", "next_obs")
    averaged: ClassVar[tuple[str, ...]] = ("predictor", "moments")

    def __post_init__(self) -> None:
        positive("NovelD", alpha=self.alpha)
        within("NovelD", 0, 1, alpha=self.alpha)
        check_key("NovelD", self.key)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return visits_shell(self, ("init_rnd", "gain_fn", "train"))

    def bonus(self, gain: Any, n: Any) -> Any:
        """Return the bonus of a gain in novelty at the n-th visit."""
        return gain * (n == 1)  # Eq. 3

    @property
    def counts(self) -> EpisodicCounts:
        """The visits of the pure core."""
        return EpisodicCounts("NovelD", self.key)

    def init_rnd(self, key: Array, spec: Spec) -> RNDState:
        """Return RND's first state."""
        return self.rnd.init(key, spec)

    def novelty_fn(self, state: RNDState, obs: Any) -> Array:
        """Return ||predictor(s) - target(s)||, (num_envs,); pure."""
        return jnp.sqrt(self.rnd.features * self.rnd.error_fn(state, obs))

    def gain_fn(self, state: RNDState, transition: Transition) -> Array:
        """Return max(novelty(s') - alpha * novelty(s), 0), (num_envs,); pure."""
        there, here = (self.novelty_fn(state, obs) for obs in (transition.next_obs, transition.obs))
        return jnp.maximum(there - self.alpha * here, 0.0)  # Eq. 2

    def train(self, state: RNDState, transition: Transition) -> RNDState:
        """Return RND's state after one pass of training on this step; pure."""
        return self.rnd.update_fn(state, transition)

    def init(self, key: Array, spec: Spec) -> VisitedState:
        """Return RND's first state and empty counts."""
        return VisitedState(self.init_rnd(key, spec), self.counts.init(spec))

    def reward_fn(self, state: VisitedState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        n = self.counts.visits(state.counts, transition)
        return self.bonus(self.gain_fn(state.learned, transition), n)  # type: ignore[no-any-return]

    def update_fn(self, state: VisitedState, transition: Transition) -> VisitedState:
        """Return the state after training on and counting this step; pure, for jit, scan and vmap."""
        return VisitedState(self.train(state.learned, transition), self.counts.add(state.counts, transition))
