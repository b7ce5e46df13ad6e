"""Registered environments against Gymnasium's own checker and its own SyncVectorEnv."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import pbim.envs
from pbim.envs import CliffWalk, DoorKey, RiverSwim
from pbim.envs.gymnasium_single import JaxEnv
from pbim.envs.gymnasium_vector import JaxVectorEnv

NAMES = [f"pbim/{name}-v0" for name in pbim.envs.ENVIRONMENTS]


@pytest.mark.parametrize("name", NAMES)
def test_registered_environments_pass_gymnasiums_checker_without_warnings(name: str) -> None:
    env = gymnasium.make(name, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=0)
    assert env.render().dtype == np.uint8


@pytest.mark.parametrize("name", NAMES)
def test_registered_environments_come_as_vectors(name: str) -> None:
    envs = gymnasium.make_vec(name, num_envs=3)
    assert isinstance(envs, JaxVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    obs, _ = envs.reset(seed=1)
    assert obs in envs.observation_space
    single, _ = gymnasium.make(name).reset(seed=2)
    np.testing.assert_array_equal(obs[1], single)


def test_names_mean_the_papers_instances() -> None:
    assert gymnasium.make("pbim/CliffWalk-v0").unwrapped.env == CliffWalk()
    assert gymnasium.make("pbim/CliffWalkLong-v0").unwrapped.env == CliffWalk(width=50, max_steps=100)
    assert set(NAMES) >= {f"pbim/DoorKey-{size}x{size}-v0" for size in (5, 6, 8, 16)}
    decayed = gymnasium.make("pbim/DoorKey-8x8-v0", reward="minigrid").unwrapped.env
    assert decayed == DoorKey(size=8, reward="minigrid", max_steps=640)


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours.dtype == theirs.dtype
        if ours.dtype == object:
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    "env", [DoorKey(size=5, max_steps=7), CliffWalk(width=4, height=3, max_steps=5, slip=0.3)], ids=["doorkey", "cliff"]
)
def test_vectors_are_gymnasiums_sync_vectors(env: Any, mode: AutoresetMode) -> None:
    num_envs = 3
    ours = JaxVectorEnv(env, num_envs=num_envs, autoreset_mode=mode, render_mode="rgb_array")
    theirs = SyncVectorEnv([lambda: JaxEnv(env, render_mode="rgb_array")] * num_envs, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    same(ours.reset(seed=3), theirs.reset(seed=3))
    rng = np.random.default_rng(0)
    ends = partial_ends = 0
    for _ in range(60):
        actions = rng.integers(env.num_actions, size=num_envs)
        result = ours.step(actions)
        same(result, theirs.step(actions))
        same(ours.render(), theirs.render())
        ended = result[2] | result[3]
        ends += ended.sum()
        partial_ends += ended.any() and not ended.all()
        if mode is AutoresetMode.DISABLED and ended.any():
            same(*(envs.reset(options={"reset_mask": ended.copy()}) for envs in (ours, theirs)))
    same(ours.reset(seed=[5, None, 7]), theirs.reset(seed=[5, None, 7]))
    assert ends > 10
    assert partial_ends > 0 or isinstance(env, DoorKey)


def test_same_step_tells_final_from_first_observations() -> None:
    envs = JaxVectorEnv(CliffWalk(), num_envs=2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    obs, rewards, terminated, _, info = envs.step(np.array([0, 1]))
    assert obs.tolist() == [24, 36]
    assert rewards.tolist() == [-1, -100]
    assert terminated.tolist() == [False, True]
    assert info["final_obs"].tolist() == [None, 37]
    assert info["final_info"]["count_key"].tolist() == [0, 37]
    assert info["count_key"].tolist() == [24, 36]


def test_next_step_resets_in_a_step_of_its_own() -> None:
    envs = JaxVectorEnv(CliffWalk(), num_envs=2)
    envs.reset(seed=0)
    assert envs.step(np.array([0, 1]))[0].tolist() == [24, 37]
    obs, rewards, terminated, truncated, _ = envs.step(np.array([1, 1]))
    assert obs.tolist() == [25, 36]
    assert rewards.tolist() == [-1, 0]
    assert not (terminated | truncated).any()


def test_mistakes_are_refused() -> None:
    envs = JaxVectorEnv(CliffWalk(), num_envs=2, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.array([0, 0]))
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="actions"):
        envs.step(np.array([0, 4]))
    with pytest.raises(ValueError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([False, False])})
    with pytest.raises(ValueError, match="seeds"):
        envs.reset(seed=[1])
    envs.step(np.array([0, 1]))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[1\]"):
        envs.step(np.array([0, 1]))
    with pytest.raises(ValueError, match="render_mode"):
        JaxVectorEnv(CliffWalk(), num_envs=2, render_mode="human")
    with pytest.raises(ValueError, match="num_envs"):
        JaxVectorEnv(CliffWalk(), num_envs=0)
    single = JaxEnv(CliffWalk())
    with pytest.raises(gymnasium.error.ResetNeeded):
        single.step(0)
    single.reset(seed=2**40)
    with pytest.raises(ValueError, match="action"):
        single.step(4)


def test_unseeded_environments_differ() -> None:
    envs = JaxVectorEnv(DoorKey(size=16), num_envs=20)
    first, _ = envs.reset()
    second, _ = envs.reset()
    assert len({obs.tobytes() for obs in first}) > 10
    assert not np.array_equal(first, second)


def test_any_compiled_environment_is_one_of_gymnasiums() -> None:
    """An environment without count keys or pictures needs no line of its own."""
    env = JaxEnv(RiverSwim(max_steps=3))
    check_env(env, skip_render_check=True)
    obs, info = env.reset(seed=0)
    assert obs in (1, 2)
    assert info == {}
    envs = JaxVectorEnv(RiverSwim(max_steps=3), num_envs=2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    *_, truncated, info = [envs.step(np.array([0, 1])) for _ in range(3)][-1]
    assert truncated.all()
    assert info["final_obs"].tolist()[0] == 0
    drawn = JaxEnv(RiverSwim(), render_mode="rgb_array")
    drawn.reset(seed=0)
    with pytest.raises(ValueError, match="to be drawn"):
        drawn.render()
