"""ADOPS and ADOPES: a bonus corrected by what the two critics say (Forbes et al. 2025, arXiv 2505.12611)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pbim.agents._checks import check_counts, check_numbers
from pbim.agents.method import Experience, Method, check_bonus, check_critics, check_reward
from pbim.errors import InputError
from pbim.shaping import ADOPS_GUARANTEE, Guarantee, Raw, adopes

if TYPE_CHECKING:
    from pbim.agents._config import PPO


@dataclass(frozen=True, kw_only=True)
class Adops(Method):
    """Correct F where it would change the sign of the learner's one-step advantage; needs ``critics="separate"``.

    Attributes:
        rise_frames: Frames over which the share of the correction rises from 0 to 1; 0 corrects fully at once.
        epsilon: By how much an action that the task's critic calls worse stays worse. Single precision keeps about
            seven digits: beside values above 10, pass more than the default.

    """

    kind: ClassVar[str] = "adops"
    summary: ClassVar[str] = "corrects the bonus where two critics say it would change the preferred action"
    guarantee: ClassVar[Guarantee] = ADOPS_GUARANTEE
    goes_with: ClassVar[Mapping[str, Any]] = {"shaping": Raw(), "critics": "separate"}

    rise_frames: int = 0
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, *(["rise_frames"] if self.rise_frames != 0 else []))
        check_numbers(self, "(0, inf)", "epsilon")

    def check(self, config: "PPO") -> None:
        """Refuse a learner without a bonus or without two critics of one discount."""
        check_bonus(self, config)
        check_critics(self, config)
        check_reward(self, config)
        if config.bonus_gamma != config.gamma:
            raise InputError(
                f"method {self.kind} needs critics that share one gamma, received intrinsic_gamma="
                f"{config.intrinsic_gamma}: leave intrinsic_gamma out"
            )

    def coefficient(self, frames: Array) -> Array:
        """Return the share of the correction that is applied after ``frames`` frames."""
        return (
            jnp.minimum(1.0, frames / float(self.rise_frames))
            if self.rise_frames
            else jnp.ones_like(frames, jnp.float32)
        )

    def shape(self, config: "PPO", experience: Experience) -> Array:
        """Return the corrected bonus (T, num_envs)."""
        value, next_value = experience.value / config.reward_scale, experience.next_value / config.reward_scale
        corrected: Any = adopes(
            experience.shaped,
            experience.reward,
            extrinsic_value=value[0],
            next_extrinsic_value=next_value[0],
            intrinsic_value=value[1],
            next_intrinsic_value=next_value[1],
            ended=jnp.zeros(experience.shaped.shape, bool),  # next_value knows the ends
            gamma=config.gamma,
            coefficient=self.coefficient(experience.frames),
            epsilon=self.epsilon,
        )
        return jnp.asarray(corrected)


@dataclass(frozen=True, kw_only=True)
class Adopes(Adops):
    """ADOPS whose correction rises from nothing to all of it: at first the bonus explores as it is."""

    kind: ClassVar[str] = "adopes"
    summary: ClassVar[str] = "corrects the bonus as adops does, by a share that rises to one"

    rise_frames: int = 1_000_000
