"""The graph of a log: its distinct transitions, and from every state one way on through them.

The ways are chosen so that they can be computed along and told: where a state can reach an end, the shortest way there;
where it cannot but can go on for ever, a way into a short cycle; else the shortest way to where the log stops.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pbim.verification._log import States

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NONE = -1


@dataclass(frozen=True)
class Graph:
    """Distinct transitions (s, s', terminated), (E,) each, sorted by (s, s', terminated).

    ``pay`` is the mean pay of a transition, ``spread`` how far its rows differ, ``lowest`` and ``highest`` the rows of
    the least and the largest pay. ``states`` counts the states; some of them are only ever arrived at.
    """

    source: Ints
    target: Ints
    ends: NDArray[np.bool_]
    pay: Floats
    spread: Floats
    lowest: Ints
    highest: Ints
    states: int

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Return which states have a potential to find: all but those where every arrival ends the episode."""
        found = np.zeros(self.states, dtype=bool)
        found[self.source] = True
        found[self.target[~self.ends]] = True
        return found

    @cached_property
    def codes(self) -> Ints:
        """Return one ascending number per transition, to look transitions up."""
        return code(self.source, self.target, self.ends, self.states)

    def find(self, source: Ints, target: Ints) -> Ints:
        """Return the numbers of the transitions from ``source`` to ``target`` that end nothing; -1 for none."""
        wanted = code(source, target, np.zeros(len(source), dtype=bool), self.states)
        place = np.minimum(np.searchsorted(self.codes, wanted), len(self.codes) - 1)
        return np.where(self.codes[place] == wanted, place, NONE)

    def endless(self) -> "Graph":
        """Return the same transitions as if none ended: every end then has a potential of its own."""
        return replace(self, ends=np.zeros_like(self.ends))

    @cached_property
    def component(self) -> Ints:
        """Return for every state the first state that transitions connect it to, in either direction, (S,)."""
        label = np.arange(self.states)
        while True:
            low = np.minimum(label[self.source], label[self.target])
            new = label.copy()
            for side in (label[self.source], label[self.target]):
                np.minimum.at(new, side, low)
            new = new[new]
            if np.array_equal(new, label):
                return label
            label = new

    def component_max(self, size: Floats) -> Floats:
        """Return for every transition the largest of some sizes of transitions (E,) in its component."""
        largest = np.zeros(self.states)
        np.maximum.at(largest, self.component[self.source], size)
        return largest[self.component[self.source]]


@dataclass(frozen=True)
class Ways:
    """One way on from every state: ``edge`` (S,) is the transition it takes.

    It is -1 at roots, the states whose value is unknown at first: where the log stops, and one state of every cycle
    that ways run into. ``closing`` (S,) is the transition by which such a cycle's root goes on, else -1.
    """

    edge: Ints
    closing: Ints


def code(source: Ints, target: Ints, ends: NDArray[np.bool_], states: int) -> Ints:
    """Return one number per transition."""
    return (source * states + target) * 2 + ends


def build(states: States, ends: NDArray[np.bool_], term: Floats) -> Graph:
    """Return the graph of a log's rows."""
    codes = code(states.source, states.target, ends, states.count)
    order = np.lexsort((term, codes))
    codes, pays = codes[order], term[order]
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    last = np.append(first[1:], len(codes)) - 1
    distinct = codes[first]
    return Graph(
        source=distinct // 2 // states.count,
        target=distinct // 2 % states.count,
        ends=distinct % 2 == 1,
        pay=np.add.reduceat(pays, first) / (last + 1 - first),
        spread=pays[last] - pays[first],
        lowest=order[first],
        highest=order[last],
        states=states.count,
    )


def ways(graph: Graph) -> Ways:
    """Return one way on from every state, in time that grows with the number of transitions."""
    into = _Arrivals(graph)
    ending = np.flatnonzero(graph.ends)[::-1]
    last = np.full(graph.states, NONE)
    last[graph.source[ending]] = ending
    edge: list[int] = last.tolist()
    closed = bytearray((last != NONE) | ~graph.live)  # one byte per state, which NumPy sees too
    into.spread(np.flatnonzero(last != NONE).tolist(), edge, closed)
    stops, stopping = _stopping(graph, into, _mask(closed))
    apart = bytearray(~stopping)
    for state in stops:
        apart[state] = True
    into.spread(stops, edge, apart)
    closed = bytearray(_mask(closed) | stopping)
    closing = _close_cycles(graph, into, edge, closed)
    return Ways(np.array(edge, dtype=np.int64), closing)


def _mask(flags: bytearray) -> NDArray[np.bool_]:
    return np.frombuffer(flags, dtype=bool)


class _Arrivals:
    """For every state the transitions that arrive there and go on."""

    def __init__(self, graph: Graph) -> None:
        going = np.flatnonzero(~graph.ends)
        order = going[np.argsort(graph.target[going], kind="stable")]
        self.first: list[int] = np.searchsorted(graph.target[order], np.arange(graph.states + 1)).tolist()
        self.edges: list[int] = order.tolist()
        self.sources: list[int] = graph.source[order].tolist()

    def spread(self, start: list[int], edge: list[int], closed: bytearray) -> list[int]:
        """Give every state that can reach ``start`` and is not closed the transition of a shortest way there."""
        first, edges, sources = self.first, self.edges, self.sources
        reached = list(start)
        for state in reached:  # grows while it is walked through: breadth first
            for place in range(first[state], first[state + 1]):
                source = sources[place]
                if not closed[source]:
                    closed[source] = True
                    edge[source] = edges[place]
                    reached.append(source)
        return reached


def _stopping(graph: Graph, into: _Arrivals, done: NDArray[np.bool_]) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the states where the log stops, and those from which every way leads there: no end, no cycle ahead."""
    left = np.bincount(graph.source, minlength=graph.states)
    stops: list[int] = np.flatnonzero((left == 0) & ~done).tolist()
    ahead: list[int] = left.tolist()
    queue = list(stops)
    for state in queue:
        for place in range(into.first[state], into.first[state + 1]):
            source = into.sources[place]
            ahead[source] -= 1
            if ahead[source] == 0:
                queue.append(source)
    found = np.zeros(graph.states, dtype=bool)
    found[queue] = True
    return stops, found & ~done


def _close_cycles(graph: Graph, into: _Arrivals, edge: list[int], closed: bytearray) -> Ints:
    """Give the states that are left, all of which can go on for ever, ways into cycles; return what closes these."""
    closing = np.full(graph.states, NONE)
    done = _mask(closed)
    inside = np.flatnonzero(~done[graph.source] & ~done[graph.target] & ~graph.ends)
    following = np.full(graph.states, NONE)
    following[graph.source[inside[::-1]]] = graph.target[inside[::-1]]
    loops = inside[graph.source[inside] == graph.target[inside]]
    following[graph.source[loops]] = graph.target[loops]
    ahead: list[int] = following.tolist()
    for start in np.flatnonzero(~done).tolist():
        if closed[start]:
            continue
        root, passed = start, set[int]()
        while root not in passed:  # whoever could reach an earlier root is closed, so this finds a cycle
            passed.add(root)
            root = ahead[root]
        closed[root] = True
        depth = {state: place for place, state in enumerate(into.spread([root], edge, closed))}
        out = range(*np.searchsorted(graph.source, (root, root + 1)).tolist())
        closing[root] = min(out, key=lambda number: depth.get(int(graph.target[number]), graph.states))
    return closing
