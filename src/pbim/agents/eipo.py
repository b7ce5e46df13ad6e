"""EIPO: the bonus's coefficient is learned from what it costs the task (Chen et al. 2022, arXiv 2211.07627).

A mixed policy maximises the return of R + F under the constraint that its return of R is the best there is, which an
extrinsic policy of its own estimates. With the multiplier alpha, J(pi) the return of (1 + alpha) R + F and J_E that
of R, EIPO solves min over alpha, max over the mixed policy, min over the extrinsic policy, of

    J(mixed) - alpha J_E(extrinsic)

in turns. By the performance difference lemma, on steps of the policy whose turn it is not,

    max stage, the extrinsic policy acts:  U = (1 + alpha) R + F + alpha (gamma V_E(s') - V_E(s)) raises the mixed one
    min stage, the mixed policy acts:      U = alpha R + gamma V(s') - V(s)                    raises the extrinsic one

with V_E the extrinsic policy's value of R, and V = (1 + alpha) V_R + V_F the mixed policy's. The policy that acts
learns from its own advantages (the paper's auxiliary objectives). As the authors' code does, R + gamma V' - V is
replaced by its generalised estimate, and the policies share their features. A stage ends when its mean U does not
rise. After each max stage alpha takes a step down the slope J_E(mixed) - J_E(extrinsic), which PPO's clipped objective
estimates: never above the truth, so alpha errs upwards and the bonus counts too little rather than too much.

Differences to that code, which we take for slips: it steps *up* this slope; its V has no alpha; it standardises U
before it takes the mean that ends a stage, which is then 0; and only the extrinsic policy has an entropy bonus. Its
rate of 0.005 for each of four minibatches is our 0.02 for each update.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents._checks import check_numbers
from pbim.agents.method import Experience, Lesson, Method, check_bonus, check_reward, credit
from pbim.errors import InputError
from pbim.shaping import Guarantee, Level, Raw

if TYPE_CHECKING:
    from pbim.agents._config import PPO

MIXED, EXTRINSIC = 0, 1
"""The two policies."""
MIXED_R, MIXED_F, OWN = 0, 1, 2
"""The critics: of R and of F under the mixed policy, of R under the extrinsic one."""


class EIPOState(NamedTuple):
    """The multiplier (), whether it is the max stage (), and the last mean U of the max and of the min stage (2,)."""

    alpha: Array
    max_stage: Array
    last: Array


class Utilities(NamedTuple):
    """The mixed policy's advantages, and the U of the max and of the min stage, (T, num_envs) each."""

    mixed: Array
    up: Array
    down: Array


@dataclass(frozen=True, kw_only=True)
class EIPO(Method):
    """Learn a mixed and an extrinsic policy in turns, and how much the bonus may count from their difference.

    The bonus counts 1 / (1 + alpha) beside the task's reward (the metric ``bonus_weight``). The mixed policy is the one
    that is evaluated; figures of episodes are of the policy that acted, and the metric ``entropy`` is the sum of both.

    Attributes:
        alpha: The multiplier at the start.
        alpha_rate: The step of the multiplier, per update of a max stage: at most alpha_rate * alpha_clip, 0.001 by
            default, so a run of a hundred updates hardly moves it. Raise the rate for short runs.
        alpha_clip: The largest slope that is taken for true.

    """

    kind: ClassVar[str] = "eipo"
    summary: ClassVar[str] = "learns how much the bonus may count, from a second policy that sees the task alone"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.LIMIT,
        assumption="both policies and the multiplier have converged, and the extrinsic policy has found the optimum",
        reference="Chen et al. 2022, arXiv 2211.07627",
    )
    goes_with: ClassVar[Mapping[str, Any]] = {"shaping": Raw()}
    num_policies: ClassVar[int] = 2
    num_values: ClassVar[int] = 3

    alpha: float = 0.5
    alpha_rate: float = 0.02
    alpha_clip: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "[0, inf)", "alpha", "alpha_rate")
        check_numbers(self, "(0, inf)", "alpha_clip")

    def check(self, config: "PPO") -> None:
        """Refuse a learner without a bonus, or with critics that are not the method's."""
        check_bonus(self, config)
        if config.critics != "joint":
            raise InputError(
                f"method {self.kind} brings its own three critics, received critics='{config.critics}': leave it out"
            )
        check_reward(self, config)

    def init(self) -> EIPOState:
        """Return the multiplier at its start, before a max stage."""
        return EIPOState(jnp.asarray(self.alpha, jnp.float32), jnp.ones((), bool), jnp.full(2, -jnp.inf))

    def policy(self, state: EIPOState) -> Array:
        """Return which policy acts: in a max stage the extrinsic one."""
        return jnp.where(state.max_stage, EXTRINSIC, MIXED)

    def bonus_weight(self, state: EIPOState) -> Array:
        """Return 1 / (1 + alpha)."""
        return 1 / (1 + state.alpha)

    def advantages(self, config: "PPO", experience: Experience) -> Array:
        """Return the three critics' own advantages, (3, T, num_envs)."""
        streams = ((MIXED_R, experience.reward), (MIXED_F, experience.shaped), (OWN, experience.reward))
        return jnp.stack([credit(config, experience, critic, reward, config.gamma) for critic, reward in streams])

    def utilities(self, config: "PPO", state: EIPOState, experience: Experience, advantage: Array) -> Utilities:
        """Return what the policies learn from, given the critics' advantages."""
        pay = config.reward_scale * (experience.reward + experience.shaped)
        mixed = (1 + state.alpha) * advantage[MIXED_R] + advantage[MIXED_F]
        return Utilities(mixed, up=pay + state.alpha * advantage[OWN], down=mixed - pay)

    def lesson(self, config: "PPO", state: EIPOState, experience: Experience) -> Lesson:
        """Return the advantages of the mixed and of the extrinsic policy, and targets for the critics of who acted.

        U is centred by its mean, which moves no expectation: importance ratios have the mean 1.
        """
        advantage = self.advantages(config, experience)
        mixed, up, down = self.utilities(config, state, experience, advantage)
        stages = jnp.stack([up - jnp.mean(up), advantage[OWN]]), jnp.stack([mixed, down - jnp.mean(down)])
        critics = jnp.where(state.max_stage, jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 1.0, 0.0]))
        return Lesson(experience.shaped, jnp.where(state.max_stage, *stages), experience.value + advantage, critics)

    def after(
        self, config: "PPO", state: EIPOState, experience: Experience, gain: Callable[[int, Array], Array]
    ) -> EIPOState:
        """Return the multiplier after a step, and the stage that comes next."""
        advantage = self.advantages(config, experience)
        _, up, down = self.utilities(config, state, experience, advantage)
        slope = jax.lax.cond(state.max_stage, lambda: gain(MIXED, advantage[OWN]), lambda: jnp.zeros(()))
        alpha = state.alpha - self.alpha_rate * jnp.clip(slope, -self.alpha_clip, self.alpha_clip)
        reached = jnp.stack([jnp.mean(up), jnp.mean(down)])
        here = jnp.stack([state.max_stage, ~state.max_stage])
        rises = jnp.any(here & (reached > state.last))
        return EIPOState(jnp.maximum(0.0, alpha), state.max_stage == rises, jnp.where(here, reached, state.last))
