"""Tabular Q-learning on cliff walking: ten compiled seeds against a loop in Python, and RND training against PyTorch.

The loop is what people write: a NumPy table and Gymnasium's CliffWalking-v1; the other adds an RND bonus trained at
every step, of the same networks and optimiser as ours. Rates are steps per second on one core, rounds taken in turn.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

from benchmarks._timing import one_core

INSTALL = "pip install -r benchmarks/requirements-ppo.txt"
SEEDS, CELLS, WIDTH, FEATURES, LEARNING_RATE, FACTOR = 10, 48, 64, 64, 1e-6, 1000.0
GAMMA, STEP_SIZE, EPSILON = 0.99, 0.1, 0.1

Work = Callable[[], float]


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure the four cases; ``ratio_python`` and ``ratio_torch_rnd`` are medians over paired rounds."""
    rounds = 3 if quick else 7
    with one_core() as core:
        makers = {"pbim": _ours, "python": _python, "pbim-rnd": _ours_rnd, "torch-rnd": _torch_rnd}
        works = {name: work for name, make in makers.items() if (work := _made(make)) is not None}
        for work in works.values():
            work()
        rates: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(rounds):
            for name, work in works.items():
                rates[name].append(work())
    pairs = {"ratio_python": ("pbim", "python"), "ratio_torch_rnd": ("pbim-rnd", "torch-rnd")}
    return {
        "benchmark": "qlearning",
        "quick": quick,
        "core": core,
        "seeds": SEEDS,
        **{name: _ratio(rates, ours, theirs) for name, (ours, theirs) in pairs.items()},
        "steps_per_second": {name: round(median(found)) for name, found in rates.items()},
        "missing": {name: INSTALL for name in makers if name not in works},
    }


def _ratio(rates: dict[str, list[float]], ours: str, theirs: str) -> float | None:
    if theirs not in rates:
        return None
    return round(median(a / b for a, b in zip(rates[ours], rates[theirs], strict=True)), 1)


def _made(make: Callable[[], Work]) -> Work | None:
    try:
        return make()
    except ImportError:
        return None


def _timed(steps: Callable[[], int]) -> Work:
    def work() -> float:
        start = time.process_time()
        taken = steps()
        return taken / (time.process_time() - start)

    return work


def _ours() -> Work:
    return _compiled(4000, None, 1.0)


def _ours_rnd() -> Work:
    from pbim.intrinsic import RND, one_hot

    bonus = RND(
        encode=one_hot(CELLS), hidden=(WIDTH, WIDTH), features=FEATURES, learning_rate=LEARNING_RATE, normalize=False
    )
    return _compiled(400, bonus, FACTOR)


def _compiled(episodes: int, bonus: Any, scale: float) -> Work:
    import jax

    import pbim
    from pbim.agents.q_learning import QLearning, train
    from pbim.envs import CliffWalk

    shaping = pbim.PBIM(gamma=GAMMA) if bonus is not None else pbim.NoBonus()
    config = QLearning(env=CliffWalk(), episodes=episodes, intrinsic=bonus, intrinsic_scale=scale, shaping=shaping)
    count = itertools.count()

    def steps() -> int:
        return int(train(config, jax.random.split(jax.random.key(next(count)), SEEDS)).steps.sum())

    return _timed(steps)


def _python() -> Work:
    walk = _walk()

    def steps() -> int:
        for _ in itertools.islice(walk, 20_000):
            pass
        return 20_000

    return _timed(steps)


def _walk(bonus: Callable[[int], float] | None = None) -> Iterator[None]:
    """Play and learn for ever, one step at a time."""
    import gymnasium

    env = gymnasium.make("CliffWalking-v1", max_episode_steps=50, disable_env_checker=True)
    rng, q = np.random.default_rng(0), np.zeros((CELLS, 4))
    state, _ = env.reset(seed=0)
    while True:
        action = int(rng.integers(4)) if rng.random() < EPSILON else int(np.argmax(q[state]))
        arrived, reward, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        target = float(reward) + (bonus(arrived) if bonus else 0.0) + (0.0 if over else GAMMA * np.max(q[arrived]))
        q[state, action] += STEP_SIZE * (target - q[state, action])
        state = env.reset()[0] if over else arrived
        yield


def _torch_rnd() -> Work:
    import torch

    torch.set_num_threads(1)

    def network() -> Any:
        nn = torch.nn
        return nn.Sequential(
            nn.Linear(CELLS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, FEATURES)
        )

    target, predictor = network(), network()
    optimizer = torch.optim.Adam(predictor.parameters(), LEARNING_RATE)
    inputs = torch.eye(CELLS)

    def bonus(cell: int) -> float:
        x = inputs[cell : cell + 1]
        with torch.no_grad():
            wanted = target(x)
        loss = ((predictor(x) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return FACTOR * float(loss.detach())

    walk = _walk(bonus)

    def steps() -> int:
        for _ in itertools.islice(walk, 1_000):
            pass
        return 1_000

    return _timed(steps)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
