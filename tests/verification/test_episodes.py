"""Evidence from episodes: residuals, and prefixes replayed with other futures."""

import gymnasium
import numpy as np
import pytest

import pbim
from pbim.errors import InputError
from pbim.verification import certify_episodes


class Counting:
    """A lifetime count that learns from every transition."""

    def __init__(self):
        self.visits = {}

    def reward(self, transition):
        return np.array([1 / (1 + self.visits.get(int(transition.next_obs[0]), 0))])

    def update(self, transition):
        state = int(transition.next_obs[0])
        self.visits[state] = self.visits.get(state, 0) + 1


class Hindsight:
    """Counts visits when the episode is over."""

    name = "hindsight"

    def rollout(self, transitions):
        states = [int(transition.next_obs[0]) for transition in transitions]
        return [1 / states.count(state) for state in states]


@pytest.fixture
def lake():
    return gymnasium.make("FrozenLake-v1")


@pytest.mark.parametrize("shaping", [pbim.PBIM(gamma=0.99), pbim.GRM(gamma=0.99, delay=3), pbim.Geometric(gamma=0.99)])
@pytest.mark.parametrize("bonus", [Counting, lambda: lambda transition: transition.next_obs / 10])
def test_exact_conversions_leave_no_residual(lake, shaping, bonus):
    report = certify_episodes(lake, intrinsic=bonus(), shaping=shaping, episodes=30, seed=1)
    assert report.ok
    assert report.certificate.episodes == 30
    assert report.replays > 10
    assert "evidence, not proof" in str(report)


def test_a_raw_bonus_leaves_one(lake):
    report = certify_episodes(lake, intrinsic=Counting(), shaping=pbim.Raw(), gamma=0.99, episodes=5)
    assert not report.ok
    assert report.assumption1.holds
    with pytest.raises(InputError, match="gamma must be given"):
        certify_episodes(lake, intrinsic=Counting(), shaping=pbim.Raw(), episodes=5)


def test_a_bonus_of_later_steps_is_caught_by_name_though_every_residual_is_zero(lake):
    report = certify_episodes(lake, intrinsic=Hindsight(), shaping=pbim.PBIM(gamma=0.99), episodes=30)
    assert report.certificate.ok
    assert not report.assumption1.holds
    assert not report.ok
    assert "hindsight" in str(report)
    first, second = report.replay.actions
    assert first[: report.replay.shared] == second[: report.replay.shared]
    assert first[report.replay.shared] != second[report.replay.shared]
    assert report.replay.step < report.replay.shared


def test_replays_do_not_touch_what_the_bonus_learns(lake):
    with_replays, without = Counting(), Counting()
    arguments = {"shaping": pbim.PBIM(gamma=0.99), "episodes": 10}
    certify_episodes(lake, lambda _obs, _rng: 1, intrinsic=with_replays, replays=10, **arguments)
    certify_episodes(lake, lambda _obs, _rng: 1, intrinsic=without, replays=0, **arguments)
    assert with_replays.visits == without.visits


def test_an_environment_that_does_not_repeat_itself_is_named():
    class Restless(gymnasium.Wrapper):
        calls = 0

        def step(self, action):
            obs, *rest = self.env.step(action)
            self.calls += 1
            return obs + self.calls, *rest

    with pytest.raises(InputError, match="env must repeat itself"):
        certify_episodes(
            Restless(gymnasium.make("FrozenLake-v1")), intrinsic=Counting(), shaping=pbim.PBIM(gamma=0.9), episodes=5
        )


def test_max_steps_cuts_episodes(lake):
    report = certify_episodes(lake, intrinsic=Counting(), shaping=pbim.PBIM(gamma=0.9), episodes=8, max_steps=2)
    assert report.steps <= 16
    assert report.ok


def test_vector_environments_are_refused():
    with pytest.raises(InputError, match="single gymnasium"):
        certify_episodes(
            gymnasium.make_vec("FrozenLake-v1", num_envs=2), intrinsic=Counting(), shaping=pbim.PBIM(gamma=0.9)
        )
