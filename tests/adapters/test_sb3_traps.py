"""What surprises a new user of Stable-Baselines3 with pbim: it is refused, warned about or survived."""

import copy
import io
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import minigrid
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import A2C, DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

import pbim
from driving import CLIFF
from pbim.adapters import sb3
from pbim.errors import GuidanceWarning
from pbim.intrinsic import RND, EpisodicCount, LifetimeCount, Scaled, Sum
from pbim.testing.scripted import Episode, ScriptedEnv, codes

torch.set_num_threads(1)

GAMMA = 0.9
SHAPING = pbim.Geometric(gamma=GAMMA, rate=0.2)
SMALL: dict[str, Any] = {"gamma": GAMMA, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "device": "cpu", "seed": 0}


def limited() -> gymnasium.Env[Any, Any]:
    return gymnasium.make(CLIFF, max_episode_steps=5)


def scripted(*story: Episode) -> DummyVecEnv:
    return DummyVecEnv([lambda: ScriptedEnv(kind="box", **({"story": story} if story else {}))])


def ones(step: Any) -> Any:
    return np.ones(len(step.terminated))


# the bootstrap at time limits

CHOSEN = "wrap the baseline too, with shaping=pbim.NoBonus"


def test_stopping_at_a_known_time_limit_is_said_when_it_is_wrapped() -> None:
    with pytest.warns(UserWarning, match=CHOSEN) as caught:
        venv = sb3.wrap(DummyVecEnv([limited]), ones, SHAPING)
    assert caught[0].filename == __file__
    venv.reset()
    for _ in range(12):  # and once is enough
        venv.step(np.zeros(1, int))


def test_stopping_at_an_unknown_time_limit_is_said_when_it_comes() -> None:
    venv = sb3.wrap(scripted(Episode(2, True, False), Episode(2, False, True)), ones, SHAPING)
    venv.reset()
    for _ in range(3):
        venv.step(np.zeros(1, int))
    with pytest.warns(UserWarning, match=CHOSEN):
        venv.step(np.zeros(1, int))
    for _ in range(8):
        venv.step(np.zeros(1, int))


@pytest.mark.parametrize("choice", ["settle", "bootstrap", "baseline", "no limit"])
def test_who_chose_or_has_no_time_limit_is_not_warned(choice: str) -> None:
    shaping = pbim.NoBonus() if choice == "baseline" else SHAPING
    inner = scripted(Episode(2, True, False)) if choice == "no limit" else DummyVecEnv([limited])
    more: Any = {"truncation": choice} if choice in ("settle", "bootstrap") else {}
    venv = sb3.wrap(inner, ones, shaping, **more)
    venv.reset()
    for _ in range(12):
        venv.step(np.zeros(1, int))


def test_the_baseline_of_the_advice_stops_where_the_wrapped_learner_stops() -> None:
    def flags(venv: Any) -> list[tuple[bool, bool]]:
        venv.reset()
        infos = [venv.step(np.zeros(1, int))[3][0] for _ in range(12)]
        return [info.get("TimeLimit.truncated", False) for info in infos]

    baseline = flags(sb3.wrap(DummyVecEnv([limited]), ones, pbim.NoBonus()))
    assert baseline == flags(sb3.wrap(DummyVecEnv([limited]), ones, SHAPING, "settle"))
    assert any(flags(DummyVecEnv([limited])))  # the trap: an unwrapped baseline bootstraps
    assert not any(baseline)


# what is logged


class Book(KVWriter):
    """Every row that was logged."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:  # noqa: ARG002
        self.rows.append({name: value for name, value in key_values.items() if name.startswith("pbim/")})

    def close(self) -> None:
        pass


def learn(venv: Any, steps: int, callback: sb3.PBIMCallback | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return the rows and the text that PPO logged."""
    model, book, text = PPO("MlpPolicy", venv, **SMALL), Book(), io.StringIO()
    model.set_logger(Logger(None, [book, HumanOutputFormat(text)]))
    model.learn(steps, callback=callback or sb3.PBIMCallback())
    return book.rows, text.getvalue()


def test_a_verbose_callback_prints_the_certificate_at_the_end(capsys: Any) -> None:
    learn(sb3.wrap(scripted(Episode(20, True, False)), ones, SHAPING), 48, sb3.PBIMCallback(verbose=1))
    assert capsys.readouterr().out.strip().splitlines()[-1].startswith("cancelled: ")


