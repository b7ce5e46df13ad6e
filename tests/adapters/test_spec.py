"""``env.spec`` builds a wrapped environment again, with the same settings and a bonus that has learned nothing."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import Autoreset, RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

import pbim
from pbim.adapters.gymnasium import ShapedEnv, ShapedVectorEnv
from pbim.intrinsic import RND, EpisodicCount, LifetimeCount, Scaled, Sum, one_hot

PLAIN = pbim.Geometric(gamma=0.9, rate=0.3)
BONUSES: dict[str, Any] = {
    "counts": lambda: LifetimeCount(beta=1.0),
    "networks": lambda: RND(encode=one_hot(48), hidden=(8,), features=4),
    "several": lambda: Sum(LifetimeCount(beta=1.0), EpisodicCount()),
    "function": lambda: lambda step: step.next_obs / 47,
}


def steps(env: Any, count: int = 12) -> list[float]:
    vector = isinstance(env.unwrapped, gymnasium.vector.VectorEnv)
    env.reset(seed=0)
    rewards: list[float] = []
    for number in range(count):
        action = np.full(env.num_envs, number % 4) if vector else number % 4
        rewards += np.ravel(env.step(action)[1]).tolist()
    return rewards


@pytest.mark.parametrize("bonus", BONUSES)
def test_make_builds_the_same_wrapper_with_an_empty_bonus(bonus: str) -> None:
    env = pbim.wrap(
        gymnasium.make("CliffWalking-v1", max_episode_steps=20), BONUSES[bonus](), PLAIN, "bootstrap", update_every=3
    )
    empty = env.state_dict()
    first = steps(env)
    assert env.spec is not None
    for _ in range(2):  # the first copy is not what the second is made from
        again: Any = gymnasium.make(env.spec)
        assert isinstance(again, ShapedEnv)
        assert again.rewards.shaping == PLAIN
        assert again.rewards.truncation == "bootstrap"
        assert again.spec.max_episode_steps == 20
        assert again.rewards.intrinsic is not env.rewards.intrinsic
        state = again.state_dict()
        assert state.keys() == empty.keys()
        for name, array in empty.items():
            np.testing.assert_array_equal(array, state[name])
        assert steps(again) == first


def test_a_specification_names_the_bonus_and_the_conversion() -> None:
    text = str(pbim.wrap(gymnasium.make("CliffWalking-v1"), LifetimeCount(beta=0.25), PLAIN, "settle").spec)
    assert "Recipe(LifetimeCount(" in text
    assert "rate=0.3" in text


def test_wrappers_around_it_are_built_again_too() -> None:
    inner = pbim.wrap(gymnasium.make("CliffWalking-v1", max_episode_steps=9), LifetimeCount(beta=1.0), PLAIN)
    env = Autoreset(RecordEpisodeStatistics(inner))
    first = steps(env)
    again: Any = gymnasium.make(env.spec)
    assert str(again) == str(env)
    assert steps(again) == first


@pytest.mark.parametrize("mode", gymnasium.vector.AutoresetMode)
def test_make_vec_builds_the_same_vector_with_an_empty_bonus(mode: Any) -> None:
    inner = gymnasium.make_vec("CliffWalking-v1", num_envs=3, vector_kwargs={"autoreset_mode": mode})
    env = pbim.wrap(inner, LifetimeCount(beta=1.0), PLAIN, max_episode_steps=50)
    first = steps(env)
    again: Any = gymnasium.make_vec(VectorStatistics(env).spec)
    assert isinstance(again, ShapedVectorEnv)
    assert (again.num_envs, again.mode, again.rewards.shaping) == (3, mode, PLAIN)
    assert steps(again) == first
    third: Any = gymnasium.make_vec(again.spec)
    assert steps(third) == first


def test_a_vector_that_gymnasium_did_not_make_has_no_spec() -> None:
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CliffWalking-v1")])
    assert vector.spec is None
    assert pbim.wrap(vector, LifetimeCount(beta=1.0), PLAIN).spec is None


def test_a_bonus_that_cannot_be_copied_can_be_wrapped_but_not_built_again() -> None:
    class Stuck(SimpleNamespace):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("no copies")

    bonus: Any = Stuck(reward=lambda _: np.ones(1), update=lambda _: None)
    env = pbim.wrap(gymnasium.make("CliffWalking-v1"), bonus, PLAIN)
    steps(env)
    with pytest.raises(pbim.InputError, match=r"Stuck cannot be copied \(no copies\)"):
        gymnasium.make(env.spec)


IN_JSON = {**BONUSES, "function": lambda: Scaled(LifetimeCount(beta=1.0), 0.5)}


@pytest.mark.parametrize("bonus", IN_JSON)
@pytest.mark.parametrize("shaping", [PLAIN, pbim.PBIM(gamma=0.9, normalize=pbim.shaping.ExponentialMean(rate=0.5))])
def test_a_spec_goes_through_json(bonus: str, shaping: Any) -> None:
    env = pbim.wrap(
        gymnasium.make("CliffWalking-v1", max_episode_steps=20), IN_JSON[bonus](), shaping, "bootstrap", update_every=3
    )
    first, text = steps(env), env.spec.to_json()
    for _ in range(2):
        again: Any = gymnasium.make(EnvSpec.from_json(text))
        assert again.rewards.shaping == shaping
        assert again.rewards.truncation == "bootstrap"
        assert steps(again) == first
        text = again.spec.to_json()  # and again
    assert text == env.spec.to_json()


def test_the_spec_of_a_vector_goes_through_json() -> None:
    env = pbim.wrap(gymnasium.make_vec("CliffWalking-v1", num_envs=3), LifetimeCount(beta=1.0), PLAIN)
    first = steps(env)
    again: Any = gymnasium.make_vec(EnvSpec.from_json(env.spec.to_json()))
    assert (again.num_envs, again.rewards.shaping) == (3, PLAIN)
    assert steps(again) == first


def test_a_spec_with_what_has_no_name_says_so_in_one_sentence() -> None:
    env = pbim.wrap(gymnasium.make("CliffWalking-v1"), lambda step: step.next_obs / 47, PLAIN)
    with pytest.raises(pbim.InputError, match="a component must be a function that can be imported by its name"):
        env.spec.to_json()
