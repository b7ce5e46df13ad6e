"""What wrapping costs: the stepping rate of a MiniGrid vector environment, plain and wrapped, in the same run.

The two take turns of a few steps with the same actions, timed in processor time; the overhead is the median of the
ratios of turns that follow each other. Goal: wrapped with ``EpisodicCount`` and ``PBIM``, at most 5% is lost.
"""

import time
from typing import Any

import minigrid
import numpy as np
from gymnasium import make, register_envs
from gymnasium.vector import SyncVectorEnv

from pbim.adapters import wrap
from pbim.intrinsic import EpisodicCount, Transition
from pbim.shaping import PBIM

NUM_ENVS, GAMMA, ALPHA = 16, 0.995, 0.02
GOAL = 0.05


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``overhead`` (the share of time that wrapping adds), its ``goal``, ``worst_residual`` and ``cases``.

    >>> sorted(run(quick=True))
    ['cases', 'goal', 'overhead', 'worst_residual']
    """
    rounds, steps = (6, 8) if quick else (400, 8)
    register_envs(minigrid)
    plain, inner = _vector(), _vector()
    wrapped = wrap(inner, EpisodicCount(alpha=ALPHA, key=_papers_key(inner)), PBIM(gamma=GAMMA))
    actions = np.random.default_rng(0).integers(0, 7, (rounds + 1, steps, NUM_ENVS))
    for env in (plain, wrapped):
        env.reset(seed=0)
        _seconds(env, actions[0])
    pairs = [_pair(plain, wrapped, turn, swap=index % 2 == 1) for index, turn in enumerate(actions[1:])]
    report = wrapped.certificate()
    for env in (plain, wrapped):
        env.close()
    before, after = np.array(pairs).T / steps
    names = (f"plain, {NUM_ENVS} environments", "wrapped with EpisodicCount and PBIM")
    return {
        "overhead": round(float(np.median(after / before)) - 1, 4),
        "goal": GOAL,
        "worst_residual": report.worst,
        "cases": [_case(name, float(np.median(turns))) for name, turns in zip(names, (before, after), strict=True)],
    }


def _case(name: str, seconds: float) -> dict[str, Any]:
    return {
        "case": name,
        "microseconds_per_vector_step": round(1e6 * seconds, 1),
        "frames_per_second": round(NUM_ENVS / seconds),
    }


def _vector() -> SyncVectorEnv:
    return SyncVectorEnv([lambda: make("MiniGrid-DoorKey-8x8-v0") for _ in range(NUM_ENVS)])


def _papers_key(vector: SyncVectorEnv) -> Any:
    """Return the paper's key as a function of the environments' own state: (x, y, carrying the key) as one number."""
    grids: list[Any] = [env.unwrapped for env in vector.envs]

    def key(step: Transition) -> Any:
        del step
        return np.array([g.agent_pos[0] + g.width * (g.agent_pos[1] + g.height * bool(g.carrying)) for g in grids])

    return key


def _pair(plain: Any, wrapped: Any, actions: Any, *, swap: bool) -> tuple[float, float]:
    """Return the seconds that both take for the same actions, run in either order."""
    if swap:
        after = _seconds(wrapped, actions)
        return _seconds(plain, actions), after
    return _seconds(plain, actions), _seconds(wrapped, actions)


def _seconds(env: Any, actions: Any) -> float:
    begin = time.thread_time()
    for row in actions:
        env.step(row)
    return time.thread_time() - begin
