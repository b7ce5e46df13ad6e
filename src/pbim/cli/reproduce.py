"""``pbim reproduce``: a study, run or continued, and its report."""

import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import tyro

from pbim._extras import STUDIES, require
from pbim.cli import components
from pbim.cli.run_options import DEFAULT_OPTIONS, RunOptions, words_of
from pbim.errors import InputError

ALL = ("all",)


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run a study, of the paper or of your own, over seeds, with a verdict on each claim.

    pbim list shows the studies. The same command continues after an interruption and does not repeat a finished run.

    Example: pbim reproduce cliff --quick
    """

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY", help_behavior_hint="(required)")] = ""
    """The name of a study (cliff, cliff-long, doorkey, ...), or your own: my_study.py or package.module:STUDY."""
    seeds: int | None = None
    """Runs per cell. Each study has its own number if you leave this out."""
    only: tuple[str, ...] = ALL
    """Only these schemes, groups or cells."""
    frames: int | None = None
    """Frames per DoorKey run. Each study has its own number if you leave this out."""
    quick: bool = False
    """A small size that tries everything in minutes and decides nothing."""
    out: Path | None = None
    """The folder of the results. Without it: out/STUDY, or out/STUDY-quick with --quick."""
    published: Path | None = None
    """A folder of published results, such as docs/results/cliff. Its runs are not trained again."""
    template: bool = False
    """Print a study to start from: pbim reproduce --template > my_study.py."""
    running: Annotated[RunOptions, tyro.conf.arg(name="")] = DEFAULT_OPTIONS

    def run(self) -> int:
        """Run the study and return the exit code: 0 done, 1 runs failed, 130 stopped by Ctrl-C."""
        require("pbim reproduce", *STUDIES, extra="studies")
        from pbim.studies import find

        if self.template:
            print(files("pbim.studies").joinpath("template.py").read_text("utf-8"), end="")
            return 0
        if not self.study:
            raise InputError("STUDY must be named, received none: pbim reproduce cliff, or pbim list for all of them")
        if ":" in self.study:
            components.import_from_here()
        study = find(self.study)
        only = None if self.only == ALL else self.only
        study = study.sized(seeds=self.seeds, only=only, frames=self.frames, quick=self.quick)
        out = self.out or Path("out") / f"{study.name}{'-quick' if self.quick else ''}"
        return self.running.run(study, out, command=self.line, published=self.published)

    @property
    def line(self) -> str:
        """The command as typed."""
        return shlex.join(["pbim", "reproduce", self.study, *list(words_of(self))[2:]])
