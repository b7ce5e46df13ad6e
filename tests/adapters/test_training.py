"""``training = False``: F' goes on with what was learned so far, and the evaluation leaves no trace."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import pbim
from pbim.adapters import sb3
from pbim.intrinsic import RND, EpisodicCount, LifetimeCount, Sum, one_hot

torch.set_num_threads(1)

GAMMA = 0.9
EVALUATION = ("obs", "over")  # where the environment stands: the only entries that an evaluation may change
BONUSES: dict[str, Callable[[], Any]] = {
    "episodic": lambda: EpisodicCount(alpha=1.0),
    "lifetime": lambda: LifetimeCount(beta=1.0),
    "learned": lambda: RND(encode=one_hot(48), hidden=(8,), features=4),
    "function": lambda: lambda step: step.next_obs / 47,
    "several": lambda: Sum(EpisodicCount(alpha=1.0), LifetimeCount(beta=1.0)),
}
CONVERSIONS = {
    "pbim": pbim.PBIM(gamma=GAMMA),
    "exponential": pbim.GRM(gamma=GAMMA, normalize=pbim.shaping.ExponentialMean()),
    "mixture": pbim.Mixture(members=(pbim.PBIM(gamma=GAMMA), pbim.Geometric(gamma=GAMMA))),
    "fading": pbim.PIES(decay_steps=60),
}


def cliff() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CliffWalking-v1", max_episode_steps=7)


def episodes(env: Any, count: int, seed: int) -> list[list[float]]:
    """Return the rewards of whole episodes with actions drawn from ``seed``."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        env.reset(seed=0)
        rewards, over = [], False
        while not over:
            _, reward, terminated, truncated, info = env.step(int(rng.integers(4)))
            rewards.append((reward, info["intrinsic_reward"], info["shaping_reward"]))
            over = terminated or truncated
        found.append(rewards)
    return found


def assert_same(state: dict[str, Any], other: dict[str, Any]) -> None:
    assert {*state} - {*EVALUATION} == {*other} - {*EVALUATION}
    for name in {*state} - {*EVALUATION}:
        np.testing.assert_array_equal(state[name], other[name], err_msg=name)


@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_an_evaluation_leaves_no_trace(bonus: str, conversion: str) -> None:
    env, twin = (pbim.wrap(cliff(), BONUSES[bonus](), CONVERSIONS[conversion]) for _ in range(2))
    assert env.training
    assert episodes(env, 4, seed=1) == episodes(twin, 4, seed=1)
    before, report = env.state_dict(), env.certificate()
    env.training = False
    episodes(env, 3, seed=2)
    env.reset()
    env.step(0)  # in the middle of an episode
    assert not env.training
    assert env.certificate() == report
    assert_same(env.state_dict(), before)
    env.training = True
    assert_same(env.state_dict(), before)
    assert env.certificate() == report
    assert episodes(env, 4, seed=3) == episodes(twin, 4, seed=3)
    assert env.certificate() == twin.certificate()


@pytest.mark.parametrize("bonus", BONUSES)
def test_an_evaluation_before_any_training_leaves_no_trace(bonus: str) -> None:
    env = pbim.wrap(cliff(), BONUSES[bonus](), pbim.PBIM(gamma=GAMMA))
    before = env.state_dict()
    env.training = False
    episodes(env, 2, seed=0)
    assert_same(env.state_dict(), before)


def test_episodes_of_an_evaluation_cancel() -> None:
    env = pbim.wrap(cliff(), EpisodicCount(alpha=1.0), pbim.PBIM(gamma=GAMMA))
    episodes(env, 4, seed=1)
    env.training = False
    for rewards in episodes(env, 4, seed=2):
        assert sum(GAMMA**t * shaping for t, (_, _, shaping) in enumerate(rewards)) == pytest.approx(0, abs=1e-12)


