"""Drive any adapter through the same story with the same actions, and write down what each environment got."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import pbim
from pbim.testing.scripted import ScriptedEnv, codes

NUM_ENVS, STEPS = 3, 60
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"
"""The cliff walk, which Gymnasium 1.1 has under another number."""


class Step(NamedTuple):
    total: float
    extrinsic: float
    intrinsic: float
    shaping: float
    terminated: bool
    truncated: bool


Log = list[list[Step]]


def bonus(step: Any) -> Any:
    """Read everything a transition says, so that any wrong entry shows; dyadic, so that float32 holds it exactly."""
    return (
        codes(step.next_obs) / 8
        + codes(step.obs) / 4
        + np.asarray(step.action).reshape(-1) / 2
        + np.asarray(step.info["at"])
        + 64.0 * step.terminated
        + 128.0 * (step.truncated & ~step.terminated)
    )


def action(lane: int, count: int) -> int:
    return (lane + count * count) % 3


def entry(total: Any, info: Any, terminated: Any, truncated: Any, lane: int | None = None) -> Step:
    parts = [info[name] for name in ("extrinsic_reward", "intrinsic_reward", "shaping_reward")]
    return Step(
        float(total), *(float(p if lane is None else p[lane]) for p in parts), bool(terminated), bool(truncated)
    )


def drive_env(env: Any, lane: int = 0, steps: int = STEPS) -> list[Step]:
    log: list[Step] = []
    over = True
    for count in range(steps):
        if over:
            env.reset()
        _, reward, terminated, truncated, info = env.step(action(lane, count))
        log.append(entry(reward, info, terminated, truncated))
        over = terminated or truncated
    return log


def drive_autoreset(env: Any, steps: int = STEPS) -> list[Step]:
    """Take the steps of ``drive_env`` in an environment that resets itself; its dummy steps are left out of the log."""
    log: list[Step] = []
    env.reset()
    over = False
    while len(log) < steps:
        _, reward, terminated, truncated, info = env.step(action(0, len(log)))
        if over:
            assert reward == info["shaping_reward"] == info["intrinsic_reward"] == 0
        else:
            log.append(entry(reward, info, terminated, truncated))
        over = terminated or truncated
    return log


def drive_vector(env: Any, steps: int = STEPS) -> Log:
    """Take the same steps in every environment; dummy steps are left out of the log, and of the actions' count."""
    mode, n = env.metadata["autoreset_mode"], env.num_envs
    logs: Log = [[] for _ in range(n)]
    env.reset()
    over = np.zeros(n, bool)
    while min(map(len, logs)) < steps:
        if mode == AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
            over = np.zeros(n, bool)
        actions = np.array([action(lane, len(log)) for lane, log in enumerate(logs)])
        _, rewards, terminated, truncated, infos = env.step(actions)
        for lane, log in enumerate(logs):
            dummy = mode == AutoresetMode.NEXT_STEP and over[lane]
            assert infos["_shaping_reward"][lane] == (not dummy)
            if dummy:
                assert rewards[lane] == 0
            else:
                log.append(entry(rewards[lane], infos, terminated[lane], truncated[lane], lane))
        over = terminated | truncated
    return [log[:steps] for log in logs]


def drive_sb3(venv: Any, steps: int = STEPS) -> Log:
    logs: Log = [[] for _ in range(venv.num_envs)]
    venv.reset()
    for count in range(steps):
        _, rewards, dones, infos = venv.step(np.array([action(lane, count) for lane in range(venv.num_envs)]))
        for log, reward, done, info in zip(logs, rewards, dones, infos, strict=True):
            truncated = info["TimeLimit.truncated"] or info.get("truncated", False)
            log.append(entry(reward, info, done and not truncated, truncated))
    return logs


def reference(shaping: Any, truncation: Any = "settle", n: int = NUM_ENVS, kind: str = "discrete") -> Log:
    """Each environment alone, through the plain Env adapter."""
    return [drive_env(pbim.wrap(ScriptedEnv(lane, kind), bonus, shaping, truncation), lane) for lane in range(n)]


def makers(n: int = NUM_ENVS, kind: str = "discrete") -> list[Callable[[], Any]]:
    return [lambda lane=lane: ScriptedEnv(lane, kind) for lane in range(n)]


def same(logs: Log, expected: Log, *, ends: bool = True) -> None:
    """Assert that the logs agree step by step; ``ends=False`` for SB3, which merges 'terminated and truncated'."""
    for lane, (log, wanted) in enumerate(zip(logs, expected, strict=True)):
        assert len(log) == len(wanted)
        for count, (step, other) in enumerate(zip(log, wanted, strict=True)):
            assert step[:4] == pytest.approx(other[:4], rel=1e-5, abs=1e-5), f"environment {lane}, step {count}"
            assert (step.terminated or step.truncated) == (other.terminated or other.truncated)
            if ends:
                assert step[4:] == other[4:], f"environment {lane}, step {count}"


def episode_returns(log: list[Step], gamma: float) -> list[float]:
    """The discounted shaping return of every finished episode."""
    totals, total, discount = [], 0.0, 1.0
    for step in log:
        total, discount = total + discount * step.shaping, discount * gamma
        if step.terminated or step.truncated:
            totals.append(total)
            total, discount = 0.0, 1.0
    return totals


SYNC = {f"sync-{mode.name}": lambda fns, mode=mode: SyncVectorEnv(fns, autoreset_mode=mode) for mode in AutoresetMode}
ASYNC = {
    f"async-{mode.name}": lambda fns, mode=mode: AsyncVectorEnv(fns, autoreset_mode=mode, context="spawn")
    for mode in AutoresetMode
}
