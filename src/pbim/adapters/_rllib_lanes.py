"""RLlib: which row of the batch an episode has, and the record of an episode that travels with it.

RLlib hands a connector a list of episodes, of which some stepped, some were reset and some are new; in a multi-agent
environment every agent has one of its own. A bonus and a conversion want fixed rows. ``EpisodeLanes`` gives each
running episode a row (a lane) from its first observation to its last.

The record of a running episode, its ledger and its returns, is in ``custom_data``. RLlib copies that into the next
chunk when it cuts an episode into fragments, and pickles it with the episode: only then the record is made, so that
another connector can go on from it.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import RewardPath, StepRewards
from pbim.adapters._evidence import Mask
from pbim.adapters.batching import ListedInfo, stack, with_rows
from pbim.errors import InputError
from pbim.intrinsic.protocol import Transition

RECORD = "pbim"
"""The key of ``episode.custom_data`` under which an episode's record is; in a multi-agent episode, by agent."""
RETURNS = ("extrinsic_return", "intrinsic_return", "shaping_return_undiscounted", "shaping_return_discounted")
_NOTHING = (*[0.0] * len(RETURNS), 0.0, 1.0)
"""``RETURNS``, sum gamma^t |F'_t| and gamma^t before the first step of an episode."""

_NO_INFO: dict[str, Any] = {}

AgentEpisode: TypeAlias = tuple[Any, Any, Any]
"""One agent's episode: the whole, whose custom data fragments keep, the agent, None if alone, and the agent's steps."""


class FinishedEpisode(NamedTuple):
    """An episode that is over: ``RETURNS``, its relative residual, and whether it was cut off by a time limit."""

    returns: list[float]
    residual: float
    cut_off: bool


class RunningRecord(dict[str, Any]):
    """The record of an episode that runs in a lane: made when it is read, and filled in when RLlib cuts the episode."""

    def __init__(self, lanes: "EpisodeLanes", lane: int) -> None:
        super().__init__()
        self._lanes, self._lane = lanes, lane

    def filled(self) -> dict[str, Any]:
        """Return a plain record; this one is filled in, too, and changes no more."""
        if not self:
            self.update(self._lanes.record(self._lane))
        return dict(self)

    def __missing__(self, name: str) -> Any:
        return self._lanes.record(self._lane)[name]

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return self.filled()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self) or self._lanes.record(self._lane),)


def record_of(part: AgentEpisode) -> Any:
    """Return what is known of an episode; None before its first step."""
    whole, agent, _ = part
    record = whole.custom_data.get(RECORD)
    return record if agent is None or record is None else record.get(agent)


def keep_record(part: AgentEpisode, record: dict[str, Any]) -> None:
    """Put a record where fragments keep it."""
    whole, agent, _ = part
    if agent is None:
        whole.custom_data[RECORD] = record
    else:
        whole.custom_data.setdefault(RECORD, {})[agent] = record


def agent_episodes(episodes: list[Any], modules: tuple[str, ...] | None) -> list[AgentEpisode]:
    """Return the episodes that are shaped, agent by agent, once they have an observation."""
    if not isinstance(episodes[0], MultiAgentEpisode):
        return [(whole, None, whole) for whole in episodes if whole.observations.data]
    return [
        (whole, agent, episode)
        for whole in episodes
        for agent, episode in whole.agent_episodes.items()
        if modules is None or episode.module_id in modules
    ]


