"""Small bonuses that teach: the library's own count, folds over the history, and two that look into the future."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pbim.intrinsic.episodic_count import EpisodicCount
from pbim.verification.fold import Fold, History
from pbim.verification.mdp import FiniteMDP
from pbim.verification.numbers import Number

Visits = tuple[int, ...]
"""The states visited so far, sorted."""


def count(mdp: FiniteMDP, alpha: Number) -> EpisodicCount:
    """Return the library's count bonus: alpha / n for the n-th arrival at a state in this episode (Eq. 41).

    >>> from fractions import Fraction
    >>> count(None, Fraction(1)).of_history((0, 1, 0, 1, 0))  # the second arrival at state 0, where it started
    Fraction(1, 2)
    """
    del mdp
    return EpisodicCount(alpha=alpha)


def novelty(mdp: FiniteMDP, alpha: Number) -> Fold:
    """Return alpha the first time an episode is in a state; the start is one it has been in."""
    del mdp

    def step(visited: Visits, action: int, state: int) -> tuple[Visits, Number]:
        del action
        return (visited, 0 * alpha) if state in visited else (tuple(sorted((*visited, state))), alpha)

    return Fold(start=lambda state: (state,), step=step, name="novelty")


def home(mdp: FiniteMDP, alpha: Number) -> Fold:
    """Return alpha whenever the agent is in the state it started from."""
    del mdp

    def step(start: int, action: int, state: int) -> tuple[int, Number]:
        del action
        return start, alpha * int(state == start)

    return Fold(start=lambda state: state, step=step, name="home")


def alive(mdp: FiniteMDP, alpha: Number) -> Fold:
    """Return alpha for every step."""
    del mdp
    return _of_arrival(lambda _: alpha, "alive")


def surprise(mdp: FiniteMDP, alpha: Number) -> Fold:
    """Return alpha * (1 - p): what a perfect model of the world could not foresee. Noise never stops paying it."""

    def step(here: int, action: int, state: int) -> tuple[int, Number]:
        return state, alpha * (1 - mdp.transition[here, action, state])

    return Fold(start=lambda state: state, step=step, name="surprise")


def closeness(mdp: FiniteMDP, alpha: Number) -> Fold:
    """Return alpha / (1 + steps to the best-paid ending), a potential of states: made for the conversion ``pbrs``."""
    steps = _distances(mdp)
    return _of_arrival(lambda state: alpha / (1 + steps[state]), "closeness")


def _of_arrival(bonus: Callable[[int], Number], name: str) -> Fold:
    """Return a bonus of the state arrived at, which remembers nothing."""

    def step(memory: tuple[()], action: int, state: int) -> tuple[tuple[()], Number]:
        del action
        return memory, bonus(state)

    return Fold(start=lambda _: (), step=step, name=name)


@dataclass(frozen=True)
class HindsightCount:
    """The count bonus computed after the episode: alpha / n, n the arrivals at s_{t+1} in the *whole* episode.

    Later arrivals lower what was paid for earlier ones, so it breaks Assumption 1.

    >>> HindsightCount(1.0)((0, 1, 1, 0, 0, 1, 1), 0)  # state 1 comes again two steps later
    0.5
    """

    alpha: Number
    sees_future: ClassVar[bool] = True
    name: ClassVar[str] = "hindsight-count"

    def __call__(self, episode: History, step: int) -> Number:
        """Return the bonus of ``step``."""
        paid: Number = self.count.bonus(episode[2::2].count(episode[2 * step + 2]))
        return paid

    @cached_property
    def count(self) -> EpisodicCount:
        """The bonus that it would be at its step."""
        return EpisodicCount(alpha=self.alpha)


def hindsight_count(mdp: FiniteMDP, alpha: Number) -> HindsightCount:
    """Return the count bonus that is computed after the episode."""
    del mdp
    return HindsightCount(alpha)


@dataclass(frozen=True)
class SampledEmpowerment:
    """How far the *next* action decides what comes of it: alpha * p(s'' | s', a') / mean over a of p(s'' | s', a).

    The sampled form of one-step empowerment (Mohamed & Rezende 2015), without the logarithm so that it stays rational.
    It reads the action after the step it pays for, so it breaks Assumption 1. (Empowerment computed exactly from the
    state alone is a potential of states like any other, and does not.)
    """

    mdp: FiniteMDP
    alpha: Number
    sees_future: ClassVar[bool] = True
    name: ClassVar[str] = "empowerment"

    def __call__(self, episode: History, step: int) -> Number:
        """Return the bonus of ``step``; 0 at the last step, after which there is nothing to choose."""
        if len(episode) < 2 * step + 5:
            return 0 * self.alpha
        here, action, arrived = episode[2 * step + 2 : 2 * step + 5]
        chances = self.mdp.transition[here, :, arrived]
        return self.alpha * chances[action] * self.mdp.num_actions / chances.sum()


def _distances(mdp: FiniteMDP) -> list[int]:
    """Return how many steps at least each state is from the terminal states with the largest reward on arrival."""
    links = mdp.links
    ends = np.flatnonzero(links.ends)
    best = max(links.reward[ends].tolist(), default=0)
    steps = [mdp.num_states] * mdp.num_states
    queue = deque(sorted({int(links.target[end]) for end in ends if links.reward[end] == best}))
    for goal in queue:
        steps[goal] = 0
    while queue:
        reached = queue.popleft()
        for state in np.unique(links.source[links.target == reached]).tolist():
            if steps[state] > steps[reached] + 1:
                steps[state] = steps[reached] + 1
                queue.append(state)
    return steps


@dataclass(frozen=True)
class NamedBonus:
    """A bonus of the gallery: how to make it for an MDP, and what it teaches."""

    teaches: str
    make: Callable[[FiniteMDP, Number], Any]


BONUSES: dict[str, NamedBonus] = {
    "count": NamedBonus("alpha / arrivals at a state this episode: the paper's bonus, makes agents stall", count),
    "novelty": NamedBonus("alpha at a state's first visit: makes agents sweep the room before they finish", novelty),
    "home": NamedBonus("alpha for being where the episode started: never want to leave", home),
    "alive": NamedBonus("alpha every step: why finish at all", alive),
    "surprise": NamedBonus("alpha * (1 - p) of what happened: in love with noise", surprise),
    "closeness": NamedBonus("alpha / (1 + steps to the goal), a potential: use it with pbrs", closeness),
    "hindsight-count": NamedBonus("count computed when the episode is over: breaks Assumption 1", hindsight_count),
    "empowerment": NamedBonus("how much the next action decides: breaks Assumption 1", SampledEmpowerment),
}
"""The bonuses of the gallery by name."""
