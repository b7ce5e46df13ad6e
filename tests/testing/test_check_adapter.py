"""Every adapter passes the conformance suite, and the suite names the law that a broken one breaks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import Autoreset

import pbim
from driving import ASYNC, SYNC, Step, drive_autoreset, drive_env, drive_sb3, drive_vector
from pbim.testing import AdapterCase, ConformanceError, check_adapter
from pbim.testing.scripted import KINDS

Logs = list[list[Step]]
PLAIN = pbim.PBIM(gamma=0.5, normalize=False)


def each_env(case: AdapterCase) -> list[list[float]]:
    lanes = []
    for lane, make in enumerate(case.envs):
        env = pbim.wrap(make(), case.intrinsic, case.shaping, case.truncation)
        lanes += totals(case, lambda steps, env=env, lane=lane: [drive_env(env, lane, steps)])
    return lanes


def each_autoreset(case: AdapterCase) -> list[list[float]]:
    lanes = []
    for make in case.envs:
        env = pbim.wrap(Autoreset(make()), case.intrinsic, case.shaping, case.truncation)
        lanes += totals(case, lambda steps, env=env: [drive_autoreset(env, steps)])
    return lanes


def vector(make: Any) -> Callable[[AdapterCase], list[list[float]]]:
    def run(case: AdapterCase) -> list[list[float]]:
        env = pbim.wrap(make(case.envs), case.intrinsic, case.shaping, case.truncation)
        try:
            return totals(case, lambda steps: drive_vector(env, steps))
        finally:
            env.close()

    return run


def sb3(case: AdapterCase) -> list[list[float]]:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    venv = pbim.adapters.sb3.wrap(vec_env.DummyVecEnv(case.envs), case.intrinsic, case.shaping, case.truncation)
    return totals(case, lambda steps: drive_sb3(venv, steps))


def totals(case: AdapterCase, drive: Callable[[int], Logs]) -> list[list[float]]:
    """What the learner gets; each drive begins with a reset, so that a case with a cut is driven twice."""
    parts = [case.steps] if case.cut is None else [case.cut, case.steps - case.cut]
    rows = [drive(steps) for steps in parts]
    return [[step.total for log in logs for step in log] for logs in zip(*rows, strict=True)]


ADAPTERS = {
    "gymnasium": each_env,
    "autoreset": each_autoreset,
    **{name: vector(make) for name, make in SYNC.items()},
    "sb3": sb3,
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_conforms(adapter: str, record_property: Any) -> None:
    worst = check_adapter(ADAPTERS[adapter])
    record_property("adapter", adapter)
    record_property("residual", worst)
    assert worst < (1e-6 if adapter == "sb3" else 1e-12)  # SB3 keeps rewards in float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapter", ["gymnasium", "sync-SAME_STEP", "sb3"])
def test_every_kind_of_observation_conforms(adapter: str, kind: str) -> None:
    check_adapter(ADAPTERS[adapter], kind=kind, lanes=2, steps=30, conversions=[PLAIN])


def test_environments_in_other_processes_conform() -> None:
    few: Any = {"lanes": 2, "steps": 25, "conversions": [PLAIN], "truncations": ["bootstrap"], "centred": False}
    assert check_adapter(vector(ASYNC["async-SAME_STEP"]), **few, cut=False) < 1e-12


def test_continuous_actions_conform() -> None:
    def run(case: AdapterCase) -> list[list[float]]:
        env = pbim.wrap(case.envs[0](), case.intrinsic, case.shaping, case.truncation)
        rewards, over = [], True
        for count in range(case.steps):
            if over:
                env.reset()
            _, reward, terminated, truncated, _ = env.step(np.array([0.5 * count, -1], np.float32))
            rewards.append(reward)
            over = terminated or truncated
        return [rewards]

    assert check_adapter(run, lanes=1, action_space=spaces.Box(-99, 99, (2,), np.float32), cut=False) < 1e-12


def raw(case: AdapterCase) -> Any:
    return each_env(case._replace(shaping=pbim.Raw()))


def always_settles(case: AdapterCase) -> Any:
    return each_env(case._replace(truncation="settle"))


def loses_the_task(case: AdapterCase) -> Any:
    """Return F' alone."""
    return np.array(each_env(case)) - np.array(each_env(case._replace(shaping=pbim.NoBonus())))


def swaps_lanes(case: AdapterCase) -> Any:
    return each_env(case)[::-1]


def stops_early(case: AdapterCase) -> Any:
    return [lane[:-1] for lane in each_env(case)]


def loses_a_lane(case: AdapterCase) -> Any:
    return each_env(case)[1:]


def drifts(case: AdapterCase) -> Any:
    """Pay a millionth too much: less than float32 would show, more than an exact conversion leaves."""
    rewards = np.array(each_env(case))
    rewards[:, 0] += 5e-6 * np.abs(rewards).max()
    return rewards


def misses_the_final_observation(case: AdapterCase) -> Any:
    env = pbim.wrap(SYNC["sync-SAME_STEP"](case.envs), case.intrinsic, case.shaping, case.truncation)
    env._final_obs = lambda *_: env.rewards.obs  # type: ignore[method-assign]
    return totals(case, lambda steps: drive_vector(env, steps))


def pays_for_dummies(case: AdapterCase) -> Any:
    env = pbim.wrap(SYNC["sync-NEXT_STEP"](case.envs), case.intrinsic, case.shaping, case.truncation)
    env.reset()
    rows = [env.step(np.zeros(len(case.envs), int))[1] for _ in range(case.steps)]
    return np.array(rows).T


def carries_debts_over_a_reset(case: AdapterCase) -> Any:
    env = pbim.wrap(case.envs[0](), case.intrinsic, case.shaping, case.truncation)
    env.rewards.restart = lambda *_: None  # type: ignore[method-assign]
    return totals(case, lambda steps: [drive_env(env, 0, steps)]) + each_env(case)[1:]


BROKEN: dict[Any, str] = {
    raw: "reward: step",
    always_settles: r"reward: .*truncated.* truncation='bootstrap'",
    loses_the_task: "reward: step 0 of lane 0, the first of an episode",
    swaps_lanes: "reward: step 0",
    stops_early: "count: lane 0 must have 50 steps, received 49",
    loses_a_lane: "count: run must return 3 lanes, received 2",
    drifts: "residual: an episode of lane 0 leaves",
    misses_the_final_observation: "reward: step 7 of lane 0, truncated,",
    pays_for_dummies: "reward: ",
    carries_debts_over_a_reset: "reward: step 2 of lane 0, the first of an episode",
}


@pytest.mark.parametrize("run", BROKEN, ids=lambda run: run.__name__)
def test_a_broken_adapter_is_named_by_its_law(run: Any) -> None:
    with pytest.raises(ConformanceError, match=BROKEN[run]):
        check_adapter(run)


def test_too_little_to_check_is_refused() -> None:
    with pytest.raises(pbim.InputError, match="steps at least 25"):
        check_adapter(each_env, steps=5)
