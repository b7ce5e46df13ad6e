"""Fill the published pages from the published rows: python scripts/reproduction.py (or make results).

In a page, ``<!-- begin WHAT -->`` ... ``<!-- end -->`` holds a table and ``<!--= WHAT -->`` ... ``<!--/-->`` a number.
WHAT is

    verdicts STUDY                            every claim, decided
    cells STUDY GROUP STATISTIC ...           cells over seeds, the paper's figures beside ours (GROUP - is all;
                                              CELL,CELL,... are some; CELL=LABEL,... are named and in this order)
    effort                                    runs, steps and hours of every study
    spent                                     runs, steps and hours of all of them
    mean STUDY CELL STATISTIC                 mean with its 95% interval over seeds
    range STUDY CELL STATISTIC                least and greatest over seeds
    count STUDY CELL STATISTIC                how many seeds have the figure at all (solved, reached, converged)
    readings LABEL=STUDY[:PREFIX] ...         the same claims under several readings, one column each (_ is a space)
    tallies LABEL=STUDY[:PREFIX] ...          how many claims hold under each reading, one row each
    ours STUDY CLAIM                          our figure of a claim with its interval (CLAIM without the study's name)
    spreads STUDY                             PBIM against no bonus by how much F differs between states, per reading
    ordered STUDY ENCODING                    how closely the two are ordered, as a rank correlation
    seeds STUDY STATISTIC                     every seed's figure, one row per scheme, one column per group
    settled REWARD                            DoorKey by what the last step takes back: final lengths, residuals
    alternatives GROUP                        every remedy at a setting: six measures, the last two of the method itself
    tally STUDY                               how many claims were reproduced, not reproduced, undecided
    overview                                  the same of all studies

so a page says what it shows, and none of it is typed by hand. The studies' own pages and figures are written again,
too.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Collection
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from pbim.report import statistics, write
from pbim.report.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Verdict
from pbim.report.evidence import SEED, Evidence, RunEvidence, gather
from pbim.report.markup import NOTHING, number, plural, span
from pbim.report.tables import KNOWN, PAPER, known_figure
from pbim.report.verdict_table import MARKS, needed, ours, paper
from pbim.results import PlannedCell, Run
from pbim.studies.doorkey import SETTINGS, TABLE
from pbim.studies.doorkey_readings import CENTRINGS, READINGS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
NAMES = ("README.md", "docs/reproduction.md", "docs/alternatives.md", "docs/guidance.md", "paper/paper.md")
PAGES = tuple(ROOT / name for name in NAMES)
BLOCK = re.compile(r"<!-- begin (.*?) -->\n.*?<!-- end -->", re.S)
VALUE = re.compile(r"<!--= (.*?) -->.*?<!--/-->", re.S)


@lru_cache
def evidence_of(study: str) -> Evidence:
    """Return what was published of a study."""
    return gather(RESULTS / study)


def published() -> list[str]:
    """Return the studies that have been published."""
    return sorted(path.parent.name for path in RESULTS.glob("*/runs.parquet"))


def table(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """Return a Markdown table whose first ``left`` columns are text."""
    rule = ["---" if column < left else "---:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (head, rule, *rows))


def verdicts(study: str) -> str:
    """Return every claim of a study with the paper's figure, ours and the verdict, failures first."""
    order = {NOT_REPRODUCED: 0, UNDECIDED: 1, REPRODUCED: 2}
    found = sorted(evidence_of(study).verdicts, key=lambda verdict: order[verdict.verdict])
    rows = [
        [
            f"{MARKS[verdict.verdict][0]} {verdict.word}",
            verdict.claim.statement,
            paper(verdict),
            ours(verdict),
            " and ".join(map(str, verdict.n)),
            needed(verdict) or ("at least 3 seeds" if verdict.verdict == UNDECIDED else NOTHING),
        ]
        for verdict in found
    ]
    return table(["verdict", "claim", "paper", "ours [95% interval]", "n", "would decide"], rows, left=6)


def readings(*columns: str) -> str:
    """Return claims that several readings share, one row per claim, one column per reading, with counts below."""
    labels, found = zip(*map(_reading, columns), strict=True)
    rows, waiting = [], 0
    for name in dict.fromkeys(name for verdicts in found for name in verdicts):
        judged = [verdicts.get(name) for verdicts in found]
        first = next(filter(None, judged))
        if any(verdict is not None and any(verdict.n) for verdict in judged):
            rows.append([_of_any_reading(first.claim.statement), paper(first), *map(_marked, judged)])
        else:
            waiting += 1
    if waiting:
        rows.append([f"{plural(waiting, 'claim')} without runs so far", "", *(NOTHING for _ in found)])
    rows.append(["reproduced / not / undecided", "", *(" / ".join(_counted(verdicts)) for verdicts in found)])
    return table(["claim", "paper", *labels], rows, left=2 + len(labels))


