"""ADOPS and ADOPES inside the loop: a bonus corrected by what the two critics say (Forbes et al. 2025)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pbim.config import Component
from pbim.errors import InputError
from pbim.shaping import adopes


@dataclass(frozen=True, kw_only=True)
class Adops(Component):
    """Correct F where it would change the sign of the learner's one-step advantage; needs ``critics="separate"``.

    ``rise_frames`` = 0 is ADOPS; otherwise ADOPES, whose coefficient rises from 0 to 1 over that many frames.
    """

    kind: ClassVar[str] = "adops"

    rise_frames: int = 0
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rise_frames < 0:
            raise InputError(f"rise_frames must be at least 0, received {self.rise_frames}: 0 corrects fully at once")
        if not self.epsilon > 0:
            raise InputError(f"epsilon must be positive, received {self.epsilon}: 1e-6 is usual")

    def coefficient(self, frames: Array) -> Array:
        """Return the share of the correction that is applied after ``frames`` frames."""
        return jnp.minimum(1.0, frames / self.rise_frames) if self.rise_frames else jnp.ones_like(frames, jnp.float32)

    def correct(
        self, bonus: Array, reward: Array, value: Array, next_value: Array, *, gamma: float, frames: Array
    ) -> Array:
        """Return the corrected bonus (T, num_envs); ``value`` and ``next_value`` (2, T, num_envs) are of R and F'.

        ``next_value`` is what the learner expects after each step, 0 at an end without bootstrap; ``frames`` (T, 1) are
        those before each step.
        """
        corrected: Any = adopes(
            bonus,
            reward,
            extrinsic_value=value[0],
            next_extrinsic_value=next_value[0],
            intrinsic_value=value[1],
            next_intrinsic_value=next_value[1],
            ended=jnp.zeros(bonus.shape, bool),  # next_value knows the ends
            gamma=gamma,
            coefficient=self.coefficient(frames),
            epsilon=self.epsilon,
        )
        return jnp.asarray(corrected)
