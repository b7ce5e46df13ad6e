"""What the connector costs in RLlib: an env runner's sampling rate with it and without it, in the same run.

The two take turns of one fragment each, timed in processor time of the sampling thread. Goal: at most 10% is added to
the time of sampling. Needs ``ray[rllib]``: ``scripts/environment rllib``, then ``.envs/rllib/bin/python -m benchmarks
rllib``.
"""

import time
from typing import Any

import numpy as np

from pbim.intrinsic import EpisodicCount, Transition
from pbim.shaping import Geometric

ENV, GAMMA, FRAGMENT, GOAL = "CartPole-v1", 0.99, 50, 0.1


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``overhead`` (the share of sampling time that the connector adds, by environments) and the cases."""
    overhead, cases, worst = {}, [], 0.0
    for num_envs in (4, 16):
        plain, shaped = _runner(num_envs, with_connector=False), _runner(num_envs, with_connector=True)
        for runner in (plain, shaped):
            runner.sample()
        before, after = _turns(plain, shaped, 4 if quick else 60)
        overhead[f"{num_envs} environments"] = round(float(np.median(after / before)) - 1, 4)
        cases += [
            {
                "environments": num_envs,
                "case": name,
                "steps_per_second": round(FRAGMENT * num_envs / np.median(seconds)),
            }
            for name, seconds in (("plain", before), ("EpisodicCount and Geometric", after))
        ]
        worst = max(worst, shaped._env_to_module.connectors[0].certificate().worst)
    return {"overhead": overhead, "goal": GOAL, "worst_residual": worst, "cases": cases}


def _runner(num_envs: int, with_connector: bool) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from pbim.adapters.rllib import ShapingConnector

    def connector(*_: Any) -> ShapingConnector:
        return ShapingConnector(intrinsic=EpisodicCount(key=_cell), shaping=Geometric(gamma=GAMMA))

    config = PPOConfig().environment(ENV).training(gamma=GAMMA).debugging(seed=0)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs, rollout_fragment_length=FRAGMENT)
    if with_connector:
        config.env_runners(env_to_module_connector=connector)
    return SingleAgentEnvRunner(config=config, worker_index=0)


def _turns(plain: Any, shaped: Any, rounds: int) -> tuple[Any, Any]:
    pairs = []
    for index in range(rounds):
        order = (shaped, plain) if index % 2 else (plain, shaped)
        taken = {id(runner): _seconds(runner) for runner in order}
        pairs.append((taken[id(plain)], taken[id(shaped)]))
    before, after = np.array(pairs).T
    return before, after


def _seconds(runner: Any) -> float:
    begin = time.thread_time()
    runner.sample()
    return time.thread_time() - begin


def _cell(step: Transition) -> Any:
    return np.floor(4 * step.next_obs).astype(int)
