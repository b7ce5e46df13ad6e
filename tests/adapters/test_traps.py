"""What surprises a new user of the Gymnasium adapter: it is refused, warned about or survived."""

import copy
import gc
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import ClipReward, NormalizeReward, RecordEpisodeStatistics, TransformReward
from gymnasium.wrappers.vector import (
    ClipReward as VectorClipReward,
    DictInfoToList,
    NormalizeReward as VectorNormalizeReward,
)
from hypothesis import given, settings, strategies as st

import pbim
from driving import CLIFF, bonus as plain_bonus, drive_env, drive_vector
from pbim.intrinsic import RND, EpisodicCount, LifetimeCount, Scaled, Sum, one_hot
from pbim.testing.scripted import Episode, ScriptedEnv

SHAPING = pbim.Geometric(gamma=0.99, rate=0.02)


def cliff() -> gymnasium.Env[Any, Any]:
    return gymnasium.make(CLIFF, max_episode_steps=7)


def run(env: Any, steps: int = 20) -> Any:
    env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            env.reset()
    return env


# one bonus, two environments


def test_a_bonus_that_learns_in_two_environments_is_warned_about() -> None:
    bonus = LifetimeCount(beta=1.0)
    train, evaluation = (pbim.wrap(cliff(), bonus, SHAPING) for _ in range(2))
    run(train)
    with pytest.warns(UserWarning, match="one LifetimeCount learns in two wrapped environments.*training = False"):
        run(evaluation)
    run(evaluation)  # once
    run(train)


def test_a_part_of_two_bonuses_is_found() -> None:
    count = EpisodicCount()
    run(pbim.wrap(cliff(), Sum(count, LifetimeCount(beta=1.0)), SHAPING))
    one = run(pbim.wrap(cliff(), Sum(count, LifetimeCount(beta=1.0)), SHAPING))
    with pytest.warns(UserWarning, match="one EpisodicCount learns in two"):
        run(pbim.wrap(cliff(), Scaled(count, 0.1), SHAPING))
    del one


def test_environments_in_a_vector_that_share_one_bonus_are_found() -> None:
    count = EpisodicCount()
    vector = SyncVectorEnv([lambda: pbim.wrap(cliff(), count, SHAPING)] * 2)
    vector.reset(seed=0)
    with pytest.warns(UserWarning, match="give each a bonus of its own"):
        vector.step(np.zeros(2, int))


SEPARATE: dict[str, Callable[[Any], Any]] = {
    "closed": lambda env: env.close() or env,
    "collected": lambda _: None,
    "frozen": lambda env: setattr(env, "training", False) or env,
}


@pytest.mark.parametrize("case", SEPARATE)
def test_an_environment_that_no_longer_learns_does_not_block_its_bonus(case: str) -> None:
    """What happens when a notebook's cell runs again."""
    bonus = LifetimeCount(beta=1.0)
    old = SEPARATE[case](run(pbim.wrap(cliff(), bonus, SHAPING)))
    gc.collect()
    run(pbim.wrap(cliff(), bonus, SHAPING))
    del old


def test_a_frozen_evaluation_functions_and_equal_bonuses_may_be_shared() -> None:
    bonus, function = LifetimeCount(beta=1.0), lambda step: step.next_obs / 47
    train, evaluation = (pbim.wrap(cliff(), bonus, SHAPING) for _ in range(2))
    evaluation.training = False
    environments = [train, evaluation, pbim.wrap(cliff(), LifetimeCount(beta=1.0), SHAPING)]
    environments += [pbim.wrap(cliff(), function, SHAPING) for _ in range(2)]
    for env in environments:
        run(env)


# what stands outside


