"""How a study is run: the options that ``pbim reproduce`` and ``pbim compare`` share."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pbim.errors import InputError

if TYPE_CHECKING:
    from pbim.studies import Study


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a study's runs are trained and how."""

    jobs: int | None = None
    """Processes at once. Without it: one per core, or fewer where memory is short."""
    checkpoint_every: float = 5.0
    """Seconds per checkpoint. A power cut loses at most that much."""
    engine: Literal["local", "ray"] = "local"
    """Where the runs train: in processes on this machine, or as tasks on a Ray cluster."""
    address: str | None = None
    """The address of the Ray cluster. Without it, Ray finds the cluster."""
    tensorboard: bool = False
    """Write the finished runs for TensorBoard too, into the folder tensorboard."""
    wandb: str | None = None
    """Send the finished runs to this project of Weights & Biases too."""

    def check(self) -> None:
        """Refuse options that cannot work, before anything is printed or written."""
        from pbim.results import sinks

        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"jobs must be at least 1, received {self.jobs}: leave it out for one per core")
        if not 0 <= self.checkpoint_every < math.inf:
            raise InputError(f"checkpoint_every must be at least 0, received {self.checkpoint_every}: 5 is usual")
        if self.address is not None and self.engine != "ray":
            raise InputError("address is for --engine ray: add it, or leave the address out")
        sinks.check(tensorboard=self.tensorboard, wandb=self.wandb is not None)

    def run(self, study: "Study", out: Path, *, command: str, published: Path | None = None) -> int:
        """Run a study into a folder and return the exit code: 0 done, 1 runs failed, 130 stopped by Ctrl-C."""
        self.check()
        if self.engine == "ray":
            from pbim.studies.on_ray import connected, run

            with connected(self.address):
                return self._with(partial(run, workers=self.jobs), study, out, command=command, published=published)
        from pbim.studies import local

        return self._with(partial(local.run, workers=self.jobs), study, out, command=command, published=published)

    def _with(self, engine: Any, study: "Study", out: Path, **about: Any) -> int:
        from pbim.results import Store, sinks
        from pbim.studies.display import Display
        from pbim.studies.reproduce import reproduce

        code = reproduce(study, out, engine, display=Display(), checkpoint_every=self.checkpoint_every, **about)
        if code == 130:
            return code
        if self.tensorboard:
            sinks.to_tensorboard(Store(out))
        if self.wandb is not None:
            sinks.to_wandb(Store(out), self.wandb)
        return code


DEFAULT_OPTIONS = RunOptions()
"""One process per core of this machine."""


def words_of(options: Any) -> Iterator[str]:
    """Yield the options of a dataclass that are not the default, as typed; nested dataclasses have no prefix."""
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, RunOptions):
            yield from words_of(value)
        elif value != field.default:
            yield f"--{field.name.replace('_', '-')}"
            if value is not True:
                yield from value if isinstance(value, tuple) else [str(value)]
