"""Environments of other suites are certified: EnvPool, PettingZoo through SuperSuit, Atari vectors, MiniHack.

Each test is skipped where its package is not installed; ``make matrix`` runs them all.
"""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import pbim
from pbim.intrinsic import EpisodicCount, LifetimeCount
from pbim.testing import AdapterCase, check_adapter

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")  # of EnvPool's float64 bounds

GAMMA = 0.9
SHAPING = pbim.PBIM(gamma=GAMMA)


class Recorded:
    """What each environment got, by its number; dummy steps are left out."""

    def __init__(self, num_envs: int) -> None:
        self.shaped: list[list[float]] = [[] for _ in range(num_envs)]
        self.ended: list[list[bool]] = [[] for _ in range(num_envs)]

    def add(self, row: int, total: float, extrinsic: float, ended: bool) -> None:
        self.shaped[row].append(total - extrinsic)
        self.ended[row].append(ended)

    def residual(self) -> float:
        """Return the largest residual of a finished episode, relative to the largest F'."""
        worst = 0.0
        for shaped, ended in zip(self.shaped, self.ended, strict=True):
            left = pbim.residuals(np.array(shaped), np.array(ended), GAMMA)
            assert len(left)
            worst = max(worst, float(np.abs(left).max()) / max(1.0, np.abs(shaped).max()))
        return worst


def certify(
    env: Any, steps: int, record_property: Any, name: str, bound: float = 1e-6
) -> pbim.adapters.gymnasium.TrainingReport:
    """Take random steps in a wrapped vector and certify what the learner gets; an end by either flag is settled."""
    record = Recorded(env.num_envs)
    env.action_space.seed(0)
    env.reset()
    for _ in range(steps):
        actions = np.array([env.single_action_space.sample() for _ in range(env.num_envs)])
        _, rewards, terminated, truncated, infos = env.step(actions)
        for row in np.flatnonzero(infos["_shaping_reward"]):
            over = bool(terminated[row] or truncated[row])
            record.add(row, float(rewards[row]), float(infos["extrinsic_reward"][row]), over)
    worst, report = record.residual(), env.certificate()
    record_property("adapter", name)
    record_property("residual", worst)
    assert worst < 1e-6
    assert report.ok
    assert report.episodes == sum(map(sum, record.ended))
    return report


def distance(step: Any) -> Any:
    return np.abs(step.next_obs).reshape(len(step.terminated), -1).sum(axis=1) * 0.1


# EnvPool


def pool(**kwargs: Any) -> Any:
    envpool = pytest.importorskip("envpool")
    return envpool.make("CartPole-v1", env_type="gymnasium", num_envs=5, seed=0, **kwargs)


def test_envpool_is_certified(record_property: Any) -> None:
    env = pbim.wrap(pool(max_episode_steps=12), distance, SHAPING)
    assert env.spec is None
    report = certify(env, 200, record_property, "envpool")
    assert report.episodes > 50


def test_the_time_limit_of_an_envpool_is_checked_against_the_ledger() -> None:
    with pytest.warns(pbim.RepaymentWarning, match="up to 1000 steps"):
        pbim.wrap(pool(max_episode_steps=1000), distance, SHAPING)


def asynchronous(truncation: Any, intrinsic: Any, steps: int = 400) -> tuple[Any, Recorded]:
    env = pbim.adapters.envpool.wrap(pool(batch_size=2, max_episode_steps=12), intrinsic, SHAPING, truncation)
    record, rng = Recorded(5), np.random.default_rng(0)
    env.async_reset()
    for _ in range(steps):
        _, rewards, terminated, truncated, info = env.recv()
        for row, number in enumerate(info["env_id"]):
            if info["_shaping_reward"][row]:
                over = bool(terminated[row] or truncated[row])
                record.add(number, float(rewards[row]), float(info["extrinsic_reward"][row]), over)
            else:
                assert rewards[row] == info["intrinsic_reward"][row] == 0
        env.send(rng.integers(2, size=len(info["env_id"])), info["env_id"])
    return env, record


