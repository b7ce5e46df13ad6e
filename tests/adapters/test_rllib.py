"""RLlib: what a learner gets cancels, whatever fragments, env runners, restores and agents do to the episodes."""

import copy
import math
import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tree")  # of ray[rllib], which needs an environment of its own: scripts/environment rllib

import gymnasium
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

import pbim
from pbim.adapters._rllib_lanes import RECORD
from pbim.adapters.rllib import ShapingConnector
from pbim.errors import GuidanceWarning
from pbim.testing import AdapterCase, check_adapter

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray and what it imports
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:gymnasium"),  # RLlib registers one id for all environments
]
GAMMA = 0.9


class Walk(gymnasium.Env[Any, Any]):
    """A walk on 0 .. 3 that costs 1 a step: 3 ends it, 10 steps cut it off; the dense term is the distance walked."""

    observation_space = Box(0.0, 3.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, _: Any = None) -> None:
        self.place = self.steps = 0

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.place = self.steps = 0
        return self._view(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before = self.place
        self.place, self.steps = max(0, before + (1 if action else -1)), self.steps + 1
        return self._view(), -1.0, self.place == 3, self.steps == 10, {"dense": float(self.place - before)}

    def _view(self) -> Any:
        return np.array([self.place], np.float32)


class Anything(TorchRLModule):
    """A module for observations of any space; its actions are never asked for."""


def bonus(step: Any) -> Any:
    return 1.0 + step.next_obs[:, 0]


def place(step: Any) -> Any:
    return step.next_obs[:, 0].astype(int)


def ppo(connector: Any, env: Any = Walk, **env_runners: Any) -> PPOConfig:
    settings = {"num_env_runners": 0, "num_envs_per_env_runner": 4, "rollout_fragment_length": 20, **env_runners}
    return (
        PPOConfig()
        .environment(env)
        .env_runners(env_to_module_connector=connector, **settings)
        .training(gamma=GAMMA, train_batch_size_per_learner=160, minibatch_size=80, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=0)
    )


def shaped(shaping: Any = None, intrinsic: Any = bonus, truncation: str = "settle", **options: Any) -> Any:
    conversion = pbim.Geometric(gamma=GAMMA) if shaping is None else shaping

    def connector(env: Any, spaces: Any, device: Any) -> ShapingConnector:
        return ShapingConnector(intrinsic, conversion, truncation, **options)

    return connector


def runner_of(config: PPOConfig) -> SingleAgentEnvRunner:
    return SingleAgentEnvRunner(config=config, worker_index=0)


def connector_in(runner: Any) -> ShapingConnector:
    return next(each for each in runner._env_to_module.connectors if isinstance(each, ShapingConnector))


def whole_episodes(chunks: list[Any]) -> dict[str, list[float]]:
    """Return the rewards of every episode that ended, its fragments put together."""
    rewards: dict[str, list[float]] = {}
    for chunk in chunks:
        rewards.setdefault(chunk.id_, []).extend(chunk.get_rewards().tolist())
    return {chunk.id_: rewards[chunk.id_] for chunk in chunks if chunk.is_done}


def residual(rewards: list[float], gamma: float = GAMMA) -> float:
    """Return the discounted sum of F' of an episode whose task pays -1 a step."""
    return abs(sum(gamma**t * (reward + 1.0) for t, reward in enumerate(rewards)))


def run(case: AdapterCase, takes_turns: bool = False) -> list[list[float]]:
    """Return what a learner gets, from fragments of a single vector step; each may have a connector of its own."""
    lanes = len(case.envs)

    def make(context: Any) -> Any:
        return SyncVectorEnv(case.envs) if "num_envs" in context else case.envs[0]()

    config = ppo(
        shaped(case.shaping, case.intrinsic, case.truncation),
        make,
        num_envs_per_env_runner=lanes,
        gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT,
    ).training(gamma=case.shaping.gamma or GAMMA)
    lane_of: dict[str, int] = {}
    config.callbacks(on_episode_created=lambda episode, env_index, **_: lane_of.update({episode.id_: env_index}))
    runner = runner_of(config.rl_module(rl_module_spec=RLModuleSpec(module_class=Anything)))
    rewards: list[list[float]] = [[] for _ in range(lanes)]
    while min(map(len, rewards)) < case.steps:
        cut = case.cut is not None and len(rewards[0]) == case.cut
        for chunk in runner.sample(num_timesteps=1, random_actions=True, force_reset=cut):
            rewards[lane_of[chunk.id_]] += chunk.get_rewards().tolist()
        if takes_turns:
            connectors, before = runner._env_to_module.connectors, connector_in(runner)
            state, after = before.get_state(), pickle.loads(pickle.dumps(before))
            for _ in range(2):
                after.merge_states([state, state])
                after.set_state(state)
            connectors[connectors.index(before)] = after
            runner._ongoing_episodes = pickle.loads(pickle.dumps(runner._ongoing_episodes))
    runner.stop()
    return [lane[: case.steps] for lane in rewards]


@pytest.mark.parametrize("kind", ["discrete", "dict"])
def test_the_adapter_conforms(kind: str, record_property: Any) -> None:
    worst = check_adapter(run, kind=kind)
    record_property("residual", worst)
    record_property("adapter", "rllib")
    assert worst < 1e-6


def test_connectors_that_take_turns_conform() -> None:
    """Each goes on with pickled episodes, some of which have not taken a step, and with the state of the last one."""
    conversions = [pbim.GRM(gamma=GAMMA, delay=40, normalize=False), pbim.Geometric(gamma=1.0, normalize=False)]
    assert check_adapter(partial(run, takes_turns=True), conversions=conversions, lanes=2, steps=30, cut=False) < 1e-6


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
@pytest.mark.parametrize(
    "conversion", [pbim.PBIM(gamma=GAMMA), pbim.GRM(gamma=GAMMA, delay=3), pbim.Geometric(gamma=1.0)]
)
def test_every_episode_cancels_in_what_is_handed_on(conversion: Any, truncation: str) -> None:
    gamma = float(conversion.gamma)
    runner = runner_of(ppo(shaped(conversion, truncation=truncation)).training(gamma=gamma))
    chunks = [chunk for _ in range(6) for chunk in runner.sample()]
    ended = {chunk.id_: chunk for chunk in chunks if chunk.is_done}
    limited = {name: chunk for name, chunk in ended.items() if chunk.custom_data[RECORD]["truncated"]}
    assert limited
    assert len(limited) < len(ended)
    if truncation == "settle":  # the learner stops: no value is added after the last reward
        assert not any(chunk.is_truncated for chunk in ended.values())
    else:
        assert all(chunk.is_truncated for chunk in limited.values())
    for name, rewards in whole_episodes(chunks).items():
        if truncation == "settle" or name not in limited:
            assert residual(rewards, gamma) < 1e-6
    connector = connector_in(runner)
    report = connector.certificate()
    assert report.ok
    assert report.episodes == (len(ended) if truncation == "settle" else len(ended) - len(limited))
    assert report.bootstrapped == (0 if truncation == "settle" else len(limited))
    if conversion.normalize:
        assert connector.mean().count == runner.metrics.peek("num_env_steps_sampled_lifetime", compile=True)


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
def test_gae_stops_or_bootstraps_as_chosen(truncation: str) -> None:
    config = ppo(shaped(truncation=truncation))
    learner = config.build_learner(env=Walk())
    runner = runner_of(config)
    ended = [chunk for _ in range(6) for chunk in runner.sample(num_episodes=4) if chunk.is_done]
    chunk = next(chunk for chunk in ended if chunk.custom_data[RECORD]["truncated"])
    final, reward = chunk.get_observations(-1), float(chunk.get_rewards(-1))
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=[chunk], shared_data={}, metrics=learner.metrics
    )["default_policy"]
    steps = int(np.asarray(batch["loss_mask"]).sum())
    module = learner.module["default_policy"].unwrapped()
    value = float(module.compute_values({"obs": torch.as_tensor(final[None])}).detach()[0])
    assert value != 0
    expected = reward + (0.0 if truncation == "settle" else GAMMA * value)
    assert math.isclose(float(batch["value_targets"][steps - 1]), expected, abs_tol=1e-5)


