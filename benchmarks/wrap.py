"""What wrapping costs: the stepping rate of MiniGrid environments, plain and wrapped, in the same run.

The two take turns of a few steps with the same actions, timed in processor time: of the stepping thread with a count,
of all threads with RND, whose networks run in others too. Goals: with ``EpisodicCount`` and ``PBIM`` at most 5% is
lost; with ``RND()`` and ``update_every=128`` at least 0.8 of the plain rate is left.
"""

import time
from collections.abc import Callable
from typing import Any

import minigrid
import numpy as np
from gymnasium import Env, make, register_envs
from gymnasium.vector import SyncVectorEnv
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3.common.vec_env import DummyVecEnv

from pbim.adapters import sb3, wrap
from pbim.intrinsic import RND, EpisodicCount, Transition
from pbim.shaping import PBIM

NUM_ENVS, GAMMA, ALPHA, EVERY = 16, 0.995, 0.02, 128
GOAL, RATE_GOAL = 0.05, 0.8


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``overhead`` (the share of time that wrapping adds), ``rnd`` (the share of the rate left) and the cases.

    >>> sorted(run(quick=True))
    ['cases', 'goal', 'overhead', 'rnd', 'rnd_goal', 'worst_residual']
    """
    register_envs(minigrid)
    inner = SyncVectorEnv([_door_key] * NUM_ENVS)
    counted = wrap(inner, EpisodicCount(alpha=ALPHA, key=_papers_key(inner)), PBIM(gamma=GAMMA))
    before, after = _turns(SyncVectorEnv([_door_key] * NUM_ENVS), counted, 6 if quick else 400, 8, time.thread_time)
    cases = [
        _case(f"plain, {NUM_ENVS} environments", before),
        _case("wrapped with EpisodicCount and PBIM", after),
    ]
    rates: dict[str, dict[str, float]] = {}
    for framework, make_plain, wrapper in (
        ("gymnasium", lambda: SyncVectorEnv([_image] * NUM_ENVS), wrap),
        ("sb3", lambda: DummyVecEnv([_image] * NUM_ENVS), sb3.wrap),
    ):
        rates[framework] = {}
        for every in (1, EVERY):
            shaped = wrapper(make_plain(), RND(), PBIM(gamma=GAMMA), "settle", update_every=every)
            # a turn holds a whole number of updates, so that each pays its share of them
            plain, seconds = _turns(make_plain(), shaped, 2 if quick else 15, EVERY, time.process_time)
            rates[framework][f"update_every={every}"] = round(float(np.median(plain / seconds)), 3)
            cases.append(_case(f"{framework}: wrapped with RND, update_every={every}", seconds))
    return {
        "overhead": round(float(np.median(after / before)) - 1, 4),
        "goal": GOAL,
        "rnd": rates,
        "rnd_goal": RATE_GOAL,
        "worst_residual": counted.certificate().worst,
        "cases": cases,
    }


def _turns(plain: Any, wrapped: Any, rounds: int, steps: int, clock: Callable[[], float]) -> tuple[Any, Any]:
    """Return the seconds per step of every turn (rounds,), of both environments with the same actions."""
    actions = np.random.default_rng(0).integers(0, 7, (rounds + 1, steps, NUM_ENVS))
    for env in (plain, wrapped):
        env.reset()
        _seconds(env, actions[0], clock)
    pairs = []
    for index, turn in enumerate(actions[1:]):
        order = (wrapped, plain) if index % 2 else (plain, wrapped)
        taken = {id(env): _seconds(env, turn, clock) for env in order}
        pairs.append((taken[id(plain)] / steps, taken[id(wrapped)] / steps))
    for env in (plain, wrapped):
        env.close()
    before, after = np.array(pairs).T
    return before, after


def _seconds(env: Any, actions: Any, clock: Callable[[], float]) -> float:
    begin = clock()
    for row in actions:
        env.step(row)
    return clock() - begin


def _case(name: str, seconds: Any) -> dict[str, Any]:
    typical = float(np.median(seconds))
    return {
        "case": name,
        "microseconds_per_vector_step": round(1e6 * typical, 1),
        "frames_per_second": round(NUM_ENVS / typical),
    }


def _door_key() -> Env[Any, Any]:
    return make("MiniGrid-DoorKey-8x8-v0")


def _image() -> Env[Any, Any]:
    return ImgObsWrapper(_door_key())


def _papers_key(vector: SyncVectorEnv) -> Any:
    """Return the paper's key as a function of the environments' own state: (x, y, carrying the key) as one number."""
    grids: list[Any] = [env.unwrapped for env in vector.envs]

    def key(step: Transition) -> Any:
        del step
        return np.array([g.agent_pos[0] + g.width * (g.agent_pos[1] + g.height * bool(g.carrying)) for g in grids])

    return key