def test_envpool_answering_out_of_order_is_certified(record_property: Any) -> None:
    env, record = asynchronous("settle", distance)
    worst, report = record.residual(), env.certificate()
    record_property("adapter", "envpool async")
    record_property("residual", worst)
    assert worst < 1e-12
    assert report.ok
    assert report.episodes == sum(map(sum, record.ended)) > 40
    assert int(env.state_dict()["shaping.centre.count"]) == sum(map(len, record.shaped))
    env.async_reset()
    running = sum(not ended[-1] for ended in record.ended)
    assert running - 2 <= env.certificate().abandoned <= running  # two may have answered after the last record
    env.close()


def test_envpool_answering_out_of_order_keeps_one_memory_per_environment() -> None:
    """A count of steps within the episode, by environment: EnvPool counts them too."""
    paid: list[tuple[float, int]] = []

    class Steps(EpisodicCount):
        def reward(self, step: Any, /) -> Any:
            bonus = super().reward(step)
            rows = np.flatnonzero(step.valid)
            paid.extend(zip(bonus[rows].tolist(), step.info["elapsed_step"][rows].tolist(), strict=True))
            return bonus

    env, _ = asynchronous("bootstrap", Steps(alpha=1.0, key=lambda step: np.zeros(len(step.terminated), int)))
    assert len(paid) > 300
    assert all(bonus == pytest.approx(1 / elapsed) for bonus, elapsed in paid)
    assert env.certificate().bootstrapped > 0


def test_an_asynchronous_envpool_is_told_which_adapter_to_use() -> None:
    with pytest.raises(pbim.InputError, match=r"use pbim\.adapters\.envpool\.wrap"):
        pbim.wrap(pool(batch_size=2), distance, SHAPING)
    with pytest.raises(pbim.InputError, match="'settle' or 'bootstrap'"):
        pbim.adapters.envpool.wrap(pool(batch_size=2), distance, SHAPING, "continue")


def test_what_is_no_envpool_is_refused() -> None:
    with pytest.raises(TypeError, match='env_type="gymnasium"'):
        pbim.adapters.envpool.wrap(gymnasium.make("CartPole-v1"), distance, SHAPING)


# an asynchronous pool of our own, so that the law holds without EnvPool, too


class Pool(gymnasium.vector.VectorEnv):  # type: ignore[type-arg]
    """Lanes that answer one or two at a time, in an order of their own, as EnvPool does."""

    def __init__(self, makers: Any, seed: int = 0) -> None:
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space
        self.rng = np.random.default_rng(seed)
        self.waiting: dict[int, Any] = {}

    spec = type("Spec", (), {"config": type("Config", (), {"max_episode_steps": 10})})  # type: ignore[assignment]

    def async_reset(self) -> None:
        self.over = [True] * self.num_envs
        self.waiting = dict.fromkeys(range(self.num_envs))

    def send(self, action: Any, env_id: Any) -> None:
        self.waiting |= dict(zip(env_id.tolist(), action, strict=True))

    def recv(self) -> Any:
        size = min(int(self.rng.integers(1, 3)), len(self.waiting))
        ids = self.rng.permutation(list(self.waiting))[:size]
        answers = [self.answer(int(number), self.waiting.pop(int(number))) for number in ids]
        obs, rewards, terminated, truncated, infos = zip(*answers, strict=True)
        columns = {name: np.array([info.get(name, 0) for info in infos]) for name in ("at", "action")}
        flags = np.array(terminated), np.array(truncated)
        return np.array(obs), np.array(rewards), *flags, {"env_id": ids, **columns}

    def answer(self, number: int, action: Any) -> Any:
        if self.over[number]:
            obs, info = self.envs[number].reset()
            self.over[number] = False
            return obs, 0.0, False, False, info
        answer = self.envs[number].step(action)
        self.over[number] = bool(answer[2] or answer[3])
        return answer


def out_of_order(case: AdapterCase) -> list[list[float]]:
    env = pbim.adapters.envpool.wrap(Pool(case.envs), case.intrinsic, case.shaping, case.truncation)
    lanes: list[list[float]] = [[] for _ in case.envs]
    env.async_reset()
    while min(map(len, lanes)) < case.steps:
        if case.cut == len(lanes[0]) and len(lanes) == 1:
            env.async_reset()
            case = case._replace(cut=None)
        _, rewards, _, _, info = env.recv()
        for row, number in enumerate(info["env_id"]):
            if info["_shaping_reward"][row]:
                lanes[number].append(rewards[row])
        env.send(np.arange(len(info["env_id"])), info["env_id"])
    return [lane[: case.steps] for lane in lanes]