def test_the_statistics_stay_as_they_were() -> None:
    """PBIM pays F - F-bar at the first step of an episode: the same F-bar in the first and the last evaluation."""
    env = pbim.wrap(cliff(), lambda step: 1.0 + step.next_obs, pbim.PBIM(gamma=GAMMA))
    episodes(env, 4, seed=1)
    mean = float(env.state_dict()["shaping.centre.mean"])
    env.training = False
    for rewards in episodes(env, 5, seed=2):
        _, bonus, shaping = rewards[0]
        if len(rewards) > 1:
            assert bonus - shaping == pytest.approx(mean)


def test_a_learned_bonus_stays_as_it_was() -> None:
    env = pbim.wrap(cliff(), RND(encode=one_hot(48), hidden=(8,), features=4), pbim.Raw())
    episodes(env, 2, seed=1)
    env.training = False
    env.reset(seed=0)
    first = env.step(0)[4]["intrinsic_reward"]
    episodes(env, 3, seed=2)
    env.reset(seed=0)
    assert env.step(0)[4]["intrinsic_reward"] == first


def test_an_episodic_count_counts_within_the_evaluation_only() -> None:
    env = pbim.wrap(cliff(), EpisodicCount(alpha=1.0), pbim.Raw())
    env.training = False
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(3)[4]["intrinsic_reward"] for _ in range(3)] == [1, 1 / 2, 1 / 3]  # against the wall


def test_a_lifetime_count_does_not_count() -> None:
    env = pbim.wrap(cliff(), LifetimeCount(beta=1.0), pbim.Raw())
    env.training = False
    env.reset(seed=0)
    assert len({env.step(3)[4]["intrinsic_reward"] for _ in range(3)}) == 1


def test_of_a_bonus_that_cannot_save_only_the_reward_is_asked() -> None:
    calls: list[str] = []

    class Spy:
        episodic = True

        def reward(self, _: Any) -> Any:
            calls.append("reward")
            return np.ones(1)

        def update(self, _: Any) -> None:
            calls.append("update")

        def restart(self, _: Any) -> None:
            calls.append("restart")

    env = pbim.wrap(cliff(), Spy(), pbim.PBIM(gamma=GAMMA))
    env.training = False
    env.reset()
    env.step(0)
    env.reset()
    assert calls == ["reward"]


def test_a_bonus_that_saves_but_cannot_be_copied_is_refused_in_one_sentence() -> None:
    class Stuck(SimpleNamespace):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("no copies")

    bonus: Any = Stuck(reward=lambda _: np.ones(1), update=None, state_dict=dict, load_state_dict=None)
    env = pbim.wrap(cliff(), bonus, pbim.Raw())
    with pytest.raises(pbim.InputError, match=r"cannot \(no copies\)"):
        env.training = False
    assert env.training


def test_switching_in_the_middle_abandons_episodes_of_training_only() -> None:
    env = pbim.wrap(cliff(), EpisodicCount(alpha=1.0), pbim.PBIM(gamma=GAMMA, normalize=False))
    env.reset(seed=0)
    env.step(3)
    env.training = True  # no switch: the episode goes on
    assert env.certificate().abandoned == 0
    env.training = False
    assert env.certificate().abandoned == 1
    assert env.step(3)[4]["shaping_reward"] == 1  # memory and ledger begin anew
    env.training = True
    assert env.certificate().abandoned == 1
    assert env.step(3)[4]["shaping_reward"] == 1
    env.reset()
    assert env.certificate().abandoned == 2


@pytest.mark.parametrize("value", ["no", "False", 0, None])
def test_training_is_true_or_false_and_nothing_else(value: Any) -> None:
    env = pbim.wrap(cliff(), EpisodicCount(alpha=1.0), pbim.PBIM(gamma=GAMMA))
    with pytest.raises(pbim.InputError, match=f"training must be True or False, received {value!r}: "):
        env.training = value
    assert env.training
    env.training = np.False_
    assert not env.training


