"""RLlib: which row of the batch an episode has, and the record of an episode that travels with it.

RLlib hands a connector a list of episodes, of which some stepped, some were reset and some are new; in a multi-agent
environment every agent has one of its own. A bonus and a conversion want fixed rows. ``EpisodeLanes`` gives each
running episode a row (a lane) from its first observation to its last.

The record of a running episode, its ledger and its returns, is written into ``custom_data`` after every step. RLlib
copies that into the next chunk when it cuts an episode into fragments, so that another connector can go on from it.
"""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import RewardPath, StepRewards
from pbim.adapters._evidence import Mask
from pbim.adapters.batching import ListedInfo, stack
from pbim.errors import InputError
from pbim.intrinsic.protocol import Transition

RECORD = "pbim"
"""The key of ``episode.custom_data`` under which an episode's record is; in a multi-agent episode, by agent."""
RETURNS = ("extrinsic_return", "intrinsic_return", "shaping_return_undiscounted", "shaping_return_discounted")
_NOTHING = [0.0] * len(RETURNS) + [0.0, 1.0]
"""``RETURNS``, sum gamma^t |F'_t| and gamma^t before the first step of an episode."""


class FinishedEpisode(NamedTuple):
    """An episode that is over: ``RETURNS``, its relative residual, and whether it was cut off by a time limit."""

    returns: list[float]
    residual: float
    cut_off: bool


class AgentEpisode(NamedTuple):
    """One agent's episode: ``episode`` holds its steps, ``whole`` the custom data that fragments keep."""

    whole: Any
    agent: Any
    episode: Any

    @property
    def record(self) -> dict[str, Any] | None:
        """What is known of this episode; None before its first step."""
        record: dict[Any, Any] | None = self.whole.custom_data.get(RECORD)
        return record if self.agent is None or record is None else record.get(self.agent)

    @record.setter
    def record(self, record: dict[str, Any]) -> None:
        if self.agent is None:
            self.whole.custom_data[RECORD] = record
        else:
            self.whole.custom_data.setdefault(RECORD, {})[self.agent] = record


def agent_episodes(episodes: list[Any], modules: tuple[str, ...] | None) -> list[AgentEpisode]:
    """Return the episodes that are shaped, agent by agent, once they have an observation."""
    if not isinstance(episodes[0], MultiAgentEpisode):
        return [AgentEpisode(whole, None, whole) for whole in episodes if whole.observations.data]
    return [
        AgentEpisode(whole, agent, episode)
        for whole in episodes
        for agent, episode in whole.agent_episodes.items()
        if modules is None or episode.module_id in modules
    ]


def spaces_of(part: AgentEpisode, obs_space: Any, action_space: Any) -> Spaces:
    """Return the two spaces of an agent, from those of the pipeline or, without them, as its first step shows them."""
    if part.agent is not None:
        obs_space = obs_space[part.agent] if obs_space is not None else None
        action_space = action_space[part.agent] if action_space is not None else None
    obs = np.asarray(part.episode.observations.data[-1])
    return Spaces(
        obs_space or part.episode.observation_space or spaces.Box(-np.inf, np.inf, obs.shape),
        action_space or part.episode.action_space or spaces.Discrete(1),
    )


def lane_arrays(state: Any) -> list[Any]:
    """Return the arrays of a conversion's state that have an entry per lane, in the order of their names."""
    if isinstance(state, tuple):
        return [array for part in state for array in lane_arrays(part)]
    return [state] if getattr(state, "ndim", 0) else []


