"""Every choice of a PPO run, in one place."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pbim.agents import _bonus
from pbim.agents._correct import Adops
from pbim.agents._minibatches import Cuts
from pbim.agents._networks import Init, Memory, Network
from pbim.envs import Environment
from pbim.errors import InputError
from pbim.shaping import NoBonus, Shaping


@dataclass(frozen=True, kw_only=True)
class PPO:
    """A PPO run; the defaults reproduce torch-ac with rl-starter-files' model on MiniGrid.

    ``intrinsic`` is a bonus of ``pbim.intrinsic`` (its pure core runs inside the loop), multiplied by
    ``intrinsic_scale`` and converted by ``shaping``; ``reward_scale`` multiplies all that is learnt from, R and F'
    alike, and changes no optimum. ``truncation="bootstrap"`` adds the value of the final observation where the time
    limit cut an episode; F' is settled there all the same unless ``settle_truncated`` is off. ``critics="separate"``
    learns the values of R and of F' apart (with ``intrinsic_gamma`` for the latter): with it the bootstrap reads the
    critic of R alone, so that settlement and bootstrap do not mix. ``correction`` (ADOPS, ADOPES) changes what
    ``shaping`` emitted by what these two critics say. ``settlement="rollout"`` settles only the part of an episode
    inside each rollout, centred by that rollout's own mean: it does not cancel, promises nothing.
    """

    env: Environment[Any]
    intrinsic: Any = None
    intrinsic_scale: float = 1.0
    shaping: Shaping = field(default_factory=NoBonus)
    correction: Adops | None = None
    reward_scale: float = 1.0
    gamma: float = 0.99
    intrinsic_gamma: float | None = None
    truncation: Literal["end", "bootstrap"] = "end"
    settle_truncated: bool = True
    settlement: Literal["episode", "rollout"] = "episode"
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
    memory: Memory = "lstm"
    hidden_size: int = 64
    head_size: int = 64
    init_scheme: Init = "torch-ac"

    def __post_init__(self) -> None:
        _at_least_one(self, "total_frames", "num_envs", "num_steps", "epochs", "minibatch_size", "recurrence")
        _at_least_one(self, "hidden_size", "head_size")
        _divides("recurrence", self.recurrence, "num_steps", self.num_steps)
        _divides("recurrence", self.recurrence, "minibatch_size", self.minibatch_size)
        _divides("minibatch_size", self.minibatch_size, "num_envs * num_steps", self.frames)
        if self.memory == "none" and self.recurrence != 1:
            raise InputError(f"recurrence must be 1 without memory, received {self.recurrence}: pass recurrence=1")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma must be in (0, 1], received {self.gamma}: 0.99 is usual")
        if not 0 < self.reward_scale < float("inf"):
            raise InputError(f"reward_scale must be above 0 and finite, received {self.reward_scale}: 1 is usual")
        if self.intrinsic_gamma is not None and self.critics == "joint":
            raise InputError("intrinsic_gamma needs a critic of its own: pass critics='separate', or leave it out")
        if self.correction is not None and (self.critics == "joint" or self.bonus_gamma != self.gamma):
            raise InputError(
                "correction needs critics of R and F' that share one gamma: pass critics='separate' and leave "
                "intrinsic_gamma out"
            )
        converted = getattr(self.shaping, "gamma", None)
        if converted is not None and float(converted) != self.bonus_gamma:
            raise InputError(
                f"shaping.gamma must be the discount F' is learnt with, {self.bonus_gamma}, received {converted}: "
                f"cancellation holds for that one only; pass gamma={self.bonus_gamma} to {type(self.shaping).__name__}"
            )
        if self.env.max_steps:
            self.shaping.check_horizon(self.env.max_steps)

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
            num_values=1 if self.critics == "joint" else 2,
            num_indices=getattr(self.env, "num_states", 0),
            memory=self.memory,
            hidden_size=self.hidden_size,
            head_size=self.head_size,
            init_scheme=self.init_scheme,
        )


def _at_least_one(config: PPO, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, received {value!r}: raise it")


def _divides(name: str, divisor: int, of: str, number: int) -> None:
    if number % divisor:
        near = [d for d in range(1, number + 1) if number % d == 0]
        best = min(near, key=lambda d: abs(d - divisor))
        raise InputError(f"{name} must divide {of} ({number}), received {divisor}: {best} does")
