"""Methods: how a learner combines the task's reward with a bonus, where it does more than add F' to R.

A method is a component like a conversion: a frozen dataclass with a ``kind``, what it does and what it guarantees. It
is declared in one place and changes three things at most: F' (:meth:`Method.shape`), the advantages that are learned
from (:meth:`Method.lesson`), and what it knows itself (:meth:`Method.init`, :meth:`Method.after`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from pbim.agents._gae import gae
from pbim.config import Component
from pbim.errors import InputError
from pbim.shaping import Guarantee, NoBonus

if TYPE_CHECKING:
    from pbim.agents._config import PPO


class Experience(NamedTuple):
    """A rollout before it is learned from, (T, num_envs) unless said otherwise.

    ``value``, ``next_value`` and ``following`` (num_values, T, num_envs) are what the critics say: of each step, of
    what comes after it for the learner (0 where it stops), and of the next observation across all ends. ``over`` is
    true where an episode is over, ``frames`` (T, 1) counts the frames before each step.
    """

    reward: Array
    shaped: Array
    value: Array
    next_value: Array
    following: Array
    over: Array
    frames: Array


class Lesson(NamedTuple):
    """What is learned from a rollout: F', the advantages, and the critics' targets, (num_values, T, num_envs).

    ``advantage`` is (T, num_envs), with several policies (num_policies, T, num_envs). ``critics`` (num_values,) weighs
    the critics' losses; None learns all alike.
    """

    shaped: Array
    advantage: Array
    target: Array
    critics: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Method(Component):
    """What plain PPO does with R and F'; methods change a part of it.

    Attributes:
        guarantee: What the method promises of the optimal policies.
        summary: What it does, in half a sentence.
        goes_with: The settings of the learner that it needs, as the command line fills them in.
        num_policies: How many policies are learned side by side; the first is the one that is evaluated.
        num_values: How many critics it has of its own; 0 for those that ``critics`` names.

    """

    guarantee: ClassVar[Guarantee]
    summary: ClassVar[str]
    goes_with: ClassVar[Mapping[str, Any]] = {}
    num_policies: ClassVar[int] = 1
    num_values: ClassVar[int] = 0

    @property
    def label(self) -> str:
        """What tables call it: its kind, and the settings that are not the default."""
        changed = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join((self.kind, *(f"{name} {value}" for name, value in changed)))

    def check(self, config: "PPO") -> None:
        """Refuse a learner that lacks what the method needs."""

    def init(self) -> Any:
        """Return what the method knows before the first update, as a pytree of arrays."""
        return ()

    def policy(self, state: Any) -> Array | None:
        """Return the number of the policy that acts next; None where there is one only."""
        del state
        return None

    def bonus_weight(self, state: Any) -> Array:
        """Return how much the bonus counts beside the task's reward, ()."""
        del state
        return jnp.ones(())

    def shape(self, config: "PPO", experience: Experience) -> Array:
        """Return the F' that is learned from, given what the conversion emitted."""
        del config
        return experience.shaped

    def advantages(self, config: "PPO", experience: Experience) -> Array:
        """Return every critic's own advantages, (num_values, T, num_envs)."""
        if config.critics == "joint":
            streams = [(experience.reward + experience.shaped, config.gamma)]
        else:
            streams = [(experience.reward, config.gamma), (experience.shaped, config.bonus_gamma)]
        return jnp.stack([credit(config, experience, index, *stream) for index, stream in enumerate(streams)])

    def mix(self, advantage: Array) -> Array:
        """Return the policy's advantages (T, num_envs) of those of the critics."""
        return jnp.sum(advantage, axis=0)

    def lesson(self, config: "PPO", state: Any, experience: Experience) -> Lesson:
        """Return what is learned from a rollout."""
        del state
        experience = experience._replace(shaped=self.shape(config, experience))
        advantage = self.advantages(config, experience)
        return Lesson(experience.shaped, self.mix(advantage), experience.value + advantage)

    def after(self, config: "PPO", state: Any, experience: Experience, gain: Callable[[int, Array], Array]) -> Any:
        """Return what the method knows after an update.

        Args:
            config: The run.
            state: What it knew before.
            experience: The rollout that was learned from.
            gain: The clipped mean (PPO's Eq. 7) of advantages (T, num_envs) under the policy of a number, as it now is.

        """
        del config, experience, gain
        return state


PLAIN = Method()
"""PPO without a method: one advantage, of R + F'."""


def credit(config: "PPO", experience: Experience, critic: int, reward: Array, gamma: float) -> Array:
    """Return one critic's advantages of a stream of rewards, (T, num_envs)."""
    return gae(
        config.reward_scale * reward,
        experience.value[critic],
        experience.next_value[critic],
        experience.over,
        gamma=gamma,
        lam=config.gae_lambda,
    )


def check_bonus(method: Method, config: "PPO") -> None:
    """Refuse a learner without a bonus, or with one that it never sees."""
    if config.intrinsic is None:
        raise InputError(
            f"method {method.kind} needs a bonus, received none: pass intrinsic=EpisodicCount() or --intrinsic count, "
            "for example, or leave the method out"
        )
    if isinstance(config.shaping, NoBonus):
        raise InputError(
            f"method {method.kind} needs a bonus, which shaping {config.shaping.kind} keeps from it: pass shaping raw, "
            "or leave the method out"
        )


def check_critics(method: Method, config: "PPO") -> None:
    """Refuse a learner without critics of R and of F'."""
    if config.critics != "separate":
        raise InputError(
            f"method {method.kind} needs two critics, of R and of F', received critics='{config.critics}': pass "
            "critics='separate', or leave --critics out"
        )


def check_reward(method: Method, config: "PPO") -> None:
    """Refuse a learner that does not see the task's reward, which the method weighs the bonus against."""
    if config.task_reward != "full":
        raise InputError(
            f"method {method.kind} needs the task's reward, received task_reward='{config.task_reward}': pass 'full', "
            "or leave the method out"
        )