def tallies(*columns: str) -> str:
    """Return how many claims hold under each reading."""
    rows = [[label, *_counted(verdicts)] for label, verdicts in map(_reading, columns)]
    return table(["reading", "claims reproduced", "not reproduced", "undecided"], rows)


def settled(reward: str) -> str:
    """Return DoorKey's final lengths by reading of what the last step takes back, the paper's first, and residuals.

    Args:
        reward: ``1`` or ``decayed``: what the goal pays.

    """
    evidence, end = evidence_of("doorkey-readings"), "-decayed" if reward == "decayed" else ""
    found = {cell.name: [entry for entry in runs if entry.done] for cell, runs in evidence.cells()}
    places = [(scheme, group) for scheme in CENTRINGS for group in SETTINGS]
    rows = [["the paper", *(f"{TABLE[group][scheme][1]:g}" for scheme, group in places), *("" for _ in CENTRINGS)]]
    for reading, (words, *_) in READINGS.items():
        names = [f"{reading}-{scheme}-{group}{end}" for scheme, group in places]
        if any(found.get(name) for name in names):
            left = dict.fromkeys(CENTRINGS, 0.0)
            for name, (scheme, _) in zip(names, places, strict=True):
                left[scheme] = max([left[scheme], *(abs(e.figures["final_residual"]) for e in found.get(name, ()))])
            rows.append([words, *(_ends(found.get(name, [])) for name in names), *map(number, left.values())])
    heads = [f"{CENTRINGS[scheme][0]} {SETTINGS[group]}" for scheme, group in places]
    return table(["what the last step takes back", *heads, *(f"left of F', {x[0]}" for x in CENTRINGS.values())], rows)


def _ends(runs: list[RunEvidence]) -> str:
    """Return the mean final length over seeds, and how many solved the task."""
    if not runs:
        return NOTHING
    solved = sum(math.isfinite(entry.figures["frames_to_solve"]) for entry in runs)
    return f"{number(float(np.mean([entry.figures['final_length'] for entry in runs])))} ({solved} of {len(runs)})"


def _reading(column: str) -> tuple[str, dict[str, Verdict]]:
    """Return the label of ``LABEL=STUDY[:PREFIX]`` and its verdicts by what follows in the claim's name."""
    label, _, place = column.partition("=")
    study, _, prefix = place.partition(":")
    start = f"{study}-{prefix}-" if prefix else f"{study}-"
    found = {verdict.claim.id: verdict for verdict in evidence_of(study).verdicts}
    return label.replace("_", " "), {
        name.removeprefix(start): verdict for name, verdict in found.items() if name.startswith(start)
    }


def _of_any_reading(statement: str) -> str:
    """Return a claim's statement without the words of its own reading."""
    for words, *_ in READINGS.values():
        statement = statement.replace(f", {words}", "")
    return statement


def _marked(verdict: Verdict | None) -> str:
    return NOTHING if verdict is None else f"{MARKS[verdict.verdict][0]} {ours(verdict)}"


def _counted(verdicts: dict[str, Verdict]) -> list[str]:
    found = [verdict.verdict for verdict in verdicts.values()]
    return [str(found.count(each)) for each in (REPRODUCED, NOT_REPRODUCED, UNDECIDED)]


def figure(study: str, claim: str) -> str:
    """Return our figure of a claim, with its interval."""
    found = _reading(f"={study}")[1]
    if claim not in found:
        raise SystemExit(f"{study} has no claim {claim}")
    return ours(found[claim])


def spreads(study: str) -> str:
    """Return what the figure of the readings shows, one row per reading, the least spread first."""
    from reproduction_figures import reading_points

    rows = [
        [
            point.cell.label.removeprefix("PBIM, "),
            str(point.verdict.n[0]),
            *map(number, (point.before, point.after)),
            _marked(point.verdict),
        ]
        for point in reading_points(evidence_of(study))
    ]
    return table(["reading", "seeds", "spread of F before", "after", "return minus that of no bonus"], rows)


def ordered(study: str, encoding: str) -> str:
    """Return Spearman's rank correlation of spread and difference, over readings that share learner and input."""
    from reproduction_figures import reading_points

    points = [point for point in reading_points(evidence_of(study)) if point.cell.params.get("encoding") == encoding]
    found = spearmanr([point.spread for point in points], [point.verdict.figure for point in points])
    return f"{number(float(found.statistic))} over {len(points)} readings"


