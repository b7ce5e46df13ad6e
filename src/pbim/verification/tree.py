"""All histories of an MDP up to a horizon, level by level, with what a conversion pays along each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbim._arrays import Values
from pbim.errors import InputError, InputTypeError
from pbim.shaping import Shaping, State
from pbim.verification.fold import Folding, History, name_of
from pbim.verification.mdp import FiniteMDP, Links
from pbim.verification.numbers import (
    BadNumber,
    NotExact,
    Number,
    as_floats,
    as_fractions,
    grain,
    is_number,
    require_exact,
)

CHUNK = 50_000
REPEATED = 16

Advance = Callable[[int], None]


@dataclass(frozen=True)
class TreeLevel:
    """The histories of t steps at which an action must be chosen, and every way they go on.

    ``state`` and ``came`` (n,): where each history stands and by which edge of the level before. Edges (m,) are
    sorted by (history, action, successor): ``node`` is the history, ``link`` the transition of the MDP, ``ended``
    whether the episode is over, ``child`` the history it leads to on the next level (-1 where ended), ``shaped`` F'_t.
    """

    state: Values
    came: Values
    node: Values
    link: Values
    ended: Values
    child: Values
    shaped: Values | None = None

    @property
    def size(self) -> int:
        """Return n."""
        return len(self.state)

    def groups(self, links: Links) -> Values:
        """Return where the edges of each (history, action) begin, (n * A,)."""
        action = links.action[self.link]
        first = np.ones(len(self.node), dtype=bool)
        first[1:] = (self.node[1:] != self.node[:-1]) | (action[1:] != action[:-1])
        return np.flatnonzero(first)


@dataclass(frozen=True)
class Tree:
    """Every level of an MDP's histories; ``expanded`` counts those that were built after merging.

    ``smallest``: in floats, the smallest difference that the bonus can make to what one step pays.
    """

    links: Links
    levels: tuple[TreeLevel, ...]
    starts: int
    smallest: float = 0.0

    @property
    def expanded(self) -> int:
        """Return how many histories were built."""
        return self.starts + sum(len(level.node) for level in self.levels)

    def history(self, depth: int, node: int) -> History:
        """Return the history that ``node`` of level ``depth`` stands for (the first of those merged into it)."""
        backwards: list[int] = []
        for level, above in zip(reversed(self.levels[1 : depth + 1]), reversed(self.levels[:depth]), strict=True):
            edge = int(level.came[node])
            backwards += [int(level.state[node]), int(self.links.action[above.link[edge]])]
            node = int(above.node[edge])
        return (int(self.levels[0].state[node]), *reversed(backwards))


def branch(links: Links, state: Values, came: Values, last: bool) -> TreeLevel:
    """Return the level of the histories that stand in ``state``, with all their edges."""
    fanout = links.fanout[state]
    node = np.repeat(np.arange(len(state)), fanout)
    before = np.repeat(np.cumsum(fanout) - fanout, fanout)
    link = np.repeat(links.first[state], fanout) + np.arange(len(node)) - before
    ended = links.ends[link] | last
    child = np.where(ended, -1, np.cumsum(~ended) - 1)
    return TreeLevel(state, came, node, link, ended, child)


def follow(level: TreeLevel, links: Links) -> tuple[Values, Values]:
    """Return the state and the edge of every history that goes on, before any merging."""
    alive = np.flatnonzero(~level.ended)
    return links.target[level.link[alive]], alive


def outline(mdp: FiniteMDP, horizon: int, links: Links) -> Tree:
    """Return all histories without bonuses."""
    levels: list[TreeLevel] = []
    state, came = mdp.starts, np.full(len(mdp.starts), -1)
    for step in range(horizon):
        levels.append(branch(links, state, came, last=step == horizon - 1))
        state, came = follow(levels[-1], links)
        if not len(state):
            break
    return Tree(links, tuple(levels), len(mdp.starts))


@dataclass(frozen=True, kw_only=True)
class Growing:
    """What is needed to expand histories: the problem, the bonus, the frozen conversion and the kind of numbers."""

    mdp: FiniteMDP
    links: Links
    bonus: Folding
    shaping: Shaping[Any]
    horizon: int
    exact: bool
    merging: bool
    limit: int
    advance: Advance
    mean: Number = 0

    def grow(self) -> Tree:
        """Return every history with what the conversion pays, calling ``shaping.step`` once per level."""
        like = np.zeros(0, dtype=object if self.exact else float)
        levels: list[TreeLevel] = []
        earned: list[Values] = []
        state, came = self.mdp.starts, np.full(len(self.mdp.starts), -1)
        paid = self.shaping.init(len(state), like=like)
        memories = [self.bonus.start(start) for start in state.tolist()]
        expanded = len(state)
        for step in range(self.horizon):
            level = branch(self.links, state, came, last=step == self.horizon - 1)
            expanded += len(level.node)
            self._check_size(expanded, step)
            memories, bonuses = self._earn(level, memories)
            if not self.exact:
                earned.append(np.unique(bonuses))
            paid, shaped = convert(self.shaping, paid, level, bonuses)
            level = replace(level, shaped=require_exact(shaped, type(self.shaping).__name__) if self.exact else shaped)
            alive = np.flatnonzero(~level.ended)
            paid, memories = gather(paid, alive, len(level.node)), [memories[edge] for edge in alive.tolist()]
            state, came = follow(level, self.links)
            if self.merging and len(state):
                number, kept = merged(state, memories, paid)
                state, came, memories = state[kept], came[kept], [memories[index] for index in kept.tolist()]
                paid = gather(paid, kept, len(number))
                child = level.child.copy()
                child[alive] = number
                level = replace(level, child=child)
            levels.append(level)
            if not len(state):
                break
        smallest = 0.0 if self.exact else smallest_effect(earned, [level.shaped for level in levels], self.mean)
        return Tree(self.links, tuple(levels), len(self.mdp.starts), smallest)

    def _earn(self, level: TreeLevel, memories: list[Any]) -> tuple[list[Any], Values]:
        """Return the memory and the bonus of every edge."""
        node = level.node.tolist()
        action, target = self.links.action[level.link].tolist(), self.links.target[level.link].tolist()
        step, after, values = self.bonus.step, [], []
        for begin in range(0, len(node), CHUNK):
            rows = slice(begin, begin + CHUNK)
            pairs = [step(memories[i], a, s) for i, a, s in zip(node[rows], action[rows], target[rows], strict=True)]
            after += [memory for memory, _ in pairs]
            values += [value for _, value in pairs]
            self.advance(len(pairs))
        numbers = self._numbers(values, action, target)
        for edge in range(min(REPEATED, len(node))):
            again = step(memories[node[edge]], action[edge], target[edge])[1]
            if again != values[edge]:
                raise InputError(
                    f"intrinsic must be a function of the history alone, received {values[edge]!r} and then {again!r} "
                    f"for one step ({action[edge]} to state {target[edge]}): leave randomness and hidden state out"
                )
        return after, numbers

    def _numbers(self, values: list[Any], action: list[int], target: list[int]) -> Values:
        """Return the bonuses as an array of Fractions or floats."""
        try:
            return as_fractions(values) if self.exact else as_floats(values)
        except BadNumber as bad:
            value, index = values[bad.index], bad.index
        if is_number(value):
            raise NotExact(f"the bonus {name_of(self.bonus)} pays the float {value!r}")
        raise InputTypeError(
            f"intrinsic must return a finite number, received {value!r} for action {action[index]} to state "
            f"{target[index]}: return a float, an int or a Fraction"
        )

    def _check_size(self, expanded: int, step: int) -> None:
        if expanded > self.limit:
            reaches = max(step, 1) >= (self.mdp.steps_to_reward() or 1)
            lower = f"lower horizon to {max(step, 1)}, or " if reaches else "no shorter horizon reaches a reward: "
            raise InputError(
                f"max_histories must cover all histories, received {self.limit:,}, and step {step + 1} of "
                f"{self.horizon} already needs {expanded:,} after merging: {lower}raise max_histories"
            )


def smallest_effect(bonuses: list[Values], shaped: list[Values], mean: Number) -> float:
    """Return the smallest difference that bonuses make to one step's pay; none where nothing is ever paid."""
    paid, earned = (max(float(abs(part).max()) for part in parts) for parts in (shaped, bonuses))
    if paid == 0:
        return np.inf
    return grain(np.array([float(mean)]), *bonuses) * min(1.0, paid / earned if earned else 1.0)


