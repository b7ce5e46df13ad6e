"""RLlib on a real Ray: several env runners learn one F-bar and one bonus, and lose nothing to restores and kills."""

import sys
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tree")  # of ray[rllib], which needs an environment of its own: scripts/environment rllib

import gymnasium
import ray
from gymnasium.spaces import Box, Discrete
from ray import cloudpickle
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv

import pbim
from pbim.adapters.rllib import ShapingConnector, certificate

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray and what it imports
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:gymnasium"),  # RLlib registers one id for all environments
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # env runners cannot import a test
GAMMA = 0.9
STEPS = 160  # 2 env runners x 4 environments x 20 steps


class Walk(gymnasium.Env[Any, Any]):
    """A walk on 0 .. 3 that costs 1 a step: 3 ends it, 10 steps cut it off."""

    observation_space = Box(0.0, 3.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, _: Any = None) -> None:
        self.place = self.steps = 0

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.place = self.steps = 0
        return self._view(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place, self.steps = max(0, self.place + (1 if action else -1)), self.steps + 1
        return self._view(), -1.0, self.place == 3, self.steps == 10, {}

    def _view(self) -> Any:
        return np.array([self.place], np.float32)


class Pair(MultiAgentEnv):  # type: ignore[misc]
    """Two walkers that do not meet; the second may arrive before the first, and then waits."""

    def __init__(self, _: Any = None) -> None:
        super().__init__()
        self.possible_agents = self.agents = ["explorer", "worker"]
        self.observation_spaces = dict.fromkeys(self.agents, Walk.observation_space)
        self.action_spaces = dict.fromkeys(self.agents, Walk.action_space)
        self.walks = {agent: Walk() for agent in self.agents}

    def reset(self, **_: Any) -> Any:
        self.active = set(self.possible_agents)
        return {agent: walk.reset()[0] for agent, walk in self.walks.items()}, {}

    def step(self, actions: Any) -> Any:
        steps = {agent: self.walks[agent].step(action) for agent, action in actions.items()}
        obs, rewards, terminated, truncated, _ = ({agent: step[i] for agent, step in steps.items()} for i in range(5))
        self.active -= {agent for agent in steps if terminated[agent] or truncated[agent]}
        terminated["__all__"], truncated["__all__"] = not self.active, False
        return obs, rewards, terminated, truncated, {}


def bonus(step: Any) -> Any:
    return 1.0 + step.next_obs[:, 0]


def place(step: Any) -> Any:
    return step.next_obs[:, 0].astype(int)


def residual_of(episode: Any, chunks: list[Any], gamma: float = GAMMA) -> float:
    """Return the discounted sum of F' of a whole episode, from its fragments; its task pays -1 a step."""
    rewards = [reward for chunk in [*chunks, episode] for reward in chunk.get_rewards()]
    return abs(sum(gamma**t * (reward + 1.0) for t, reward in enumerate(rewards)))


def check_episode(episode: Any, prev_episode_chunks: list[Any], metrics_logger: Any, **_: Any) -> None:
    metrics_logger.log_value("worst", residual_of(episode, prev_episode_chunks), reduce="max")


def ppo(intrinsic: Any, shaping: Any = None, env: Any = Walk, **options: Any) -> PPOConfig:
    conversion = pbim.PBIM(gamma=GAMMA) if shaping is None else shaping

    def connector(env: Any, spaces: Any, device: Any) -> ShapingConnector:
        return ShapingConnector(intrinsic, conversion, **options)

    return (
        PPOConfig()
        .environment(env)
        .env_runners(
            num_env_runners=2, num_envs_per_env_runner=4, rollout_fragment_length=20, env_to_module_connector=connector
        )
        .training(gamma=GAMMA, train_batch_size_per_learner=STEPS, minibatch_size=80, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0.0)
        .debugging(seed=0)
    )


def connector_of(runner: Any) -> ShapingConnector:
    return next(each for each in runner._env_to_module.connectors if isinstance(each, ShapingConnector))


def on_all(algorithm: Any, ask: Any) -> list[Any]:
    """Return what ``ask`` says of every connector, the driver's first."""
    return algorithm.env_runner_group.foreach_env_runner(lambda runner: ask(connector_of(runner)))


def steps_of(result: dict[str, Any]) -> int:
    return int(result["env_runners"]["num_env_steps_sampled_lifetime"])


@pytest.fixture(scope="module", autouse=True)
def cluster():
    options: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    niceness = {"worker_niceness": 0}  # on a busy machine workers of lower priority never start
    ray.init(address="local", log_to_driver=False, logging_level="ERROR", _system_config=niceness, **options)
    yield
    ray.shutdown()


def test_env_runners_share_f_bar_and_counts_through_restores_and_kills(tmp_path: Any) -> None:
    config = ppo(pbim.LifetimeCount(key=place)).callbacks(on_episode_end=check_episode)
    algorithm = config.build_algo()
    results = [algorithm.train() for _ in range(3)]

    # every episode cancels in what the learner gets, and every step has entered F-bar once
    assert max(result["env_runners"]["worst"] for result in results) < 1e-6
    sampled = steps_of(results[-1])
    assert sampled >= 3 * STEPS
    assert [mean.count for mean in on_all(algorithm, ShapingConnector.mean)] == [sampled] * 3
    logged = results[-1]["env_runners"]["pbim"]
    report = certificate(algorithm)
    assert report.ok
    assert report.episodes == logged["episodes_certified"] == results[-1]["env_runners"]["num_episodes_lifetime"]
    assert logged["certificate_ok"] == 1.0
    counts = on_all(algorithm, lambda connector: int(sum(connector._intrinsic.state_dict()["value"])))
    assert counts[1:] == [sampled] * 2  # the driver takes no steps, and has no table of its own

    # merging once more, or twice, changes nothing
    driver = connector_of(algorithm.env_runner)
    states = on_all(algorithm, ShapingConnector.get_state)
    before = driver.mean()
    for _ in range(2):
        driver.set_state(driver.merge_states(states))
    assert driver.mean() == before

    # a new algorithm goes on where the checkpoint was written, in the middle of episodes
    path = algorithm.save_to_path(str(tmp_path / "saved"))
    algorithm.stop()
    restored = config.copy(copy_frozen=False).build_algo()
    restored.restore_from_path(path)
    assert connector_of(restored.env_runner).mean() == before
    assert certificate(restored).episodes == report.episodes
    result = restored.train()
    more = int(result["env_runners"]["num_env_steps_sampled"])
    assert [mean.count for mean in on_all(restored, ShapingConnector.mean)] == [sampled + more] * 3
    assert certificate(restored).ok

    # an env runner that dies takes along what it did since the last merge, and no more
    group = restored.env_runner_group
    ray.kill(group._worker_manager.actors()[1], no_restart=False)
    total = sampled + more
    healthy, deadline = [2], time.monotonic() + 240
    while (min(healthy) == 2 or healthy[-1] < 2) and time.monotonic() < deadline:  # it is missed, and it is back
        total += int(restored.train()["env_runners"]["num_env_steps_sampled"])
        healthy.append(group.num_healthy_remote_env_runners())
    total += int(restored.train()["env_runners"]["num_env_steps_sampled"])
    assert min(healthy) == 1
    assert healthy[-1] == 2
    assert connector_of(restored.env_runner).mean().count == total
    assert certificate(restored).ok
    restored.stop()


def test_what_dqn_replays_cancels() -> None:
    def connector(env: Any, spaces: Any, device: Any) -> ShapingConnector:
        return ShapingConnector(bonus, pbim.Geometric(gamma=GAMMA))

    config = (
        DQNConfig()
        .environment(Walk)
        .env_runners(num_env_runners=1, num_envs_per_env_runner=2, rollout_fragment_length=7)
        .env_runners(env_to_module_connector=connector)
        .training(gamma=GAMMA, train_batch_size_per_learner=32, num_steps_sampled_before_learning_starts=50)
        .training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 2000}, epsilon=[(0, 1.0)])
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_sample_timesteps_per_iteration=200)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    stored = [episode for episode in algorithm.local_replay_buffer.episodes if episode.is_done]
    assert len(stored) > 10
    assert max(residual_of(episode, []) for episode in stored) < 1e-6
    assert not any(episode.is_truncated for episode in stored)
    assert connector_of(algorithm.env_runner).mean().count == steps_of(result)
    algorithm.stop()