def spaces_of(part: AgentEpisode, obs_space: Any, action_space: Any) -> Spaces:
    """Return the two spaces of an agent, from those of the pipeline or, without them, as its first step shows them."""
    _, agent, episode = part
    if agent is not None:
        obs_space = obs_space[agent] if obs_space is not None else None
        action_space = action_space[agent] if action_space is not None else None
    obs = np.asarray(episode.observations.data[-1])
    return Spaces(
        obs_space or episode.observation_space or spaces.Box(-np.inf, np.inf, obs.shape),
        action_space or episode.action_space or spaces.Discrete(1),
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
        self._path, self._spaces, self._gamma = path, spaces, path.gamma or 1.0
        self._lane_of: dict[tuple[str, Any], int] = {}
        self._free = list(range(count))[::-1]
        self._obs: list[Any] = [first] * count  # an empty lane shows what some episode began with
        self._steps = [0] * count
        self._batch = stack(spaces.obs, self._obs)
        self._sums = [_NOTHING] * count
        self._records: list[RunningRecord | None] = [None] * count
        self.abandoned = 0

    def place(self, parts: list[AgentEpisode], complete: bool) -> dict[int, AgentEpisode]:
        """Give new episodes a lane, and return those that took a step, by lane.

        Args:
            parts: The episodes of this call.
            complete: Whether these are all that run, so that one that is missing was reset.

        """
        stepped, new = {}, []
        lane_of, steps = self._lane_of, self._steps
        for part in parts:
            whole, agent, episode = part
            lane = lane_of.get((whole.id_, agent))
            if lane is None:
                new.append(part)
            elif episode.t > steps[lane]:
                stepped[lane] = part
        if new and complete and len(lane_of) > len(parts) - len(new):
            self._drop_missing(parts)
        began = {}
        for part in new:
            record, (_, _, episode) = record_of(part), part
            if isinstance(record, RunningRecord):  # of another connector
                record = record.filled()
            if episode.is_done and (episode.t == 0 if record is None else "ledger" not in record):
                continue  # an agent that was done before the others
            self._check_space(part)
            lane = self._take(part)
            self._steps[lane], self._obs[lane] = episode.t, episode.observations.data[-1]
            if episode.t > 0:
                self._continue(lane, episode, record)
            if episode.t > self._steps[lane]:
                stepped[lane] = part
            began[lane] = self._obs[lane]
        if began:
            self._batch = with_rows(self._spaces.obs, self._batch, began)
        return stepped

    def transition(self, stepped: dict[int, AgentEpisode]) -> tuple[Transition, NDArray[np.float64]]:
        """Return the step of all lanes as one batch, and its extrinsic rewards; lanes without a step are not valid."""
        count, lane_obs, steps = self._path.num_envs, self._obs, self._steps
        _, _, any_episode = next(iter(stepped.values()))
        actions, infos, extrinsic = [any_episode.actions.data[-1]] * count, [_NO_INFO] * count, [0.0] * count
        terminated = truncated = nowhere = self._path.nowhere
        for lane, (_, _, episode) in stepped.items():
            lane_obs[lane], steps[lane] = episode.observations.data[-1], episode.t
            actions[lane], infos[lane] = episode.actions.data[-1], episode.infos.data[-1]
            extrinsic[lane] = episode.rewards.data[-1]
            if episode.is_terminated or episode.is_truncated:
                if terminated is nowhere:
                    terminated, truncated = nowhere.copy(), nowhere.copy()
                terminated[lane], truncated[lane] = episode.is_terminated, episode.is_truncated
        valid = None
        if len(stepped) < count:
            valid = nowhere.copy()
            valid[list(stepped)] = True
        before, self._batch = self._batch, stack(self._spaces.obs, lane_obs)
        action = stack(self._spaces.action, actions)
        transition = Transition(before, action, self._batch, terminated, truncated, ListedInfo(infos), valid)
        return transition, np.array(extrinsic, np.float64)

    def finish(self, stepped: dict[int, AgentEpisode], rewards: StepRewards) -> list[FinishedEpisode]:
        """Write the rewards into the episodes, note their returns, and return those that are over."""
        gamma, sums, finished = self._gamma, self._sums, []
        extrinsic, intrinsic, shaping, total, over = [part.tolist() for part in rewards]
        for lane, part in stepped.items():  # numbers of Python: for a few lanes NumPy would cost more
            part[2].rewards.data[-1] = total[lane]
            task, bonus, paid, discounted, scale, discount = sums[lane]
            now = discount * shaping[lane]
            task, bonus, paid, discounted = (
                task + extrinsic[lane],
                bonus + intrinsic[lane],
                paid + shaping[lane],
                discounted + now,
            )
            sums[lane] = task, bonus, paid, discounted, scale + abs(now), discount * gamma
            if over[lane]:
                finished.append(self._finish(lane, part))
            else:
                record = self._records[lane]
                if record is None or record:  # the next chunk begins
                    record = self._records[lane] = RunningRecord(self, lane)
                    keep_record(part, record)
        return finished

    def record(self, lane: int) -> dict[str, Any]:
        """Return what another connector needs to go on with the episode of a lane."""
        leaves = lane_arrays(self._path.shaping_state)
        ledger = [leaf[..., lane].copy() if leaf.ndim > 1 else float(leaf[lane]) for leaf in leaves]
        return {"steps": self._steps[lane], "sums": list(self._sums[lane]), "ledger": ledger}

    def _finish(self, lane: int, part: AgentEpisode) -> FinishedEpisode:
        """Leave the returns of an episode that is over in it, and give its lane free."""
        *returns, scale, _ = self._sums[lane]
        _, _, episode = part
        cut_off = bool(episode.is_truncated and not episode.is_terminated)
        keep_record(part, {**dict(zip(RETURNS, returns, strict=True)), "truncated": cut_off})
        self._release(part)
        return FinishedEpisode(returns, abs(returns[-1]) / (scale or 1.0), cut_off)

    def _take(self, part: AgentEpisode) -> int:
        whole, agent, _ = part
        if not self._free:
            raise InputError(
                f"episodes must be at most {self._path.num_envs} at once, one per environment and agent that the "
                f"observation space names, received one more ({whole.id_}, agent {agent!r}): name all agents in "
                "possible_agents and observation_spaces of the environment"
            )
        lane = self._lane_of[whole.id_, agent] = self._free.pop()
        return lane

    def _check_space(self, part: AgentEpisode) -> None:
        _, agent, episode = part
        if agent is not None and episode.observation_space not in (None, self._spaces.obs):
            raise InputError(
                f"agents that get one bonus must share one observation space, received {self._spaces.obs} and, of "
                f"agent {agent!r}, {episode.observation_space}: name the modules to shape, modules=[...]"
            )

    def _release(self, part: AgentEpisode) -> None:
        whole, agent, _ = part
        lane = self._lane_of.pop((whole.id_, agent))
        self._free.append(lane)
        self._clear(lane)

    def _clear(self, lane: int) -> None:
        self._sums[lane], self._records[lane] = _NOTHING, None

    def _drop_missing(self, parts: list[AgentEpisode]) -> None:
        """Abandon episodes that run no more: the environments were reset, or an agent's episode ended without it."""
        gone = self._lane_of.keys() - {(whole.id_, agent) for whole, agent, _ in parts}
        where: Mask = np.zeros(self._path.num_envs, np.bool_)
        for key in gone:
            lane = self._lane_of.pop(key)
            where[lane], record = True, self._records[lane]
            if record is not None:
                record.filled()
            self._free.append(lane)
            self._clear(lane)
        self.abandoned += len(gone)
        self._path.restart(where)

    def _continue(self, lane: int, episode: Any, record: dict[str, Any] | None) -> None:
        """Go on with an episode that another connector began, from the record it left; there is none before a step."""
        self._steps[lane] = episode.t - 1 if record is None else record["steps"]
        self._obs[lane] = episode.observations.data[self._steps[lane] - episode.t - 1]
        if record is None:
            return
        self._sums[lane] = tuple(record["sums"])
        arrays = {name: np.array(array) for name, array in self._path.state_dict().items()}
        total, scale, discount = record["sums"][-3:]
        certificate = {"total": total, "scale": scale, "discount": discount}
        lanes = [name for name, array in arrays.items() if name.startswith("shaping.") and array.ndim]
        columns = dict(zip(lanes, record["ledger"], strict=True))
        columns |= {f"certificate.{name}": value for name, value in certificate.items()}
        for name, column in {**columns, "running": np.bool_(True)}.items():
            arrays[name][..., lane] = column
        self._path.load_state_dict(arrays)
