"""Measure pbim against the way people do it now: ``python -m benchmarks NAME [--json] [--quick]`` from a clone."""

import json
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import tyro

from pbim.cli.tables import print_table
from pbim.errors import InputError, choose

BENCHMARKS = {
    "shaping": "converting a (128 x 1024) stream of bonuses, against plain Python",
    "envs": "steps of DoorKey, against navix, xminigrid and Farama MiniGrid",
    "intrinsic": "reward and training of RND on a rollout, against RLeXplore",
    "bonuses": "every bonus per compiled step, against EpisodicCount and RND",
    "ppo": "training DoorKey-8x8, against torch-ac and RecurrentPPO",
    "methods": "training DoorKey-8x8 by every method, against no bonus",
    "study": "a study with two jobs, against one job",
    "qlearning": "learning cliff walking, against plain Python and PyTorch",
    "audit": "auditing a million transitions over a hundred thousand states on one core",
    "audit_class": "verdicts on safe and unsafe terms of continuous observations, counted",
    "wrap": "stepping 16 MiniGrid environments, wrapped against plain",
    "rllib": "sampling of an RLlib env runner, with the connector against without",
    "torchrl": "stepping CartPole in TorchRL, with the transform against without",
}


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Measure pbim against the way people do it now, side by side in one run.

    Example: python -m benchmarks shaping --json
    """

    name: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="NAME", help="; ".join(f"{name}: {text}" for name, text in BENCHMARKS.items())),
    ]
    json: bool = False
    """Print one JSON object as the last line."""
    quick: bool = False
    """Fewer repetitions; noisier figures."""

    def run(self) -> None:
        """Measure and print."""
        choose("name", self.name, BENCHMARKS)
        result: dict[str, Any] = import_module(f"benchmarks.{self.name}").run(quick=self.quick)
        if self.json:
            print(json.dumps(result))
            return
        cases = [flat(case) for case in result.pop("cases", [])]
        print_table(f"{self.name}: {BENCHMARKS[self.name]}", cases)
        for name, value in flat(result).items():
            print(f"{name} = {value}")


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested figures as one level, names joined by spaces."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


if __name__ == "__main__":
    try:
        tyro.cli(Benchmark, prog="python -m benchmarks", config=(tyro.conf.FlagCreatePairsOff,)).run()
    except InputError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
