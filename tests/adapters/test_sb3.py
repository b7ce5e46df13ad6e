"""The Stable-Baselines3 adapter against the arithmetic its algorithms really do, and real short trainings."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecMonitor, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import pbim
from pbim._files import write_arrays
from pbim.adapters import sb3
from pbim.intrinsic import EpisodicCount
from pbim.testing.scripted import STORY, ScriptedEnv, codes

torch.set_num_threads(1)

GAMMA = 0.5
PLAIN = pbim.PBIM(gamma=GAMMA, normalize=False)


def visited(step: Any) -> Any:
    """A bonus of the state arrived at only, so that the ledger is a function of the state too."""
    return 1 + codes(step.next_obs) % 10


def ledgers(truncation: str) -> Callable[[Any], Any]:
    """Return L as a function of the code of a state in the story, by the equations of the design."""
    table: dict[int, float] = {}
    for number in range(100):
        episode, ledger = STORY[number % len(STORY)], 0.0
        for time in range(episode.length + 1):
            table[10 * number + time] = ledger
            ends = time + 1 == episode.length and (episode.terminated or truncation == "settle")
            ledger = 0.0 if ends else (ledger + 2 + time) / GAMMA
    return np.vectorize(lambda code: table[int(code)])


def critic(code: Any) -> Any:
    return np.sin(np.asarray(code, np.float64))


class Capture(BaseCallback):
    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        self.returns, self.codes = buffer.returns[:, 0].copy(), codes(buffer.observations[:, 0])


def ppo_returns(venv: Any, value: Callable[[Any], Any], algorithm: Any = PPO) -> tuple[Any, Any]:
    """Return the targets PPO computes with a critic replaced by ``value`` of the state's code, and the codes."""
    settings = {"n_steps": 50, "gamma": GAMMA, "gae_lambda": 1.0, "seed": 0, "device": "cpu"}
    if algorithm is not A2C:
        settings |= {"batch_size": 50, "n_epochs": 1}
    model = algorithm("MlpPolicy", venv, **settings)
    forward = model.policy.forward

    def values(obs: Any) -> Any:
        return torch.as_tensor(value(codes(obs.numpy())), dtype=torch.float32)[:, None]

    model.policy.forward = lambda obs, *args, **kwargs: _with_value(forward(obs, *args, **kwargs), values(obs))
    model.policy.predict_values = values
    capture = Capture()
    model.learn(50, callback=capture)
    return capture.returns, capture.codes


def _with_value(output: Any, value: Any) -> Any:
    actions, _, log_prob = output
    return actions, value, log_prob