def test_a_certificate_is_logged_once_there_is_something_to_certify() -> None:
    rows, _ = learn(sb3.wrap(scripted(Episode(20, True, False)), ones, SHAPING), 48)
    assert [("pbim/certificate_ok" in row, row["pbim/episodes_certified"]) for row in rows] == [
        *[(False, 0)] * 2,
        *[(True, 1)] * 2,
        *[(True, 2)] * 2,
    ]
    assert all(row.get("pbim/certificate_ok", 1) == 1 for row in rows)
    assert "pbim/certificate_worst" not in rows[0]


@pytest.mark.parametrize("shaping", [SHAPING, pbim.Raw()], ids=["exact", "raw"])
def test_both_returns_of_the_shaping_reward_are_logged_under_their_names(shaping: Any) -> None:
    bonus = lambda step: 1.0 + codes(step.next_obs) % 3  # noqa: E731
    venv, paid = sb3.wrap(scripted(Episode(6, True, False)), bonus, shaping), []

    class Reader(sb3.PBIMCallback):
        def _on_step(self) -> bool:
            paid.append(self.locals["infos"][0]["shaping_reward"])
            return super()._on_step()

    rows, _ = learn(venv, 48, Reader(window=1000))
    episodes = np.reshape(paid, (8, 6))
    assert rows[-1]["pbim/shaping_return_undiscounted"] == pytest.approx(episodes.sum(axis=1).mean(), abs=1e-5)
    discounted = (episodes * GAMMA ** np.arange(6)).sum(axis=1).mean()
    assert rows[-1]["pbim/shaping_return_discounted"] == pytest.approx(discounted, abs=1e-5)
    assert (abs(discounted) < 1e-5) == (shaping is SHAPING)
    assert abs(episodes.sum(axis=1)).mean() > 0.1  # the trap: this one is not zero


# the size of the bonus


def test_the_log_says_how_large_the_bonus_is() -> None:
    _, text = learn(sb3.wrap(scripted(Episode(4, True, False)), ones, SHAPING), 32)
    (line,) = [line for line in text.splitlines() if line.startswith("pbim: in the first")]
    assert "in the first 2 episodes the bonus adds up to 4 on average and the task's rewards to " in line
    task, scale = float(line.split("rewards to ")[1].split()[0]), float(line.split("bonus, ")[1].split(")")[0])
    assert 4 * scale == pytest.approx(task or 1, rel=0.05)


