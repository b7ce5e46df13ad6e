"""Bonus: how far the step moved in a learned space, divided by the root of the visits in this episode."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._dynamics import DynamicsBonus, DynamicsState
from pbim.intrinsic._keys import Key, check_key
from pbim.intrinsic._networks import mlp
from pbim.intrinsic._shell import Shell
from pbim.intrinsic._visits import VisitedState, visits_shell
from pbim.intrinsic.array_counts import EpisodicCounts
from pbim.intrinsic.protocol import Spec, Transition


@dataclass(frozen=True, kw_only=True)
class RIDE(DynamicsBonus):
    """Pay ``||phi(s') - phi(s)|| / sqrt(n)``, n the visits of s' in this episode with this one.

    ``phi`` is the encoder of ICM, trained by the same loss. Visits of an environment are forgotten after the step that
    terminates or truncates its episode. Memory: the networks and one dictionary entry per step of the running episode.

    Raileanu & Rocktaeschel 2020 (arXiv 2002.12292), Eq. 2. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        key: What a visited state is, as in ``EpisodicCount``; float observations need one.
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
    >>> bonus, no = RIDE(num_actions=4, features=8, key=lambda t: t.next_obs.argmax(1)), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.zeros((1, 5)), no, no, {})
    >>> bonus.reward(step).shape
    (1,)

    """

    key: Key = None

    kind: ClassVar[str] = "ride"
    episodic: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_key("RIDE", self.key)
        super().__post_init__()

    def make_shell(self) -> Shell:
        """Return a shell in which nothing has happened yet."""
        return visits_shell(self, ("init_models", "impact_fn", "train"))

    def bonus(self, impact: Any, n: Any) -> Any:
        """Return the bonus of an impact at the n-th visit."""
        return impact / n**0.5  # Eq. 2

    @property
    def counts(self) -> EpisodicCounts:
        """The visits of the pure core."""
        return EpisodicCounts("RIDE", self.key)

    def impact_fn(self, models: DynamicsState, transition: Transition) -> Array:
        """Return ||phi(s') - phi(s)||, (num_envs,); pure."""
        encoder = models.models.params.encoder
        step = mlp(encoder, self.encode(transition.next_obs)) - mlp(encoder, self.encode(transition.obs))
        return jnp.sqrt(jnp.sum(step**2, axis=-1))

    def init(self, key: Array, spec: Spec) -> VisitedState:
        """Return random models and empty counts."""
        return VisitedState(self.init_models(key, spec), self.counts.init(spec))

    def reward_fn(self, state: VisitedState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        n = self.counts.visits(state.counts, transition)
        return self.bonus(self.impact_fn(state.learned, transition), n)  # type: ignore[no-any-return]

    def update_fn(self, state: VisitedState, transition: Transition) -> VisitedState:
        """Return the state after training on and counting this step; pure, for jit, scan and vmap."""
        return VisitedState(self.train(state.learned, transition), self.counts.add(state.counts, transition))