class Forgetful(VecEnvWrapper):
    """Take TimeLimit.truncated back, so that a learner stops at truncations."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, rewards, dones, [{**info, "TimeLimit.truncated": False} for info in infos]


def story() -> DummyVecEnv:
    return DummyVecEnv([lambda: ScriptedEnv(kind="box")])


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_bootstrap_shifts_every_target_of_on_policy_learners_by_the_ledger(algorithm: Any) -> None:
    """With V' = V - L, what SB3 computes with F' is what it computes without, minus L_t: no ranking changes."""
    ledger = ledgers("bootstrap")
    plain, where = ppo_returns(story(), critic, algorithm)
    venv = sb3.wrap(story(), visited, PLAIN, truncation="bootstrap")
    shaped, _ = ppo_returns(venv, lambda code: critic(code) - ledger(code), algorithm)
    assert shaped == pytest.approx(plain - ledger(where), abs=1e-3)
    assert venv.certificate().ok
    assert venv.certificate().bootstrapped > 3


def test_settle_shifts_every_target_by_the_ledger_of_a_learner_that_stops() -> None:
    ledger = ledgers("settle")
    plain, where = ppo_returns(Forgetful(story()), critic)
    venv = sb3.wrap(story(), visited, PLAIN, "settle")
    shaped, _ = ppo_returns(venv, lambda code: critic(code) - ledger(code))
    assert shaped == pytest.approx(plain - ledger(where), abs=1e-3)
    assert venv.certificate().bootstrapped == 0


def test_an_open_ledger_would_show_where_the_learner_stops() -> None:
    """The wrong choice is visible: leave the ledger open for a learner that does not bootstrap."""
    ledger = ledgers("bootstrap")
    plain, where = ppo_returns(Forgetful(story()), critic)
    shaped, _ = ppo_returns(
        Forgetful(sb3.wrap(story(), visited, PLAIN, "bootstrap")), lambda code: critic(code) - ledger(code)
    )
    assert np.abs(shaped - (plain - ledger(where))).max() > 1


@pytest.mark.parametrize("truncation", ["bootstrap", "settle"])
def test_the_targets_of_dqn_are_shifted_by_the_ledger(truncation: Any) -> None:
    ledger = ledgers(truncation)
    venv = sb3.wrap(story(), visited, PLAIN, truncation)
    model = DQN("MlpPolicy", venv, gamma=GAMMA, learning_starts=1000, buffer_size=100, seed=0, device="cpu")
    extrinsic: list[float] = []

    class Read(BaseCallback):
        def _on_step(self) -> bool:
            extrinsic.append(self.locals["infos"][0]["extrinsic_reward"])
            return True

    model.learn(60, callback=[Read(), sb3.PBIMCallback()])
    stored = model.replay_buffer._get_samples(np.arange(60))
    here, there = codes(stored.observations.numpy()), codes(stored.next_observations.numpy())
    goes_on = 1 - stored.dones.numpy()[:, 0]
    plain = np.array(extrinsic) + goes_on * GAMMA * critic(there)
    shaped = stored.rewards.numpy()[:, 0] + goes_on * GAMMA * (critic(there) - ledger(there))
    assert shaped == pytest.approx(plain - ledger(here), abs=1e-3)


SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1}
LEARNERS: dict[str, Callable[[Any, float], Any]] = {
    "PPO": lambda venv, gamma: PPO("MlpPolicy", venv, gamma=gamma, device="cpu", seed=0, **SMALL),
    "A2C": lambda venv, gamma: A2C("MlpPolicy", venv, gamma=gamma, device="cpu", seed=0),
    "DQN": lambda venv, gamma: DQN(
        "MlpPolicy", venv, gamma=gamma, device="cpu", seed=0, learning_starts=50, buffer_size=500
    ),
    "RecurrentPPO": lambda venv, gamma: RecurrentPPO("MlpLstmPolicy", venv, gamma=gamma, device="cpu", seed=0, **SMALL),
    "MaskablePPO": lambda venv, gamma: MaskablePPO("MlpPolicy", venv, gamma=gamma, device="cpu", seed=0, **SMALL),
}


@pytest.mark.parametrize("truncation", ["bootstrap", "settle"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_real_training_cancels(learner: str, truncation: Any) -> None:
    venv = DummyVecEnv([lambda lane=lane: Monitor(ScriptedEnv(lane, "box")) for lane in range(2)])
    venv = sb3.wrap(venv, EpisodicCount(alpha=0.1, key="at"), pbim.PBIM(gamma=0.9), truncation)
    model = LEARNERS[learner](venv, 0.9)
    model.learn(256, callback=sb3.PBIMCallback())
    report = venv.certificate()
    assert report.ok, report
    assert report.episodes > 20
    assert (report.bootstrapped > 0) == (truncation == "bootstrap")


def test_a_training_with_a_time_limit_and_images_cancels() -> None:
    make = lambda: gymnasium.wrappers.TimeLimit(_Pictures(), 7)  # noqa: E731
    venv = sb3.wrap(DummyVecEnv([make, make]), lambda step: step.next_obs.mean(axis=(1, 2, 3)) / 255, PLAIN, "settle")
    model = PPO("CnnPolicy", venv, gamma=GAMMA, device="cpu", n_steps=16, batch_size=32, n_epochs=1)
    model.learn(32, callback=sb3.PBIMCallback())
    assert venv.certificate().ok
    assert venv.certificate().episodes == 4


class _Pictures(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, **_: Any) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, _: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize("learner", ["PPO", "DQN"])
def test_the_three_returns_and_the_certificate_reach_tensorboard(learner: str, tmp_path: Any) -> None:
    venv = sb3.wrap(DummyVecEnv([lambda: Monitor(ScriptedEnv(kind="box"))]), visited, PLAIN, "settle")
    model = LEARNERS[learner](venv, GAMMA)
    model.tensorboard_log = str(tmp_path)
    model.learn(128, callback=sb3.PBIMCallback())
    model.logger.close()
    (run,) = tmp_path.iterdir()
    events = EventAccumulator(str(run))
    events.Reload()
    last = {name: events.Scalars(name)[-1].value for name in events.Tags()["scalars"] if name.startswith("pbim/")}
    assert set(last) == {
        *(f"pbim/{name}_return" for name in ("extrinsic", "intrinsic")),
        *(f"pbim/shaping_return_{name}" for name in ("discounted", "undiscounted")),
        *(f"pbim/certificate_{name}" for name in ("ok", "worst")),
        *(f"pbim/episodes_{name}" for name in ("certified", "bootstrapped", "abandoned")),
    }
    assert last["pbim/certificate_ok"] == 1
    assert last["pbim/certificate_worst"] < 1e-6
    assert last["pbim/intrinsic_return"] > 0
    assert last["pbim/shaping_return_discounted"] == pytest.approx(0, abs=1e-4)
    assert abs(last["pbim/shaping_return_undiscounted"]) > 1
    if learner == "PPO":  # DQN logs in the middle of a rollout
        assert last["pbim/extrinsic_return"] == pytest.approx(events.Scalars("rollout/ep_rew_mean")[-1].value)


def test_the_state_is_saved_and_loaded_with_the_model(tmp_path: Any) -> None:
    def wrapped() -> Any:
        return sb3.wrap(story(), EpisodicCount(key="at"), pbim.PBIM(gamma=GAMMA), "settle")

    venv, path = wrapped(), tmp_path / "runs" / "agent"
    model = LEARNERS["PPO"](venv, GAMMA)
    model.learn(64, callback=sb3.PBIMCallback(save_path=path, save_every=32))
    assert [file.name for file in path.parent.iterdir()] == ["agent.zip"]
    assert PPO.load(path, device="cpu").num_timesteps == 64  # the file is SB3's own, too
    again = wrapped()
    resumed = sb3.load(path, PPO, again, device="cpu")
    assert again.certificate() == venv.certificate()
    saved, loaded = venv.state_dict(), again.state_dict()
    assert saved.keys() == loaded.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(array, loaded[name])
    resumed.learn(64, reset_num_timesteps=False, callback=sb3.PBIMCallback(save_path=path))
    assert again.certificate().ok
    assert again.certificate().episodes > venv.certificate().episodes
    model.save(tmp_path / "runs" / "agent.zip")
    with pytest.raises(pbim.InputError, match="which has none: save with"):
        sb3.load(path, PPO, wrapped(), device="cpu")


def test_a_damaged_or_missing_state_is_refused(tmp_path: Any) -> None:
    model, file = LEARNERS["PPO"](sb3.wrap(story(), visited, PLAIN), GAMMA), tmp_path / "agent.zip"
    sb3.save(file, model)
    whole = file.read_bytes()
    for torn in (b"torn", whole[: len(whole) // 2], b""):
        file.write_bytes(torn)
        with pytest.raises(pbim.InputError, match="cannot be read"):
            sb3.load(tmp_path / "agent", PPO, sb3.wrap(story(), visited, PLAIN))
    with pytest.raises(pbim.InputError, match="there is no such file"):
        sb3.load(tmp_path / "other", PPO, sb3.wrap(story(), visited, PLAIN))


def test_a_pair_of_files_as_they_used_to_be_still_loads(tmp_path: Any) -> None:
    model = LEARNERS["PPO"](venv := sb3.wrap(story(), visited, PLAIN, "settle"), GAMMA)
    model.learn(64)
    model.save(tmp_path / "agent.zip")
    write_arrays(tmp_path / "agent.pbim.npz", {**venv.state_dict(), "model.num_timesteps": np.array(64)})
    again = sb3.wrap(story(), visited, PLAIN)
    assert sb3.load(tmp_path / "agent", PPO, again, device="cpu").num_timesteps == 64
    assert again.certificate() == venv.certificate()
    model.learn(64, reset_num_timesteps=False)
    model.save(tmp_path / "agent.zip")
    with pytest.raises(pbim.InputError, match="of one moment, received 128 and 64"):
        sb3.load(tmp_path / "agent", PPO, again, device="cpu")


@pytest.mark.parametrize("learner", ["PPO", "DQN"])
def test_observations_may_be_normalised_outside(learner: str) -> None:
    inner = sb3.wrap(story(), visited, PLAIN, "settle")
    model = LEARNERS[learner](VecNormalize(inner, norm_reward=False), GAMMA)
    model.learn(128, callback=sb3.PBIMCallback())
    assert inner.certificate().ok
    if learner == "DQN":
        assert np.abs(model.replay_buffer.rewards[:128]).max() > 5  # shaping rewards, not only the actions


def _learn(venv: Any, learner: str = "PPO", gamma: float = GAMMA, **kwargs: Any) -> None:
    model = LEARNERS[learner](venv, gamma)
    for name, value in kwargs.items():
        setattr(model.replay_buffer, name, value)
    model.learn(64, callback=sb3.PBIMCallback())


class _Lost(VecEnvWrapper):
    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, rewards, dones, [{"at": info["at"]} for info in infos]


def _learn_normalised(venv: Any) -> None:
    with pytest.warns(UserWarning, match="VecNormalize outside the pbim wrapper"):
        _learn(venv)


def _stepped(venv: Any) -> None:
    venv.reset()
    for _ in range(8):
        venv.step(np.zeros(1, int))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "another gamma": (lambda: _learn(sb3.wrap(story(), visited, PLAIN), gamma=0.99), "received 0.99 in PPO and 0.5"),
    "rewards normalised outside": (
        lambda: _learn_normalised(VecNormalize(sb3.wrap(story(), visited, PLAIN))),
        "pass norm_reward=False",
    ),
    "a replay buffer that stores the reward from inside": (
        lambda: _learn(sb3.wrap(VecNormalize(story(), norm_reward=False), visited, PLAIN), "DQN"),
        "without F'",
    ),
    "a replay buffer that stops at time limits": (
        lambda: _learn(sb3.wrap(story(), visited, PLAIN, "bootstrap"), "DQN", handle_timeout_termination=False),
        "wrap with truncation='settle'",
    ),
    "no wrapper": (lambda: _learn(story()), "PBIMCallback needs a learner whose VecEnv is wrapped"),
    "a wrapped wrapper": (lambda: sb3.wrap(VecMonitor(sb3.wrap(story(), visited, PLAIN)), visited, PLAIN), "already"),
    "wrapped environments inside": (
        lambda: _stepped(sb3.wrap(DummyVecEnv([lambda: pbim.wrap(ScriptedEnv(), visited, PLAIN)]), visited, PLAIN)),
        "not both",
    ),
    "a Gymnasium environment": (lambda: sb3.wrap(ScriptedEnv(), visited, PLAIN), "use pbim.wrap"),
    "a VecEnv in the Gymnasium adapter": (lambda: pbim.wrap(story(), visited, PLAIN), "use pbim.adapters.sb3.wrap"),
    "lost final observations": (lambda: _stepped(sb3.wrap(_Lost(story()), visited, PLAIN)), "terminal_observation"),
    "save_every without a path": (lambda: sb3.PBIMCallback(save_every=5), "give both"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_with_one_sentence(case: str) -> None:
    call, sentence = BAD[case]
    with pytest.raises(pbim.InputError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
