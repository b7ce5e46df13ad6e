"""RLlib: ``ShapingConnector`` in the env-to-module pipeline of the new API stack adds F' to the rewards of episodes.

RLlib hands its learners fragments of episodes, and so the ledger belongs where whole episodes are seen: into the env
runners. A connector there is called after every step, also after the last one, before the episode is handed on.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.rllib", "tree")

import copy
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from pbim.adapters._engine import RewardPath, print_line
from pbim.adapters._evidence import TrainingReport as TrainingReport
from pbim.adapters._pool import Pool, State
from pbim.adapters._rllib_lanes import RETURNS, AgentEpisode, EpisodeLanes, FinishedEpisode, agent_episodes, spaces_of
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus
from pbim.shaping import Mean, Shaping
from pbim.truncation import Truncation

__all__ = ["ShapingConnector", "TrainingReport", "certificate"]

_COUNTS = ("episodes_certified", "episodes_bootstrapped", "episodes_abandoned")


class ShapingConnector(ConnectorV2):
    """An env-to-module connector that adds the converted bonus to the rewards of episodes, before a learner sees them.

    Build it inside the function that the config takes, first in the list, so that every env runner has its own and the
    bonus sees observations as they come from the environment. The env runners share what they learn: RLlib merges
    their states after every iteration, F-bar and counts exactly, networks by their average. In evaluation the
    connector steps aside, so that returns are the task's own.

    Args:
        intrinsic: Any callable ``transition -> array (num_envs,)``, or an object with ``reward(transition)`` and
            ``update(transition)``; the connector works with a copy. Actions are those of the policy, as RLlib stores
            them (continuous ones before they are scaled to the action space).
        shaping: The conversion, with the learner's gamma.
        truncation: ``"settle"`` (default) settles the ledger at a time limit and marks the episode as terminated, so
            that the learner stops there, too. ``"bootstrap"`` leaves the episode truncated: the learner adds its
            value of the last observation, and the open ledger is left to that. ``"continue"`` is refused.
        modules: In a multi-agent environment, the modules (policies) whose agents get the bonus; None means all. They
            need one observation space and one action space. Derive an empty class for a second connector with
            another bonus: RLlib keeps states by the name of the class.
        update_every: The bonus learns once from this many vector steps. A bonus with ``stepwise = True`` (counts,
            memories of an episode) still learns every step.
        max_episode_steps: The longest episode, if known; a conversion that would have to repay too much in that time
            warns.
        input_observation_space: Set by RLlib.
        input_action_space: Set by RLlib.

    Raises:
        InputError: If an argument breaks a rule, or gamma is not that of the algorithm's config.

    >>> import pbim
    >>> from ray.rllib.algorithms.ppo import PPOConfig
    >>> def connector(env, spaces, device):
    ...     return ShapingConnector(intrinsic=pbim.EpisodicCount(), shaping=pbim.Geometric(gamma=0.99))
    >>> config = PPOConfig().environment("CliffWalking-v1").training(gamma=0.99)
    >>> config = config.env_runners(env_to_module_connector=connector)

    """

    def __init__(
        self,
        intrinsic: Bonus,
        shaping: Shaping[Any],
        truncation: Truncation = "settle",
        *,
        modules: Sequence[str] | None = None,
        update_every: int = 1,
        max_episode_steps: int | None = None,
        input_observation_space: Any = None,
        input_action_space: Any = None,
    ) -> None:
        if truncation == "continue":
            raise InputError(
                "truncation='continue' needs environments that go on after a truncation, received an env runner's, "
                "which resets them: choose 'settle' or 'bootstrap'"
            )
        if isinstance(modules, str):
            raise InputTypeError(f"modules must be a list of module ids, received {modules!r}: pass [{modules!r}]")
        super().__init__(input_observation_space, input_action_space)
        self._arguments: dict[str, Any] = {
            "intrinsic": intrinsic,
            "shaping": shaping,
            "truncation": truncation,
            "modules": modules,
        }
        self._options = {"update_every": update_every, "max_episode_steps": max_episode_steps}
        self._modules = None if modules is None else tuple(modules)
        self._steps_aside = self._was_called = False
        self._config: AlgorithmConfig | None = None
        self._begin()
        self._check_config(*_config_of("build_env_to_module_connector"))

    def __call__(
        self, *, batch: dict[str, Any], episodes: list[Any], metrics: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Add F' to the last reward of every episode that took a step; ``batch`` passes through."""
        del kwargs
        if not self._was_called:
            self._was_called = True
            if self._config is None:  # built elsewhere and returned by the function
                self._check_config(*_config_of("_sample", "_reset_envs"))
        if not self._steps_aside:
            self._convert(episodes)
            if metrics is not None and self._finished and self._lanes is not None:
                self._log(metrics, self._lanes)
        return batch

    def certificate(self) -> TrainingReport:
        """Return whether F' cancelled in every finished episode of all env runners, as of the last merge."""
        return self._pool.report(self._path.report())

    def mean(self) -> Mean:
        """Return F-bar, the mean bonus of all env runners, as of the last merge, and of how many steps it is."""
        self._note()
        return self._pool.mean()

    def get_state(self, *args: Any, **kwargs: Any) -> State:
        """Return what all env runners have learned, as far as this one knows; ledgers travel with the episodes."""
        del args, kwargs
        self._note()
        return self._pool.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what other env runners have learned; running episodes go on.

        Raises:
            InputError: If the state is of another conversion or bonus, or was lost on the way.

        """
        if "workers" not in state:
            raise InputError(
                "the merged state must be that of ShapingConnector, received another connector's: RLlib merges states "
                "by position, so let env_to_module_connector return [ShapingConnector(...), ...] with it first"
            )
        self._pool.join([state])
        if self._steps:  # before its first step a bonus has no arrays to load into
            self._pool.give(self._path, self._steps)

    def merge_states(self, states: list[State]) -> State:
        """Return this state with those of other env runners; merging one twice changes nothing."""
        self._note()
        self._pool.merge(states)
        return self._pool.state()

    def reset_state(self) -> None:
        """Forget all that was learned."""
        self._begin()

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[()], dict[str, Any]]:
        """Return how to build this connector again."""
        spaces = {
            "input_observation_space": self.input_observation_space,
            "input_action_space": self.input_action_space,
        }
        return (), {**self._arguments, **self._options, **spaces}

    def __getstate__(self) -> dict[str, Any]:
        return self.get_ctor_args_and_kwargs()[1]

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        self.__init__(**arguments)  # type: ignore[misc]  # a copy is a worker of its own

    def _begin(self) -> None:
        """Start with nothing learned; the rows are made when the first episodes show how many there are."""
        self._intrinsic = copy.deepcopy(self._arguments["intrinsic"])  # env runners of one process share the original
        self._pool = Pool(self._intrinsic, self._arguments["shaping"])
        self._path = self._make_path(1, None, **self._options)  # refuses wrong arguments now
        self._lanes: EpisodeLanes | None = None
        self._steps = 0
        self._finished: list[FinishedEpisode] = []
        self._worst = -1.0

    def _make_path(self, num_lanes: int, spaces: Any, **options: Any) -> RewardPath:
        given = self._arguments
        return RewardPath(
            self._intrinsic, given["shaping"], num_lanes, spaces, truncation=given["truncation"], **options
        )

    def _convert(self, episodes: list[Any]) -> None:
        """Run the step of all lanes through the bonus and the conversion, as one batch."""
        parts = agent_episodes(episodes, self._modules)
        if not parts:
            return
        lanes = self._lanes or self._make_lanes(len(episodes), parts[0])
        # RLlib passes episodes of several agents that are done apart from those that go on
        complete = parts[0][1] is None or not all(episode.is_done for episode in episodes)
        stepped = lanes.place(parts, complete)
        if not stepped:
            return
        transition, extrinsic = lanes.transition(stepped)
        if self._steps == 0:
            self._path.intrinsic.reward(transition)  # learned parts take shape, then what others learned fits in
            self._pool.give(self._path, 0)
        rewards = self._path.step(transition, extrinsic)
        self._steps += len(stepped)
        finished = lanes.finish(stepped, rewards)
        if not finished:
            return
        self._finished += finished
        if self._path.truncation == "settle":
            for _, _, episode in stepped.values():
                if episode.is_truncated:
                    episode.is_terminated, episode.is_truncated = True, False

    def _make_lanes(self, num_episodes: int, first: AgentEpisode) -> EpisodeLanes:
        spaces = spaces_of(first, self.input_observation_space, self.input_action_space)
        count = num_episodes
        whole, _, episode = first
        if isinstance(whole, MultiAgentEpisode):
            agents = self.input_observation_space or whole.agent_episodes
            count *= len(agents)
        debt = self._path.debt
        self._path = self._make_path(count, spaces, update_every=self._options["update_every"])
        self._path.debt = debt
        self._lanes = EpisodeLanes(self._path, spaces, episode.observations.data[-1])
        return self._lanes

    def _note(self) -> None:
        if self._steps:
            self._pool.note(self._path, self._steps)

    def _log(self, metrics: Any, lanes: EpisodeLanes) -> None:
        """Log the returns of episodes that finished, and the verdict so far, under ``pbim`` of the env runners."""
        logged = metrics.stats.get("pbim", {})

        def log(name: str, value: float, **settings: Any) -> None:
            if name in logged:
                logged[name].push(value)  # log_value does this, too, after looking for the name four times
            else:
                metrics.log_value(("pbim", name), value, **settings)

        window = 100
        if self._config is not None:  # RLlib joins the windows of the env runners, and divides its own alike
            window = self._config.metrics_num_episodes_for_smoothing // (self._config.num_env_runners or 1)
        for episode in self._finished:
            for name, value in zip(RETURNS, episode.returns, strict=True):
                log(name, value, window=max(1, window))
        bootstraps = self._path.truncation == "bootstrap"
        settled = [episode.residual for episode in self._finished if not (bootstraps and episode.cut_off)]
        counts = (len(settled), len(self._finished) - len(settled), lanes.abandoned)
        for name, count in zip(_COUNTS, counts, strict=True):
            if count or name not in logged:
                log(name, count, reduce="lifetime_sum")
        worst = max(settled, default=-1.0)
        if worst > self._worst:  # RLlib keeps the last value
            self._worst = worst
            ok = worst <= self._path.report().tolerance
            log("certificate_ok", float(ok), reduce="min", window=1)
            log("certificate_worst", worst, reduce="max", window=1)
        self._finished, lanes.abandoned = [], 0

    def _check_config(self, config: AlgorithmConfig | None, worker: int) -> None:
        """Compare the conversion with the algorithm; the one place that knows its config."""
        self._config = config
        if config is None:
            return
        self._steps_aside = config.in_evaluation
        modules = self._modules or config.algorithm_config_overrides_per_module
        learners = [] if self._modules else [config]
        lines: dict[str, None] = {}
        for learner in (*learners, *(config.get_config_for_module(module) for module in modules)):
            gae_lambda = getattr(learner, "lambda_", 0.0 if getattr(learner, "n_step", None) == 1 else None)
            if worker or self._steps_aside:
                gae_lambda = None  # worker 0, which every algorithm has, speaks for all
            rollout = None if config.batch_mode == "complete_episodes" else config.get_rollout_fragment_length()
            name = type(config).__name__
            self._path.check_learner(learner.gamma, name, gae_lambda=gae_lambda, rollout=rollout, say=lines.setdefault)
        for line in lines:
            print_line(line)


def certificate(algorithm: Any) -> TrainingReport:
    """Return whether F' cancelled in every episode that the env runners of an algorithm have finished.

    Args:
        algorithm: An RLlib algorithm whose env-to-module pipeline has a :class:`ShapingConnector`.

    Raises:
        InputError: If it has none.

    """
    return _connector_of(algorithm).certificate()


def _connector_of(algorithm: Any) -> ShapingConnector:
    runner = algorithm.env_runner
    pipeline = algorithm.env_to_module_connector if runner is None else runner._env_to_module
    for connector in pipeline.connectors:
        if isinstance(connector, ShapingConnector):
            return connector
    raise InputError(
        f"algorithm must have a ShapingConnector in its env-to-module pipeline, received {type(algorithm).__name__} "
        "without one: pass config.env_runners(env_to_module_connector=...)"
    )


def _config_of(*callers: str) -> tuple[AlgorithmConfig | None, int]:
    """Return the config of the algorithm whose method, one of ``callers``, is running now, and the env runner's number.

    None and 0 without one. RLlib tells a connector nothing of the algorithm, but the config itself builds it, and an
    env runner calls it.
    """
    config: AlgorithmConfig | None = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if config is None and frame.f_code.co_name in callers:
            found = owner if isinstance(owner, AlgorithmConfig) else getattr(owner, "config", None)
            config = found if isinstance(found, AlgorithmConfig) else None
        if config is not None and isinstance(owner, EnvRunner):
            return config, owner.worker_index or 0
        frame = frame.f_back
    return config, 0
