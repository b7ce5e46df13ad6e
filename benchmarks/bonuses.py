"""What each bonus costs per step inside a compiled loop: reward and learning, beside EpisodicCount and RND."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks._timing import one_core

STEPS, NUM_ENVS = 128, 16


def run(quick: bool = False) -> dict[str, Any]:
    """Return the processor time per step of 16 environments that see DoorKey's view, and ratios to two bonuses.

    Each learns as it does in PPO: tables and memories at every step, networks once from the 128 steps of a rollout. All
    have their default settings. Processor time, not wall time: a busy machine changes it little.
    """
    with one_core() as core:
        workloads = _workloads()
        for work in workloads.values():
            work()
        taken: dict[str, list[float]] = {name: [] for name in workloads}
        for _ in range(3 if quick else 9):
            for name, work in workloads.items():
                start = time.process_time()
                work()
                taken[name].append(time.process_time() - start)
    per_step = {name: 1e6 * statistics.median(seconds) / STEPS for name, seconds in taken.items()}
    cases = [
        {
            "bonus": name,
            "microseconds per step": round(value, 1),
            "of EpisodicCount": round(value / per_step["EpisodicCount"], 1),
            "of RND": round(value / per_step["RND"], 2),
        }
        for name, value in per_step.items()
    ]
    return {"benchmark": "bonuses", "cases": cases, "num_envs": NUM_ENVS, "cores": 1 if core is not None else None}


def _workloads() -> dict[str, Callable[[], None]]:
    import jax
    import numpy as np

    from pbim import intrinsic
    from pbim.agents.bonus import flat, is_stepwise

    rng = np.random.default_rng(0)
    views = rng.integers(0, 4, size=(200, 7, 7, 11)).astype(np.uint8)  # three channels, and eight of skills
    views[..., 3:] = np.eye(8, dtype=np.uint8)[rng.integers(8, size=200)][:, None, None]
    where = rng.integers(200, size=(STEPS + 1, NUM_ENVS))
    no = np.zeros((STEPS, NUM_ENVS), bool)
    action = rng.integers(7, size=(STEPS, NUM_ENVS))
    key = {"count_key": (where[1:] % 128).astype(np.int32)}

    def work_of(bonus: Any, view: Any) -> Callable[[], None]:
        obs = np.asarray(view)[where]
        steps = intrinsic.Transition(obs[:-1], action, obs[1:], no, no, key)
        example = jax.tree.map(lambda leaf: leaf[0], steps)
        state = bonus.init(jax.random.key(0), intrinsic.Spec(example=example, num_actions=7, num_keys=128))

        @jax.jit
        def rollout(state: Any, steps: Any) -> Any:
            if is_stepwise(bonus):
                return jax.lax.scan(lambda s, t: (bonus.update_fn(s, t), bonus.reward_fn(s, t)), state, steps)
            rows = flat(steps)
            return bonus.update_fn(state, rows), bonus.reward_fn(state, rows)

        return lambda: jax.block_until_ready(rollout(state, steps))

    keyed, acts = {"key": "count_key"}, {"num_actions": 7}
    bonuses = {
        "EpisodicCount": intrinsic.EpisodicCount(**keyed),
        "PseudoCount": intrinsic.PseudoCount(),
        "RND": intrinsic.RND(),
        "ICM": intrinsic.ICM(**acts),
        "RIDE": intrinsic.RIDE(**keyed, **acts),
        "NovelD": intrinsic.NovelD(**keyed),
        "E3B": intrinsic.E3B(**acts),
        "Disagreement": intrinsic.Disagreement(**acts),
        "RE3": intrinsic.RE3(),
        "NGU": intrinsic.NGU(**acts),
    }
    found = {name: work_of(bonus, views[..., :3]) for name, bonus in bonuses.items()}
    return found | {"DIAYN": work_of(intrinsic.DIAYN(), views)}
