"""``pbim results``: the runs of a study."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pbim.errors import choose

if TYPE_CHECKING:
    from pbim.results import Run

STATES = ("waiting", "running", "failed", "corrupt", "done")


@dataclass(frozen=True, kw_only=True)
class Results:
    """Show the runs of a study: the state, the time and the folder of each.

    Example: pbim results out/cliff --cell pbim --state done
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """The folder of a study, or of pbim train."""
    cell: str | None = None
    """Only the runs of this cell."""
    state: str | None = None
    """Only runs in this state: waiting, running, failed, corrupt or done."""
    json: bool = False
    """Print one JSON object per run."""

    def run(self) -> int:
        """Print the runs and return the exit code."""
        from pbim.report import logs
        from pbim.results import Store

        if logs.is_training(self.folder):
            return self._training()
        store = Store(self.folder)
        study = store.plan()
        if self.cell is not None:
            choose("cell", self.cell, [cell.name for cell in study.cells])
        if self.state is not None:
            choose("state", self.state, STATES)
        found = store.runs(lambda run: self.cell in (None, run.cell) and self.state in (None, run.state))
        if self.json:
            for run in found:
                print(json.dumps(row(run)))
            return 0
        _print(f"{study.title}{' (smoke size)' if study.quick else ''}", [row(run) for run in found])
        return 0

    def _training(self) -> int:
        """Print the one run that a folder of pbim train holds."""
        from pbim.report.evidence import gather

        evidence = gather(self.folder)
        found = [{**row(entry.run), **entry.figures} for entry in evidence.runs]
        if self.json:
            print(json.dumps(found[0]))
        else:
            _print(evidence.study.title, found)
        return 0


def row(run: "Run") -> dict[str, Any]:
    """Return what there is to say of one run."""
    status = run.status
    return {
        "cell": run.cell,
        "seed": run.seed,
        "state": run.state,
        "steps": status.steps,
        "seconds": status.seconds,
        "folder": str(run.folder),
        "error": status.error,
        "versions": dict(status.versions),
        "commit": status.commit,
        "finished": status.finished,
    }


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for name in ("cell", "seed", "state", "steps", "seconds", "key"):
        table.add_column(name, justify="right" if name in ("seed", "steps", "seconds") else "left", no_wrap=True)
    for found in rows:
        steps, seconds = found["steps"], found["seconds"]
        table.add_row(
            escape(found["cell"]),
            str(found["seed"]),
            found["state"],
            "" if steps is None else f"{steps:,}",
            "" if seconds is None else f"{seconds:.1f}",
            Path(found["folder"]).name,
        )
    console = Console()
    console.print(table)
    for found in rows:
        if found["error"]:
            console.print(f"{found['cell']} seed {found['seed']}: {found['error']}", soft_wrap=True, markup=False)
