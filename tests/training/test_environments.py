"""Environments by name: exact names resolve, near misses suggest."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pbim.config import decode, encode, find
from pbim.envs import ENVIRONMENTS, CliffWalk, DoorKey, Flattened, HostEnv
from pbim.errors import InputError
from pbim.training.environments import environment

HERE = __name__


@dataclass(frozen=True, kw_only=True)
class Mine(CliffWalk):
    """A user's own environment."""

    width: int = 7


@dataclass(frozen=True, kw_only=True)
class Picky(CliffWalk):
    """One that cannot be made without arguments."""

    depth: int


@dataclass(frozen=True, kw_only=True)
class SmallView(DoorKey):
    """Views too small to convolve."""

    kind: ClassVar[str] = "small"

    @property
    def obs_shape(self) -> Any:
        return (5, 5, 3)


@dataclass(frozen=True)
class NoEnvironment:
    """A frozen dataclass that is no environment."""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Import paths name this module whatever pytest calls it."""
    import sys

    monkeypatch.setitem(sys.modules, "my_environments", sys.modules[HERE])


def test_our_names_and_their_gymnasium_ids_are_the_compiled_environments():
    for name, env in ENVIRONMENTS.items():
        assert environment(name) is environment(f"pbim/{name}-v0") is env
    assert environment("DoorKey-5x5") == DoorKey(size=5)
    assert environment("CliffWalkLong") == CliffWalk(width=50, max_steps=100)


def test_ids_of_gymnasium_are_stepped_on_the_host():
    assert environment("CartPole-v1") == environment("gymnasium:CartPole-v1") == HostEnv(id="CartPole-v1")
    ours = environment("gymnasium:pbim/DoorKey-5x5-v0")
    assert (type(ours), ours.obs_shape) == (HostEnv, (7, 7, 3))
    minigrid = environment("MiniGrid-DoorKey-5x5-v0")
    assert (minigrid.obs_shape, minigrid.num_actions, minigrid.max_steps) == ((7, 7, 3), 7, 250)


def test_an_import_path_names_anybodys_environment():
    env = environment("my_environments:Mine")
    assert env == Mine()
    small = environment("my_environments:SmallView")
    assert small == Flattened(env=SmallView())
    assert small.obs_shape == (75,)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("DoorKey-8", "did you mean 'DoorKey-8x8'"),
        ("doorkey-8x8", "did you mean 'DoorKey-8x8'"),
        ("pbim/DoorKey-8x8-v1", "did you mean 'pbim/DoorKey-8x8-v0'"),
        ("CartPole-v9", "did you mean 'CartPole-v1'"),
        ("gymnasium:CartPol-v1", "did you mean 'CartPole-v1'"),
        ("no_such_module:Env", "No module named 'no_such_module'"),
        ("my_environments:Absent", "has no attribute 'Absent'"),
        ("my_environments:Picky", "give every field a default"),
        ("my_environments:NoEnvironment", "lacks reset, step"),
        ("my_environments:environment", "frozen dataclass"),
        ("Pendulum-v1", "Discrete action space"),
        ("zzz", "a Gymnasium id"),
        ("gymnax:", "gymnax"),
    ],
)
def test_near_misses_only_suggest_in_one_sentence(name, message):
    with pytest.raises(InputError, match=message) as caught:
        environment(name)
    assert "\n" not in str(caught.value)


def test_every_named_environment_is_a_component():
    for env in ENVIRONMENTS.values():
        assert decode(encode(env)) == env
        assert find("env", env.kind) is type(env)
