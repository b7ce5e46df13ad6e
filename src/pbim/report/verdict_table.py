"""The verdict table: each claim with the paper's figure, ours, the test, the rule and a picture of the interval."""

import math
from collections.abc import Mapping
from typing import Any

from pbim.report.claims import COMPARED, LEAST, NOT_REPRODUCED, REPRODUCED, SHARES, TESTED, UNDECIDED, Verdict
from pbim.report.evidence import Evidence
from pbim.report.markup import NOTHING, Html, join, number, plural, pvalue, span, table, tag
from pbim.results import Claim, PlannedCell

MARKS = {REPRODUCED: ("✓", "yes"), NOT_REPRODUCED: ("✗", "no"), UNDECIDED: ("?", "open")}
"""The verdicts: a mark for those who do not see the colour, and the colour's class."""
_WIDTH, _HEIGHT = 150, 26


def verdict_table(evidence: Evidence) -> Html:
    """Return every claim of the study, decided."""
    labels = {cell.name: _name(cell, evidence) for cell in evidence.study.cells}
    of_paper = any(verdict.claim.paper is not None for verdict in evidence.verdicts)  # a user's own claims have none
    rows = [
        (
            tag("td", badge(verdict), class_="verdict"),
            tag("td", *_statement(verdict), class_="claim", id=f"claim-{verdict.claim.id}"),
            *([tag("td", paper(verdict), class_="paper", data_label="Paper")] if of_paper else []),
            tag("td", *_ours(verdict, labels), class_="ours", data_label="Ours"),
            tag("td", *_support(verdict), class_="support", data_label="Evidence"),
        )
        for verdict in evidence.verdicts
    ]
    figures = ("Paper", "Ours, with 95% interval") if of_paper else ("With 95% interval",)
    head = ("Verdict", "Claim", *figures, "Evidence")
    return table(head, rows, caption="Claims, each decided by its own rule", class_="verdicts")


def _name(cell: PlannedCell, evidence: Evidence) -> str:
    where = evidence.setting(cell)
    return f"{cell.label} ({where})" if where else cell.label


def badge(verdict: Verdict) -> Html:
    """Return the verdict as a mark and a word."""
    mark, class_ = MARKS[verdict.verdict]
    smoke = tag("span", "smoke size", class_="smoke") if verdict.smoke else None
    return join((tag("span", tag("b", mark, aria_hidden="true"), f" {verdict.word}", class_=f"badge {class_}"), smoke))


def _statement(verdict: Verdict) -> tuple[Any, ...]:
    claim = verdict.claim
    return (
        tag("strong", claim.statement),
        tag("span", claim.source, class_="source") if claim.source else None,
        tag("details", tag("summary", "Rule"), claim.rule, class_="rule") if claim.rule else None,
    )


def ours(verdict: Verdict) -> str:
    """Return our figure with its interval as text: a share of seeds, a difference of means or a mean."""
    if not math.isfinite(verdict.figure):
        return " against ".join(map(_one, verdict.means, verdict.n, verdict.finished))
    if verdict.claim.kind in SHARES:
        hits = round(verdict.figure * verdict.n[0])
        ends = " to ".join(f"{100 * end:.0f}%" for end in verdict.interval)
        return f"{hits} of {plural(verdict.n[0], 'seed')} ({ends})"
    return f"{number(verdict.figure)} {span(*verdict.interval)}"


def _one(mean: float, n: int, finished: int) -> str:
    if math.isfinite(mean):
        return number(mean)
    return f"{n} of {plural(finished, 'seed')}" if finished else NOTHING


def paper(verdict: Verdict) -> str:
    """Return what the paper says."""
    return "not in the paper" if verdict.claim.paper is None else str(verdict.claim.paper)


def row(verdict: Verdict) -> dict[str, Any]:
    """Return a decided claim as one flat row: for a terminal, or as JSON."""
    found = verdict.to_dict()
    return {**found.pop("claim"), **found, "word": verdict.word, "ours": ours(verdict)}


def _ours(verdict: Verdict, labels: Mapping[str, str]) -> tuple[Any, ...]:
    if not math.isfinite(verdict.figure) or verdict.claim.kind not in COMPARED:
        return (ours(verdict), forest(verdict))
    pair = [labels.get(name or "", name or "") for name in (verdict.claim.cell, verdict.claim.other)]
    means = " against ".join(f"{number(mean)} ({name})" for mean, name in zip(verdict.means, pair, strict=True))
    return (ours(verdict), forest(verdict), tag("small", f"difference: {means}"))


def _support(verdict: Verdict) -> tuple[Any, ...]:
    kind = verdict.claim.kind
    counts = " and ".join(map(str, dict.fromkeys(verdict.n))) or "0"
    lines = [f"n = {counts} {'per cell' if len(verdict.n) == 2 and len(set(verdict.n)) == 1 else ''}".strip()]
    if kind in TESTED and math.isfinite(verdict.corrected):
        lines += [f"Welch p {_is(verdict.p)}", f"Holm p {_is(verdict.corrected)}"]
    elif kind in COMPARED and math.isfinite(verdict.p):
        lines.append(f"Welch p {_is(verdict.p)}")
    if math.isfinite(verdict.permutation):
        lines.append(f"permutation p {_is(verdict.permutation)}")
        lines.append(f"greater in {100 * verdict.improvement:.0f}% of seed pairs")
    lines.append(needed(verdict))
    return tuple(tag("span", line, class_="line") for line in (*lines, verdict.note) if line)


def _is(value: float) -> str:
    shown = pvalue(value)
    return shown if shown.startswith("<") else f"= {shown}"


def needed(verdict: Verdict) -> str:
    """Return how many seeds would decide what is undecided; nothing where it is decided, or too early to say."""
    if verdict.verdict != UNDECIDED or min(verdict.finished, default=0) < LEAST:
        return ""
    if verdict.seeds is None:
        return "no number of seeds would decide at this difference"
    return f"about {verdict.seeds:,} seeds per cell would decide"


def forest(verdict: Verdict) -> Html | None:
    """Return the interval as a small picture: our figure, its interval, what it is held against and the margin."""
    claim = verdict.claim
    target, margin = _target(claim), claim.margin or 0.0
    marks = [*verdict.interval, verdict.figure, target - margin, target + margin]
    if claim.kind in SHARES:
        marks = [0.0, 1.0]
    low, high = min(marks), max(marks)
    if not all(map(math.isfinite, (low, high, verdict.figure))) or low == high:
        return None

    def x(value: float) -> float:
        return round(8 + (_WIDTH - 16) * (value - low) / (high - low), 1)

    left, right, middle = x(verdict.interval.low), x(verdict.interval.high), _HEIGHT / 2
    zone = {"x": x(target - margin), "width": round(x(target + margin) - x(target - margin), 1)}
    return tag(
        "svg",
        tag("rect", class_="zone", y=4, height=18, **zone) if margin and claim.kind not in SHARES else None,
        tag("line", class_="target", x1=x(target), x2=x(target), y1=2, y2=_HEIGHT - 2),
        tag("line", class_="range", x1=left, x2=right, y1=middle, y2=middle),
        tag("circle", class_="point", cx=x(verdict.figure), cy=middle, r=4),
        class_=f"forest {MARKS[verdict.verdict][1]}",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        role="img",
        aria_label=f"{number(verdict.figure)}, interval {span(*verdict.interval)}, held against {number(target)}",
    )


def _target(claim: Claim) -> float:
    if claim.kind in SHARES:
        return 0.5
    return float(claim.value or 0) if claim.kind == "estimate" else 0.0
