"""RND's way with a bonus: a critic, a discount and a coefficient of its own (Burda et al. 2018, arXiv 1810.12894)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pbim.agents._checks import check_numbers
from pbim.agents.method import Experience, Method, check_bonus, check_critics, check_reward, credit
from pbim.shaping import Guarantee, Level, Raw

if TYPE_CHECKING:
    from pbim.agents._config import PPO


@dataclass(frozen=True, kw_only=True)
class TwoCritics(Method):
    """Learn from extrinsic * A_R + intrinsic * A_F', each of a critic of its own; needs ``critics="separate"``.

    The learner's ``intrinsic_gamma`` is the discount of F'. Section 2.3 of the paper.

    Attributes:
        extrinsic: The coefficient of the task's advantages.
        intrinsic: The coefficient of the bonus's.
        episodic: Whether an episode's end cuts the returns of the bonus; if not, they go on into the next episode.

    """

    kind: ClassVar[str] = "two-critics"
    summary: ClassVar[str] = "learns task and bonus with a critic and a discount each, and adds their advantages"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE, assumption="the bonus becomes part of the task", reference="Burda et al. 2018, section 2.3"
    )
    goes_with: ClassVar[Mapping[str, Any]] = {"shaping": Raw(), "critics": "separate"}

    extrinsic: float = 2.0
    intrinsic: float = 1.0
    episodic: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "(0, inf)", "extrinsic")
        check_numbers(self, "[0, inf)", "intrinsic")

    def check(self, config: "PPO") -> None:
        """Refuse a learner without a bonus or without two critics."""
        check_bonus(self, config)
        check_critics(self, config)
        check_reward(self, config)

    def bonus_weight(self, state: Any) -> Array:
        """Return the ratio of the coefficients."""
        del state
        return jnp.asarray(self.intrinsic / self.extrinsic)

    def advantages(self, config: "PPO", experience: Experience) -> Array:
        """Return the advantages of R and of F'."""
        endless = experience._replace(next_value=experience.following, over=jnp.zeros_like(experience.over))
        return jnp.stack(
            [
                credit(config, experience, 0, experience.reward, config.gamma),
                credit(config, experience if self.episodic else endless, 1, experience.shaped, config.bonus_gamma),
            ]
        )

    def mix(self, advantage: Array) -> Array:
        """Return the weighted sum."""
        return self.extrinsic * advantage[0] + self.intrinsic * advantage[1]
