"""The ``pbim`` command: one frozen dataclass a subcommand, parsed by tyro."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

import pbim
from pbim.cli.catalogue import List
from pbim.cli.procrastination import Procrastination
from pbim.cli.report import Report
from pbim.cli.reproduce import Reproduce
from pbim.cli.results import Results
from pbim.cli.train import Train
from pbim.cli.verify import Verify
from pbim.cli.watch import Watch
from pbim.errors import InputError

_DESCRIPTION = """pbim keeps your exploration bonus and provably keeps your task.

It converts any intrinsic reward (counts, RND, ICM, ...) into a form that leaves the set of optimal policies
unchanged, and proves that it did. Start with:  pbim verify --env corridor --intrinsic count --shaping raw
"""

_EXTRAS = {
    **dict.fromkeys(("jax", "equinox", "optax"), "jax"),
    "gymnasium": "gymnasium",
    "imageio_ffmpeg": "video",
    "matplotlib": "plot",
    "minigrid": "envs",
    "polars": "results",
    "ray": "ray",
    "scipy": "report",
    "stable_baselines3": "sb3",
    "torch": "torch",
}
"""Which extra brings an optional package."""


_STYLE = (tyro.conf.FlagCreatePairsOff,)
_Command = (
    Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Watch, tyro.conf.subcommand("watch")]
    | Annotated[Results, tyro.conf.subcommand("results")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Procrastination, tyro.conf.subcommand("procrastination")]
    | Annotated[List, tyro.conf.subcommand("list")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 verified to be false, 2 bad input."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        print(f"pbim {pbim.__version__}")
        return 0
    try:
        return _parsed(arguments or ["--help"]).run()
    except InputError as error:
        print(f"pbim: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRAS:
            raise
        extra = _EXTRAS[package]
        print(f"pbim: this needs {package}, which is not installed: pip install 'pbim[{extra}]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pbim: stopped", file=sys.stderr)
        return 130


def _parsed(
    arguments: list[str],
) -> Reproduce | Train | Watch | Results | Report | Verify | Procrastination | List:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(_Command, prog="pbim", description=_DESCRIPTION, args=arguments, config=_STYLE)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        raise InputError(_one_sentence(complaint.getvalue())) from None


def _one_sentence(box: str) -> str:
    """Return what a box of tyro's says as one line: the complaint, and the nearest option where it names one."""
    body = "\n".join(box.strip().splitlines()[1:])  # the first line is its title
    text = re.sub(r"(?m)^(?:╰.*|[│\s]*[-─]{8,}[│\s]*)$", "\0", body)  # rules between its sections
    sections = [re.sub(r"[│\s]+", " ", section).strip() for section in text.split("\0")]
    complaint, *hints = [section for section in sections if section]
    near = re.search(r"Perhaps you meant: (--[\w-]+)", " ".join(hints))
    return f"{complaint.rstrip('.')}: {f'did you mean {near[1]}?' if near else 'see pbim --help'}"
