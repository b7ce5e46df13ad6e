"""Backward induction: what every action is worth in the original and in the shaped problem, and which are best."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pbim._arrays import Values as Array
from pbim.verification.mdp import Links
from pbim.verification.numbers import ROUNDING, Number, grain
from pbim.verification.tree import Tree

CLEARLY = 2


class Values(NamedTuple):
    """Action values (n, A), the ``best`` of each row, and in ``scale`` (n,) the largest sum of magnitudes behind it."""

    actions: Array
    best: Array
    scale: Array

    def at(self, index: Array) -> "Values":
        """Return the rows ``index``."""
        return Values(*(part[index] for part in self))

    @property
    def exact(self) -> bool:
        """Tell whether the values are exact."""
        return bool(self.actions.dtype == object)


@dataclass(frozen=True)
class Verdicts:
    """Both problems' values on every level, and the histories of each level whose optimal sets differ.

    ``costly`` are those where an action that loses return in the task is optimal in the shaped problem. ``unsure``:
    in floats, somewhere the two may differ by what the tolerance or rounding hides. ``indifferent``: the task prefers
    no action to another anywhere. ``rounding``: by how much of the largest return floats may be off.
    """

    original: tuple[Values, ...]
    shaped: tuple[Values, ...]
    differing: tuple[Array, ...]
    costly: tuple[Array, ...]
    unsure: bool
    indifferent: bool
    rounding: float

    def first(self, *, costly: bool = False) -> tuple[int, int] | None:
        """Return (level, history) of the shortest, then lexicographically first, difference."""
        for depth, nodes in enumerate(self.costly if costly else self.differing):
            if len(nodes):
                return depth, int(nodes[0])
        return None


def original_values(links: Links, actions: int, horizon: int, gamma: Number) -> tuple[Values, ...]:
    """Return the action values (S, A) of the task alone at every time 0, ..., horizon - 1 (zero at terminal states)."""
    states, exact = len(links.fanout), links.reward.dtype == object
    live = np.flatnonzero(links.fanout)
    groups = np.flatnonzero(np.diff(links.source * actions + links.action, prepend=-1))
    zero = np.zeros(states, dtype=object if exact else float)
    ahead, weight, values = zero, zero, []
    for _ in range(horizon):
        after, heavier = (np.where(links.ends, 0, part[links.target]) for part in (ahead, weight))
        table = np.zeros((states, actions), dtype=zero.dtype)
        table[live] = expectation(links.probability, links.reward + gamma * after, groups).reshape(-1, actions)
        weight = zero.copy()
        if not exact:
            weight[live] = largest(abs(links.reward) + gamma * heavier, groups).reshape(-1, actions).max(axis=1)
        ahead = table.max(axis=1)
        values.append(Values(table, ahead, weight))
    return tuple(reversed(values))


def shaped_values(tree: Tree, actions: int, gamma: Number) -> tuple[Values, ...]:
    """Return the action values (n, A) of the shaped problem at every history of every level."""
    values: list[Values] = []
    ahead: Array | None = None
    weight: Array | None = None
    for level in reversed(tree.levels):
        groups = level.groups(tree.links)
        earned = tree.links.reward[level.link] + level.shaped
        sizes = abs(earned) if earned.dtype != object else None
        if ahead is not None:
            alive = np.flatnonzero(~level.ended)
            earned[alive] += gamma * ahead[level.child[alive]]
            if sizes is not None and weight is not None:
                sizes[alive] += gamma * weight[level.child[alive]]
        table = expectation(tree.links.probability[level.link], earned, groups).reshape(-1, actions)
        ahead = table.max(axis=1)
        weight = np.zeros(level.size) if sizes is None else largest(sizes, groups).reshape(-1, actions).max(axis=1)
        values.append(Values(table, ahead, weight))
    return tuple(reversed(values))


def compare(
    tree: Tree,
    original: tuple[Values, ...],
    shaped: tuple[Values, ...],
    tolerance: float,
    gamma: Number,
    smallest: float,
) -> Verdicts:
    """Return both problems' values at every history and where the sets of optimal actions differ.

    ``smallest`` is the smallest difference that the bonus can make in one step: what rounding may hide.
    """
    here = tuple(values.at(level.state) for level, values in zip(tree.levels, original, strict=False))
    lost, won = [], []
    rounding = ROUNDING * (len(tree.levels) + 4)
    unsure, indifferent = False, True
    visible = 0.0 if here[0].exact else min(grain(tree.links.reward), smallest)
    for depth, (level, task, before, after) in enumerate(zip(tree.levels, original, here, shaped, strict=False)):
        if before.exact:
            kept, found = _ties(task)[level.state], _ties(after)
            differences = kept & ~found, found & ~kept
        else:
            far = visible * float(gamma) ** (len(tree.levels) - 1 - depth)  # as small as its last step makes it
            only_before, only_after, doubts = disagreement(before, after, max(tolerance, rounding), rounding, far)
            differences = only_before, only_after
            unsure = unsure or bool(doubts.any())
        indifferent = indifferent and bool(optimal(before, rounding).all())
        lost.append(differences[0])
        won.append(differences[1])
    return Verdicts(
        original=here,
        shaped=shaped,
        differing=tuple(np.flatnonzero((a | b).any(axis=1)) for a, b in zip(lost, won, strict=True)),
        costly=tuple(np.flatnonzero(b.any(axis=1)) for b in won),
        unsure=unsure,
        indifferent=indifferent,
        rounding=rounding,
    )


def disagreement(
    original: Values, shaped: Values, tolerance: float, rounding: float, visible: float
) -> tuple[Array, Array, Array]:
    """Return which actions (n, A) are optimal in the original problem only, which in the shaped only, and the doubts.

    In floating point an action must be best in one problem but for rounding, and *clearly* not in the other (beyond
    twice the tolerance), with one tolerance for both problems: that of the larger numbers. A tie counts where rounding
    is less than ``visible``, the smallest difference that a reward or bonus makes. What is left is in doubt.
    """
    slack = tolerance * np.maximum(original.scale, shaped.scale)[:, None]
    before, after = optimal(original, rounding), optimal(shaped, rounding)
    near_before, near_after = _gap(original) <= slack, _gap(shaped) <= slack
    worse_before, worse_after = _gap(original) > CLEARLY * slack, _gap(shaped) > CLEARLY * slack
    hidden = rounding * np.maximum(original.scale, shaped.scale)[:, None] >= visible
    tied_before, tied_after = (best.sum(axis=1, keepdims=True) > 1 for best in (before, after))
    lost = before & worse_after & ~(tied_before & hidden)
    won = after & worse_before & ~(tied_after & hidden)
    doubts = (near_before & worse_after) | (near_after & worse_before) | (before != after)
    return lost, won, (doubts & ~(lost | won)) | ((tied_before | tied_after) & hidden)


def optimal(values: Values, rounding: float) -> Array:
    """Return which actions (n, A) are as good as the best but for rounding; exactly as good for exact values."""
    return _ties(values) if values.exact else _gap(values) <= rounding * values.scale[:, None]


def _ties(values: Values) -> Array:
    """Return which actions (n, A) are exactly as good as the best."""
    return np.asarray(values.actions == values.best[:, None], dtype=bool)


def _gap(values: Values) -> Array:
    """Return how far below the best each action is."""
    return values.best[:, None] - values.actions


def expectation(probability: Array, worth: Array, groups: Array) -> Array:
    """Return the expectation of ``worth`` over each group of edges."""
    if len(groups) == len(worth):  # every action has one outcome
        return worth
    return np.add.reduceat(probability * worth, groups)


def largest(sizes: Array, groups: Array) -> Array:
    """Return the largest of ``sizes`` in each group of edges."""
    return np.maximum.reduceat(sizes, groups)