def test_set_to_false_again_it_takes_a_new_copy() -> None:
    bonus = LifetimeCount(beta=1.0)
    train, evaluation = pbim.wrap(cliff(), bonus, pbim.Raw()), pbim.wrap(cliff(), bonus, pbim.Raw())
    evaluation.training = False

    def first() -> float:
        evaluation.reset(seed=0)
        return float(evaluation.step(3)[4]["intrinsic_reward"])

    new = first()
    train.reset(seed=0)
    train.step(3)
    assert first() == new
    evaluation.training = False
    assert first() < new


def test_a_state_may_be_loaded_for_an_evaluation() -> None:
    train, evaluation = (pbim.wrap(cliff(), LifetimeCount(beta=1.0), pbim.PBIM(gamma=GAMMA)) for _ in range(2))
    episodes(train, 3, seed=1)
    evaluation.training = False
    evaluation.load_state_dict(train.state_dict())
    train.training = False
    assert episodes(train, 2, seed=2) == episodes(evaluation, 2, seed=2)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vector_is_frozen_as_one_environment_is(mode: AutoresetMode) -> None:
    env = pbim.wrap(
        SyncVectorEnv([cliff, cliff], autoreset_mode=mode), EpisodicCount(alpha=1.0), pbim.PBIM(gamma=GAMMA)
    )

    def steps(count: int) -> None:
        env.reset(seed=0)
        over = np.zeros(2, bool)
        for number in range(count):
            if over.any() and mode == AutoresetMode.DISABLED:
                env.reset(options={"reset_mask": over})
            _, _, terminated, truncated, _ = env.step(np.array([number % 4, 3]))
            over = terminated | truncated

    steps(20)
    env.reset()
    before = env.state_dict()
    env.training = False
    steps(20)
    assert_same(env.state_dict(), before)
    env.training = True
    steps(20)
    assert env.certificate().ok
    assert env.certificate().episodes > before["certificate.episodes"]


def _venv(gamma: float = GAMMA) -> sb3.ShapedVecEnv:
    venv = DummyVecEnv([lambda: Monitor(gymnasium.make("CartPole-v1", max_episode_steps=20)) for _ in range(2)])
    return sb3.wrap(venv, RND(hidden=(8,), features=4), pbim.PBIM(gamma=gamma), "settle")


def test_the_eval_callback_of_sb3_with_vec_normalize_leaves_no_trace(tmp_path: Any) -> None:
    inner = _venv()
    train = VecNormalize(inner, norm_reward=False)
    frozen = _venv()
    frozen.training = False
    before = frozen.state_dict()
    evaluation = VecNormalize(frozen, norm_reward=False, training=False)
    callback = EvalCallback(evaluation, n_eval_episodes=4, eval_freq=32, log_path=str(tmp_path), verbose=0)
    model = PPO("MlpPolicy", train, gamma=GAMMA, n_steps=32, batch_size=32, n_epochs=1, device="cpu")
    model.learn(192, callback=[callback, sb3.PBIMCallback()])
    assert len(callback.evaluations_results) == 3
    assert all(0 < result <= 20 for result in np.ravel(callback.evaluations_results))  # Monitor's: the task's returns
    np.testing.assert_array_equal(evaluation.obs_rms.mean, train.obs_rms.mean)  # SB3 synchronised the two
    assert_same(frozen.state_dict(), before)
    assert frozen.certificate().episodes == frozen.certificate().abandoned == 0
    assert inner.certificate().ok
    assert inner.certificate().abandoned == 0


def test_the_training_environment_of_sb3_may_be_evaluated_too() -> None:
    venv = _venv()
    venv.reset()
    before = venv.state_dict()
    venv.training = False
    log: list[list[Any]] = [[], []]
    venv.reset()
    for _ in range(60):
        _, _, dones, infos = venv.step(np.array([0, 1]))
        for lane in range(2):
            log[lane].append((infos[lane]["shaping_reward"], dones[lane]))
    for lane in log:
        total, discount, finished = 0.0, 1.0, 0
        for shaping, done in lane:
            total, discount = total + discount * shaping, discount * GAMMA
            if done:
                assert total == pytest.approx(0, abs=1e-5)
                total, discount, finished = 0.0, 1.0, finished + 1
        assert finished > 2
    assert_same(venv.state_dict(), before)
