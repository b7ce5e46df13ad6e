"""The potential that explains a term, if there is one.

A term F(s, s') leaves the optimal policies of every MDP alone if and only if F = gamma Phi(s') - Phi(s) for some Phi
that is 0 where an episode has terminated (Ng et al. 1999; Grzes 2017). Write V = -Phi. Then, for every transition,

    V(s) = F(s, s') + gamma V(s'),     V = 0 after a terminated transition,

so V(s) is the discounted pay of *any* way on from s: a term is safe exactly when from every state all ways on, to
an end or round and round for ever, are paid the same. Hence the fit. It takes one way on from every state
(:mod:`._graph`), computes V along it, and looks at every other transition. The residual F + gamma V(s') - V(s) is by
how much the way through that transition is paid differently from the first way. One residual that is not 0 is a proof
that no potential exists, and the two ways are the witness.

Computing forward in time is what keeps it stable: values contract by gamma per step, where a potential that is
propagated backward grows by 1/gamma. A way that runs to where the log stops (a truncated episode), or into a cycle,
has an unknown x at its end, V(s) = w(s) + gamma^steps x. Every other transition is a linear equation in at most two
unknowns. The strongest equations express each unknown by another one (a spanning forest); of each tree, the equation
with the largest coefficient then gives the last one. With gamma = 1 nothing gives it where no end is reached: a
constant is free.
"""

from dataclasses import dataclass

import numpy as np

from pbim.verification._graph import NONE, Floats, Graph, Ints, Ways

WEAK = 1e-12
"""An equation whose coefficients are all smaller than this says nothing about its unknowns."""
FLOOR = 1e-11
"""What our own arithmetic may be off, relative to the component's largest: it leaves out what is below ``WEAK``."""
SAMPLES, SAFETY = 8, 4
"""How often rounding is tried out, and times what is found counts as rounding still."""


@dataclass(frozen=True)
class Fit:
    """A potential for every state, and what it leaves unexplained.

    ``value`` (S,) is V = -Phi; ``residual`` (E,) is F + gamma V(s') - V(s), and ``bound`` (E,) how large rounding alone
    can make it; ``unknown`` counts the constants that nothing in the log determines.
    """

    value: Floats
    residual: Floats
    bound: Floats
    unknown: int
    gamma: float

    @property
    def broken(self) -> Ints:
        """Return the transitions that no potential explains together with the ways, the worst first."""
        found = np.flatnonzero(np.abs(self.residual) > self.bound)
        return found[np.argsort(-np.abs(self.residual[found]), kind="stable")]

    @property
    def holds(self) -> bool:
        """Tell whether the potential explains every transition."""
        return bool((np.abs(self.residual) <= self.bound).all())

    def checks(self, graph: Graph) -> int:
        """Return how many independent equations could fail: those that determine nothing."""
        return len(graph.pay) - (int(graph.live.sum()) - self.unknown)

    @property
    def worst(self) -> float:
        """Return the largest residual."""
        return float(np.abs(self.residual).max(initial=0.0))


def fit(
    graph: Graph, ways: Ways, gamma: float, *, rounding: float, noise: float = 0.0, along_ways: bool = False
) -> Fit:
    """Return the potential of a graph for one discount, with bounds on what rounding does to the residuals.

    The residuals are linear in the pays. So the bounds come from trying rounding out: pays that are off by as much as
    they can be, at random (which adds up as rounding does) and all in one direction (as a discount that was rounded).

    Args:
        graph: The transitions.
        ways: One way on from every state, by ``ways(graph)``.
        gamma: The discount.
        rounding: By how much of its size each number may be off: of the pay and of the two potentials it comes from.
        noise: By how much every pay may be off besides.
        along_ways: Whether a cycle that ways run into is worth what its own rounds pay, so that every value is the pay
            of a way that can be told; else the equation that rounding harms least decides.

    """
    system = System(graph, ways, gamma, along_ways=along_ways)
    value, residual = system.solve(graph.pay)
    size = np.abs(value)
    sizes = np.abs(graph.pay) + size[graph.source] + gamma * size[system.target]
    slack = rounding * sizes + noise
    bound = SAFETY * slack + FLOOR * graph.component_max(sizes)
    if (np.abs(residual) > bound).any():
        rng = np.random.default_rng(0)
        squares = np.zeros_like(residual)
        for _ in range(SAMPLES):
            squares += system.solve(slack * rng.choice((-1.0, 1.0), len(slack)))[1] ** 2
        bound += SAFETY**2 * np.sqrt(squares / SAMPLES)
        for column in (rounding * gamma * value[system.target], rounding * value[graph.source]):
            bound += SAFETY * np.abs(system.solve(column)[1])
    return Fit(value[: graph.states], residual, bound, system.free, gamma)


