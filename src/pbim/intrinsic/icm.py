"""Bonus: how badly the next features are predicted, in a space that keeps what actions change."""

from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from pbim.intrinsic._checks import positive
from pbim.intrinsic._dynamics import DynamicsBonus, DynamicsState, forward_error
from pbim.intrinsic.protocol import Spec, Transition


@dataclass(frozen=True, kw_only=True)
class ICM(DynamicsBonus):
    """Pay ``eta / 2 * ||predicted - true next features||^2``, the error of a forward model in a learned space.

    The space is an encoder trained, with the forward model, on ``(1 - beta) L_inverse + beta L_forward``; gradients of
    both reach it. Memory: bounded by the networks.

    Pathak et al. 2017 (arXiv 1705.05363), Eq. 5, 6 and 7. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        eta: The factor of the bonus.
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
    >>> bonus, no = ICM(num_actions=4, features=8), np.array([False])
    >>> step = Transition(np.ones((1, 5)), np.array([3]), np.zeros((1, 5)), no, no, {})
    >>> before = bonus.reward(step)
    >>> bonus.update(step)
    >>> bool(bonus.reward(step)[0] < before[0])
    True

    """

    eta: float = 0.01

    kind: ClassVar[str] = "icm"

    def __post_init__(self) -> None:
        positive("ICM", eta=self.eta)
        super().__post_init__()

    def init(self, key: Array, spec: Spec) -> DynamicsState:
        """Return random models, for transitions of the shapes of ``spec.example``."""
        return self.init_models(key, spec)

    def reward_fn(self, state: DynamicsState, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        return self.eta * forward_error(state.models.params, self.rows(transition))  # Eq. 6

    def update_fn(self, state: DynamicsState, transition: Transition) -> DynamicsState:
        """Return the models after one pass of training on this step; pure, for jit, scan and vmap."""
        return self.train(state, transition)