OUTSIDE: dict[str, Callable[[], Any]] = {
    "NormalizeReward": lambda: NormalizeReward(pbim.wrap(cliff(), EpisodicCount(), SHAPING)),
    "ClipReward": lambda: ClipReward(RecordEpisodeStatistics(pbim.wrap(cliff(), EpisodicCount(), SHAPING)), -1, 1),
    "NormalizeReward of a vector": lambda: VectorNormalizeReward(
        pbim.wrap(SyncVectorEnv([cliff] * 2), EpisodicCount(), SHAPING)
    ),
    "ClipReward around wrapped environments": lambda: VectorClipReward(
        SyncVectorEnv([lambda: pbim.wrap(cliff(), EpisodicCount(), SHAPING)]), -1, 1
    ),
}


def _certificate(env: Any) -> Any:
    while not hasattr(env, "certificate"):
        env = env.envs[0] if hasattr(env, "envs") else env.env
    return env.certificate()


@pytest.mark.parametrize("case", OUTSIDE)
def test_rewards_that_are_changed_outside_are_not_certified(case: str) -> None:
    env = OUTSIDE[case]()
    with pytest.warns(UserWarning, match=f"{case.split()[0]} outside the pbim wrapper changes rewards"):
        env.reset(seed=0)
    action: Any = env.action_space.sample() * 0
    for _ in range(20):
        _, _, terminated, truncated, _ = env.step(action)
        if np.ndim(terminated) == 0 and (terminated or truncated):
            env.reset()
    report = _certificate(env)
    assert report.episodes > 0
    assert report.worst <= report.tolerance  # inside F' cancels
    assert not report.ok
    assert report.changed_by == case.split()[0]
    assert str(report).startswith("DOES NOT CANCEL for the learner")


def test_rewards_that_are_changed_inside_or_by_a_constant_are_certified() -> None:
    inside = run(pbim.wrap(NormalizeReward(cliff()), EpisodicCount(), SHAPING))
    outside = run(
        TransformReward(RecordEpisodeStatistics(pbim.wrap(cliff(), EpisodicCount(), SHAPING)), lambda r: r / 2)
    )
    for env in (inside, outside):
        assert _certificate(env).ok
        assert str(_certificate(env)).startswith("cancelled")


# input


@pytest.mark.parametrize("limit", [-1, 0, 1.5, True, "100", float("nan")])
def test_the_longest_episode_is_a_count(limit: Any) -> None:
    with pytest.raises(pbim.InputError, match="max_episode_steps must be a whole number of at least 1") as caught:
        pbim.wrap(cliff(), EpisodicCount(), pbim.PBIM(gamma=0.9), max_episode_steps=limit)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bonus", [None, 0.1, "rnd"])
def test_what_is_no_bonus_is_refused_in_one_sentence(bonus: Any) -> None:
    with pytest.raises(pbim.InputError, match="intrinsic must be a callable") as caught:
        pbim.wrap(cliff(), bonus, SHAPING)
    assert "\n" not in str(caught.value)


def test_infos_as_a_list_belong_outside() -> None:
    env = pbim.wrap(DictInfoToList(SyncVectorEnv([cliff] * 2)), EpisodicCount(), SHAPING)
    env.reset()
    with pytest.raises(pbim.InputError, match=r"DictInfoToList\(pbim.wrap\(env, ...\)\)"):
        env.step(np.zeros(2, int))
    other = DictInfoToList(pbim.wrap(SyncVectorEnv([cliff] * 2), EpisodicCount(), SHAPING))
    other.reset()
    assert other.step(np.zeros(2, int))[4][1]["intrinsic_reward"] == 1


def test_the_time_limit_of_environments_in_other_processes_is_checked() -> None:
    vector = AsyncVectorEnv([cliff] * 2, context="spawn")
    try:
        with pytest.warns(pbim.RepaymentWarning, match="up to 7 steps"):
            pbim.wrap(vector, EpisodicCount(), pbim.PBIM(gamma=0.1))
    finally:
        vector.close()
    unlimited = AsyncVectorEnv([ScriptedEnv] * 2, context="spawn")
    try:
        env = pbim.wrap(unlimited, plain_bonus, pbim.PBIM(gamma=0.1))
        env.reset()
        env.step(np.zeros(2, int))  # they still answer
    finally:
        unlimited.close()


# copies


def counted(step: Any) -> Any:
    return step.next_obs / 47


