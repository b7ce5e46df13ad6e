"""A dense term of the task, read from the info, with continuous actions: it cancels in every adapter."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import pbim
from driving import SYNC

GAMMA = 0.95
SHAPING = pbim.PBIM(gamma=GAMMA, normalize=False)


class Standing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pendulum for 12 steps: standing pays 1, and its usual reward, a penalty, is in the info."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("Pendulum-v1", max_episode_steps=12))
        self.terms: list[float] = []

    def step(self, action: Any) -> Any:
        obs, dense, terminated, truncated, info = super().step(action)
        self.terms.append(float(dense))
        return obs, float(obs[0] > 0.95), terminated, truncated, {**info, "dense": float(dense)}


def dense(step: Any) -> Any:
    return 0.05 * step.info["dense"]  # less than the task, as the callback advises


def test_a_dense_term_of_one_environment_cancels() -> None:
    inner = Standing()
    env = pbim.wrap(inner, intrinsic=lambda t: t.info["dense"], shaping=SHAPING)
    env.action_space.seed(0)
    paid, over = [], True
    for _ in range(30):
        if over:
            env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        paid.append(info["intrinsic_reward"])
        assert reward == info["extrinsic_reward"] + info["shaping_reward"]
        over = terminated or truncated
    assert paid == inner.terms
    assert env.certificate().ok


@pytest.mark.parametrize("mode", SYNC)
def test_a_dense_term_of_a_vector_cancels(mode: str) -> None:
    """In SAME_STEP the reset reports no term, and the last step's is in the final info."""
    inner = SYNC[mode]([Standing, Standing])
    env = pbim.wrap(inner, intrinsic=lambda t: t.info["dense"], shaping=SHAPING)
    env.action_space.seed(0)
    env.reset(seed=0)
    paid: list[list[float]] = [[], []]
    for _ in range(30):
        _, _, terminated, truncated, infos = env.step(env.action_space.sample())
        for lane in np.flatnonzero(infos["_intrinsic_reward"]):
            paid[lane].append(float(infos["intrinsic_reward"][lane]))
        if mode == "sync-DISABLED" and (terminated | truncated).any():
            env.reset(options={"reset_mask": terminated | truncated})
    assert paid == [one.terms for one in inner.envs]
    report = env.certificate()
    assert (report.ok, report.episodes, report.abandoned) == (True, 4, 0)


@pytest.mark.parametrize("learner", ["PPO", "SAC"])
def test_learners_of_continuous_actions_train_on_a_dense_term_that_cancels(learner: str) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    venv = pbim.adapters.sb3.wrap(sb3.common.vec_env.DummyVecEnv([Standing] * 2), dense, SHAPING, "settle")
    more = {"n_steps": 32, "batch_size": 32, "n_epochs": 1} if learner == "PPO" else {"learning_starts": 40}
    model = getattr(sb3, learner)("MlpPolicy", venv, gamma=GAMMA, seed=0, device="cpu", **more)
    model.learn(128, callback=pbim.adapters.sb3.PBIMCallback())
    report = venv.certificate()
    assert (report.ok, report.episodes) == (True, 10)
    assert report.worst < 1e-6
    if learner == "SAC":  # what is replayed cancels, too
        rewards, dones = (part[:64] for part in (model.replay_buffer.rewards, model.replay_buffer.dones))
        task = np.array([row[0] > 0.95 for row in model.replay_buffer.next_observations[:64].reshape(-1, 3)])
        left = pbim.residuals(rewards - task.reshape(64, 2), dones > 0, GAMMA)
        assert len(left) == 10
        assert np.abs(left).max() < 1e-4 * np.abs(rewards).max()
