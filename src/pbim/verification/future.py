"""Bonuses that look at the whole episode: where they break Assumption 1, and what they do to the optimal actions.

Such a bonus pays F_t = intrinsic(episode, t). What a learner maximises at step t is its return from there on,
sum_{n >= t} gamma^(n-t) (R_n + F'_n). Its past payments are part of no such sum, and yet the actions still to come
change them; so every step is judged by a backward induction of its own, over whole episodes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pbim._arrays import Values as Array
from pbim.errors import InputTypeError
from pbim.shaping import Shaping
from pbim.verification.fold import History, name_of
from pbim.verification.induction import Values, Verdicts, compare, expectation, largest
from pbim.verification.mdp import FiniteMDP
from pbim.verification.numbers import (
    BadNumber,
    NotExact,
    Number,
    as_floats,
    as_fractions,
    is_number,
    require_exact,
    shown,
)
from pbim.verification.report import Assumption1, Course, narrate
from pbim.verification.story import likeliest
from pbim.verification.tree import Advance, Tree, smallest_effect


@dataclass(frozen=True, kw_only=True)
class WholeEpisodes:
    """All whole episodes of a tree: ``histories``, and by level the episode each ended edge completes (-1 elsewhere).

    Of shape (horizon, E): ``reward`` R, ``bonus`` F and ``lasting``, true while the episode lasts.
    """

    histories: list[History]
    lane: tuple[Array, ...]
    reward: Array
    bonus: Array
    lasting: Array


@dataclass(frozen=True, kw_only=True)
class FutureVerdict:
    """The verdict on a bonus of whole episodes, with all that is needed to tell how an episode goes on."""

    tree: Tree
    verdicts: Verdicts
    assumption: Assumption1
    episodes: WholeEpisodes
    returns: Array
    task: Array

    def courses(self, depth: int, node: int, actions: tuple[int, int]) -> tuple[Course, Course]:
        """Return the most likely way on from ``node`` after the task's best and the shaped problem's best action."""
        problems = ((self.task, actions[0]), (self.returns, actions[1]))
        first, second = (self._course(returns[depth], depth, node, action) for returns, action in problems)
        return first, second

    def _course(self, payoff: Array, depth: int, node: int, action: int) -> Course:
        tables, start = _tables(self.tree, self.episodes.lane, payoff, depth), depth
        while True:
            level = self.tree.levels[depth]
            edge = likeliest(level, self.tree.links, node, action)
            if level.ended[edge]:
                lane = int(self.episodes.lane[depth][edge])
                task = self.task[start, lane]
                return Course(history=self.episodes.histories[lane], task=task, bonus=self.returns[start, lane] - task)
            depth, node = depth + 1, int(level.child[edge])
            action = int(np.argmax(tables[depth - start][node]))


def judge(
    tree: Tree,
    mdp: FiniteMDP,
    intrinsic: Any,
    shaping: Shaping[Any],
    original: tuple[Values, ...],
    gamma: Number,
    tolerance: float,
    advance: Advance,
    mean: Number,
) -> FutureVerdict:
    """Return the verdict on a bonus ``intrinsic(episode, t)`` over the histories of ``tree``."""
    exact = original[0].exact
    episodes = _episodes(tree, intrinsic, advance, exact=exact)
    last = np.zeros_like(episodes.lasting)
    last[:-1] = episodes.lasting[:-1] & ~episodes.lasting[1:]
    last[-1] = episodes.lasting[-1]
    state = shaping.init(len(episodes.histories), like=episodes.bonus)
    _, shaped = shaping.rollout(state, episodes.bonus, last, valid=episodes.lasting)
    if exact:
        shaped = require_exact(shaped, type(shaping).__name__)
    returns, task = (_to_go(rewards, gamma) for rewards in (episodes.reward + shaped, episodes.reward))
    sizes = None if exact else _to_go(abs(episodes.reward) + abs(shaped), gamma)
    smallest = 0.0 if exact else smallest_effect([episodes.bonus], [shaped], mean)
    values = []
    for depth in range(len(tree.levels)):
        table = _tables(tree, episodes.lane, returns[depth], depth)[0]
        values.append(Values(table, table.max(axis=1), _scale(tree, episodes.lane, sizes, depth)))
    return FutureVerdict(
        tree=tree,
        verdicts=compare(tree, original, tuple(values), tolerance, gamma, smallest),
        assumption=_assumption(mdp, episodes, name_of(intrinsic)),
        episodes=episodes,
        returns=returns,
        task=task,
    )


def _episodes(tree: Tree, intrinsic: Any, advance: Advance, *, exact: bool) -> WholeEpisodes:
    links, lanes = tree.links, []
    finished: list[tuple[History, tuple[int, ...]]] = []
    open_: list[tuple[History, tuple[int, ...]]] = [((int(state),), ()) for state in tree.levels[0].state]
    for level in tree.levels:
        grown = []
        for node, link in zip(level.node.tolist(), level.link.tolist(), strict=True):
            history, path = open_[node]
            grown.append(((*history, int(links.action[link]), int(links.target[link])), (*path, link)))
        lane = np.where(level.ended, len(finished) + np.cumsum(level.ended) - 1, -1)
        finished += [grown[edge] for edge in np.flatnonzero(level.ended).tolist()]
        open_ = [grown[edge] for edge in np.flatnonzero(~level.ended).tolist()]
        lanes.append(lane)
    steps = np.array([len(path) for _, path in finished])
    lasting = np.arange(len(tree.levels))[:, None] < steps
    reward, bonus = (np.zeros(lasting.shape, dtype=links.reward.dtype) for _ in range(2))
    for index, (history, path) in enumerate(finished):
        reward[: len(path), index] = links.reward[list(path)]
        bonus[: len(path), index] = _paid(intrinsic, history, exact=exact)
        advance(1)
    return WholeEpisodes(
        histories=[history for history, _ in finished], lane=tuple(lanes), reward=reward, bonus=bonus, lasting=lasting
    )


def _paid(intrinsic: Any, episode: History, *, exact: bool) -> Array:
    """Return F_0, ..., F_{N-1} of a whole episode."""
    values = [intrinsic(episode, step) for step in range(len(episode) // 2)]
    try:
        return as_fractions(values) if exact else as_floats(values)
    except BadNumber as bad:
        value = values[bad.index]
    if is_number(value):
        raise NotExact(f"the bonus {name_of(intrinsic)} pays the float {value!r}")
    raise InputTypeError(
        f"intrinsic must return a finite number, received {value!r} for episode {episode}: return a float or a Fraction"
    )


def _to_go(rewards: Array, gamma: Number) -> Array:
    """Return the discounted sum of ``rewards`` (T, E) from every step on."""
    sums = rewards.copy()
    for step in range(len(sums) - 2, -1, -1):
        sums[step] = rewards[step] + gamma * sums[step + 1]
    return sums


def _tables(tree: Tree, lanes: tuple[Array, ...], payoff: Array, depth: int) -> list[Array]:
    """Return what actions are worth on level ``depth`` and below when whole episodes pay ``payoff`` (E,)."""
    tables: list[Array] = []
    ahead: Array | None = None
    for level, lane in zip(reversed(tree.levels[depth:]), reversed(lanes[depth:]), strict=True):
        worth = payoff[lane]
        if ahead is not None:
            alive = np.flatnonzero(~level.ended)
            worth[alive] = ahead[level.child[alive]]
        groups = level.groups(tree.links)
        table = expectation(tree.links.probability[level.link], worth, groups).reshape(level.size, -1)
        ahead = table.max(axis=1)
        tables.append(table)
    return tables[::-1]


def _scale(tree: Tree, lanes: tuple[Array, ...], sizes: Array | None, depth: int) -> Array:
    """Return the largest sum of magnitudes (n,) that an episode through each history of ``depth`` can have."""
    if sizes is None:
        return np.zeros(tree.levels[depth].size)
    ahead: Array = np.zeros(0)
    for level, lane in zip(reversed(tree.levels[depth:]), reversed(lanes[depth:]), strict=True):
        worth = sizes[depth][lane]
        alive = np.flatnonzero(~level.ended)
        worth[alive] = ahead[level.child[alive]]
        ahead = largest(worth, level.groups(tree.links)).reshape(level.size, -1).max(axis=1)
    return ahead


def _assumption(mdp: FiniteMDP, episodes: WholeEpisodes, name: str) -> Assumption1:
    """Return whether F_t is the same for all episodes that agree until after step t; else the shortest pair."""
    order = sorted(range(len(episodes.histories)), key=lambda lane: (len(episodes.histories[lane]), lane))
    for step in range(len(episodes.bonus)):
        first: dict[History, int] = {}
        for lane in order:
            history = episodes.histories[lane]
            if len(history) < 2 * step + 3:
                continue
            other = first.setdefault(history[: 2 * step + 3], lane)
            paid = episodes.bonus[step, other], episodes.bonus[step, lane]
            if paid[0] != paid[1]:
                return _broken(mdp, name, step, (episodes.histories[other], history), paid)
    return Assumption1(
        holds=True, reason=f"'{name}' is given whole episodes, but what it pays for a step never depends on later ones"
    )


def _broken(
    mdp: FiniteMDP, name: str, step: int, pair: tuple[History, History], paid: tuple[Number, Number]
) -> Assumption1:
    cut = 2 * step + 2
    ways = [narrate(mdp, history[cut:]) if len(history) > cut + 1 else "the episode ends there" for history in pair]
    return Assumption1(
        holds=False,
        reason=(
            f"'{name}' pays for step {step} what later actions decide. Two episodes begin alike, "
            f"{narrate(mdp, pair[0][: cut + 1])}, yet step {step} is paid {shown(paid[0])} in one ({ways[0]}) and "
            f"{shown(paid[1])} in the other ({ways[1]}). F_t must be constant in the actions after t: no conversion "
            "that settles at the end is proven to keep the optimal policies for such a bonus."
        ),
        step=step,
        episodes=pair,
        bonuses=(paid[0], paid[1]),
    )
