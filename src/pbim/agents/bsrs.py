"""Bootstrapped reward shaping: the learner's own value is the potential (Adamczyk et al. 2025, arXiv 2501.00989)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jax import Array

from pbim.agents._checks import check_numbers
from pbim.agents.method import Experience, Method
from pbim.errors import InputError
from pbim.shaping import Guarantee, Level

if TYPE_CHECKING:
    from pbim.agents._config import PPO


@dataclass(frozen=True, kw_only=True)
class BSRS(Method):
    """Add gamma Phi(s') - Phi(s) with the potential Phi = eta V, V the critic's value of all that is learned from.

    It needs no bonus; with one, it is added to the converted bonus. A rollout's potential is fixed, and the next one
    has another. The advantages are those of plain PPO whose critic says (1 + eta) V, so once V has converged, to
    V* / (1 + eta), nothing is left of it. Tabular value iteration contracts for -1 < eta < (1 - gamma) / (1 + gamma);
    a critic that takes small steps bears more.

    Attributes:
        eta: The potential in units of the value, above -1.

    """

    kind: ClassVar[str] = "bsrs"
    summary: ClassVar[str] = "adds a potential that is the learner's own value times a coefficient"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.LIMIT,
        assumption="the critic has converged, so that the potential no longer changes",
        reference="Adamczyk et al. 2025, arXiv 2501.00989",
    )

    eta: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "(-1, inf)", "eta")

    def check(self, config: "PPO") -> None:
        """Refuse a learner whose value is split between two critics."""
        if config.critics != "joint":
            raise InputError(
                f"method {self.kind} needs one critic of R + F', received critics='{config.critics}': pass "
                "critics='joint'"
            )

    def shape(self, config: "PPO", experience: Experience) -> Array:
        """Return F' with the difference of potentials; at an end without bootstrap the next potential is 0."""
        value, following = experience.value[0] / config.reward_scale, experience.next_value[0] / config.reward_scale
        return experience.shaped + self.eta * (config.gamma * following - value)
