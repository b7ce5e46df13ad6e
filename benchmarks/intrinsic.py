"""RND reward and training on one rollout, beside RLeXplore's RND on the same data, networks and batch size."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS, NUM_ENVS, INPUTS = 128, 16, 147
HIDDEN, FEATURES, BATCH_SIZE, LEARNING_RATE = 256, 128, 256, 1e-3
HINT = "pip install --no-deps -r benchmarks/requirements-intrinsic.txt"

Rollout = NDArray[np.float32]


def run(quick: bool = False) -> dict[str, Any]:
    """Return the times and ratios of both, measured in turns by a child process on one core.

    ``ratio_with_training`` and ``ratio_without_training`` are the peer's median time over ours in the first of
    ``cases`` that could be measured: a rollout (128 steps, 16 environments, 147 inputs) of random walks in MiniGrid,
    then one of noise in which no observation repeats. A ratio is None where the peer is not installed.
    """
    command = [sys.executable, "-m", "benchmarks.intrinsic", *(["--quick"] if quick else [])]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"the measuring process failed: {child.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return result | {"wrap_overhead": _wrap_overhead(quick)}


def _wrap_overhead(quick: bool) -> float | None:
    """Return the share of time that wrapping adds to a MiniGrid vector environment; None without MiniGrid."""
    if importlib.util.find_spec("minigrid") is None:
        return None
    from benchmarks import wrap

    return float(wrap.run(quick)["overhead"])


def measure(quick: bool) -> dict[str, Any]:
    """Return what ``run`` returns, measured in this process."""
    rounds = 5 if quick else 40
    have_peer = importlib.util.find_spec("rllte") is not None
    cases = [_case(name, make(), rounds, have_peer) for name, make in _rollouts().items()]
    first = cases[0]
    return {
        "benchmark": "intrinsic",
        "ratio_with_training": first["ratio_with_training"],
        "ratio_without_training": first["ratio_without_training"],
        "milliseconds": first["milliseconds"],
        "cases": cases,
        "shape": [STEPS, NUM_ENVS, INPUTS],
        "networks": [INPUTS, HIDDEN, FEATURES],
        "batch_size": BATCH_SIZE,
        "rounds": rounds,
        "cores": 1,
        "hint": None if have_peer and "minigrid" in {case["name"] for case in cases} else HINT,
    }


def _case(name: str, rollout: Rollout, rounds: int, have_peer: bool) -> dict[str, Any]:
    """Return the medians of one rollout, ours and the peer's taken in turns after two rounds to warm up."""
    contenders = _ours(rollout) | (_peer(rollout) if have_peer else {})
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for turn in range(rounds + 2):
        for contender, once in contenders.items():
            start = time.perf_counter()
            once()
            if turn >= 2:
                times[contender].append(time.perf_counter() - start)
    medians = {contender: round(1e3 * float(np.median(taken)), 3) for contender, taken in times.items()}
    trained = medians["ours_reward"] + medians["ours_update"]
    rows = rollout[1:].reshape(-1, INPUTS)
    return {
        "name": name,
        "distinct_observations": len(np.unique(rows, axis=0)) / len(rows),
        "milliseconds": medians,
        "ratio_with_training": round(medians["peer_with_training"] / trained, 2) if have_peer else None,
        "ratio_without_training": (
            round(medians["peer_without_training"] / medians["ours_reward"], 2) if have_peer else None
        ),
    }


def _ours(rollout: Rollout) -> dict[str, Callable[[], Any]]:
    from pbim.intrinsic import RND, Transition

    bonus = RND(hidden=(HIDDEN,), features=FEATURES, batch_size=BATCH_SIZE, learning_rate=LEARNING_RATE)
    obs, next_obs = (part.reshape(-1, INPUTS) for part in (rollout[:-1], rollout[1:]))
    no = np.zeros(len(obs), dtype=bool)
    step = Transition(obs, np.zeros(len(obs), dtype=int), next_obs, no, no, {})

    def update() -> None:
        bonus.update(step)
        bonus.state_dict()  # waits for the computation

    return {"ours_reward": lambda: bonus.reward(step), "ours_update": update}


def _peer(rollout: Rollout) -> dict[str, Callable[[], Any]]:
    import gymnasium
    import torch
    from rllte.xplore.reward import RND as PEER  # type: ignore[import-not-found, unused-ignore]

    torch.set_num_threads(1)
    obs, next_obs = (torch.as_tensor(part.copy()) for part in (rollout[:-1], rollout[1:]))

    class Replay(gymnasium.vector.VectorEnv[Any, Any, Any]):
        """The rollout as an environment: the peer's constructor steps one to initialise its statistics."""

        num_envs = NUM_ENVS
        single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (INPUTS,), np.float32)
        single_action_space = gymnasium.spaces.Discrete(7)

        def reset(self, **_: Any) -> Any:
            self.time = 0
            return obs[0], {}

        def step(self, _: Any) -> Any:
            self.time = (self.time + 1) % STEPS
            return obs[self.time], 0, 0, 0, {}

    peer = PEER(
        Replay(),
        latent_dim=FEATURES,
        lr=LEARNING_RATE,
        batch_size=BATCH_SIZE,
        obs_norm_type="rms",
        rwd_norm_type="none",
    )
    zeros = torch.zeros(STEPS, NUM_ENVS)
    samples = dict.fromkeys(("actions", "rewards", "terminateds", "truncateds"), zeros)
    samples |= {"observations": obs, "next_observations": next_obs}
    return {
        "peer_with_training": lambda: peer.compute(samples, sync=True),
        "peer_without_training": lambda: peer.compute(samples, sync=False),
    }


def _rollouts() -> dict[str, Callable[[], Rollout]]:
    have_minigrid = importlib.util.find_spec("minigrid") is not None
    return ({"minigrid": _minigrid} if have_minigrid else {}) | {"all distinct": _noise}


def _noise() -> Rollout:
    return np.random.default_rng(0).normal(size=(STEPS + 1, NUM_ENVS, INPUTS)).astype(np.float32)


def _minigrid() -> Rollout:
    """Return the flattened images of random walks in DoorKey-8x8."""
    import gymnasium
    import minigrid  # type: ignore[import-untyped, unused-ignore]

    gymnasium.register_envs(minigrid)
    rng = np.random.default_rng(0)
    rollout = np.zeros((STEPS + 1, NUM_ENVS, INPUTS), dtype=np.float32)
    for column in range(NUM_ENVS):
        env = gymnasium.make("MiniGrid-DoorKey-8x8-v0")
        obs, _ = env.reset(seed=column)
        for row in range(STEPS + 1):
            rollout[row, column] = obs["image"].ravel()
            obs, _, terminated, truncated, _ = env.step(int(rng.integers(7)))
            if terminated or truncated:
                obs, _ = env.reset()
        env.close()
    return rollout


def main() -> None:
    """Measure on one core and print the result as one line of JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(measure(quick="--quick" in sys.argv[1:])))


if __name__ == "__main__":
    main()
