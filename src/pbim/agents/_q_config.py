"""Every choice of a run of tabular Q-learning, and the rows it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pbim.agents import bonus as _bonus
from pbim.agents._checks import check_counts, check_discount, check_numbers, check_parts, check_windows, is_exact
from pbim.config import Component
from pbim.envs import FiniteEnvironment
from pbim.errors import InputError
from pbim.metric import Metric, metrics_of
from pbim.shaping import LookAhead, NoBonus, Shaping
from pbim.truncation import Truncation


class EpisodeRows(NamedTuple):
    """The rows of a run, one per episode, (episodes,) each; ``return_`` is stored as ``return``."""

    episode: Annotated[NDArray[np.int32], Metric(label="Episode", unit="from 0", average="last", dtype="int32")]
    steps: Annotated[NDArray[np.int64], Metric(label="Steps", unit="steps so far", average="last", dtype="int64")]
    return_: Annotated[
        NDArray[np.float32], Metric(label="Extrinsic return", unit="reward", better="higher", curve=True)
    ]
    length: Annotated[
        NDArray[np.int32], Metric(label="Episode length", unit="steps", better="lower", dtype="int32", curve=True)
    ]
    terminated: Annotated[
        NDArray[np.bool_], Metric(label="Episodes that terminated", unit="share of the episodes", dtype="bool")
    ]


@dataclass(frozen=True, kw_only=True)
class QLearning(Component):
    """A tabular run; ``epsilon`` falls from ``epsilon_start`` to ``epsilon_min`` by ``epsilon_decay`` per episode.

    Attributes:
        env: A compiled environment with a finite number of states.
        episodes: How many to play; the rows of the run.
        intrinsic: A bonus of ``pbim.intrinsic`` (when it learns, ``bonus_learns`` says); None for no bonus.
        intrinsic_scale: What the bonus is multiplied by before it is converted.
        shaping: The conversion of the bonus. With ``LookAhead(...)`` the ``advice`` is paid instead, F' = gamma *
            Phi(s', a') - Phi(s, a), where a' is the action of the learning rule, the best by Q + Phi: the run is the
            one that an unshaped learner with the table Q + Phi would have, and its residual, off policy, need not be 0.
        truncation: What the learner does at a time limit (see :mod:`pbim.truncation`). ``"settle"`` sets the target to
            r + F' with the ledger settled; ``"bootstrap"`` adds the value of the next state and leaves the ledger open;
            ``"continue"`` takes every ``env.max_steps`` steps for a window of a task that goes on: it makes a row of
            the records and moves epsilon, and neither environment, bonus, ledger nor target takes notice.
        advice: Phi(s, a), (num_states, num_actions) as a nested tuple, by which look-ahead advice and PIES choose
            actions: Q + advice, the latter fading with its coefficient (Wiewiora et al. 2003; Behboudian et al. 2022).
        bonus_learns: When the bonus learns: at every ``"step"``, after every ``"episode"`` from all of its steps at
            once, or ``"never"``.
        trace_lambda: 0 is one-step Q-learning. Above 0 it is Watkins's Q(lambda): an error also corrects the pairs
            visited before, by (gamma lambda)^k after k steps, up to the last explored action (replacing traces).
        lanes: How many seeds a study trains side by side in one program; part of the arithmetic.

    """

    kind: ClassVar[str] = "q-learning"
    metrics: ClassVar[Mapping[str, Metric]] = {
        name.removesuffix("_"): metric for name, metric in metrics_of(EpisodeRows).items()
    }
    axis: ClassVar[str] = "episode"

    env: FiniteEnvironment[Any]
    episodes: int = 4000
    intrinsic: Any = None
    intrinsic_scale: float = 1.0
    shaping: Shaping[Any] = field(default_factory=NoBonus)
    gamma: float = 0.99
    learning_rate: float = 0.1
    epsilon_start: float = 1.0
    epsilon_min: float = 0.1
    epsilon_decay: float = 4e-4
    initial_value: float = 0.0
    truncation: Truncation = "settle"
    advice: tuple[tuple[float, ...], ...] | None = None
    bonus_learns: Literal["step", "episode", "never"] = "step"
    trace_lambda: float = 0.0
    lanes: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parts(self)
        tabular = getattr(self.env, "num_states", None) is not None and self.env.obs_shape == ()
        if not tabular or not hasattr(self.env, "reset"):
            raise InputError(
                f"env must be compiled and have a finite number of states (num_states, observations ()), received "
                f"{self.env}: use CliffWalk, ToyText or RiverSwim of pbim.envs, or train PPO"
            )
        check_counts(self, "episodes", "lanes")
        check_numbers(self, "(0, 1]", "gamma")
        check_numbers(self, "[0, 1]", "trace_lambda", "learning_rate", "epsilon_start", "epsilon_min", "epsilon_decay")
        check_numbers(self, "[0, inf)", "intrinsic_scale")
        check_numbers(self, "(-inf, inf)", "initial_value")
        check_discount(self.shaping, self.gamma)
        check_windows(self.env, self.truncation)
        if self.bonus_learns == "episode" and (_bonus.is_stepwise(self.intrinsic) or not self.env.max_steps):
            raise InputError(
                "bonus_learns 'episode' is for bonuses of networks in episodes of a known length, received "
                f"{self.intrinsic} in {self.env}: pass 'step'"
            )
        self._check_advice()

    def _check_advice(self) -> None:
        if self.looks_ahead and self.advice is None:
            raise InputError("shaping LookAhead needs advice, Phi(s, a): without it the optimal policy is lost")
        if self.looks_ahead and self.intrinsic is not None:
            raise InputError("shaping LookAhead pays advice, not a bonus: leave intrinsic out")
        if self.looks_ahead and self.truncation != "settle":
            raise InputError(
                f"shaping LookAhead settles at a time limit, received truncation {self.truncation!r}: pass 'settle'"
            )
        shape = (self.num_states, self.env.num_actions)
        if self.advice is not None and np.shape(self.advice) != shape:
            raise InputError(
                f"advice must have shape {shape}, received {np.shape(self.advice)}: one row per state, one column per "
                "action"
            )

    @property
    def exact(self) -> bool:
        """Whether the run promises that F' cancels over every whole episode."""
        return is_exact(self.shaping, self.truncation)

    @property
    def looks_ahead(self) -> bool:
        """Whether advice is paid."""
        return isinstance(self.shaping, LookAhead)

    @property
    def num_states(self) -> int:
        """Rows of the table."""
        return int(self.env.num_states)

    def epsilon(self, episode: Array) -> Array:
        """Return the exploration rate in the given episode (counted from 0)."""
        return jnp.maximum(self.epsilon_start - self.epsilon_decay * episode, self.epsilon_min)