class System:
    """The linear equations of a graph's transitions for one discount, prepared for any pays.

    State number S is the ground: where an episode has terminated, of value 0.
    """

    def __init__(self, graph: Graph, ways: Ways, gamma: float, *, along_ways: bool = False) -> None:
        self.graph, self.gamma, self.ground = graph, gamma, graph.states
        self.target = np.where(graph.ends, self.ground, graph.target)
        self.edge = np.append(ways.edge, NONE)
        self._follow()
        source, target = graph.source, self.target
        self.one, self.other = self.root[source], self.root[target]
        self.here = np.where(self.one == self.ground, 0.0, -self.weight[source])
        self.there = np.where(self.other == self.ground, 0.0, gamma * self.weight[target])
        self._pin(ways if along_ways and gamma < 1 else None)
        self.roots = np.setdiff1d(np.union1d(self.one, self.other), [self.ground])
        self._choose()

    def solve(self, pay: Floats) -> tuple[Floats, Floats]:
        """Return the values of all states and the ground, (S + 1,), and the residuals (E,) for some pays."""
        paid = self._sums(pay)
        constant = pay + self.gamma * paid[self.target] - paid[self.graph.source]
        pinned = np.zeros(self.ground + 1)
        pinned[self.pins] = -constant[self.closing] / self.pin_slope
        constant = constant + self.pin_weight * pinned[self.root[self.graph.source]]
        constant = constant + self.pin_ahead * pinned[self.root[self.target]]
        unknown = self._unknowns(constant) + pinned
        residual = constant + self.here * unknown[self.one] + self.there * unknown[self.other]
        residual[self.edge[self.edge != NONE]] = 0.0  # by construction, up to rounding
        return paid + self.weight * unknown[self.root], residual

    def _pin(self, ways: Ways | None) -> None:
        """Take the roots of cycles out of the unknowns: each is worth what its cycle pays."""
        closes = np.zeros(self.ground + 1, dtype=bool)
        if ways is not None:
            closes[:-1] = ways.closing != NONE
        self.pins = np.flatnonzero(closes)
        self.closing = np.zeros(0, dtype=np.int64) if ways is None else ways.closing[self.pins]
        self.pin_weight = np.where(closes[self.one], self.here, 0.0)
        self.pin_ahead = np.where(closes[self.other], self.there, 0.0)
        self.pin_slope = (self.pin_weight + self.pin_ahead)[self.closing]
        self.here, self.there = self.here - self.pin_weight, self.there - self.pin_ahead
        self.one = np.where(closes[self.one], self.ground, self.one)
        self.other = np.where(closes[self.other], self.ground, self.other)

    def _follow(self) -> None:
        """Follow all ways to their ends, 1, 2, 4, ... steps at once."""
        goes = self.edge != NONE
        root = np.arange(self.ground + 1)
        root[goes] = self.target[self.edge[goes]]
        weight = np.where(goes, self.gamma, 1.0)
        self.jumps: list[tuple[Ints, Floats]] = []
        while True:
            self.jumps.append((root, np.where(root != np.arange(len(root)), weight, 0.0)))
            further = root[root]
            if np.array_equal(further, root):
                break
            root, weight = further, weight * weight[root]
        faint = weight < WEAK
        self.root, self.weight = np.where(faint, self.ground, root), np.where(faint, 0.0, weight)

    def _sums(self, column: Floats) -> Floats:
        """Return the discounted sum of a column of the transitions along every state's way, (S + 1,)."""
        total = np.where(self.edge != NONE, column[self.edge], 0.0)
        for root, weight in self.jumps:
            total = total + weight * total[root]
        return total

    def _choose(self) -> None:
        """Choose the equations that express unknowns by each other, and for each tree the one that fixes it."""
        strength = np.maximum(np.abs(self.here), np.abs(self.there))
        between = (self.one != self.other) & (self.one != self.ground) & (self.other != self.ground)
        apart = np.flatnonzero(between & (strength > WEAK))
        apart = apart[np.argsort(-strength[apart], kind="stable")]
        low, high = np.minimum(self.one, self.other)[apart], np.maximum(self.one, self.other)[apart]
        _, first = np.unique(low * (self.ground + 1) + high, return_index=True)
        self.joins: list[int] = apart[np.sort(first)].tolist()
        self.fixing: dict[int, int] = {}
        forest = self._forest(np.zeros_like(self.here))
        tree, factor, _ = self._expressed(forest)
        self.slope = self.here * factor[self.one] + self.there * factor[self.other]
        owner = np.where(tree[self.one] == self.ground, tree[self.other], tree[self.one])
        alone = (tree[self.one] == tree[self.other]) | (self.one == self.ground) | (self.other == self.ground)
        usable = np.flatnonzero(alone & (owner != self.ground) & (np.abs(self.slope) > WEAK))
        usable = usable[np.argsort(np.abs(self.slope[usable]), kind="stable")]
        self.fixing = dict(zip(owner[usable].tolist(), usable.tolist(), strict=True))  # the last, the largest, stays
        self.free = len(np.unique(tree[self.roots])) - len(self.fixing)

    def _forest(self, constant: Floats) -> "_Forest":
        forest = _Forest()
        for number in self.joins:
            coefficients = float(self.here[number]), float(self.there[number]), float(constant[number])
            forest.join(*coefficients, int(self.one[number]), int(self.other[number]))
        return forest

    def _expressed(self, forest: "_Forest") -> tuple[Ints, Floats, Floats]:
        """Return (tree, factor, shift) of every state that is a root: x = factor * x[tree] + shift."""
        tree, factor, shift = (
            np.full(self.ground + 1, self.ground),
            np.zeros(self.ground + 1),
            np.zeros(self.ground + 1),
        )
        for root in self.roots.tolist():
            tree[root], factor[root], shift[root] = forest.find(root)
        return tree, factor, shift

    def _unknowns(self, constant: Floats) -> Floats:
        """Return the values at roots, from here * x[one] + there * x[other] + constant = 0."""
        value = np.zeros(self.ground + 1)
        if not len(self.roots):
            return value
        tree, factor, shift = self._expressed(self._forest(constant))
        for root, number in self.fixing.items():
            one, other = self.one[number], self.other[number]
            rest = constant[number] + self.here[number] * shift[one] + self.there[number] * shift[other]
            value[root] = -rest / self.slope[number]
        value[self.roots] = shift[self.roots] + factor[self.roots] * value[tree[self.roots]]
        return value


class _Forest:
    """Unknowns expressed by others: x = factor * x[parent] + shift."""

    def __init__(self) -> None:
        self.links: dict[int, tuple[int, float, float]] = {}

    def find(self, root: int) -> tuple[int, float, float]:
        """Return (tree, factor, shift): x[root] = factor * x[tree] + shift."""
        path = []
        while root in self.links:
            path.append(root)
            root = self.links[root][0]
        total = (root, 1.0, 0.0)
        for child in reversed(path):
            _, factor, shift = self.links[child]
            # a child may hang below one that was already expressed by the tree: compose with its parent's expression
            total = (root, factor * total[1], factor * total[2] + shift)
            self.links[child] = total
        return total

    def join(self, here: float, there: float, constant: float, one: int, other: int) -> None:
        """Let here * x[one] + there * x[other] + constant = 0 express one tree by the other."""
        (first, factor, shift), (second, other_factor, other_shift) = self.find(one), self.find(other)
        if first == second:
            return
        a, b, c = here * factor, there * other_factor, constant + here * shift + there * other_shift
        if abs(b) > abs(a):
            first, second, a, b = second, first, b, a
        if abs(a) > WEAK:
            self.links[first] = (second, -b / a, -c / a)