def test_the_bonus_sees_observations_before_later_connectors_change_them() -> None:
    seen = []

    def look(step: Any) -> Any:
        seen.append((step.obs.copy(), step.next_obs.copy()))
        return np.ones(len(step.terminated))

    def connector(env: Any, spaces: Any, device: Any) -> list[Any]:
        return [ShapingConnector(look, pbim.Geometric(gamma=GAMMA)), FlattenObservations()]

    config = ppo(connector, "CliffWalking-v1")
    runner = runner_of(config)
    runner.sample(num_timesteps=80)
    starts = {int(place) for before, _ in seen for place in before}
    assert {before.dtype.kind + after.dtype.kind for before, after in seen} == {"ii"}
    assert starts - {36} <= {int(place) for _, after in seen for place in after}


def test_a_reset_abandons_the_running_episodes() -> None:
    runner = runner_of(ppo(shaped()))
    runner.sample(num_timesteps=8)
    chunks = runner.sample(num_timesteps=200, force_reset=True)
    report = connector_in(runner).certificate()
    assert report.abandoned == 4
    assert report.ok
    assert all(residual(rewards) < 1e-6 for rewards in whole_episodes(chunks).values())


def test_another_connector_goes_on_with_a_running_episode() -> None:
    """The ledger is in ``custom_data``, which a cut keeps; F-bar is in the state."""
    runner, other = (
        runner_of(ppo(shaped(pbim.GRM(gamma=GAMMA, delay=3)))),
        runner_of(ppo(shaped(pbim.GRM(gamma=GAMMA, delay=3)))),
    )
    chunks = runner.sample(num_timesteps=32)
    states = [runner._env_to_module.get_state() for _ in range(2)]
    assert not all(part.is_done for part in runner._ongoing_episodes)
    other._env_to_module.set_state(states[1])
    runner._env_to_module = other._env_to_module
    chunks += runner.sample(num_timesteps=200)
    whole = whole_episodes(chunks)
    assert all(residual(rewards) < 1e-6 for rewards in whole.values())
    report = connector_in(runner).certificate()
    assert report.ok
    assert report.abandoned == 0
    assert report.episodes == len(whole)
    assert connector_in(runner).mean().count == sum(map(len, chunks))