def cells(study: str, group: str, *names: str) -> str:
    """Return cells over their seeds: the mean with its interval, and how many have the figure where not all do."""
    evidence = evidence_of(study)
    printed = {} if evidence.study.paper is None else {row.cell: row for row in evidence.study.paper.rows}
    theirs = {mine: column for column, mine in PAPER.items() if printed}
    named = dict(part.partition("=")[::2] for part in group.split(",")) if "," in group else {}
    found = {cell.name: (cell, runs) for cell, runs in evidence.cells(None if named or group == "-" else group)}
    if missing := set(named) - set(found):
        raise SystemExit(f"{study} has no cell {', '.join(sorted(missing))}")
    in_order = named if all(named.values()) else [name for name in found if name in named]
    head = ["the learner gets" if named and all(named.values()) else "cell", "seeds"]
    for name in names:
        head += [f"{evidence.statistics[name].label}, paper"] * (name in theirs) + [evidence.statistics[name].label]
    rows = []
    for cell, runs in (found[name] for name in in_order) if named else found.values():
        label = named.get(cell.name, "").replace("_", " ") or (_full(evidence, cell) if group == "-" else cell.label)
        row = [label, str(sum(entry.done for entry in runs))]
        for name in names:
            if name in theirs:
                row.append(number(getattr(printed.get(cell.name), theirs[name], None)))
            row.append(mean(study, cell.name, name))
        rows.append(row)
    return table(head, rows)


def seeds(study: str, name: str) -> str:
    """Return a figure of every seed, one row per scheme and one column per group; cells without runs stay empty."""
    evidence, rows = evidence_of(study), dict[str, dict[str, str]]()
    for cell, runs in evidence.cells():
        row = rows.setdefault(cell.scheme, {"": cell.label})
        row[cell.group] = ", ".join(number(entry.figures[name]) for entry in runs if entry.done)
    groups = [group for group in evidence.groups if any(row.get(group.name) for row in rows.values())]
    body = [[row[""], *(row.get(group.name) or NOTHING for group in groups)] for row in rows.values()]
    return table(["the learner gets", *(group.label for group in groups)], body)


def alternatives(group: str) -> str:
    """Return every remedy at a setting, with what it changed beside no bonus; a sentence before it is published."""
    study, names = "alternatives", ("frames_to_solve", "final_length", "final_gap")
    if study not in published():
        return f"*Not run yet: `pbim reproduce {study}` runs it, and its rows fill this table.*"
    evidence = evidence_of(study)
    head = ["method", "seeds", *(evidence.statistics[name].label for name in names), "Gap less that of no bonus"]
    plain = _values(study, f"none-{group}", "final_gap")
    rows = [
        [
            cell.label,
            str(sum(entry.done for entry in runs)),
            *(mean(study, cell.name, name) for name in names),
            NOTHING if cell.scheme == "none" else _beside(_values(study, cell.name, "final_gap"), plain),
            *(known_figure(cell, name) for name in KNOWN),
        ]
        for cell, runs in evidence.cells(group)
    ]
    return table([*head, *(label for label, _ in KNOWN.values())], rows)


def _beside(values: np.ndarray, others: np.ndarray) -> str:
    """Return the difference of two means with its interval."""
    if min(len(values), len(others)) < 2:
        return NOTHING
    shown = number(float(values.mean() - others.mean()))
    return f"{shown} {span(*statistics.difference_interval(values, others, seed=SEED))}"


def _full(evidence: Evidence, cell: PlannedCell) -> str:
    labels = {group.name: group.label for group in evidence.groups}
    return ", ".join(filter(None, (cell.label, labels.get(cell.group, ""))))


def _values(study: str, cell: str, name: str) -> np.ndarray:
    runs = [entry for entry in evidence_of(study).runs if entry.run.cell == cell]
    if not runs:
        raise SystemExit(f"{study} has no cell {cell}")
    return np.array([entry.figures[name] for entry in runs if entry.done], np.float64)


def mean(study: str, cell: str, name: str) -> str:
    """Return a figure's mean over seeds with its interval, and over how many where some seeds have none."""
    values = _values(study, cell, name)
    finite = values[np.isfinite(values)]
    few = f" ({len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    if not len(finite):
        return f"{NOTHING}{few}"
    shown = number(float(finite.mean()))
    if len(finite) > 1:
        shown += f" {span(*statistics.interval(finite, seed=SEED))}"
    return f"{shown}{few}"


def count(study: str, cell: str, name: str) -> str:
    """Return in how many seeds a figure exists."""
    values = _values(study, cell, name)
    return f"{int(np.isfinite(values).sum())} of {plural(len(values), 'seed')}"


def extent(study: str, cell: str, name: str) -> str:
    """Return a figure's least and greatest value over seeds."""
    values = _values(study, cell, name)
    return f"{number(float(np.nanmin(values)))} to {number(float(np.nanmax(values)))}"