def convert(shaping: Shaping[Any], paid: State, level: TreeLevel, bonuses: Values) -> tuple[State, Values]:
    """Return the conversion's state and F'_t of every edge, each continuing the state of its own history."""
    before = gather(paid, level.node, level.size)
    after, shaped = shaping.step(before, bonuses, level.ended)
    _check_shared(before, after, len(level.node))
    return after, shaped


def gather(state: State, index: Values, size: int) -> State:
    """Return a conversion's state with the environments ``index`` of its ``size``; shared parts stay as they are."""
    if isinstance(state, tuple):
        parts = [gather(part, index, size) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state[..., index] if is_lane(state, size) else state


def is_lane(leaf: Any, size: int) -> bool:
    """Tell whether a part of the state has one entry per environment, on its last axis."""
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0 and leaf.shape[-1] == size


def merged(state: Values, memories: list[Any], paid: State) -> tuple[Values, Values]:
    """Return the number of each history's class, and the first history of each: same state, memory and ledger."""
    columns = [_column(leaf) for leaf in _lanes(paid, len(state))]
    numbers: dict[Any, int] = {}
    number = np.empty(len(state), dtype=np.int64)
    kept: list[int] = []
    for index, key in enumerate(zip(state.tolist(), memories, *columns, strict=True)):
        try:
            found = numbers.setdefault(key, len(numbers))
        except TypeError:
            raise InputTypeError(
                f"intrinsic must keep a hashable memory, received {memories[index]!r} from its step: "
                "use a tuple or a frozenset"
            ) from None
        if found == len(kept):
            kept.append(index)
        number[index] = found
    return number, np.array(kept, dtype=np.int64)


def _lanes(state: State, size: int) -> list[Values]:
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in _lanes(part, size)]
    return [state] if is_lane(state, size) and state.size else []


def _column(leaf: Values) -> list[Any]:
    """Return one hashable entry per environment."""
    rows = leaf.reshape(-1, leaf.shape[-1])
    if leaf.dtype == object:
        rows = np.frompyfunc(lambda value: value.as_integer_ratio(), 1, 1)(rows)
    return list(zip(*rows.tolist(), strict=True))


def _check_shared(before: State, after: State, size: int) -> None:
    """Refuse a conversion whose histories would influence each other through a part all environments share."""
    if isinstance(before, tuple):
        for old, new in zip(before, after, strict=True):
            _check_shared(old, new, size)
    elif not is_lane(before, size) and not np.array_equal(before, after):
        raise InputError(
            f"shaping.frozen(mean) must fix what all environments share, received a state whose shared part changed "
            f"from {before!r} to {after!r} in one step: return a conversion with constant statistics from frozen"
        )