def test_a_dense_term_of_the_info_is_a_bonus() -> None:
    runner = runner_of(ppo(shaped(pbim.PBIM(gamma=GAMMA, normalize=False), lambda t: t.info["dense"], "settle")))
    chunks = [chunk for _ in range(4) for chunk in runner.sample()]
    for chunk in chunks:
        infos, rewards = chunk.get_infos()[1:], chunk.get_rewards()
        paid = [info["dense"] - 1.0 for info in infos]
        last = -1 if chunk.is_done else None
        assert rewards[:last].tolist() == paid[:last]
    assert all(residual(rewards) < 1e-6 for rewards in whole_episodes(chunks).values())


class Standing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pendulum: standing pays 1, and its usual reward, a penalty, is in the info."""

    def __init__(self, _: Any = None) -> None:
        super().__init__(gymnasium.make("Pendulum-v1"))

    def step(self, action: Any) -> Any:
        obs, dense, terminated, truncated, info = super().step(action)
        return obs, float(obs[0] > 0.95), terminated, truncated, {**info, "dense": float(dense)}


@pytest.mark.parametrize("config_class", [PPOConfig, SACConfig])
@pytest.mark.parametrize("bonus", [lambda t: t.info["dense"], lambda t: t.next_obs[:, 0] + t.action[:, 0]])
def test_continuous_actions(config_class: Any, bonus: Any) -> None:
    config = config_class().environment(Standing).training(gamma=GAMMA)
    config = config.env_runners(
        num_env_runners=0, num_envs_per_env_runner=2, env_to_module_connector=shaped(None, bonus)
    )
    runner = runner_of(config)
    for _ in range(5):
        runner.sample(num_timesteps=100)
    report = connector_in(runner).certificate()
    assert report.ok
    assert report.episodes == 2


def test_the_record_of_an_episode_says_where_it_stands_whenever_it_is_read_copied_or_cut() -> None:
    shaping = pbim.GRM(gamma=GAMMA, delay=3)
    records = []

    def look(episode: Any, **_: Any) -> None:
        record = episode.custom_data.get(RECORD)
        if record is not None and not episode.is_done:
            records.append((episode.t, record["steps"], pickle.loads(pickle.dumps(record)), copy.copy(record)))

    runner = runner_of(ppo(shaped(shaping)).callbacks(on_episode_step=look))
    chunks = runner.sample(num_timesteps=26)
    assert records
    for steps, read, *copies in records:
        assert read == steps
        assert all(type(each) is dict and each["steps"] == steps for each in copies)
    cut = [chunk for chunk in chunks if not chunk.is_done]
    kept = [(len(chunk), dict(chunk.custom_data[RECORD])) for chunk in cut]
    assert cut
    runner.sample(num_timesteps=40)
    for chunk, (steps, record) in zip(cut, kept, strict=True):  # what was cut off changes no more
        assert record["steps"] == chunk.t == chunk.t_started + steps
        assert dict(chunk.custom_data[RECORD])["sums"] == record["sums"]


def test_one_step_episodes_and_many_environments_cancel() -> None:
    class Once(Walk):
        def step(self, action: Any) -> Any:
            return self._view(), -1.0, bool(action), not action, {"dense": 1.0}

    config = ppo(shaped(pbim.PBIM(gamma=1.0), lambda t: t.info["dense"]), Once, num_envs_per_env_runner=1000)
    runner = runner_of(config.training(gamma=1.0))
    chunks = runner.sample(num_timesteps=3000)
    assert {tuple(chunk.get_rewards().tolist()) for chunk in chunks} == {(-1.0,)}
    assert connector_in(runner).certificate().episodes == 3000


def test_what_is_logged_is_what_happened() -> None:
    runner = runner_of(ppo(shaped()))
    chunks = [chunk for _ in range(4) for chunk in runner.sample()]
    logged = {name: float(value) for name, value in runner.metrics.peek("pbim", compile=True).items()}
    ended = whole_episodes(chunks)
    assert logged["episodes_certified"] == len(ended)
    assert math.isclose(logged["extrinsic_return"], -np.mean([len(rewards) for rewards in ended.values()]))
    assert math.isclose(
        logged["shaping_return_undiscounted"], np.mean([sum(rewards) + len(rewards) for rewards in ended.values()])
    )
    assert abs(logged["shaping_return_discounted"]) < 1e-9
    assert logged["intrinsic_return"] > 0
    assert logged["certificate_ok"] == 1.0
    assert logged["certificate_worst"] < 1e-9
    assert logged["episodes_bootstrapped"] == logged["episodes_abandoned"] == 0


def test_evaluation_leaves_no_trace_and_pays_the_task_alone() -> None:
    config = ppo(shaped()).evaluation(evaluation_interval=1)
    runner = runner_of(config.get_evaluation_config_object())
    chunks = runner.sample(num_episodes=3)
    assert all(set(chunk.get_rewards().tolist()) == {-1.0} for chunk in chunks)
    assert connector_in(runner).mean().count == 0


def test_another_gamma_is_refused() -> None:
    with pytest.raises(pbim.InputError, match=r"received 0\.9 in PPOConfig and 0\.5 in PBIM"):
        runner_of(ppo(shaped(pbim.PBIM(gamma=0.5))))
    built = ShapingConnector(bonus, pbim.PBIM(gamma=0.5))
    runner = runner_of(ppo(lambda *_: built))
    with pytest.raises(pbim.InputError, match=r"gamma must be the same in the learner and the conversion"):
        runner.sample()


def guidance_warnings(work: Any) -> list[str]:
    """Return what work warns of about the conversion; RLlib warns of other things."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(each.message) for each in caught if each.category is GuidanceWarning]


