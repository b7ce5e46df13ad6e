"""Which common mistake explains a term that is not potential-based: ends that keep a potential, a forgotten gamma."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pbim.verification._graph import NONE, Graph, Ways, ways as ways_of
from pbim.verification._potential import Fit, System, fit

COMMON = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.997, 0.998, 0.999, 0.9995, 0.9999)
"""Discounts that people use."""
ROUNDS, CLOSE, ENOUGH = 40, 1e-6, 20_000
"""How often the search for another discount narrows, what may then be left unexplained, relative to the term, and with
how many transitions it searches."""


@dataclass(frozen=True)
class Mistake:
    """A mistake by its ``code`` and its ``name``, with the potential at each end where that is the mistake."""

    code: str
    name: str
    ends: Mapping[Hashable, float] = field(default_factory=dict)


def mistake(
    graph: Graph,
    ways: Ways,
    gamma: float,
    *,
    rounding: float,
    noise: float,
    label: Callable[[int], Hashable],
) -> Mistake | None:
    """Return the mistake that explains every transition of a term which no potential explains, if there is one."""

    def explains(other: Graph, on: Ways, discount: float) -> Fit | None:
        found = fit(other, on, discount, rounding=rounding, noise=noise)
        return found if found.holds and found.checks(other) else None  # what nothing tests explains nothing

    forgotten = f"gamma is forgotten: Phi(s') - Phi(s) explains every transition, {gamma:g} Phi(s') - Phi(s) does not"
    if gamma < 1 and explains(graph, ways, 1.0):
        return Mistake("gamma-forgotten", forgotten)
    endless = graph.endless() if graph.ends.any() else None
    on = ways if endless is None else ways_of(endless)
    if endless is not None and (found := explains(endless, on, gamma)):
        return Mistake("ends-not-zero", "The potential is not zero at the end", _ends(graph, found, label))
    if endless is not None and gamma < 1 and (found := explains(endless, on, 1.0)):
        ends = _ends(graph, found, label)
        return Mistake("gamma-forgotten", f"{forgotten}, and it is not zero at the end", ends)
    other = _other_gamma(graph, ways, gamma) if len(graph.pay) > int(graph.live.sum()) + 1 else None
    if other is not None:
        name = f"gamma is another: {other:.6g} Phi(s') - Phi(s) explains every transition, {gamma:g} does not"
        return Mistake("other-gamma", name)
    return None


def _ends(graph: Graph, found: Fit, label: Callable[[int], Hashable]) -> dict[Hashable, float]:
    """Return the potential at each end that has one, the largest first."""
    states = np.unique(graph.target[graph.ends])
    states = states[np.argsort(-np.abs(found.value[states]), kind="stable")]
    scale = max(float(np.abs(found.value).max()), float(np.abs(graph.pay).max()))
    return {
        label(int(state)): -float(found.value[state]) for state in states if abs(found.value[state]) > CLOSE * scale
    }


def _other_gamma(graph: Graph, ways: Ways, gamma: float) -> float | None:
    """Return a discount other than ``gamma`` with which a potential explains every transition, if one is found."""
    close = CLOSE * float(np.abs(graph.pay).max())
    few, on = _part(graph, ways)

    def left(discount: float, part: Graph = few, along: Ways = on) -> float:
        residual = System(part, along, discount).solve(part.pay)[1]
        return float(np.abs(residual).max(initial=0.0))

    tried = [discount for discount in COMMON if discount != gamma]
    rests = [left(discount) for discount in tried]
    best = int(np.argmin(rests))
    found = tried[best]
    if rests[best] > close:  # near the discount where all residuals vanish the largest one falls and rises again
        low, high = (tried[at] if 0 <= at < len(tried) else edge for at, edge in ((best - 1, 0.01), (best + 1, 1.0)))
        found = _golden(left, low, high)
    if abs(found - gamma) <= CLOSE or left(found) > close:
        return None
    return found if left(found, graph, ways) <= close else None


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that falls and then rises is least, by the golden section."""
    share = (5**0.5 - 1) / 2
    inner = [high - share * (high - low), low + share * (high - low)]
    values = [function(place) for place in inner]
    for _ in range(ROUNDS):
        if values[0] < values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - share * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + share * (high - low)
            values[1] = function(inner[1])
    return (low + high) / 2


def _part(graph: Graph, ways: Ways) -> tuple[Graph, Ways]:
    """Return the transitions of all ways and some of the others: enough to refuse a discount by."""
    kept = np.zeros(len(graph.pay), dtype=bool)
    kept[np.random.default_rng(0).permutation(len(graph.pay))[:ENOUGH]] = True
    for column in (ways.edge, ways.closing):
        kept[column[column != NONE]] = True
    number = np.where(kept, np.cumsum(kept) - 1, NONE)
    columns = ("source", "target", "ends", "pay", "spread", "lowest", "highest")
    part = replace(graph, **{name: getattr(graph, name)[kept] for name in columns})
    edge, closing = (np.where(column == NONE, NONE, number[column]) for column in (ways.edge, ways.closing))
    return part, Ways(edge, closing)
