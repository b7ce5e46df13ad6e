"""``pbim reproduce``: a study, run or continued, and its report."""

import math
import shlex
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pbim.cli import components
from pbim.errors import InputError

ALL = ("all",)


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run a study of the paper or of ours: every table and figure again, over seeds, with a verdict on every claim.

    The same command continues what was interrupted and never repeats a finished run. pbim list names the studies.

    Example: pbim reproduce cliff --quick
    """

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
    """Its name: cliff, cliff-long, doorkey, ... or your own, package.module:STUDY."""
    seeds: int | None = None
    """Runs of every cell; the study's own number if left out."""
    only: tuple[str, ...] = ALL
    """Only these schemes, groups or cells."""
    frames: int | None = None
    """Frames of every DoorKey run; the study's own number if left out."""
    quick: bool = False
    """A smoke size that runs through everything in minutes and decides nothing."""
    out: Path | None = None
    """The folder of the results; out/STUDY if left out (out/STUDY-quick with --quick)."""
    jobs: int | None = None
    """Processes at once; one per core if left out, fewer where memory is short."""
    checkpoint_every: float = 5.0
    """Seconds between two checkpoints of a run: as much as a power cut may cost."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or tasks on a running Ray cluster."""
    address: str | None = None
    """The address of the Ray cluster; found by Ray if left out."""
    tensorboard: bool = False
    """Write the finished runs for TensorBoard too, below tensorboard/ in the folder."""
    wandb: str | None = None
    """Send the finished runs to this project of Weights & Biases too."""

    def run(self) -> int:
        """Run the study and return the exit code: 0 done, 1 runs failed, 130 stopped by Ctrl-C."""
        from pbim.results import sinks
        from pbim.studies import find

        if ":" in self.study:
            components.import_from_here()
        study = find(self.study)
        only = None if self.only == ALL else self.only
        study = study.sized(seeds=self.seeds, only=only, frames=self.frames, quick=self.quick)
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"jobs must be at least 1, received {self.jobs}: leave it out for one per core")
        if not 0 <= self.checkpoint_every < math.inf:
            raise InputError(f"checkpoint_every must be at least 0, received {self.checkpoint_every}: 5 is usual")
        if self.address is not None and self.engine != "ray":
            raise InputError("address is for --engine ray: add it, or leave the address out")
        sinks.check(tensorboard=self.tensorboard, wandb=self.wandb is not None)
        if self.engine == "ray":
            from pbim.studies.on_ray import connected, run

            with connected(self.address):
                return self._with(partial(run, workers=self.jobs), study)
        from pbim.studies import local

        return self._with(partial(local.run, workers=self.jobs), study)

    def _with(self, engine: Any, study: Any) -> int:
        from pbim.studies.display import Display
        from pbim.studies.reproduce import reproduce

        out = self.out or Path("out") / f"{study.name}{'-quick' if self.quick else ''}"
        about: dict[str, Any] = {"command": self.line, "checkpoint_every": self.checkpoint_every}
        code = reproduce(study, out, engine, display=Display(), **about)
        if code != 130:
            self._send(out)
        return code

    def _send(self, out: Path) -> None:
        from pbim.results import Store, sinks

        if self.tensorboard:
            sinks.to_tensorboard(Store(out))
        if self.wandb is not None:
            sinks.to_wandb(Store(out), self.wandb)

    @property
    def line(self) -> str:
        """The command as typed."""
        words = ["pbim", "reproduce", self.study]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                words += [f"--{field.name.replace('_', '-')}"]
                words += [] if value is True else list(value) if field.name == "only" else [str(value)]
        return shlex.join(words)