class EpisodeLanes:
    """The rows of running episodes: their latest observations, ages and returns."""

    def __init__(self, path: RewardPath, spaces: Spaces, first: Any) -> None:
        count = path.num_envs
        self._path, self._spaces = path, spaces
        self._lane_of: dict[tuple[str, Any], int] = {}
        self._free = list(range(count))[::-1]
        self._obs: list[Any] = [first] * count  # an empty lane shows what some episode began with
        self._steps = [0] * count
        self._batch: Any = None
        self._sums = [_NOTHING] * count
        self.abandoned = 0

    def place(self, parts: list[AgentEpisode], complete: bool) -> dict[int, AgentEpisode]:
        """Give new episodes a lane, and return those that took a step, by lane.

        Args:
            parts: The episodes of this call.
            complete: Whether these are all that run, so that one that is missing was reset.

        """
        stepped, new = {}, []
        for part in parts:
            lane = self._lane_of.get((part.whole.id_, part.agent))
            if lane is None:
                new.append(part)
            elif part.episode.t > self._steps[lane]:
                stepped[lane] = part
        if new and complete:
            self._drop_missing(parts)
        for part in new:
            record, episode = part.record, part.episode
            if episode.is_done and (record is None or "ledger" not in record):
                continue  # an agent that was done before the others
            self._check_space(part)
            lane = self._take(part)
            self._steps[lane], self._obs[lane] = episode.t, episode.observations.data[-1]
            self._batch = None  # it showed the lane's last episode
            if record is not None and episode.t > 0:
                self._continue(lane, episode, record)
                if episode.t > self._steps[lane]:
                    stepped[lane] = part
        return stepped

    def transition(self, stepped: dict[int, AgentEpisode]) -> tuple[Transition, NDArray[np.float64]]:
        """Return the step of all lanes as one batch, and its extrinsic rewards; lanes without a step are not valid."""
        count = self._path.num_envs
        any_action = next(iter(stepped.values())).episode.actions.data[-1]
        actions, infos, extrinsic = [any_action] * count, [dict[str, Any]()] * count, [0.0] * count
        terminated, truncated, valid = [False] * count, [False] * count, [False] * count
        before = stack(self._spaces.obs, self._obs) if self._batch is None else self._batch
        for lane, (_, _, episode) in stepped.items():
            self._obs[lane] = episode.observations.data[-1]
            self._steps[lane] = episode.t
            actions[lane], infos[lane] = episode.actions.data[-1], episode.infos.data[-1]
            extrinsic[lane] = episode.rewards.data[-1]
            terminated[lane], truncated[lane], valid[lane] = episode.is_terminated, episode.is_truncated, True
        self._batch = stack(self._spaces.obs, self._obs)
        transition = Transition(
            obs=before,
            action=stack(self._spaces.action, actions),
            next_obs=self._batch,
            terminated=np.array(terminated, np.bool_),
            truncated=np.array(truncated, np.bool_),
            info=ListedInfo(infos),
            valid=None if len(stepped) == count else np.array(valid),
        )
        return transition, np.array(extrinsic, np.float64)

    def finish(self, stepped: dict[int, AgentEpisode], rewards: StepRewards) -> list[FinishedEpisode]:
        """Write the rewards and the records into the episodes, and return those that are over."""
        gamma = self._path.gamma or 1.0
        extrinsic, intrinsic, shaping, total, over = (part.tolist() for part in rewards)
        state = self._path.shaping_state
        rows = [leaf.T.copy() if leaf.ndim > 1 else leaf.tolist() for leaf in lane_arrays(state)]
        ledgers, finished = list(zip(*rows, strict=True)), []
        for lane, part in stepped.items():  # numbers of Python: for a few lanes NumPy would cost more
            part.episode.rewards.data[-1] = total[lane]
            task, bonus, paid, discounted, scale, discount = self._sums[lane]
            now = discount * shaping[lane]
            returns = [task + extrinsic[lane], bonus + intrinsic[lane], paid + shaping[lane], discounted + now]
            if over[lane]:
                cut_off = bool(part.episode.is_truncated and not part.episode.is_terminated)
                part.record = {**dict(zip(RETURNS, returns, strict=True)), "truncated": cut_off}
                residual = abs(returns[-1]) / ((scale + abs(now)) or 1.0)
                finished.append(FinishedEpisode(returns, residual, cut_off))
                self._release(part)
            else:
                self._sums[lane] = [*returns, scale + abs(now), discount * gamma]
                part.record = {"steps": self._steps[lane], "sums": self._sums[lane], "ledger": ledgers[lane]}
        return finished

    def _take(self, part: AgentEpisode) -> int:
        if not self._free:
            raise InputError(
                f"episodes must be at most {self._path.num_envs} at once, one per environment and agent that the "
                f"observation space names, received one more ({part.whole.id_}, agent {part.agent!r}): name all agents "
                "in possible_agents and observation_spaces of the environment"
            )
        lane = self._lane_of[part.whole.id_, part.agent] = self._free.pop()
        return lane

    def _check_space(self, part: AgentEpisode) -> None:
        if part.agent is not None and part.episode.observation_space not in (None, self._spaces.obs):
            raise InputError(
                f"agents that get one bonus must share one observation space, received {self._spaces.obs} and, of "
                f"agent {part.agent!r}, {part.episode.observation_space}: name the modules to shape, modules=[...]"
            )

    def _release(self, part: AgentEpisode) -> None:
        lane = self._lane_of.pop((part.whole.id_, part.agent))
        self._free.append(lane)
        self._clear(lane)

    def _clear(self, lane: int) -> None:
        self._sums[lane] = _NOTHING

    def _drop_missing(self, parts: list[AgentEpisode]) -> None:
        """Abandon episodes that run no more: the environments were reset, or an agent's episode ended without it."""
        present = {(part.whole.id_, part.agent) for part in parts}
        where: Mask = np.zeros(self._path.num_envs, np.bool_)
        for key in self._lane_of.keys() - present:
            lane = self._lane_of.pop(key)
            where[lane] = True
            self._free.append(lane)
            self._clear(lane)
        self.abandoned += int(where.sum())
        self._path.restart(where)

    def _continue(self, lane: int, episode: Any, record: dict[str, Any]) -> None:
        """Go on with an episode that another connector began, from the record it left."""
        self._steps[lane] = record["steps"]
        self._obs[lane] = episode.observations.data[record["steps"] - episode.t - 1]
        self._sums[lane] = list(record["sums"])
        arrays = {name: np.array(array) for name, array in self._path.state_dict().items()}
        total, scale, discount = record["sums"][-3:]
        certificate = {"total": total, "scale": scale, "discount": discount}
        lanes = [name for name, array in arrays.items() if name.startswith("shaping.") and array.ndim]
        columns = dict(zip(lanes, record["ledger"], strict=True))
        columns |= {f"certificate.{name}": value for name, value in certificate.items()}
        for name, column in {**columns, "running": np.bool_(True)}.items():
            arrays[name][..., lane] = column
        self._path.load_state_dict(arrays)
