"""Stored rows for those who watch elsewhere: TensorBoard and Weights & Biases. Parquet stays the truth."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pbim.errors import InputError
from pbim.results.records import write_json
from pbim.results.store import Run, Store

TENSORBOARD, SENT = "tensorboard", "wandb.json"
MOST = 1000
"""Points a curve has at most: every so many rows, and the last."""


def to_tensorboard(store: Store) -> int:
    """Write the finished runs that are not there yet below ``tensorboard/``; returns how many."""
    writer_of = _package("tensorboard.summary").Writer
    new = [run for run in _finished(store) if not (store.path / TENSORBOARD / _name(run)).exists()]
    for run in new:
        target = store.path / TENSORBOARD / _name(run)
        part = target.with_name(f".{target.name}.part")  # half a run would never be completed
        shutil.rmtree(part, ignore_errors=True)
        writer = writer_of(str(part))
        for step, row in points(run):
            for name, value in row.items():
                writer.add_scalar(name, value, step=step)
        writer.close()
        part.replace(target)
    return len(new)


def to_wandb(store: Store, project: str) -> int:
    """Send the finished runs that were not sent yet to a project of Weights & Biases; returns how many."""
    wandb = _package("wandb")
    new = [run for run in _finished(store) if not (run.folder / SENT).exists()]
    for run in new:
        with wandb.init(project=project, id=run.key, name=_name(run), group=run.cell, config=run.config) as sent:
            for step, row in points(run):
                sent.log(row, step=step)
        write_json(run.folder / SENT, {"project": project, "id": run.key})
    return len(new)


def check(*, tensorboard: bool, wandb: bool) -> None:
    """Refuse at once what would be missing after hours of training."""
    for wanted, name in ((tensorboard, "tensorboard.summary"), (wandb, "wandb")):
        if wanted:
            _package(name)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InputError(f"{package} is not installed: pip install {package}, or leave --{package} out") from None


def points(run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (frames or episode, figures) of a run, at most about a thousand; what is NaN is left out."""
    rows: Any = run.metrics()
    axis = "frames" if "frames" in rows.columns else "episode"
    every = -(-rows.height // MOST)
    for row in rows.gather_every(every, offset=(rows.height - 1) % every).iter_rows(named=True):
        step = row.pop(axis)
        yield step, {name: float(value) for name, value in row.items() if value == value}


def _finished(store: Store) -> list[Run]:
    return list({run.key: run for run in store.runs(lambda run: run.state == "done")}.values())


def _name(run: Run) -> str:
    return f"{run.cell}-seed{run.seed}"