def test_the_guidance_is_printed_once_and_a_weak_one_is_warned_of(capsys: Any) -> None:
    shaping = pbim.GRM(gamma=GAMMA, delay=1)
    config = ppo(shaped(shaping)).training(lambda_=0.9)
    (message,) = guidance_warnings(lambda: runner_of(config))
    assert "this conversion will hardly guide this learner" in message
    line = f"pbim: guidance {shaping.guidance(0.9, rollout=20):.2f} at lambda 0.9"
    assert capsys.readouterr().err.count(line) == 1
    evaluation = config.copy().evaluation(evaluation_interval=1).get_evaluation_config_object()
    for silent in (partial(SingleAgentEnvRunner, config=config, worker_index=1), partial(runner_of, evaluation)):
        assert not guidance_warnings(silent)  # worker 0 speaks for all, and evaluation is not guided
        assert "pbim: " not in capsys.readouterr().err
    assert not guidance_warnings(lambda: runner_of(ppo(shaped(shaping)).training(lambda_=0.5)))
    assert "at lambda 0.5" in capsys.readouterr().err


@pytest.mark.parametrize(("alpha", "owes"), [(0.01, False), (9.0, True)])
def test_ends_that_take_back_more_than_the_task_pays_are_warned_of(alpha: float, owes: bool) -> None:
    runner = runner_of(ppo(shaped(pbim.PBIM(gamma=GAMMA, normalize=False), lambda step: alpha * bonus(step))))
    found = guidance_warnings(lambda: [runner.sample() for _ in range(3)])
    assert ["takes back more than the task pays" in each for each in found] == [True] * owes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"truncation": "continue"}, "which resets them"),
        ({"truncation": "stop"}, "truncation must be"),
        ({"modules": "explorer"}, "pass \\['explorer'\\]"),
        ({"update_every": 0}, "update_every must be"),
        ({"shaping": 3}, "shaping must be a conversion"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((pbim.InputError, pbim.InputTypeError), match=words):
        ShapingConnector(**{"intrinsic": bonus, "shaping": pbim.PBIM(gamma=GAMMA), **arguments})


def test_a_state_of_another_conversion_or_connector_is_refused() -> None:
    connector = ShapingConnector(bonus, pbim.PBIM(gamma=GAMMA))
    with pytest.raises(pbim.InputError, match="build it with the conversion the state was saved with"):
        connector.set_state(ShapingConnector(bonus, pbim.PBIM(gamma=0.5)).get_state())
    with pytest.raises(pbim.InputError, match="RLlib merges states by position"):
        connector.set_state({})


def test_copies_are_workers_of_their_own() -> None:
    runner = runner_of(ppo(shaped(pbim.PBIM(gamma=GAMMA), pbim.LifetimeCount(key=place))))
    runner.sample()
    connector = connector_in(runner)
    for other in (copy.deepcopy(connector), pickle.loads(pickle.dumps(connector))):
        assert other.mean().count == 0
        assert other.get_state()["workers"].keys().isdisjoint(connector.get_state()["workers"])
