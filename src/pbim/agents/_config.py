"""Every choice of a PPO run, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, ClassVar, Literal

from pbim._numbers import LARGEST
from pbim.agents import bonus as _bonus
from pbim.agents._checks import (
    check_counts,
    check_discount,
    check_ledger,
    check_numbers,
    check_parts,
    check_skills,
    check_task,
    check_windows,
    is_exact,
)
from pbim.agents._metrics import Metrics
from pbim.agents._minibatches import Cuts
from pbim.agents.method import PLAIN, Method
from pbim.agents.networks import InitScheme, MemoryKind, Network
from pbim.config import Component
from pbim.envs import Environment, Interface
from pbim.errors import InputError, InputTypeError
from pbim.metric import Metric, metrics_of
from pbim.shaping import NoBonus, Shaping
from pbim.truncation import Truncation


@dataclass(frozen=True, kw_only=True)
class PPO(Component):
    """A PPO run; the defaults reproduce torch-ac with rl-starter-files' model on MiniGrid.

    Attributes:
        env: A compiled environment of ``pbim.envs``, or a :class:`pbim.envs.HostEnv`.
        intrinsic: A bonus of pbim.intrinsic, or None.
        intrinsic_scale: What multiplies the bonus before the conversion. Where you name a bonus, ``pbim train`` and
            ``pbim compare`` take the paper's largest on DoorKey, 0.025.
        shaping: The conversion of the bonus.
        method: How R and F' are combined, if not by a sum: EIPO, ADOPS, BSRS, two critics.
        task_reward: What the learner sees of the task's reward: "full", or "none" for pure exploration (skills). It is
            reported either way.
        reward_scale: What multiplies both R and F'. It does not change which policy is best.
        gamma: The discount of the task.
        intrinsic_gamma: The discount of F', if F' has its own critic and its own discount.
        truncation: What the learner does at a time limit (see pbim.truncation). "settle" stops there and settles the
            ledger. "bootstrap" adds the shaped value of the final observation and leaves the ledger open. "continue"
            is for a task without an end: a time limit cuts the figures into windows and changes nothing else.
        resets: Where environment and bonus start again: at all "ends", or only at "terminations", as in torch-ac's
            first port to Gymnasium, where each step past the time limit is one episode.
        settlement: What is settled. "episode": the ledger of every episode. "termination": only of episodes that
            terminate; the ledger of a truncated one is forgotten, although the learner stops there. "rollout": what
            each rollout paid, inside it, centred by its own mean. The last two are readings of the paper. They are
            not exact and guarantee nothing.
        bonus_learns: When the bonus learns: after each "rollout", or at every "step".
        total_frames: Steps of all environments together.
        num_envs: Environments that step together.
        num_steps: Steps of each environment per rollout.
        epochs: Passes over a rollout.
        minibatch_size: Frames per gradient step. It must divide num_envs * num_steps.
        recurrence: Steps that the gradient flows back through the memory. It is 1 without memory.
        refresh_memories: Each epoch computes the memories again, as in torch-ac. ``--no-refresh-memories`` keeps
            those of the rollout.
        learning_rate: The learning rate of Adam.
        learning_rate_schedule: Whether the rate stays constant or falls to 0 linearly.
        adam_epsilon: Adam's epsilon.
        max_gradient_norm: The largest norm of a gradient. A longer one is scaled down.
        gae_lambda: The lambda of the generalised advantage estimate.
        clip: PPO's clipping range.
        clip_values: PPO clips values too. ``--no-clip-values`` clips the policy only.
        entropy_coefficient: Weight of the entropy bonus.
        value_coefficient: Weight of the value loss.
        normalize_advantages: Whether to standardise the advantages of each minibatch.
        critics: "joint": one critic of R + F'. "separate": one critic of R and one of F' (with intrinsic_gamma). Each
            bootstraps where truncation says so.
        critic_input: "observation", or "ledger" to show the critic L_t as well, times a learned weight. It then learns
            to predict what will be taken back, and the bonus guides nothing: see docs/guidance.md.
        memory: The kind of memory of the agent.
        hidden_size: Width of the memory.
        head_size: Width of the layer before policy and value.
        init_scheme: How the first weights are drawn.

    """

    kind: ClassVar[str] = "ppo"
    metrics: ClassVar[Mapping[str, Metric]] = metrics_of(Metrics)
    axis: ClassVar[str] = "frames"

    env: Interface
    intrinsic: Any = None
    intrinsic_scale: float = 1.0
    shaping: Shaping[Any] = field(default_factory=NoBonus)
    method: Method | None = None
    task_reward: Literal["full", "none"] = "full"
    reward_scale: float = 1.0
    gamma: float = 0.99
    intrinsic_gamma: float | None = None
    truncation: Truncation = "settle"
    resets: Literal["ends", "terminations"] = "ends"
    settlement: Literal["episode", "termination", "rollout"] = "episode"
    bonus_learns: Literal["rollout", "step"] = "rollout"

    total_frames: int = 10_000_000
    num_envs: int = 16
    num_steps: int = 128
    epochs: int = 4
    minibatch_size: int = 256
    recurrence: int = 4
    refresh_memories: bool = True

    learning_rate: float = 1e-3
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    adam_epsilon: float = 1e-8
    max_gradient_norm: float = 0.5
    gae_lambda: float = 0.95
    clip: float = 0.2
    clip_values: bool = True
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5
    normalize_advantages: bool = False

    critics: Literal["joint", "separate"] = "joint"
    critic_input: Literal["observation", "ledger"] = "observation"
    memory: MemoryKind = "lstm"
    hidden_size: int = 64
    head_size: int = 64
    init_scheme: InitScheme = "torch-ac"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parts(self)
        check_counts(self, "total_frames", "num_envs", "num_steps", "epochs", "minibatch_size", "recurrence")
        check_counts(self, "hidden_size", "head_size")
        _divides("recurrence", self.recurrence, "num_steps", self.num_steps)
        _divides("recurrence", self.recurrence, "minibatch_size", self.minibatch_size)
        _divides("minibatch_size", self.minibatch_size, "num_envs * num_steps", self.frames)
        if self.memory == "none" and self.recurrence != 1:
            raise InputError(f"recurrence must be 1 without memory, received {self.recurrence}: pass recurrence=1")
        check_numbers(self, "(0, 1]", "gamma", *([] if self.intrinsic_gamma is None else ["intrinsic_gamma"]))
        check_numbers(self, "[0, 1]", "gae_lambda")
        check_numbers(self, "(0, inf)", "reward_scale", "learning_rate", "adam_epsilon", "max_gradient_norm", "clip")
        check_numbers(self, "[0, inf)", "entropy_coefficient", "value_coefficient")
        check_numbers(self, "[0, inf)", "intrinsic_scale")
        if self.intrinsic_gamma is not None and self.critics == "joint":
            raise InputError("intrinsic_gamma needs a critic of its own: pass critics='separate', or leave it out")
        if self.settlement != "episode" and self.truncation != "settle":
            raise InputError(
                f"settlement {self.settlement!r} is for a learner that stops at a time limit, received truncation "
                f"{self.truncation!r}: pass truncation='settle', or settlement='episode'"
            )
        if self.resets == "terminations" and self.truncation != "settle":
            raise InputError(
                f"resets 'terminations' is for a learner that stops at a time limit, received truncation "
                f"{self.truncation!r}: pass truncation='settle', or resets='ends'"
            )
        if self.total_frames > self.frames and self.updates * self.frames > LARGEST:
            raise InputError(
                f"total_frames must be at most {LARGEST}, whole updates included (32-bit counters), received "
                f"{self.total_frames}: lower it, and start another run from this one (pbim train --init-from)"
            )
        check_discount(self.shaping, self.bonus_gamma)
        check_ledger(self)
        check_task(self)
        check_skills(self)
        check_windows(self.env, self.restart)
        if self.env.max_steps:
            self.shaping.check_horizon(self.env.max_steps)
        self.way.check(self)

    @property
    def exact(self) -> bool:
        """Whether the run promises that F' cancels over every whole episode."""
        return self.method is None and self.cancels

    @property
    def cancels(self) -> bool:
        """Whether the conversion's F' does so, before a method changes what is learned from it."""
        return self.settlement == "episode" and is_exact(self.shaping, self.truncation)

    @property
    def way(self) -> Method:
        """The method; without one, plain PPO."""
        return self.method or PLAIN

    @property
    def restart(self) -> Truncation:
        """What a time limit is to the environment and the bonus."""
        return "continue" if self.resets == "terminations" else self.truncation

    @property
    def compiled_env(self) -> Environment[Any]:
        """The environment, where it is part of the compiled program.

        Raises:
            InputTypeError: If it is stepped on the host.

        """
        env: Any = self.env
        if not hasattr(env, "reset"):
            raise InputTypeError(
                f"env must be compiled to train here, received {env}, which is stepped on the host: use pbim train, or "
                "pbim.training.host.HostBackend"
            )
        found: Environment[Any] = env
        return found

    @property
    def bonus_gamma(self) -> float:
        """The discount of F'."""
        return self.gamma if self.intrinsic_gamma is None else self.intrinsic_gamma

    @property
    def pays_stepwise(self) -> bool:
        """Whether the bonus learns at every step, not at the end of a rollout."""
        return self.intrinsic is not None and (self.bonus_learns == "step" or _bonus.is_stepwise(self.intrinsic))

    @property
    def frames(self) -> int:
        """Frames per update."""
        return self.num_envs * self.num_steps

    @property
    def updates(self) -> int:
        """Updates in a whole run: as many as reach ``total_frames``."""
        return -(-self.total_frames // self.frames)

    @property
    def cuts(self) -> Cuts:
        """How a rollout is cut into minibatches."""
        return Cuts(
            num_envs=self.num_envs, num_steps=self.num_steps, recurrence=self.recurrence, size=self.minibatch_size
        )

    @property
    def network(self) -> Network:
        """The actor-critic."""
        return Network(
            obs_shape=tuple(self.env.obs_shape),
            num_actions=self.env.num_actions,
            num_values=self.way.num_values or (1 if self.critics == "joint" else 2),
            num_policies=self.way.num_policies,
            num_indices=getattr(self.env, "num_states", 0),
            sees_ledger=self.critic_input == "ledger",
            memory=self.memory,
            hidden_size=self.hidden_size,
            head_size=self.head_size,
            init_scheme=self.init_scheme,
        )


def _divides(name: str, divisor: int, of: str, number: int) -> None:
    if number % divisor:
        small = [d for d in range(1, min(isqrt(number), 10**6) + 1) if number % d == 0]
        best = min((d for pair in small for d in (pair, number // pair)), key=lambda d: abs(d - divisor))
        raise InputError(f"{name} must divide {of} ({number}), received {divisor}: {best} does")
