"""The ``pbim`` command: one frozen dataclass a subcommand, parsed by tyro."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal

import tyro

import pbim
from pbim.errors import InputError

_DESCRIPTION = """pbim keeps your exploration bonus and provably keeps your task.

It converts any intrinsic reward (counts, RND, ICM, ...) into a form that leaves the set of optimal policies
unchanged, and measures that it did. Start with:  pbim list
"""


@dataclass(frozen=True, kw_only=True)
class List:
    """List the conversions: what each one does to a bonus, and what it guarantees about the optimal policies.

    Example: pbim list --json
    """

    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> int:
        """Print the table and return the exit code."""
        from pbim.shaping import CONVERSIONS

        rows = [
            {
                "name": name,
                "class": f"pbim.{kind.__name__}" if hasattr(pbim, kind.__name__) else f"pbim.shaping.{kind.__name__}",
                "does": kind.summary,
                "guarantee": str(kind.guarantee.level),
                "assumption": kind.guarantee.assumption,
                "reference": kind.guarantee.reference,
            }
            for name, kind in CONVERSIONS.items()
        ]
        if self.json:
            print(json.dumps({"conversions": rows}))
        else:
            _print_table("Conversions", rows, ("name", "does", "guarantee", "assumption", "reference"))
        return 0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure pbim against the way people do it now, side by side in one run.

    Example: pbim bench shaping --json
    """

    what: Annotated[Literal["shaping"], tyro.conf.Positional]
    """What to measure. shaping: converting a (128 x 1024) stream of bonuses, against plain Python."""

    json: bool = False
    """Print one JSON object as the last line."""

    quick: bool = False
    """Fewer repetitions; noisier figures."""

    def run(self) -> int:
        """Measure, print and return the exit code."""
        result: dict[str, Any] = import_module(f"pbim.bench.{self.what}").run(quick=self.quick)
        if self.json:
            print(json.dumps(result))
        else:
            _print_table(f"pbim bench {self.what}", result["cases"], tuple(result["cases"][0]))
            print(f"ratio {result['ratio']}: how many times faster than the baseline, in the slower of NumPy and JAX")
        return 0


@dataclass(frozen=True, kw_only=True)
class _Program:
    command: Annotated[
        Annotated[List, tyro.conf.subcommand("list")] | Annotated[Bench, tyro.conf.subcommand("bench")],
        tyro.conf.arg(name=""),
    ] = field()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 2 bad input."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        print(f"pbim {pbim.__version__}")
        return 0
    program = tyro.cli(_Program, prog="pbim", description=_DESCRIPTION, args=arguments or ["--help"])
    try:
        return program.command.run()
    except InputError as error:
        print(f"pbim: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pbim: stopped", file=sys.stderr)
        return 130


def _print_table(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", no_wrap=column == "name")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    Console().print(table)
