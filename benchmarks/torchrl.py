"""What the transform costs in TorchRL: steps of CartPole with it and without it, in the same run.

They take turns of one rollout each, timed in processor time of the stepping thread. A third environment has a transform
that only writes entries of the same names and shapes, to tell what TorchRL itself takes for them. Needs ``torchrl``:
``scripts/environment torchrl``, then ``.envs/torchrl/bin/python -m benchmarks torchrl``.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks._timing import in_turn
from pbim.intrinsic import EpisodicCount, Transition
from pbim.shaping import Geometric

GAMMA, STEPS = 0.99, 50
PLAIN, EMPTY, SHAPED = "plain", "the same entries, empty", "EpisodicCount and Geometric"


def run(quick: bool = False) -> dict[str, Any]:
    """Return ``rate_kept`` (of the plain stepping rate, by environments) and the cases."""
    import torch

    torch.set_num_threads(1)
    kept, entries, cases, worst = {}, {}, [], 0.0
    for num_envs in (4, 16):
        envs = {name: _env(num_envs, name) for name in (PLAIN, EMPTY, SHAPED)}
        turns = {name: partial(env.rollout, STEPS, break_when_any_done=False) for name, env in envs.items()}
        seconds = in_turn(turns, rounds=4 if quick else 40)
        rates = {name: round(float(np.median(seconds[PLAIN] / times)), 4) for name, times in seconds.items()}
        kept[f"{num_envs} environments"], entries[f"{num_envs} environments"] = rates[SHAPED], rates[EMPTY]
        cases += [
            {"environments": num_envs, "case": name, "steps_per_second": round(STEPS * num_envs / np.median(times))}
            for name, times in seconds.items()
        ]
        worst = max(worst, envs[SHAPED].transform[1].certificate().worst)
    return {"rate_kept": kept, "with_entries_alone": entries, "worst_residual": worst, "cases": cases}


def _env(num_envs: int, case: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchRL's own classes
        from torchrl.envs import Compose, GymEnv, SerialEnv, StepCounter, TransformedEnv

    from pbim.adapters.torchrl import ShapingTransform

    class Entries(ShapingTransform):  # type: ignore[misc]
        def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
            for name in self.out_keys[1:]:
                next_tensordict.set(name, next_tensordict["reward"])
            next_tensordict.set("pbim", tensordict["pbim"].copy())
            return next_tensordict

    transforms = [StepCounter(200)]
    if case != PLAIN:
        kind = Entries if case == EMPTY else ShapingTransform
        transforms.append(kind(intrinsic=EpisodicCount(key=_cell), shaping=Geometric(gamma=GAMMA)))
    env = TransformedEnv(SerialEnv(num_envs, lambda: GymEnv("CartPole-v1")), Compose(*transforms))
    env.set_seed(0)
    env.rollout(5, break_when_any_done=False)
    return env


def _cell(step: Transition) -> Any:
    return np.floor(4 * step.next_obs).astype(int)
