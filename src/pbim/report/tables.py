"""The report's other tables: cells beside the paper's, certificates, every run, and where all of it came from."""

import csv
import io
import math
import shlex
from typing import Any
from urllib.parse import quote

import numpy as np

from pbim.report import statistics
from pbim.report.evidence import SEED, Evidence, RunEvidence
from pbim.report.markup import NOTHING, Html, join, number, plural, span, table, tag
from pbim.results import Plan, PlannedCell, RunCertificate

PAPER = {"T": "frames_to_converge", "mean": "converged_length", "std": "converged_std"}
"""The columns of the paper's table, and our figures with its definitions."""
KNOWN = {
    "compute": ("Time per frame", "on the core, in units of no bonus; a benchmark's, not these runs'"),
    "settings": ("Settings", "that one has to choose beyond the learner's own"),
}
"""Parameters of cells that are figures of a method: their names and what they mean."""


def cell_table(evidence: Evidence) -> Html:
    """Return every cell's figures over seeds, mean and interquartile mean with intervals, the paper's beside them."""
    table_of_paper = evidence.study.paper
    printed = {} if table_of_paper is None else {row.cell: row for row in table_of_paper.rows}
    beside = {ours: theirs for theirs, ours in PAPER.items() if printed and ours in evidence.statistics}
    shown = (name for name in evidence.statistics if name in beside or _any_finite(evidence, name))
    columns = {name: evidence.statistics[name] for name in shown}
    head: list[Any] = ["Cell", "Seeds"]
    for name, measure in columns.items():
        if name in beside:
            head.append(tag("th", f"{measure.label}, paper", scope="col", class_="num"))
        head.append(tag("th", measure.label, tag("small", measure.meaning), scope="col", class_="num"))
    known = [name for name in KNOWN if any(cell.params.get(name) is not None for cell in evidence.study.cells)]
    head += (tag("th", KNOWN[name][0], tag("small", KNOWN[name][1]), scope="col", class_="num") for name in known)
    rows: list[list[Any]] = []
    for group in evidence.groups:
        if len(evidence.groups) > 1:
            rows.append([tag("th", group.label, colspan=len(head), class_="group")])
        for cell, runs in evidence.cells(group.name):
            row: list[Any] = [tag("th", _swatch(evidence, cell), cell.label, scope="row"), _seeds(runs)]
            for name in columns:
                if name in beside:
                    value = getattr(printed.get(cell.name), beside[name], None)
                    missing = "N/A" if cell.name in printed else NOTHING
                    row.append(tag("td", missing if value is None else number(value), class_="num paper"))
                row.append(tag("td", *_estimate(runs, name), class_="num"))
            row += (tag("td", known_figure(cell, name), class_="num") for name in known)
            rows.append(row)
    caption = "Every cell over its seeds: mean with 95% interval, below it the interquartile mean (IQM)"
    if table_of_paper is not None and printed:
        caption += f". Paper: {table_of_paper.caption}"
    return table(head, rows, caption=caption, class_="cells")


def known_figure(cell: PlannedCell, name: str) -> str:
    """Return one of ``KNOWN`` for reading."""
    value = cell.params.get(name)
    return number(None if isinstance(value, str) else value)


def _any_finite(evidence: Evidence, name: str) -> bool:
    return any(math.isfinite(entry.figures.get(name, math.nan)) for entry in evidence.runs)


def _swatch(evidence: Evidence, cell: PlannedCell) -> Html:
    return tag("i", class_="swatch", style=f"--c: var(--c{evidence.colour(cell.label) % 8})", aria_hidden="true")


def _seeds(runs: list[RunEvidence]) -> str:
    done = sum(entry.done for entry in runs)
    return str(done) if done == len(runs) else f"{done} of {len(runs)}"


def _estimate(runs: list[RunEvidence], name: str) -> tuple[Any, ...]:
    values = np.array([entry.figures[name] for entry in runs if entry.done], np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return (NOTHING if not len(values) else f"{NOTHING} (0 of {len(values)})",)
    if len(finite) == 1:
        return (f"{number(float(finite[0]))} (1 of {plural(len(values), 'seed')})",)
    low, high = statistics.interval(finite, seed=SEED)
    iqm = float(statistics.iqm(finite))
    ends = statistics.interval(finite, seed=SEED, statistic=statistics.iqm)
    few = f" ({len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    return (
        f"{number(float(finite.mean()))} {span(low, high)}{few}",
        tag("small", f"IQM {number(iqm)} {span(*ends)}"),
    )


def certificate_table(evidence: Evidence) -> Html:
    """Return how well the shaping reward cancelled: episodes checked and the worst residual of every cell."""
    rows = []
    for cell, runs in evidence.cells():
        found = [entry.certificate for entry in runs if entry.certificate is not None]
        episodes, worst = sum(c.episodes for c in found), max((c.residual for c in found), default=math.nan)
        exact = cell.exact
        rows.append(
            (
                tag("th", _swatch(evidence, cell), full_label(evidence, cell), scope="row"),
                tag("td", f"{episodes:,}", class_="num"),
                tag("td", number(worst, 3), class_="num"),
                tag("td", number(max((c.tolerance for c in found), default=math.nan), 3), class_="num"),
                _certified(found, exact=exact),
            )
        )
    numbers = (
        tag("th", name, scope="col", class_="num") for name in ("Episodes checked", "Worst residual", "Tolerance")
    )
    head = ("Cell", *numbers, "Cancelled")
    caption = (
        "Discounted sum of the shaping reward over every finished episode, relative to its size: 0 means it cancelled"
    )
    return table(head, rows, caption=caption, class_="certificates")


