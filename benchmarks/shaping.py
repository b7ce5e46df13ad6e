"""Converting a stream of bonuses, against the plain-Python way of doing it."""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._timing import interleaved, one_core
from pbim.shaping import GRM, PBIM, Geometric, Shaping

STEPS, NUM_ENVS, GAMMA = 128, 1024, 0.99


def plain_python(bonus: list[list[float]], ended: list[list[bool]], gamma: float) -> list[list[float]]:
    """Convert by Eq. 30 as a training script would: a list of bonuses per environment, summed at each episode end.

    Lists in, lists out, Python's own numbers: the fast way to do it, with no array to read or to build.
    """
    earned: list[list[float]] = [[] for _ in bonus[0]]
    shaped = []
    for bonuses, ends in zip(bonus, ended, strict=True):
        row = []
        for env, (value, end) in enumerate(zip(bonuses, ends, strict=True)):
            if end:
                steps = len(earned[env])
                row.append(-sum(gamma ** (n - steps) * paid for n, paid in enumerate(earned[env])))
                earned[env] = []
            else:
                row.append(value)
                earned[env].append(value)
        shaped.append(row)
    return shaped


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``ratio`` (plain Python / pbim, the slower of NumPy and JAX), its ``ns_per_transition``, and ``cases``."""
    rounds = 3 if quick else 15
    conversions = {
        "PBIM": PBIM(gamma=GAMMA),
        "Geometric": Geometric(gamma=GAMMA, rate=0.1),
        "GRM(delay=8)": GRM(gamma=GAMMA, delay=8),
    }
    bonus, ended = _stream(length=50)
    ways: dict[str, Callable[[], object]] = {}
    lists = bonus.tolist(), ended.tolist()
    ways["plain Python"] = lambda: plain_python(*lists, GAMMA)
    for name, conversion in conversions.items():
        for library, make in _LIBRARIES.items():
            ways[f"{name}, {library}"] = make(conversion, bonus, ended)
    seconds = _medians(ways, rounds)
    cases = [_case(name, time, seconds["plain Python"]) for name, time in seconds.items()]
    lengths = {f"PBIM, NumPy, episodes of {n}": _numpy(conversions["PBIM"], *_stream(n)) for n in LENGTHS}
    cases += [_case(name, time, seconds["plain Python"]) for name, time in _medians(lengths, rounds).items()]
    main = [case for case in cases if case["case"] in ("PBIM, NumPy", "PBIM, JAX")]
    slower = min(main, key=lambda case: case["ratio"])
    return {"ratio": slower["ratio"], "ns_per_transition": slower["ns_per_transition"], "cases": cases}


LENGTHS = (10, 100, 1_000, 10_000)


def _medians(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    with one_core():
        return {
            name: statistics.median(times) for name, times in interleaved(ways, rounds=rounds, at_least=0.03).items()
        }


def _case(name: str, seconds: float, baseline: float) -> dict[str, Any]:
    return {
        "case": name,
        "ratio": round(baseline / seconds, 2),
        "ns_per_transition": round(1e9 * seconds / (STEPS * NUM_ENVS), 2),
    }


def _stream(length: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return bonuses and ends of episodes of ``length`` steps, each environment at its own place in its episode."""
    rng = np.random.default_rng(0)
    ages = np.arange(STEPS)[:, None] + rng.integers(0, length, NUM_ENVS)
    return rng.random((STEPS, NUM_ENVS)), ages % length == length - 1


def _numpy(conversion: Shaping, bonus: Any, ended: Any) -> Callable[[], object]:
    state = conversion.init(NUM_ENVS)
    return lambda: conversion.rollout(state, bonus, ended)


def _jax(conversion: Shaping, bonus: Any, ended: Any) -> Callable[[], object]:
    import jax

    arrays = jax.numpy.asarray(bonus), jax.numpy.asarray(ended)
    state = conversion.init(NUM_ENVS, like=arrays[0])
    rollout = jax.jit(conversion.rollout)
    return lambda: rollout(state, *arrays)[1].block_until_ready()


def _torch(conversion: Shaping, bonus: Any, ended: Any) -> Callable[[], object]:
    import torch

    arrays = torch.asarray(bonus), torch.asarray(ended)
    state = conversion.init(NUM_ENVS, like=arrays[0])
    return lambda: conversion.rollout(state, *arrays)


_LIBRARIES: dict[str, Callable[[Shaping, Any, Any], Callable[[], object]]] = {
    "NumPy": _numpy,
    "JAX": _jax,
    "PyTorch": _torch,
}
