"""What the connector costs in RLlib: an env runner's sampling rate with it and without it, in the same run.

They take turns of one fragment each, timed in processor time of the sampling thread. Goal: at most 10% is added to the
time of sampling. A third runner has a connector that does nothing, to tell what RLlib itself takes for one. Needs
``ray[rllib]``: ``scripts/environment rllib``, then ``.envs/rllib/bin/python -m benchmarks rllib``.
"""

from typing import Any

import numpy as np

from benchmarks._timing import in_turn
from pbim.intrinsic import EpisodicCount, Transition
from pbim.shaping import Geometric

ENV, GAMMA, FRAGMENT, GOAL = "CartPole-v1", 0.99, 50, 0.1
PLAIN, EMPTY, SHAPED = "plain", "an empty connector", "EpisodicCount and Geometric"


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``overhead`` (the share of sampling time that the connector adds, by environments) and the cases."""
    import torch

    torch.set_num_threads(1)  # as Ray gives an env runner one core
    overhead, empty, cases, worst = {}, {}, [], 0.0
    for num_envs in (4, 16):
        runners = {name: _runner(num_envs, name) for name in (PLAIN, EMPTY, SHAPED)}
        for runner in runners.values():
            runner.sample()
        turns = {name: runner.sample for name, runner in runners.items()}
        seconds = in_turn(turns, rounds=4 if quick else 60)
        added = {name: round(float(np.median(times / seconds[PLAIN])) - 1, 4) for name, times in seconds.items()}
        overhead[f"{num_envs} environments"], empty[f"{num_envs} environments"] = added[SHAPED], added[EMPTY]
        cases += [
            {
                "environments": num_envs,
                "case": name,
                "steps_per_second": round(FRAGMENT * num_envs / np.median(times)),
            }
            for name, times in seconds.items()
        ]
        worst = max(worst, runners[SHAPED]._env_to_module.connectors[0].certificate().worst)
    return {"overhead": overhead, "of_it_rllib": empty, "goal": GOAL, "worst_residual": worst, "cases": cases}


def _runner(num_envs: int, case: str) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from pbim.adapters.rllib import ShapingConnector

    class Nothing(ConnectorV2):
        def __call__(self, *, batch: Any, **_: Any) -> Any:
            return batch

    def connector(*_: Any) -> ConnectorV2:
        if case == EMPTY:
            return Nothing()
        return ShapingConnector(intrinsic=EpisodicCount(key=_cell), shaping=Geometric(gamma=GAMMA))

    config = PPOConfig().environment(ENV).training(gamma=GAMMA).debugging(seed=0)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs, rollout_fragment_length=FRAGMENT)
    if case != PLAIN:
        config.env_runners(env_to_module_connector=connector)
    return SingleAgentEnvRunner(config=config, worker_index=0)


def _cell(step: Transition) -> Any:
    return np.floor(4 * step.next_obs).astype(int)