def doorkey() -> gymnasium.Env[Any, Any]:
    gymnasium.register_envs(minigrid)
    return FlattenObservation(ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0")))


def test_a_bonus_that_drowns_the_task_is_warned_about_and_the_advice_helps() -> None:
    """RND with its defaults, in an episode of MiniGrid's DoorKey, whose goal is worth 1."""

    def venv(coefficient: float) -> Any:
        bonus = Scaled(RND(), coefficient)
        return sb3.wrap(DummyVecEnv([doorkey]), bonus, pbim.Geometric(gamma=GAMMA, rate=0.2), "settle")

    with pytest.warns(
        UserWarning, match=r"in the first 1 episodes the bonus adds up to ([2-9]\d|1\d\d)\b.* to 0 at most: "
    ) as caught:
        learn(venv(1.0), 256)
    advice = str(next(each.message for each in caught if "Scaled" in str(each.message)))
    assert "\n" not in advice
    learn(venv(float(advice.split("Scaled(bonus, ")[1].split(")")[0])), 256)


def test_no_bonus_has_no_size() -> None:
    _, text = learn(sb3.wrap(scripted(), lambda step: 1e6 * ones(step), pbim.NoBonus()), 32)
    assert "pbim: " not in text


# replay buffers that relabel


class Goal(gymnasium.Env[Any, Any]):
    observation_space = spaces.Dict(
        {name: spaces.Box(-9, 9, (1,)) for name in ("observation", "achieved_goal", "desired_goal")}
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, **kwargs: Any) -> Any:
        super().reset(seed=kwargs.get("seed"))
        self.at, self.time = np.zeros(1, np.float32), 0
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        self.at, self.time = np.clip(self.at + action, -9, 9).astype(np.float32), self.time + 1
        return self._observed(), float(self.compute_reward(self.at, 1, {})), False, self.time == 5, {}

    def compute_reward(self, achieved: Any, desired: Any, _: Any) -> Any:
        return -np.abs(achieved - desired).sum(axis=-1)

    def _observed(self) -> Any:
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": np.ones(1, np.float32)}


def test_hindsight_replay_which_loses_the_shaping_reward_is_refused() -> None:
    venv = sb3.wrap(DummyVecEnv([Goal]), lambda step: 100 * ones(step), SHAPING, "settle")
    model = SAC(
        "MultiInputPolicy", venv, replay_buffer_class=HerReplayBuffer, gamma=GAMMA, learning_starts=10, device="cpu"
    )
    with pytest.raises(pbim.InputError, match="HerReplayBuffer computes the rewards of other goals itself") as caught:
        model.learn(20, callback=sb3.PBIMCallback())
    assert "\n" not in str(caught.value)
    with pytest.raises(pbim.InputError, match="computes the rewards of other goals itself"):
        model.learn(20)  # without a callback, too
    plain = SAC("MultiInputPolicy", venv, gamma=GAMMA, learning_starts=10, device="cpu")
    with pytest.warns(UserWarning, match="the bonus adds up to 500 on average"):
        plain.learn(12, callback=sb3.PBIMCallback())


# loading


BONUSES: dict[str, Callable[[], Any]] = {
    "EpisodicCount": lambda: EpisodicCount(key="at"),
    "LifetimeCount": lambda: LifetimeCount(beta=1.0, key="at"),
    "RND": lambda: RND(hidden=(4,), features=2),
    "Sum(RND, EpisodicCount)": lambda: Sum(RND(hidden=(4,), features=2), EpisodicCount(key="at")),
    "Sum(EpisodicCount, RND)": lambda: Sum(EpisodicCount(key="at"), RND(hidden=(4,), features=2)),
    "function": lambda: ones,
}


@pytest.mark.parametrize("here", BONUSES)
def test_a_model_saved_with_another_bonus_is_refused_in_one_sentence(here: str, tmp_path: Any) -> None:
    model = PPO("MlpPolicy", sb3.wrap(scripted(), BONUSES[here](), SHAPING, "settle"), **SMALL)
    model.learn(8, callback=sb3.PBIMCallback())
    sb3.save(tmp_path / "agent", model)
    names = {name: re.sub(" at 0x[0-9a-f]+", "", repr(make())) for name, make in BONUSES.items()}
    for there, make in BONUSES.items():
        venv = sb3.wrap(scripted(), make(), SHAPING, "settle")
        if here == there:
            sb3.load(tmp_path / "agent", PPO, venv, device="cpu")
            continue
        with pytest.raises(pbim.InputError) as caught:
            sb3.load(tmp_path / "agent", PPO, venv, device="cpu")
        assert f"saved with the bonus {names[here]}, this environment is wrapped with {names[there]}: " in str(
            caught.value
        )
        assert "\n" not in str(caught.value)


def test_a_bonus_of_the_users_own_that_misses_an_entry_is_a_sentence() -> None:
    class Own:
        def __init__(self, name: str) -> None:
            self.name = name

        def reward(self, step: Any) -> Any:
            return ones(step)

        def update(self, step: Any) -> None:
            pass

        def state_dict(self) -> Any:
            return {self.name: np.ones(1)}

        def load_state_dict(self, arrays: Any) -> None:
            arrays[self.name]

    saved = pbim.wrap(ScriptedEnv(), Own("mean"), SHAPING).state_dict()
    with pytest.raises(pbim.InputError, match=r"the saved state of the bonus has no 'count', it holds \['mean'\]"):
        pbim.wrap(ScriptedEnv(), Own("count"), SHAPING).load_state_dict(saved)


# other wrappers and processes


def test_rewards_normalised_outside_without_the_callback_are_not_certified() -> None:
    inner = sb3.wrap(scripted(), ones, SHAPING, "settle")
    model = PPO("MlpPolicy", VecNormalize(inner), **SMALL)
    with pytest.warns(UserWarning, match="VecNormalize outside the pbim wrapper changes rewards"):
        model.learn(32)
    assert not inner.certificate().ok
    assert inner.certificate().changed_by == "VecNormalize"


def test_an_eval_callback_with_the_training_bonus_is_found_out_unless_it_is_frozen() -> None:
    def train(frozen: bool) -> None:
        bonus = RND(hidden=(4,), features=2)

        def venv() -> sb3.ShapedVecEnv:
            return sb3.wrap(DummyVecEnv([lambda: Monitor(ScriptedEnv(kind="box"))]), bonus, SHAPING, "settle")

        shaped, evaluation = venv(), venv()
        evaluation.training = not frozen
        normalised = VecNormalize(shaped, norm_reward=False)
        callback = EvalCallback(
            VecNormalize(evaluation, norm_reward=False, training=False), n_eval_episodes=2, eval_freq=8, verbose=0
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="in the first")
            PPO("MlpPolicy", normalised, **SMALL).learn(16, callback=[callback, sb3.PBIMCallback()])
        assert shaped.certificate().ok

    train(frozen=True)
    with pytest.warns(UserWarning, match="one RND learns in two wrapped environments"):
        train(frozen=False)


def test_the_time_limit_of_environments_in_other_processes_is_checked() -> None:
    venv = SubprocVecEnv([limited])
    try:
        with pytest.warns(pbim.RepaymentWarning, match="up to 5 steps"):
            sb3.wrap(venv, ones, pbim.PBIM(gamma=0.1), "settle")
    finally:
        venv.close()
    unlimited = SubprocVecEnv([ScriptedEnv])
    try:
        shaped = sb3.wrap(unlimited, ones, pbim.PBIM(gamma=0.1), "settle")
        shaped.reset()
        shaped.step(np.zeros(1, int))  # they still answer
    finally:
        unlimited.close()


@pytest.mark.parametrize("way", [copy.deepcopy, lambda venv: pickle.loads(pickle.dumps(venv))], ids=["copy", "pickle"])
def test_a_copy_after_use_goes_on_alike_and_apart(way: Any) -> None:
    inner = [gymnasium.make(CLIFF, max_episode_steps=5) for _ in range(2)]
    venv = sb3.wrap(DummyVecEnv([lambda env=env: env for env in inner]), EpisodicCount(), SHAPING, "settle")
    venv.reset()
    for _ in range(7):
        venv.step(np.zeros(2, int))
    other = way(venv)
    ahead = [other.step(np.ones(2, int))[1].tolist() for _ in range(9)]
    assert [venv.step(np.ones(2, int))[1].tolist() for _ in range(9)] == ahead
    assert other.get_attr("spec")[0].max_episode_steps == 5
    other.close()


def test_a_replay_buffer_that_keeps_rewards_is_no_trap() -> None:
    venv = sb3.wrap(scripted(), ones, SHAPING, "settle")
    model = DQN("MlpPolicy", venv, gamma=GAMMA, learning_starts=8, buffer_size=100, device="cpu")
    model.learn(32, callback=sb3.PBIMCallback())
    assert venv.certificate().ok


# how strongly the conversion guides


def warnings_of(learner: Any, steps: int = 8) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.learn(steps, callback=sb3.PBIMCallback())
    return [str(each.message) for each in caught if each.category is GuidanceWarning]


def test_the_log_says_the_guidance_at_the_start() -> None:
    _, text = learn(sb3.wrap(scripted(Episode(4, True, False)), ones, SHAPING), 8)
    share = SHAPING.guidance(0.95, rollout=8)
    assert f"pbim: guidance {share:.2f} at lambda 0.95" in text


@pytest.mark.parametrize(
    ("make", "warned"),
    [
        (lambda venv: PPO("MlpPolicy", venv, **{**SMALL, "n_steps": 64, "batch_size": 64}), True),
        (lambda venv: PPO("MlpPolicy", venv, gae_lambda=0.5, **{**SMALL, "n_steps": 64, "batch_size": 64}), False),
        (lambda venv: PPO("MlpPolicy", venv, gae_lambda=1.0, **{**SMALL, "n_steps": 64, "batch_size": 64}), True),
        (lambda venv: A2C("MlpPolicy", venv, gamma=GAMMA, n_steps=1, device="cpu"), False),  # one-step TD
        (lambda venv: DQN("MlpPolicy", venv, gamma=GAMMA, buffer_size=9, device="cpu"), False),
    ],
    ids=["PPO", "PPO, lambda .5", "PPO, lambda 1", "A2C of one step", "DQN"],
)
def test_a_conversion_that_hardly_guides_this_learner_is_warned_of(make: Any, warned: bool) -> None:
    found = warnings_of(make(sb3.wrap(scripted(), lambda _: np.zeros(1), pbim.GRM(gamma=GAMMA, delay=1), "settle")))
    assert bool(found) == warned
    assert all("hardly guide this learner" in each for each in found)


@pytest.mark.parametrize(("alpha", "warned"), [(0.01, False), (3.0, True)])
def test_last_steps_that_take_back_more_than_the_task_pays_are_warned_of(alpha: float, warned: bool) -> None:
    """Twenty steps at gamma .9 owe 64 alpha; the script pays less than 64."""
    bonus = lambda step: alpha * ones(step)  # noqa: E731
    for shaping in (pbim.PBIM(gamma=GAMMA, normalize=False), pbim.Raw()):
        venv = sb3.wrap(scripted(Episode(20, True, False)), bonus, shaping)
        found = warnings_of(PPO("MlpPolicy", venv, **SMALL), 32)
        assert any("takes back more than the task pays: PBIM" in each for each in found) == (
            warned and shaping.kind == "pbim"
        )
