"""Search a log for what shows best that no potential explains its term."""

from collections.abc import Callable, Hashable

import numpy as np

from pbim.verification._graph import NONE, Floats, Graph, Ways
from pbim.verification._potential import Fit
from pbim.verification.witness import Step, Way, Witness

TRIED, LOOKED_AT = 64, 50_000
"""So many of the worst transitions are searched for cycles, and so many transitions are looked at for each."""


class Search:
    """A graph, one way on from every state, and a potential that does not explain every transition."""

    def __init__(self, graph: Graph, ways: Ways, fit: Fit, label: Callable[[int], Hashable]) -> None:
        self.graph, self.ways, self.fit, self.label, self.gamma = graph, ways, fit, label, fit.gamma
        self.broken = fit.broken

    def witness(self) -> Witness:
        """Return the shortest cycle found that pays, else one that costs, in each round; else two ways on."""
        short = [*self._loops(), *self._there_and_back()]
        paying = [cycle for cycle in short if self._extra(cycle) > 0 and self.graph.pay[cycle].sum() > 0]
        cycle = next(iter([*paying, *short]), None) or self._longer()
        return self._two_ways() if cycle is None else self._of_cycle(cycle)

    # --- cycles: around one, the discounted residuals are what a round pays too much ---

    def _extra(self, cycle: list[int]) -> float:
        return sum(self.gamma**step * float(self.fit.residual[number]) for step, number in enumerate(cycle))

    def _loops(self) -> list[list[int]]:
        """Return the transition from a state to itself that pays most too much, and the one most too little."""
        graph = self.graph
        loops = self.broken[(graph.source == graph.target)[self.broken] & ~graph.ends[self.broken]]
        return [[int(loops[place])] for place in _extremes(self.fit.residual[loops])]

    def _there_and_back(self) -> list[list[int]]:
        """Return the same of pairs of transitions that lead to a state and back."""
        graph, residual, bound = self.graph, self.fit.residual, self.fit.bound
        there = self.broken[~graph.ends[self.broken]]
        back = graph.find(graph.target[there], graph.source[there])
        there, back = there[back != NONE], back[back != NONE]
        extra = residual[there] + self.gamma * residual[back]
        kept = np.abs(extra) > bound[there] + bound[back]
        there, back = there[kept], back[kept]
        return [[int(there[place]), int(back[place])] for place in _extremes(extra[kept])]

    def _longer(self) -> list[int] | None:
        graph, best = self.graph, None
        first: list[int] = np.searchsorted(graph.source, np.arange(graph.states + 1)).tolist()
        for edge in self.broken[~graph.ends[self.broken]][:TRIED].tolist():
            found = self._back(edge, first, graph.states + 1 if best is None else len(best))
            if found is not None and abs(self._extra(found)) > self.fit.bound[found].sum():
                best = found
        return best

    def _back(self, edge: int, first: list[int], shorter_than: int) -> list[int] | None:
        """Return the shortest cycle through a transition that has fewer transitions than that, if any."""
        graph, goal = self.graph, int(self.graph.source[edge])
        start = int(graph.target[edge])
        came: dict[int, int] = {start: edge}
        layer, length, looked = [start], 1, 0
        while layer and length + 1 < shorter_than and looked < LOOKED_AT:
            length, following = length + 1, list[int]()
            for state in layer:
                part = slice(first[state], first[state + 1])
                looked += part.stop - part.start
                targets = zip(range(part.start, part.stop), graph.target[part].tolist(), strict=True)
                for number, target in targets:
                    if graph.ends[number] or target in came:
                        continue
                    came[target] = number
                    if target == goal:
                        return self._trace(came, edge, goal)
                    following.append(target)
            layer = following
        return None

    def _trace(self, came: dict[int, int], edge: int, goal: int) -> list[int]:
        cycle, state = list[int](), goal
        while not cycle or cycle[-1] != edge:
            cycle.append(came[state])
            state = int(self.graph.source[cycle[-1]])
        return cycle[::-1]

    def _of_cycle(self, cycle: list[int]) -> Witness:
        pays = sum(self.gamma**step * float(self.graph.pay[number]) for step, number in enumerate(cycle))
        forever = pays / (1 - self.gamma ** len(cycle)) if self.gamma < 1 else pays
        start = self.label(int(self.graph.source[cycle[0]]))
        way = Way(start=start, steps=self._steps(cycle), repeats=0, total=forever)
        onward, repeats = self._onward(int(self.graph.source[cycle[0]]))
        whole = bool(onward) and (repeats is not None or bool(self.graph.ends[onward[-1]]))
        instead = self._way(int(self.graph.source[cycle[0]]), onward, repeats) if whole else None
        return Witness(kind="cycle", way=way, instead=instead, difference=self._extra(cycle), gamma=self.gamma)

    # --- two ways ---

    def _two_ways(self) -> Witness:
        candidates = (self._pair_of_ways(edge) for edge in self.broken[:TRIED].tolist())
        one, other, edge, is_open = min(candidates, key=lambda found: (found[3], len(found[0][0]) + len(found[1][0])))
        start = int(self.graph.source[edge])
        return Witness(
            kind="open ways" if is_open else "ways",
            way=self._way(start, *one),
            instead=self._way(start, *other),
            difference=float(self.fit.residual[edge]),
            gamma=self.gamma,
        )

    def _pair_of_ways(self, edge: int) -> tuple[tuple[list[int], int | None], tuple[list[int], int | None], int, bool]:
        """Return the way through a transition and the way without it, cut where they go on alike, and whether open."""
        graph = self.graph
        source = int(graph.source[edge])
        other, other_repeats = self._onward(source)
        one, repeats = ([edge], None) if graph.ends[edge] else self._onward(int(graph.target[edge]))
        if not graph.ends[edge]:
            one, repeats = [edge, *one], None if repeats is None else repeats + 1
        cut = next((at for at, pair in enumerate(zip(one, other, strict=False)) if _meet(graph, *pair)), None)
        if cut is not None:
            return (one[: cut + 1], None), (other[: cut + 1], None), edge, False
        whole = [
            again is not None or bool(way and graph.ends[way[-1]])
            for way, again in ((one, repeats), (other, other_repeats))
        ]
        joined = self.gamma == 1 and bool(one and other) and _meet(graph, one[-1], other[-1])
        return (one, repeats), (other, other_repeats), edge, not (all(whole) or joined)

    def _onward(self, state: int) -> tuple[list[int], int | None]:
        """Return the transitions of a state's way, and from which one on it repeats; with gamma 1 it stops there."""
        path = list[int]()
        while self.ways.edge[state] != NONE:
            path.append(int(self.ways.edge[state]))
            if self.graph.ends[path[-1]]:
                return path, None
            state = int(self.graph.target[path[-1]])
        closing = int(self.ways.closing[state])
        if closing == NONE or self.gamma == 1:
            return path, None
        start = len(path)
        path.append(closing)
        here = int(self.graph.target[closing])
        while here != state:
            path.append(int(self.ways.edge[here]))
            here = int(self.graph.target[path[-1]])
        return path, start

    def _way(self, start: int, path: list[int], repeats: int | None) -> Way:
        powers = self.gamma ** np.arange(len(path))
        total = float(powers @ self.graph.pay[path]) if path else 0.0
        if repeats is not None:
            again = float(powers[repeats:] @ self.graph.pay[path[repeats:]])
            total += again * self.gamma ** (len(path) - repeats) / (1 - self.gamma ** (len(path) - repeats))
        return Way(start=self.label(start), steps=self._steps(path), repeats=repeats, total=total)

    def _steps(self, path: list[int]) -> tuple[Step, ...]:
        graph = self.graph
        return tuple(
            Step(
                state=self.label(int(graph.source[edge])),
                next_state=self.label(int(graph.target[edge])),
                pay=float(graph.pay[edge]),
                terminated=bool(graph.ends[edge]),
                row=int(graph.lowest[edge]),
            )
            for edge in path
        )


def _extremes(extra: Floats) -> list[int]:
    """Return the places of what pays most and of what costs most, in this order, where there is either."""
    found = []
    if (extra > 0).any():
        found.append(int(np.argmax(extra)))
    if (extra < 0).any():
        found.append(int(np.argmin(extra)))
    return found


def _meet(graph: Graph, one: int, other: int) -> bool:
    """Tell whether two transitions lead into the same state, from which both ways go on alike."""
    return bool(graph.target[one] == graph.target[other] and not graph.ends[one] and not graph.ends[other])