def _certified(found: list[RunCertificate], *, exact: bool) -> Html:
    if not exact:
        return tag("span", "not promised", class_="badge open")
    if not found:
        return tag("span", "no finished run", class_="badge open")
    if all(c.ok for c in found):
        return tag("span", tag("b", "✓", aria_hidden="true"), " in every episode", class_="badge yes")
    if not any(c.episodes for c in found):
        return tag("span", "no episode ended", class_="badge open")
    overflowed = sum(c.overflowed for c in found)
    why = f" no: overflowed in {overflowed} of {plural(len(found), 'run')}" if overflowed else " no"
    return tag("span", tag("b", "✗", aria_hidden="true"), why, class_="badge no")


def full_label(evidence: Evidence, cell: PlannedCell) -> str:
    """Return a cell's name, with its setting where there are several."""
    return ", ".join(filter(None, (cell.label, evidence.setting(cell))))


def run_table(evidence: Evidence) -> Html:
    """Return every run of the plan with its state and figures, failures and what is missing included."""
    names = list(evidence.statistics)
    labels = {cell.name: full_label(evidence, cell) for cell in evidence.study.cells}
    head: list[Any] = ["Cell", "Seed", "State", "Seconds"]
    head += [tag("th", evidence.statistics[name].label, scope="col", class_="num") for name in names]
    head.append("Key")
    rows = []
    for entry in evidence.runs:
        state = entry.run.state
        error = entry.run.status.error
        rows.append(
            (
                tag("th", labels[entry.run.cell], scope="row"),
                tag("td", entry.run.seed, class_="num"),
                tag("td", state, tag("small", error) if error else None, class_=f"state {state}"),
                tag("td", number(entry.run.status.seconds, 3), class_="num"),
                *(tag("td", number(entry.figures.get(name)), class_="num") for name in names),
                tag("td", tag("code", entry.run.key)),
            )
        )
    return table(head, rows, caption=f"All {plural(len(evidence.runs), 'run')} of the plan", class_="runs")


def run_csv(evidence: Evidence) -> str:
    """Return the same table as CSV, numbers in full."""
    names = list(evidence.statistics)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["size", "cell", "group", "seed", "state", "seconds", "key", *names, "episodes_checked", "worst_residual"]
    )
    groups = {cell.name: cell.group for cell in evidence.study.cells}
    for entry in evidence.runs:
        run, certificate = entry.run, entry.certificate
        figures = [entry.figures.get(name, "") for name in names]
        checked = ["", ""] if certificate is None else [certificate.episodes, certificate.residual]
        size = "smoke size" if evidence.study.quick else "full"
        about = [
            size,
            run.cell,
            groups[run.cell],
            run.seed,
            run.state,
            "" if run.status.seconds is None else run.status.seconds,
            run.key,
        ]
        writer.writerow([_inert(value) for value in (*about, *figures, *checked)])
    return text.getvalue()


def _inert(value: Any) -> Any:
    """Return a text so that no spreadsheet takes it for a formula.

    >>> _inert("=1+1"), _inert("pbim"), _inert(-0.5)
    ("'=1+1", 'pbim', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def csv_link(evidence: Evidence) -> Html:
    """Return a link that saves the table; the file is in the page."""
    name = f"{evidence.study.study}-runs.csv"
    href = "data:text/csv;charset=utf-8," + quote(run_csv(evidence))
    return tag("a", "Download as CSV", href=href, download=name, class_="button", id="csv")


def provenance(evidence: Evidence) -> Html:
    """Return what it takes to get the same numbers: commands, versions, commits, seeds."""
    study, done = evidence.study, [entry for entry in evidence.runs if entry.done]
    versions: dict[str, set[str]] = {}
    for entry in done:
        for package, version in (entry.run.status.versions or {}).items():
            versions.setdefault(package, set()).add(str(version))
    commits = sorted({str(entry.run.status.commit) for entry in done if entry.run.status.commit})
    commands = dict.fromkeys([study.command, *(str(entry.run.status.command or "") for entry in done)])
    seconds = sum(float(entry.run.status.seconds or 0) for entry in done)
    seeds = sorted({entry.run.seed for entry in evidence.runs})
    rows = [
        ("Command", join(tag("code", command, class_="line") for command in commands if command)),
        ("Report", tag("code", f"pbim report {_folder(study)}")),
        ("pbim", f"{study.version or NOTHING}, commit {study.commit or 'unknown'}"),
        ("Runs' commits", ", ".join(commits) or NOTHING),
        ("Versions", ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in sorted(versions.items()))),
        ("Seeds", _ranges(seeds)),
        ("Time", f"{number(seconds, 3)} s of training in all"),
        ("Statistics", f"{statistics.RESAMPLES:,} resamples, random seed {SEED}"),
    ]
    pairs = [join((tag("dt", name), tag("dd", value or NOTHING))) for name, value in rows]
    return tag("dl", *pairs, class_="provenance")


def _folder(study: Plan) -> str:
    """Return where the command that made a study writes to."""
    words = shlex.split(study.command)
    given = words.index("--out") + 1 if "--out" in words else len(words)
    return words[given] if given < len(words) else f"out/{study.study}"


def _ranges(seeds: list[int]) -> str:
    """Return whole numbers, runs of them shortened.

    >>> _ranges([0, 1, 2, 5])
    '0–2, 5'
    """
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)