BONUSES: dict[str, Callable[[], Any]] = {
    "counts": lambda: Sum(EpisodicCount(), LifetimeCount(beta=1.0)),
    "networks": lambda: RND(encode=one_hot(48), hidden=(8,), features=4),
    "function": lambda: counted,
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("training", [True, False])
def test_a_copy_after_use_goes_on_alike_and_apart(bonus: str, way: str, training: bool) -> None:
    env = run(pbim.wrap(cliff(), BONUSES[bonus](), pbim.PBIM(gamma=0.9), update_every=3), 17)
    env.training = training
    other = COPIES[way](env)
    ahead = [other.step(1)[1] for _ in range(4)]
    assert [env.step(1)[1] for _ in range(4)] == ahead  # what the copy did changed nothing here
    assert env.certificate() == other.certificate()


@pytest.mark.parametrize("way", COPIES)
def test_a_copied_vector_goes_on_alike_and_apart(way: str) -> None:
    env = pbim.wrap(SyncVectorEnv([cliff] * 2), EpisodicCount(), SHAPING)
    env.reset(seed=0)
    env.step(np.zeros(2, int))
    other = COPIES[way](env)
    ahead = [other.step(np.ones(2, int))[1].tolist() for _ in range(9)]
    assert [env.step(np.ones(2, int))[1].tolist() for _ in range(9)] == ahead


# scale


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    truncates=st.booleans(),
    mode=st.sampled_from(list(AutoresetMode)),
    size=st.sampled_from([1, 2, 5]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_one_step_episodes_and_dummy_steps_cancel_and_agree_with_a_single_environment(
    lengths: list[int], truncates: bool, mode: AutoresetMode, size: int, scale: float
) -> None:
    story = tuple(Episode(length, not truncates, truncates) for length in lengths)
    shaping = pbim.Geometric(gamma=0.9, rate=0.3, normalize=False)

    def bonus(step: Any) -> Any:
        return (scale * plain_bonus(step)).astype(np.float32)

    makers = [lambda lane=lane: ScriptedEnv(lane, story=story) for lane in range(size)]
    env = pbim.wrap(SyncVectorEnv(makers, autoreset_mode=mode), bonus, shaping)
    logs = drive_vector(env, steps=15)
    for lane, log in enumerate(logs):
        single = drive_env(pbim.wrap(makers[lane](), bonus, shaping), lane, steps=15)
        assert np.array(log) == pytest.approx(np.array(single), rel=1e-6, abs=1e-6)
    assert env.certificate().ok
    assert env.certificate().abandoned == 0


@pytest.mark.parametrize("mode", AutoresetMode)
def test_thousands_of_environments_with_one_step_episodes_cancel(mode: AutoresetMode) -> None:
    """Two thousand lanes, of which every second has one-step episodes only."""
    count = 2000
    stories = [(Episode(1, True, False),), (Episode(5, False, True),)]
    makers = [lambda lane=lane: ScriptedEnv(lane, story=stories[lane % 2]) for lane in range(count)]
    env = pbim.wrap(SyncVectorEnv(makers, autoreset_mode=mode), plain_bonus, SHAPING)
    env.reset()
    over = np.zeros(count, bool)
    for _ in range(12):
        if mode == AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
        _, rewards, terminated, truncated, infos = env.step(np.ones(count, int))
        assert (infos["shaping_reward"][::2] == 0).all()
        assert rewards.dtype == np.float64
        over = terminated | truncated
    report = env.certificate()
    assert report.ok
    assert report.episodes >= count // 2 * 6


def test_no_warning_where_there_is_no_trap() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(pbim.wrap(cliff(), EpisodicCount(alpha=0.1), SHAPING))


def test_a_masked_bonus_is_refused() -> None:
    env = pbim.wrap(gymnasium.make("CartPole-v1"), lambda _: np.ma.masked_array([7.0], mask=[True]), SHAPING)
    env.reset(seed=0)
    with pytest.raises(pbim.InputError, match="received a masked array"):
        env.step(0)