def test_of_two_policies_one_is_shaped() -> None:
    # not at an episode's end: RLlib calls that before the connectors see the last step of its agents
    def look(samples: list[Any], env_runner: Any, metrics_logger: Any, **_: Any) -> None:
        known = env_runner.__dict__.setdefault("known", {})
        for whole in samples:
            for agent, part in whole.agent_episodes.items():
                known.setdefault((whole.id_, agent), []).append(part)
                if part.is_done:
                    *chunks, last = known.pop((whole.id_, agent))
                    metrics_logger.log_value(("worst", agent), residual_of(last, chunks), reduce="max")
                    paid = max(abs(float(r) + 1.0) for chunk in [*chunks, last] for r in chunk.get_rewards())
                    metrics_logger.log_value(("paid", agent), paid, reduce="max")

    modules = {name: RLModuleSpec() for name in ("explorer", "worker")}
    config = (
        ppo(bonus, env=Pair, modules=["explorer"])
        .multi_agent(policies={"explorer", "worker"}, policy_mapping_fn=lambda agent, *_, **__: agent)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
        .callbacks(on_sample_end=look)
    )
    algorithm = config.build_algo()
    results = [algorithm.train() for _ in range(2)]
    for result in results:
        assert result["env_runners"]["worst"]["explorer"] < 1e-6
        assert result["env_runners"]["paid"]["explorer"] > 0.1
        assert result["env_runners"]["paid"]["worker"] == 0
    sampled = results[-1]["env_runners"]["num_module_steps_sampled_lifetime"]["explorer"]
    assert connector_of(algorithm.env_runner).mean().count == sampled
    assert certificate(algorithm).ok
    algorithm.stop()


def test_env_runners_train_one_rnd_together() -> None:
    algorithm = ppo(pbim.RND(hidden=(8,), features=4, seed=1)).build_algo()
    algorithm.train()
    result = algorithm.train()

    def networks(connector: ShapingConnector) -> Any:
        arrays = connector._intrinsic.state_dict()
        return {name: arrays[name] for name in arrays if name.startswith(("predictor.params", "target"))}

    _, one, other = on_all(algorithm, networks)
    untrained = pbim.RND(hidden=(8,), features=4, seed=1)
    rows = np.zeros((4, 1), np.float32)
    no = np.zeros(4, bool)
    untrained.reward(pbim.intrinsic.Transition(rows, no, rows, no, no, {}))
    first = untrained.state_dict()
    for name, weights in one.items():
        np.testing.assert_array_equal(weights, other[name])  # after a merge all have the same
        assert np.array_equal(weights, first[name]) == name.startswith("target")
    assert connector_of(algorithm.env_runner).mean().count == steps_of(result)
    assert certificate(algorithm).ok
    algorithm.stop()
