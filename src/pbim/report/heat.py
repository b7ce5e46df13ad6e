"""Sensitivity maps: a statistic's mean over seeds at each pair of values that the paper leaves open."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbim.report.evidence import Evidence
from pbim.report.markup import NOTHING, Html, join, number, tag
from pbim.results import HeatPlan

_STOPS = ((0, 34, 78), (58, 76, 107), (112, 113, 115), (167, 156, 118), (228, 205, 112), (255, 234, 70))
"""Six colours of cividis, dark to bright: the same order to every eye, and in grey."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """A map as numbers: ``means`` and ``counts`` by (y, x), NaN where no run has finished.

    ``bounds`` are the ends of the colours: the smallest and greatest mean of all the study's maps of this statistic,
    so that the same colour means the same everywhere.
    """

    plan: HeatPlan
    xs: list[Any]
    ys: list[Any]
    means: Mapping[tuple[Any, Any], float]
    counts: Mapping[tuple[Any, Any], int]
    bounds: tuple[float, float] = (math.nan, math.nan)


def heat_maps(evidence: Evidence) -> list[HeatMap]:
    """Return the study's maps."""
    cells = {cell.name: (cell, runs) for cell, runs in evidence.cells()}
    maps = []
    for heat in evidence.study.heat or []:
        found: dict[tuple[Any, Any], list[float]] = {}
        for name in heat.cells:
            cell, runs = cells[name]
            where = (cell.params.get(heat.y), cell.params.get(heat.x))
            values = [entry.figures[heat.statistic] for entry in runs if entry.done]
            found.setdefault(where, []).extend(value for value in values if math.isfinite(value))
        means = {where: float(np.mean(values)) if values else math.nan for where, values in found.items()}
        counts = {where: len(values) for where, values in found.items()}
        xs, ys = _ordered([x for _, x in found]), _ordered([y for y, _ in found])
        maps.append(HeatMap(plan=heat, xs=xs, ys=ys, means=means, counts=counts))
    return [replace(heat, bounds=_bounds(maps, heat.plan.statistic)) for heat in maps]


def _bounds(maps: list[HeatMap], statistic: str) -> tuple[float, float]:
    means = [mean for heat in maps if heat.plan.statistic == statistic for mean in heat.means.values()]
    finite = list(filter(math.isfinite, means))
    return (min(finite), max(finite)) if finite else (math.nan, math.nan)


def _ordered(values: list[Any]) -> list[Any]:
    """Return different values: numbers by size, anything else in the study's order."""
    unique = list(dict.fromkeys(values))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in unique)
    return sorted(unique) if numeric else unique


def heat_table(heat: HeatMap, label: str) -> Html:
    """Return a map as a table with coloured cells: it can be read aloud, copied and printed."""
    low, high = heat.bounds
    head = tag(
        "tr",
        tag("th", f"{_words(heat.plan.y)} ↓ · {_words(heat.plan.x)} →"),
        *(tag("th", _value(x), scope="col") for x in heat.xs),
    )
    rows = [
        tag("tr", tag("th", _value(y), scope="row"), *(_cell(heat, y, x, low, high) for x in heat.xs)) for y in heat.ys
    ]
    return tag(
        "figure",
        tag("figcaption", tag("strong", heat.plan.title), f" {label}, mean over seeds"),
        tag(
            "div",
            tag("table", tag("thead", head), tag("tbody", *rows), class_="heat"),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label=heat.plan.title,
        ),
        class_="card",
    )


def _cell(heat: HeatMap, y: Any, x: Any, low: float, high: float) -> Html:
    mean = heat.means.get((y, x), math.nan)
    if not math.isfinite(mean):
        return tag("td", NOTHING)
    share = 0.5 if high == low else (mean - low) / (high - low)
    red, green, blue = colour(share)
    ink = "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#fff"
    style = f"background: rgb({red} {green} {blue}); color: {ink}"
    return tag("td", join((number(mean), tag("small", f"n = {heat.counts[(y, x)]}"))), style=style)


def colour(share: float) -> tuple[int, int, int]:
    """Return the colour of a share in [0, 1].

    >>> colour(0.0), colour(1.0)
    ((0, 34, 78), (255, 234, 70))
    """
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    part = place - index
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(_STOPS[index], _STOPS[index + 1], strict=True))
    return red, green, blue


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any) -> str:
    return NOTHING if value is None else f"{value:g}" if isinstance(value, float) else str(value)