def test_lanes_that_answer_out_of_order_conform(record_property: Any) -> None:
    worst = check_adapter(out_of_order)
    record_property("adapter", "send and recv")
    record_property("residual", worst)
    assert worst < 1e-12


# PettingZoo


def markov(copies: int = 2) -> Any:
    """Two agents in each of several copies of a parallel environment, as SuperSuit makes a vector of them."""
    suit, zoo = pytest.importorskip("supersuit"), pytest.importorskip("pettingzoo")

    class Pair(zoo.ParallelEnv):  # type: ignore[name-defined,misc]
        metadata, render_mode, possible_agents = {"name": "pair", "render_modes": []}, None, ["near", "far"]

        def observation_space(self, _: str) -> Any:
            return spaces.Box(0, 100, (2,), np.float32)

        def action_space(self, _: str) -> Any:
            return spaces.Discrete(3)

        def reset(self, **_: Any) -> Any:
            self.agents, self.time = list(self.possible_agents), 0
            self.length = 1 + getattr(self, "length", 0) % 5
            return self.seen(), {agent: {"start": 1} for agent in self.agents}

        def seen(self) -> Any:
            return {agent: np.array([self.time, place], np.float32) for place, agent in enumerate(self.possible_agents)}

        def step(self, actions: Any) -> Any:
            self.time += 1
            over = self.time == self.length
            ends = dict.fromkeys(self.agents, over and self.length % 2 == 0), dict.fromkeys(self.agents, over)
            rewards = {agent: float(actions[agent]) for agent in self.agents}
            infos = {agent: {"dense": float(self.time)} for agent in self.agents}
            self.agents = [] if over else self.agents
            return self.seen(), rewards, *ends, infos

    return suit.concat_vec_envs_v1(suit.pettingzoo_env_to_vec_env_v1(Pair()), copies, base_class="gymnasium")


def test_pettingzoo_through_supersuit_is_certified(record_property: Any) -> None:
    env = pbim.wrap(markov(), distance, SHAPING)
    assert env.num_envs == 4
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    report = certify(env, 60, record_property, "pettingzoo")
    assert report.episodes == 60 // 15 * 5 * 4


def test_pettingzoo_bonuses_see_the_final_observation_and_the_info_of_the_last_step() -> None:
    seen: list[Any] = []

    def look(step: Any) -> Any:
        seen.append((step.next_obs[:, 0].tolist(), step.info["dense"].tolist()))
        return np.zeros(4)

    env = pbim.wrap(markov(), look, SHAPING)
    _, infos = env.reset()
    assert infos["start"].tolist() == [1] * 4
    for _ in range(6):
        *_, infos = env.step(np.zeros(4, int))
    times = [1, 1, 2, 1, 2, 3]
    assert seen == [([float(time)] * 4, [float(time)] * 4) for time in times]
    assert [row.tolist() for row in infos["final_obs"]] == [[3, 0], [3, 1]] * 2


# Atari


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_atari_vectors_are_certified(mode: AutoresetMode, record_property: Any) -> None:
    vector = pytest.importorskip("ale_py.vector_env")
    inner = vector.AtariVectorEnv("pong", 3, max_num_frames_per_episode=80, autoreset_mode=mode, noop_max=10)
    bonus = EpisodicCount(key=lambda step: step.next_obs.reshape(len(step.next_obs), -1).sum(axis=1))
    certify(pbim.wrap(inner, bonus, SHAPING), 120, record_property, "atari")


# MiniHack


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_minihack_is_certified(mode: AutoresetMode, record_property: Any) -> None:
    pytest.importorskip("minihack")

    def make() -> Any:
        keys = ("glyphs", "blstats")
        return gymnasium.make("MiniHack-Room-5x5-v0", observation_keys=keys, max_episode_steps=15)

    inner = gymnasium.vector.SyncVectorEnv([make, make], autoreset_mode=mode)
    bonus = LifetimeCount(key=lambda step: step.next_obs["blstats"][:, :2])
    certify(pbim.wrap(inner, bonus, SHAPING), 80, record_property, "minihack")
