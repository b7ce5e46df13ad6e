"""The three meanings of a truncation, worked out by hand: PBIM with gamma 1/2, a bonus of 1 per step, a window of 3."""

from fractions import Fraction
from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import Autoreset, TimeLimit
from stable_baselines3.common.vec_env import DummyVecEnv

import pbim
from driving import SYNC, drive_env, drive_vector, makers
from pbim.adapters import sb3
from pbim.intrinsic import EpisodicCount

GAMMA = 0.5
PLAIN = pbim.PBIM(gamma=GAMMA, normalize=False)
LEDGERS = [0, 2, 6, 14, 30]  # L_{t+1} = (L_t + 1) / gamma


class Window(gymnasium.Env[Any, Any]):
    """Five steps to the end of the task, and a time limit of three that may be stepped over."""

    observation_space, action_space = spaces.Discrete(6), spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        self.time = 0
        return 0, {}

    def step(self, _: Any) -> Any:
        self.time += 1
        return self.time, 0.0, self.time == 5, self.time == 3, {}


class Windows(VectorEnv[Any, Any, Any]):
    """Two windows that wait for their reset, and may be stepped on after a truncation."""

    num_envs, metadata = 2, {"autoreset_mode": AutoresetMode.DISABLED}
    single_observation_space, single_action_space = spaces.Discrete(6), spaces.Discrete(2)
    observation_space, action_space = spaces.MultiDiscrete([6, 6]), spaces.MultiDiscrete([2, 2])

    def __init__(self) -> None:
        self.envs = [Window(), Window()]

    def reset(self, *, options: Any = None, **_: Any) -> Any:
        mask = np.ones(2, bool) if options is None else options["reset_mask"]
        for env in np.array(self.envs)[mask]:
            env.reset()
        return np.array([env.time for env in self.envs]), {}

    def step(self, _: Any) -> Any:
        obs, rewards, terminated, truncated, _ = zip(*(env.step(0) for env in self.envs), strict=True)
        return np.array(obs), np.array(rewards), np.array(terminated), np.array(truncated), {}


def ones(step: Any) -> Any:
    return np.ones(len(step.terminated))


def paid(env: Any, steps: int) -> list[float]:
    return [env.step(0)[4]["shaping_reward"] for _ in range(steps)]


def test_settle_takes_everything_back_at_the_limit() -> None:
    env = pbim.wrap(Window(), ones, PLAIN, "settle")
    env.reset()
    assert paid(env, 3) == [1, 1, -6]  # 1 + 1/2 - 6/4 = 0: the learner stops here, V' is not asked
    assert paid(env, 1) == [0]  # the episode is over until the next reset
    report = env.certificate()
    assert (report.ok, report.episodes, report.bootstrapped) == (True, 1, 0)


def test_bootstrap_leaves_the_ledger_of_14_to_the_value() -> None:
    env = pbim.wrap(Window(), ones, PLAIN, "bootstrap")
    env.reset()
    assert paid(env, 3) == [1, 1, 1]
    assert 1 + GAMMA + GAMMA**2 - GAMMA**3 * LEDGERS[3] == 0  # with V' = V - 14
    env.reset()
    assert paid(env, 2) == [1, 1]  # and the next episode owes nothing of it
    report = env.certificate()
    assert (report.episodes, report.bootstrapped, report.abandoned) == (0, 1, 0)


def test_continue_goes_on_to_the_end_of_the_task() -> None:
    env = pbim.wrap(Window(), ones, PLAIN, "continue")
    env.reset()
    assert paid(env, 5) == [1, 1, 1, 1, -30]  # 1 + 1/2 + 1/4 + 1/8 - 30/16 = 0
    assert paid(env, 1) == [0]
    report = env.certificate()
    assert (report.ok, report.episodes, report.bootstrapped, report.abandoned) == (True, 1, 0, 0)


@pytest.mark.parametrize("truncation", ["settle", "bootstrap", "continue"])
def test_every_target_of_the_learner_is_shifted_by_the_ledger(truncation: Any) -> None:
    """The task pays nothing, V = 0 and V' = -L: r + F' + gamma V', without V' where the learner stops, is -L_t."""
    env = pbim.wrap(Window(), ones, PLAIN, truncation)
    env.reset()
    for time in range(5):
        _, reward, terminated, truncated, _ = env.step(0)
        stops = terminated or (truncated and truncation == "settle")
        target = reward + (0 if stops else GAMMA * -LEDGERS[time + 1])
        assert target == -LEDGERS[time]
        if terminated or (truncated and truncation != "continue"):
            break


def test_continue_in_a_vector_is_continue_in_each_environment() -> None:
    env = pbim.wrap(Windows(), ones, PLAIN, "continue")
    env.reset()
    rows = [env.step(np.zeros(2, int)) for _ in range(4)]
    env.reset(options={"reset_mask": np.array([True, False])})  # abandons the first in the middle
    rows += [env.step(np.zeros(2, int)) for _ in range(3)]
    shaping = np.array([infos["shaping_reward"] for *_, infos in rows]).T
    assert shaping[0].tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert shaping[1].tolist() == [1, 1, 1, 1, -30, 0, 0]
    assert rows[2][3].all()  # the learner still hears of the truncation
    report = env.certificate()
    assert (report.ok, report.episodes, report.abandoned) == (True, 1, 1)


