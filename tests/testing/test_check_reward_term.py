"""A reward term in a user's own tests: an unsafe one fails with its witness, by function and by marker."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import pbim
from pbim.testing import ConformanceError, check_reward_term
from pbim.verification import recording

pytest_plugins = ["pytester"]


class Cells(gymnasium.Env):
    """Five cells; the right end terminates. Observations are written into one array, as fast environments do."""

    observation_space = gymnasium.spaces.Box(0, 5, (1,), np.int64)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.place = np.zeros(1, np.int64)
        return self.place, {}

    def step(self, action):
        before = int(self.place[0])
        self.place[0] = np.clip(before + action - 1, 0, 4)
        over = bool(self.place[0] == 4)
        potential = [1.0, 3.0, 2.0, 5.0, 0.0]
        info = {"safe": 0.9 * potential[self.place[0]] - potential[before], "dense": 0.3 * (self.place[0] == 3)}
        return self.place, float(over), over, False, info


@pytest.fixture
def env():
    return gymnasium.wrappers.TimeLimit(Cells(), 25)


def test_a_safe_term_passes_with_its_report(env):
    report = check_reward_term(env, term=lambda t: t.info["safe"], gamma=0.9, episodes=50)
    assert report.potential_based
    assert report.coverage.checks > 0
    assert report.potential[0] == pytest.approx(1.0)


def test_an_unsafe_term_fails_with_its_witness(env):
    with pytest.raises(AssertionError, match=r"3 -> 3 pays 0.3 in each round") as caught:
        check_reward_term(env, term=lambda t: t.info["dense"], gamma=0.9, episodes=50)
    assert isinstance(caught.value, ConformanceError)
    assert caught.value.check == "reward-term"


def test_a_bonus_that_learns_is_recognised(env):
    with pytest.raises(AssertionError, match="history-dependent"):
        check_reward_term(env, term=pbim.LifetimeCount(key=lambda t: t.next_obs[:, 0]), gamma=0.9, episodes=5)


def test_the_same_term_converted_passes_its_certificate(env):
    shaping = pbim.Geometric(gamma=0.9, rate=0.3)
    wrapped = pbim.wrap(env, intrinsic=lambda t: t.info["dense"], shaping=shaping, truncation="settle")
    for seed in range(5):
        wrapped.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = wrapped.step(seed % 2 + 1)
            ended = terminated or truncated
    assert wrapped.certificate().ok


def test_nothing_tested_is_said(env):
    with pytest.warns(UserWarning, match="tested nothing"):
        check_reward_term(env, term=lambda t: t.info["dense"], gamma=0.9, episodes=2, policy=lambda *_: 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"term": lambda t: t.info["dens"]}, "received 'dens' where info has 'dense', 'safe'"),
        ({"term": lambda _: [1.0, 2.0]}, "term must return one number per transition"),
        ({"gamma": 2}, "gamma must be in"),
        ({"episodes": 0}, "episodes must be a whole number"),
        ({"term": 3}, "intrinsic must be a callable"),
    ],
)
def test_bad_input_is_one_sentence(env, options, words):
    with pytest.raises(pbim.InputError, match=words.replace("(", r"\(")):
        check_reward_term(env, **{"term": lambda t: t.info["safe"], "gamma": 0.9, "episodes": 2} | options)


def test_a_vector_of_environments_is_refused():
    with pytest.raises(pbim.InputTypeError, match="env must be a single"):
        check_reward_term(gymnasium.make_vec("FrozenLake-v1", num_envs=2), term=lambda _: 0.0, gamma=0.9)


def test_the_marker_fails_a_test_whose_term_is_unsafe(pytester):
    pytester.makepyfile(
        """
import pytest
from cells_of_a_user import env

@pytest.mark.reward_term(term=lambda t: t.info["safe"], gamma=0.9, episodes=30)
def test_safe(env):
    assert env is not None

@pytest.mark.reward_term(term=lambda t: t.info["dense"], gamma=0.9, episodes=30)
def test_unsafe(env):
    raise RuntimeError("the test itself must not run")

@pytest.mark.reward_term(term=lambda t: 0.0, gamma=0.9)
def test_without_environment():
    pass
"""
    )
    source = Path(__file__).read_text().split("def test_a_safe_term")[0].replace("pytest_plugins", "_")
    pytester.makepyfile(cells_of_a_user=source)
    result = pytester.runpytest("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*3 -> 3 pays 0.3 in each round*", "*needs a fixture named 'env'*"])
    assert "the test itself must not run" not in result.stdout.str()


def test_the_plugin_loads_nothing_heavy():
    code = "import sys, pbim.pytest_plugin; print({'numpy', 'gymnasium', 'jax'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_usual_number_of_episodes_ends_after_enough_transitions(monkeypatch):
    """Episodes are played whole; a number that is named is kept."""
    env = gymnasium.make("CliffWalking-v1")
    monkeypatch.setattr(recording, "ENOUGH", 100)
    few = recording.record(env, term=lambda t: 0.0 * t.obs, max_steps=40)
    assert (len(few["term"]), few["episode"][-1], few["truncated"][-1]) == (120, 2, True)
    assert len(recording.record(env, term=lambda t: 0.0 * t.obs, max_steps=40, episodes=5)["term"]) == 200
    short = recording.record(env, term=lambda t: 0.0 * t.obs, max_steps=1)
    assert len(short["term"]) == 100
    monkeypatch.setattr(recording, "ENOUGH", 10_000)
    assert len(recording.record(env, term=lambda t: 0.0 * t.obs, max_steps=1)["term"]) == recording.USUAL_EPISODES
