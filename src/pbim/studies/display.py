"""What one sees while a study runs: bars and a live table on a terminal, plain lines elsewhere."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pbim.studies.job import Event, Job, Progress
from pbim.studies.study import Study

LINES_EVERY = 30.0
MOST_ROWS = 14


class Display:
    """Progress of a study, kept as numbers and shown by rich or by print."""

    def __init__(self, *, terminal: bool | None = None) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, force_terminal=terminal)
        self.latest: dict[str, Progress] = {}
        self.cell_of: dict[str, str] = {}
        self.running: dict[str, Job] = {}
        self.live: Any = None
        self.before = self.total = 0
        self.began = self.last_line = time.monotonic()

    def say(self, text: str) -> None:
        """Print lines that stay."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def showing(self, study: Study, total: int, finished: int) -> Iterator[None]:
        """Show progress of ``total`` runs, of which some were finished before."""
        self.study, self.total, self.before = study, total, finished
        self.began = self.last_line = time.monotonic()
        size = "smoke size, decides nothing: " if study.quick else ""
        self.say(f"{study.title} ({size}{len(study.cells)} cells, {study.seeds} seeds, {total} runs)")
        self.say(study.summary)
        if finished:
            self.say(f"{finished} of {total} runs were already finished")
        if not self.console.is_terminal or finished == total:
            yield
            return
        from rich.live import Live

        with Live(self, console=self.console, refresh_per_second=4, transient=True) as self.live:
            yield
        self.live = None

    def update(self, event: Event | None) -> None:
        """Take in what happened."""
        if event is None:
            if self.live is None and time.monotonic() - self.last_line > LINES_EVERY:
                self._line("at work")
            return
        if event.kind == "started":
            self.running[event.job.name] = event.job
            self.cell_of |= dict.fromkeys(event.job.keys, event.job.cell)
        elif event.progress is not None:
            self.latest[event.progress.key] = event.progress
            if event.progress.note:
                self.say(event.progress.note)
            if event.progress.finished and self.live is None:
                seed = next(c["seed"] for c, key in _pairs(event.job) if key == event.progress.key)
                self._line(f"{event.job.cell} seed {seed}: {_figures([event.progress])}")
        else:
            self.running.pop(event.job.name, None)
            if event.kind == "lost":
                self.say(f"no answer: {event.job.name} starts again from its last checkpoint")

    @property
    def finished(self) -> int:
        """How many runs are finished."""
        return self.before + sum(progress.finished for progress in self.latest.values())

    @property
    def share(self) -> float:
        """How much of the work this command found has been done, from 0 to 1."""
        parts = sum(progress.done / progress.total for progress in self.latest.values())
        return parts / max(1, self.total - self.before)

    def left(self) -> str:
        """Return the time left at the pace so far, in words."""
        if self.share < 0.01:
            return "time left: not known yet"
        seconds = (time.monotonic() - self.began) * (1 / self.share - 1)
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"about {hours} h {minutes:02} min left" if hours else f"about {math.ceil(seconds)} s left"

    def _line(self, text: str) -> None:
        self.last_line = time.monotonic()
        self.say(f"[{self.finished}/{self.total}] {text}; {self.left()}")

    def __rich__(self) -> Any:
        """Return the live picture: the study's bar, one bar per run at work, one row per cell."""
        from rich.console import Group
        from rich.markup import escape
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bars = Table.grid(padding=(0, 1))
        share = self.finished / max(1, self.total)
        title = f"{self.study.name}{' (smoke size)' if self.study.quick else ''}"
        bars.add_row(
            escape(title), ProgressBar(total=1.0, completed=share, width=40), f"{self.finished}/{self.total} runs"
        )
        for job in self.running.values():
            for config, key in _pairs(job):
                if (found := self.latest.get(key)) is not None and not found.finished:
                    bar = ProgressBar(total=found.total, completed=found.done, width=40)
                    bars.add_row(escape(f"  {job.cell} seed {config['seed']}"), bar, f"{found.done / found.total:.0%}")
        return Group(bars, self._summary(), self.left())

    def _summary(self) -> Any:
        from rich.markup import escape
        from rich.table import Table

        table = Table("cell", "runs", "return", "length", box=None, header_style="bold")
        cells: dict[str, list[Progress]] = {}
        for key, progress in self.latest.items():
            cells.setdefault(self.cell_of[key], []).append(progress)
        for cell, found in list(cells.items())[-MOST_ROWS:]:
            done = sum(progress.finished for progress in found)
            table.add_row(
                escape(cell), f"{done}/{len(found)}", f"{_mean(found, 'return'):.2f}", f"{_mean(found, 'length'):.1f}"
            )
        return table

    def verdicts(self, rows: Sequence[Any]) -> None:
        """Print one line per claim: its verdict, ours and the paper's figure; then how many there are of each."""
        from rich.markup import escape
        from rich.table import Table

        if not rows:
            return
        size = " (smoke size, they decide nothing)" if self.study.quick else ""
        own = all(row["paper"] is None for row in rows)
        names = ("verdict", "claim", "ours") if own else ("verdict", "claim", "paper", "ours")
        table = Table(*names, title=f"Claims{size}", title_justify="left")
        for row in rows:
            texts = {"verdict": row["word"], "claim": row["statement"], "ours": row["ours"]}
            texts["paper"] = row["paper"] or "not in the paper"
            table.add_row(*(escape(texts[name]) for name in names))
        self.console.print(table)
        counts = Counter(row["word"] for row in rows)
        self.say(", ".join(f"{number} {verdict}" for verdict, number in counts.items()) + size)


def _pairs(job: Job) -> list[tuple[Any, str]]:
    return list(zip(job.configs, job.keys, strict=True))


def _mean(found: Sequence[Progress], name: str) -> float:
    values = [p.figures[name] for p in found if not math.isnan(p.figures[name])]
    return sum(values) / len(values) if values else math.nan


def _figures(found: Sequence[Progress]) -> str:
    steps = sum(progress.steps for progress in found)
    mean, length = _mean(found, "return"), _mean(found, "length")
    figures = "no episode finished yet" if math.isnan(mean) else f"return {mean:.2f}, length {length:.1f}"
    return f"{figures}, {steps:,} steps"