def test_the_memory_of_an_episode_goes_on_over_a_truncation() -> None:
    seen: list[Any] = []

    class Counts(EpisodicCount):
        def update(self, step: Any, /) -> None:
            seen.append((bool(step.terminated[0]), bool(step.truncated[0])))
            super().update(step)

    bonus = Counts(alpha=1.0, key=lambda _: np.zeros(1, int))
    env = pbim.wrap(Window(), bonus, pbim.Raw(), "continue")
    env.reset()
    assert [env.step(0)[4]["intrinsic_reward"] for _ in range(4)] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert seen == [(False, False)] * 4
    env.step(0)
    assert seen[-1] == (True, False)


def test_a_reset_after_a_truncation_abandons_the_episode_that_could_go_on() -> None:
    env = pbim.wrap(Window(), ones, PLAIN, "continue")
    env.reset()
    paid(env, 3)
    env.reset()
    assert env.certificate().abandoned == 1
    assert paid(env, 5) == [1, 1, 1, 1, -30]


def test_saved_at_a_truncation_it_goes_on() -> None:
    env, other = (pbim.wrap(Window(), ones, PLAIN, "continue") for _ in range(2))
    for each in (env, other):
        each.reset()
        paid(each, 3)
    other.load_state_dict(env.state_dict())
    assert paid(other, 2) == [1, -30]


def test_a_story_without_ends_by_termination_is_never_settled_by_continue() -> None:
    env = pbim.wrap(TimeLimit(Window(), 2), ones, PLAIN, "continue")
    env.reset()
    assert paid(env, 4) == [1, 1, 1, 1]  # TimeLimit reports a truncation at each step from the second on
    assert env.certificate().episodes == 0


MDP = pbim.FiniteMDP(
    transition=[[[1, 0], [0, 1]], [[1, 0], [0, 1]]],
    reward=[[[0, 0], [0, 1]], [[0, 0], [0, 0]]],
    initial=[1, 0],
    terminal=[False, False],
    gamma=Fraction(1, 2),
)
"""Two states; action a leads to state a, and the way from 0 to 1 pays 1."""


class TwoStates(gymnasium.Env[Any, Any]):
    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        self.state = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        before, self.state = self.state, int(action)
        return self.state, float(before == 0 and self.state == 1), False, False, {}


def _stays(history: tuple[int, ...]) -> int:
    return 2 * (history[-1] == history[-3])


def test_the_verifier_and_the_wrapper_agree_on_a_truncated_task() -> None:
    """Every plan of three steps returns what it returns without a bonus, so the same plans are best: verified."""
    shaping = pbim.PBIM(gamma=Fraction(1, 2), normalize=False)
    assert pbim.verify(MDP, intrinsic=_stays, shaping=shaping, horizon=3).preserved
    assert not pbim.verify(MDP, intrinsic=_stays, shaping=pbim.Raw(), horizon=3).preserved
    moved = {"settle": False, "bootstrap": True, "raw": True}
    for name, changes in moved.items():
        conversion, truncation = (pbim.Raw(), "settle") if name == "raw" else (shaping, name)
        env = pbim.wrap(
            TimeLimit(TwoStates(), 3), lambda step: 2.0 * (step.obs == step.next_obs), conversion, truncation
        )
        differences = set()
        for plan in product((0, 1), repeat=3):
            env.reset()
            steps = [env.step(action) for action in plan]
            differences.add(sum(GAMMA**t * (step[1] - step[4]["extrinsic_reward"]) for t, step in enumerate(steps)))
        assert (differences != {0.0}) == changes, name  # under bootstrap the rest is in V', which no plan collects


@pytest.mark.parametrize("mode", ["sync-NEXT_STEP", "sync-SAME_STEP"])
def test_environments_that_reset_themselves_cannot_continue(mode: str) -> None:
    for make in (
        lambda: pbim.wrap(SYNC[mode](makers()), ones, PLAIN, "continue"),
        lambda: pbim.wrap(Autoreset(Window()), ones, PLAIN, "continue"),
        lambda: sb3.wrap(DummyVecEnv(makers()), ones, PLAIN, "continue"),
    ):
        with pytest.raises(pbim.InputError, match=r"needs .*environments? that goe?s? on after a truncation") as caught:
            make()
        assert "\n" not in str(caught.value)
        assert "use AutoresetMode.DISABLED" not in str(caught.value)  # SyncVectorEnv wants a reset there, too


def test_where_nothing_is_truncated_the_three_are_one() -> None:
    logs = []
    for truncation in ("settle", "bootstrap", "continue"):
        logs.append(drive_env(pbim.wrap(TwoEnds(), ones, PLAIN, truncation), steps=20))
        inner = SyncVectorEnv([TwoEnds, TwoEnds], autoreset_mode=AutoresetMode.DISABLED)
        assert drive_vector(pbim.wrap(inner, ones, PLAIN, truncation), steps=20)[0][:8] == logs[0][:8]
    assert logs[0] == logs[1] == logs[2]


class TwoEnds(Window):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.time == 4, False, info