def tally(study: str) -> str:
    """Return the verdicts of a study, counted."""
    return ", ".join(f"{count} {word}" for word, _, count in evidence_of(study).tally)


def overview() -> str:
    """Return the verdicts of every study, counted: the paper's claims first, then our own."""
    rows = []
    for study in published():
        found = evidence_of(study)
        whose = "our own" if all(verdict.claim.paper is None for verdict in found.verdicts) else "the paper's"
        whose += ", other readings" if study.endswith("-sensitivity") else ""
        rows.append([f"`{study}`", whose, *(str(count) for _, _, count in found.tally)])
    order = ("the paper's", "the paper's, other readings", "our own")
    head = ["study", "claims", "reproduced or supported", "not", "undecided"]
    return table(head, sorted(rows, key=lambda row: order.index(row[1])), left=2)


def effort() -> str:
    """Return what every study took, and all of them: runs of several studies count once there."""
    rows = []
    for study in published():
        runs = _ended(study)
        commits = sorted({run.status.commit[:7] for run in runs if run.status.commit})
        rows.append([f"`{study}`", *_spent(runs, evidence_of(study).planned), ", ".join(commits)])
    rows.append(["all", *_spent(_ended(*published())), ""])
    return table(["study", "runs finished", "failed", "steps", "wall hours", "commit"], rows)


def spent() -> str:
    """Return what all studies took."""
    runs, _, steps, hours = _spent(_ended(*published()))
    return f"{runs} runs, {steps} steps, {hours} hours"


def _ended(*studies: str) -> Collection[Run]:
    """Return every run that finished or failed, once."""
    runs = (entry.run for study in studies for entry in evidence_of(study).runs)
    return {run.key: run for run in runs if run.state in ("done", "failed")}.values()


def _spent(runs: Collection[Run], planned: int | None = None) -> list[str]:
    """Return runs finished, failed, steps, and the hours in which any of them was at work."""
    failed = sum(run.state == "failed" for run in runs)
    done = f"{len(runs) - failed:,}" + (f" of {planned:,}" if planned else "")
    steps = sum(float(run.status.steps or 0) for run in runs)
    wall, until = 0.0, -math.inf
    for start, end in sorted(map(_span, runs)):
        wall += max(0.0, end - max(start, until))
        until = max(until, end)
    return [done, str(failed), f"{steps / 1e6:,.1f} M", f"{wall / 3600:.2f}"]


def _span(run: Run) -> tuple[float, float]:
    """Return when a run began and ended; runs that train side by side in one program have its seconds in shares."""
    end = datetime.fromisoformat(str(run.status.finished)).timestamp()
    lanes = {**run.config["defaults"], **run.config["learner"]}.get("lanes", 1)
    return end - float(run.status.seconds or 0) * lanes, end


WHAT: dict[str, Callable[..., str]] = {
    "verdicts": verdicts,
    "readings": readings,
    "tallies": tallies,
    "ours": figure,
    "spreads": spreads,
    "ordered": ordered,
    "seeds": seeds,
    "settled": settled,
    "alternatives": alternatives,
    "cells": cells,
    "effort": effort,
    "spent": spent,
    "overview": overview,
    "mean": mean,
    "range": extent,
    "count": count,
    "tally": tally,
}


def made(what: str) -> str:
    """Return the text for what a page asks for."""
    name, *arguments = what.split()
    if name not in WHAT:
        raise SystemExit(f"a page asks for {what!r}: known are {', '.join(WHAT)}")
    return WHAT[name](*arguments)


def filled(text: str) -> str:
    """Return a page with its tables and numbers made anew."""
    text = BLOCK.sub(lambda found: f"<!-- begin {found[1]} -->\n{made(found[1])}\n<!-- end -->", text)
    return VALUE.sub(lambda found: f"<!--= {found[1]} -->{made(found[1])}<!--/-->", text)


def main() -> int:
    """Write everything again, or only say what would change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is not true")
    parser.add_argument("--pages", action="store_true", help="only the pages, not the studies' reports and figures")
    arguments = parser.parse_args()
    stale = [page for page in PAGES if page.exists() and filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{'stale' if arguments.check else 'filled'}: {page.relative_to(ROOT)}")
        if not arguments.check:
            page.write_text(filled(page.read_text()))
    if arguments.check:
        return int(bool(stale))
    if not arguments.pages:
        for study in published():
            print(f"written: {write(evidence_of(study), RESULTS / study)[0].relative_to(ROOT)}")
        from reproduction_figures import draw_all

        for file in draw_all(evidence_of, RESULTS / "figures"):
            print(f"written: {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
