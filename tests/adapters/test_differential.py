"""The same story through every adapter gives every environment the same rewards, step by step."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import Autoreset
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import pbim
from driving import (
    ASYNC,
    STEPS,
    SYNC,
    bonus,
    drive_autoreset,
    drive_env,
    drive_sb3,
    drive_vector,
    episode_returns,
    makers,
    reference,
    same,
)
from pbim.adapters import sb3
from pbim.testing.scripted import KINDS, STORY, ScriptedEnv

CONVERSIONS = {
    "pbim": pbim.PBIM(gamma=0.5, normalize=False),
    "grm": pbim.GRM(gamma=0.5, delay=2, normalize=False),
    "geometric": pbim.Geometric(gamma=0.5, rate=0.75, normalize=False),
    "bounded": pbim.Bounded(gamma=0.5, limit=2, normalize=False),
    "mixture": pbim.Mixture(
        members=(pbim.PBIM(gamma=0.5, normalize=False), pbim.GRM(gamma=0.5, delay=2, normalize=False))
    ),
}


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("mode", SYNC)
def test_sync_vector_environments_agree_with_single_ones(mode: str, conversion: str, truncation: Any) -> None:
    shaping = CONVERSIONS[conversion]
    env = pbim.wrap(SYNC[mode](makers()), bonus, shaping, truncation)
    logs = drive_vector(env)
    same(logs, reference(shaping, truncation))
    report = env.certificate()
    assert report.ok
    assert report.abandoned == 0
    assert (report.bootstrapped > 0) == (truncation == "bootstrap")


@pytest.mark.parametrize("mode", ASYNC)
def test_async_vector_environments_agree_with_single_ones(mode: str) -> None:
    shaping = CONVERSIONS["pbim"]
    env = pbim.wrap(ASYNC[mode](makers()), bonus, shaping)
    try:
        same(drive_vector(env), reference(shaping))
        assert env.certificate().ok
    finally:
        env.close()


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_sb3_dummy_vec_env_agrees_with_single_ones(conversion: str, truncation: Any) -> None:
    shaping = CONVERSIONS[conversion]
    venv = sb3.wrap(DummyVecEnv(makers()), bonus, shaping, truncation)
    same(drive_sb3(venv), reference(shaping, truncation), ends=False)
    assert venv.certificate().ok


def test_sb3_subproc_vec_env_agrees_with_single_ones() -> None:
    shaping = CONVERSIONS["pbim"]
    venv = sb3.wrap(SubprocVecEnv(makers()), bonus, shaping, "settle")
    try:
        same(drive_sb3(venv), reference(shaping), ends=False)
        assert venv.certificate().ok
    finally:
        venv.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", SYNC)
def test_every_kind_of_space_gives_the_same_rewards(mode: str, kind: str) -> None:
    shaping = CONVERSIONS["pbim"]
    expected = reference(shaping)
    same(reference(shaping, kind=kind), expected)
    same(drive_vector(pbim.wrap(SYNC[mode](makers(kind=kind)), bonus, shaping)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_space_gives_the_same_rewards_in_sb3(kind: str) -> None:
    shaping = CONVERSIONS["pbim"]
    venv = sb3.wrap(DummyVecEnv(makers(kind=kind)), bonus, shaping, "settle")
    same(drive_sb3(venv), reference(shaping), ends=False)


@pytest.mark.parametrize("mode", SYNC)
def test_dummy_steps_leave_the_running_mean_alone(mode: str) -> None:
    shaping = pbim.PBIM(gamma=0.5)  # centred by a mean over all steps: one more step counted would show
    expected = reference(shaping, n=1)
    same(drive_vector(pbim.wrap(SYNC[mode](makers(1)), bonus, shaping)), expected)
    same(drive_sb3(sb3.wrap(DummyVecEnv(makers(1)), bonus, shaping, "settle")), expected, ends=False)


def test_only_real_steps_enter_the_running_mean() -> None:
    """In NEXT_STEP mode some rows are dummies while others step: F-bar is the mean of the real ones."""
    env = pbim.wrap(SyncVectorEnv(makers()), bonus, pbim.PBIM(gamma=0.5))
    env.reset()
    paid: list[float] = []
    for count in range(STEPS):
        *_, infos = env.step(np.full(3, count % 3))
        paid.extend(infos["intrinsic_reward"][infos["_intrinsic_reward"]])
    state = env.state_dict()
    assert len(paid) < 3 * STEPS
    assert int(state["shaping.centre.count"]) == len(paid)
    assert float(state["shaping.centre.mean"]) == pytest.approx(np.mean(paid))


@pytest.mark.parametrize("mode", SYNC)
def test_every_settled_episode_sums_to_zero(mode: str) -> None:
    gamma = 0.9
    env = pbim.wrap(SYNC[mode](makers()), bonus, pbim.PBIM(gamma=gamma))
    for log in drive_vector(env):
        assert episode_returns(log, gamma) == pytest.approx(np.zeros(len(episode_returns(log, gamma))), abs=1e-9)
    assert env.certificate().episodes == pytest.approx(3 * STEPS / np.mean([e.length for e in STORY]), rel=0.2)


def test_one_step_episodes_get_no_shaping_reward() -> None:
    for log in reference(pbim.PBIM(gamma=0.9, normalize=False)):
        fresh = True
        for step in log:
            over = step.terminated or step.truncated
            if fresh and over:
                assert step.shaping == 0
                assert step.total == step.extrinsic
            fresh = over


def test_an_environment_that_resets_itself_has_dummy_steps_too() -> None:
    shaping = pbim.PBIM(gamma=0.5)
    log = drive_autoreset(pbim.wrap(Autoreset(ScriptedEnv()), bonus, shaping))
    same([log], [drive_env(pbim.wrap(ScriptedEnv(), bonus, shaping))])


def test_environments_that_wait_for_their_reset_take_no_steps() -> None:
    """A DISABLED vector that lets ended environments be stepped on: nothing is paid there until the reset."""
    inner = SyncVectorEnv(makers(), autoreset_mode=AutoresetMode.DISABLED)
    env = pbim.wrap(inner, bonus, pbim.PBIM(gamma=0.5, normalize=False))
    env.reset()
    waiting = np.zeros(3, bool)
    for count in range(6):
        inner._autoreset_envs[:] = False
        _, _, terminated, truncated, infos = env.step(np.full(3, count % 3))
        assert (infos["_shaping_reward"] == ~waiting).all()
        assert (infos["shaping_reward"][waiting] == 0).all()
        waiting |= terminated | truncated
    assert waiting.any()
