"""The ``pbim`` command: one frozen dataclass a subcommand, parsed by tyro."""

import contextlib
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import tyro

import pbim
from pbim.agents.command import Train, Watch
from pbim.errors import InputError, choose
from pbim.report.command import Report
from pbim.results.command import Results
from pbim.studies.command import Reproduce
from pbim.verification.command import Procrastination, Verify

_DESCRIPTION = """pbim keeps your exploration bonus and provably keeps your task.

It converts any intrinsic reward (counts, RND, ICM, ...) into a form that leaves the set of optimal policies
unchanged, and proves that it did. Start with:  pbim verify --env corridor --intrinsic count --shaping raw
"""

_BENCHMARKS = {
    "shaping": "converting a (128 x 1024) stream of bonuses, against plain Python",
    "envs": "steps of DoorKey, against navix, xminigrid and Farama MiniGrid",
    "intrinsic": "reward and training of RND on a rollout, against RLeXplore",
    "ppo": "training DoorKey-8x8, against torch-ac and RecurrentPPO",
    "study": "a study with two jobs, against one job",
    "qlearning": "learning cliff walking, against plain Python and PyTorch",
    "wrap": "stepping 16 MiniGrid environments, wrapped against plain",
}

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


@dataclass(frozen=True, kw_only=True)
class List:
    """List the studies, environments and bonuses, and the conversions with what each guarantees.

    Example: pbim list --json
    """

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> int:
        """Print the tables and return the exit code."""
        found = {**_catalogue(), "conversions": _conversions()}
        if self.json:
            print(json.dumps(found))
            return 0
        for title, rows in found.items():
            if title == "conversions":
                for row in rows:
                    row["keeps the optimal policies"] = f"{row['guarantee']} [dim]({row['reference']})[/dim]"
                shown = ("name", "does", "keeps the optimal policies")
                rows = [{name: row[name] for name in shown} for row in rows]
            _print_table(title.capitalize(), rows)
        print("Each conversion under an assumption: pbim list --json names it.")
        return 0


def _conversions() -> list[dict[str, Any]]:
    from pbim.shaping import GUARANTEES

    return [
        {
            "name": name,
            "does": summary,
            "guarantee": str(guarantee.level),
            "if": guarantee.assumption,
            "reference": guarantee.reference,
        }
        for name, (summary, guarantee) in GUARANTEES.items()
    ]


def _catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return studies, environments and bonuses, one line each; without JAX there are only studies to run elsewhere."""
    from pbim.studies import STUDIES

    studies = [
        {"name": study.name, "runs": len(study.cells) * study.seeds, "asks": study.summary}
        for study in STUDIES.values()
    ]
    try:
        from pbim import intrinsic
        from pbim.agents.names import ENVIRONMENTS

        bonuses = [getattr(intrinsic, name) for name in sorted(intrinsic.__all__)]
    except ModuleNotFoundError:
        return {"studies": studies}
    return {
        "studies": studies,
        "environments": [{"name": name, "is": _first_sentence(type(env))} for name, env in ENVIRONMENTS.items()],
        "bonuses": [
            {"name": bonus.__name__, "pays": _first_sentence(bonus)}
            for bonus in bonuses
            if isinstance(bonus, type) and hasattr(bonus, "reward") and bonus is not intrinsic.Intrinsic
        ],
    }


def _first_sentence(thing: Any) -> str:
    return " ".join((thing.__doc__ or "").split("\n\n")[0].split()).split(". ")[0].replace("``", "")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure pbim against the way people do it now, side by side in one run.

    Example: pbim bench shaping --json
    """

    what: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="WHAT", help="; ".join(f"{name}: {text}" for name, text in _BENCHMARKS.items())),
    ]

    json: bool = False
    """Print one JSON object as the last line."""

    quick: bool = False
    """Fewer repetitions; noisier figures."""

    def run(self) -> int:
        """Measure, print and return the exit code."""
        choose("what", self.what, _BENCHMARKS)
        result: dict[str, Any] = import_module(f"pbim.bench.{self.what}").run(quick=self.quick)
        if self.json:
            print(json.dumps(result))
            return 0
        cases = [_flat(case) for case in result.pop("cases", [])]
        _print_table(f"pbim bench {self.what}: {_BENCHMARKS[self.what]}", cases)
        for name, value in _flat(result).items():
            print(f"{name} = {value}")
        return 0


_STYLE = (tyro.conf.FlagCreatePairsOff,)
_Command = (
    Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Watch, tyro.conf.subcommand("watch")]
    | Annotated[Results, tyro.conf.subcommand("results")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Procrastination, tyro.conf.subcommand("procrastination")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
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
) -> Reproduce | Train | Watch | Results | Report | Verify | Procrastination | Bench | List:
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


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested figures as one level, names joined by spaces."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table, or as one line a figure where a table would not fit."""
    from rich.console import Console
    from rich.table import Table

    columns = list(rows[0]) if rows else []
    if not 1 < len(columns) <= 6:
        print(title)
        for row in rows:
            print("\n".join(f"  {name} = {value}" for name, value in row.items()), end="\n\n")
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", no_wrap=column == "name")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
