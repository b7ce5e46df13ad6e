"""The page: one HTML file with everything in it, put together from a template, a style sheet, a script and the data."""

import base64
import io
import json
import math
from dataclasses import asdict
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.report import tables
from pbim.report.answer import answer
from pbim.report.evidence import Evidence, RunEvidence
from pbim.report.heat import heat_maps, heat_table
from pbim.report.markup import Html, join, number, plural, tag
from pbim.report.verdict_table import MARKS, verdict_table
from pbim.results import Column

GIFS = 2_500_000
"""Most bytes of replays in a page; what does not fit is named."""


def render(evidence: Evidence) -> str:
    """Return the page."""
    study = evidence.study
    checked = any(entry.certificate for entry in evidence.runs)
    certificates = tables.certificate_table(evidence) if checked else None  # foreign logs have none
    sections = [
        _section("verdicts", "Verdicts", verdict_table(evidence) if evidence.verdicts else None),
        _section("curves", "Learning curves", tag("div", id="charts")),
        _section("cells", _table_title(evidence), tables.cell_table(evidence)),
        _section("policies", "What the agents learnt", tag("div", id="maps") if study.grid else None),
        _section("replays", "Agents at work", _replays(evidence)),
        _section("certificates", "Did the shaping reward cancel?", certificates),
        _section("sensitivity", "What the paper leaves open", _heat(evidence)),
        _section("runs", "Every run", join((tables.csv_link(evidence), tables.run_table(evidence)))),
        _section("provenance", "The same numbers again", tables.provenance(evidence)),
    ]
    shown = [(name, html) for name, html in sections if html]
    links = join(tag("a", name.capitalize(), href=f"#{name}") for name, _ in shown)
    here = files("pbim.report")
    found = answer(evidence.verdicts, {cell.name: tables.full_label(evidence, cell) for cell, _ in evidence.cells()})
    return Template(here.joinpath("page.html").read_text("utf-8")).substitute(
        title=join((study.title,)),
        summary=join((" ".join(filter(None, (found and evidence.headline, study.summary))),)),
        headline=join((found or evidence.headline,)),
        tiles=_tiles(evidence),
        banner=_banner(evidence),
        links=links,
        sections=join(html for _, html in shown),
        style=here.joinpath("page.css").read_text("utf-8"),
        script=here.joinpath("page.js").read_text("utf-8"),
        data=json.dumps(_data(evidence), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )


def _section(name: str, title: str, content: Html | None) -> tuple[str, Html | None]:
    return name, content and tag("section", tag("h2", title), content, id=name)


def _table_title(evidence: Evidence) -> str:
    return "The paper's table beside ours" if evidence.study.paper else "Every cell"


def _tiles(evidence: Evidence) -> Html:
    """Return the figures that a reader takes away."""
    tiles = [(str(count), word, MARKS[name][1]) for word, name, count in evidence.tally if evidence.verdicts]
    tiles.append((f"{evidence.done} / {evidence.planned}", "runs finished", ""))
    exact = {cell.name for cell, _ in evidence.cells() if cell.exact}
    found = {entry.run.key: entry.certificate for entry in evidence.runs if entry.run.cell in exact}
    checked = [certificate for certificate in found.values() if certificate]
    if checked:
        worst = number(max(c.residual for c in checked), 2)
        tiles.append(
            (worst, f"worst residual in {sum(c.episodes for c in checked):,} episodes of exact conversions", "")
        )
    items = (tag("li", tag("b", figure), tag("span", text), class_=class_ or None) for figure, text, class_ in tiles)
    return tag("ul", *items, class_="tiles")


def _banner(evidence: Evidence) -> Html:
    notes = []
    if evidence.study.quick:
        notes.append("Smoke size: far fewer seeds or steps than the study needs. No verdict here means anything yet.")
    failed = len({entry.run.key for entry in evidence.runs if entry.run.state == "failed"})
    left = evidence.planned - evidence.done - failed
    if failed:
        notes.append(f"{plural(failed, 'run')} failed; see Every run.")
    if left:
        notes.append(f"{plural(left, 'run')} not finished: {evidence.study.command} continues.")
    return join(tag("p", note, class_="banner", role="note") for note in notes)


def _heat(evidence: Evidence) -> Html | None:
    tables = [heat_table(heat, evidence.statistics[heat.plan.statistic].label) for heat in heat_maps(evidence)]
    return tag("div", *tables, class_="grid") if tables else None


def _replays(evidence: Evidence) -> Html | None:
    """Return the stored pictures of agents, still until they are played."""
    cards, left, size = [], 0, 0
    for cell, runs in evidence.cells():
        for entry in runs:
            if entry.replay is None:
                continue
            picture = entry.replay.read_bytes()
            if size + len(picture) > GIFS:
                left += 1
                continue
            size += len(picture)
            cards.append(_replay(f"{tables.full_label(evidence, cell)}, seed {entry.run.seed}", picture))
    if not cards:
        return None
    note = tag("p", f"{plural(left, 'more replay')} in the results folder: they would make this page large.")
    return join((tag("div", *cards, class_="grid"), note if left else None))


def _replay(caption: str, picture: bytes) -> Html:
    from PIL import Image

    still = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as gif:
        gif.convert("RGB").save(still, "PNG")
    first, moving = (base64.b64encode(data).decode() for data in (still.getvalue(), picture))
    image = (
        f'<img alt="{join((caption,))}" src="data:image/png;base64,{first}" data-gif="data:image/gif;base64,{moving}">'
    )
    button = tag("button", "Play", type="button", class_="play", aria_pressed="false")
    return tag("figure", Html(image), tag("figcaption", tag("strong", caption), button), class_="card replay")


def _data(evidence: Evidence) -> dict[str, Any]:
    """Return what the page's script draws: every seed's curve, and every seed's policy on a grid."""
    study = evidence.study
    return {
        "x": {"label": study.x.label, "values": _rounded(evidence.axis.middles)},
        "groups": [
            {"label": group.label, "charts": [_chart(evidence, group.name, curve) for curve in study.curves]}
            for group in evidence.groups
        ],
        "grid": study.grid and asdict(study.grid),
        "maps": [
            {"label": tables.full_label(evidence, cell), "runs": [_policy(entry) for entry in runs if entry.done]}
            for cell, runs in evidence.cells()
            if study.grid and any(entry.done for entry in runs)
        ],
    }


def _chart(evidence: Evidence, group: str, curve: Column) -> dict[str, Any]:
    series = [
        {
            "label": cell.label,
            "colour": evidence.colour(cell.label),
            "seeds": [entry.run.seed for entry in runs if entry.done],
            "values": [_rounded(entry.curves[curve.metric]) for entry in runs if entry.done],
        }
        for cell, runs in evidence.cells(group)
        if any(entry.done for entry in runs)
    ]
    return {"metric": curve.metric, "label": curve.label, "better": curve.better, "series": series}


def _policy(entry: RunEvidence) -> dict[str, Any]:
    """Return a seed's greedy policy: value and best actions (as bits) of every state it has been in, and its path."""
    q = entry.arrays["q"].astype(float)
    best = q.max(axis=1, keepdims=True)
    tied = q >= best - 1e-9 * (1 + abs(best))
    visited = entry.arrays["visits"].sum(axis=1) > 0
    return {
        "seed": entry.run.seed,
        "values": _rounded(np.where(visited, best[:, 0], np.nan)),
        "moves": (tied * 2 ** np.arange(q.shape[1])).sum(axis=1).tolist(),
        "path": entry.arrays["path"].tolist(),
    }


def _rounded(values: NDArray[Any]) -> list[float | None]:
    """Return numbers with four digits, which is what a picture shows; None for NaN."""
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]
