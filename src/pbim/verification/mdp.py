"""A finite Markov decision process, checked once so that the verifier can trust it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pbim._arrays import Values
from pbim.errors import InputError, InputTypeError
from pbim.shaping import check_gamma
from pbim.verification import _toy_text
from pbim.verification.numbers import Number, exactly, fractions, is_number

ROW_TOLERANCE = 1e-9
LARGEST = 10**300
"""The largest count that JSON readers can take for a float."""


class Links(NamedTuple):
    """The transitions of positive probability out of non-terminal states, sorted by (state, action, target).

    ``source, action, target, probability, reward, ends`` have one entry a link; ``first`` and ``fanout``, one a state,
    say where a state's links begin and how many there are.
    """

    source: Values
    action: Values
    target: Values
    probability: Values
    reward: Values
    ends: Values
    first: Values
    fanout: Values


@dataclass(frozen=True, kw_only=True, eq=False)
class FiniteMDP:
    """An MDP given by arrays: ``transition`` and ``reward`` (S, A, S), ``initial`` (S,), ``terminal`` (S,) bool.

    Arrays or nested lists; with ints and Fractions everything computed from them is exact. An episode ends on arrival
    in a terminal state, whose own rows are never read. ``states`` and ``actions`` name things for people; ``cells``
    gives the (row, column) of every state of a grid world, for pictures.

    >>> mdp = FiniteMDP(  # one step from 0 to the goal 1, or wait
    ...     transition=[[[0, 1], [1, 0]], [[0, 1], [0, 1]]],
    ...     reward=[[[0, 1], [0, 0]], [[0, 0], [0, 0]]],
    ...     initial=[1, 0], terminal=[False, True], gamma=0.9, actions=("go", "wait"))
    >>> mdp.num_states, mdp.num_actions, mdp.count_histories(3)
    (2, 2, 7)
    """

    transition: Values
    reward: Values
    initial: Values
    terminal: Values
    gamma: Number
    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    cells: Sequence[tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        for name in ("transition", "reward", "initial"):
            object.__setattr__(self, name, _numbers_of(name, getattr(self, name)))
        object.__setattr__(self, "terminal", _flags_of(self.terminal))
        check_gamma(self.gamma)
        self._check_shapes()
        self._check_probabilities()
        self._widen()
        self._check_names()

    @classmethod
    def from_arrays(cls, arrays: Sequence[Values], *, gamma: Number, **names: Any) -> "FiniteMDP":
        """Return the MDP of (transition, reward, initial, terminal), as an environment's ``arrays()`` gives them."""
        transition, reward, initial, terminal = arrays
        return cls(transition=transition, reward=reward, initial=initial, terminal=terminal, gamma=gamma, **names)

    @classmethod
    def from_toy_text(
        cls, env: Any, *, gamma: Number, initial: Values | Mapping[int, Number] | int | None = None
    ) -> "FiniteMDP":
        """Return the MDP of a Gymnasium toy-text environment, or of its table ``P[state][action]``.

        Each entry is (probability, next state, reward, terminated). Probabilities and rewards that are short fractions
        written as floats (1/3) are read as such, so that verdicts can be exact. ``initial`` is a start state, a
        distribution, or None to use the environment's ``initial_state_distrib``. Where the table both ends and does
        not end episodes on arrival in one state, the ending arrivals get a copy of the state, numbered after the rest.

        >>> table = {0: {0: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
        >>> FiniteMDP.from_toy_text(table, gamma=0.9, initial=0).terminal
        array([False,  True])
        """
        return cls(**_toy_text.read(env, initial), gamma=gamma)

    @property
    def num_states(self) -> int:
        """Return S."""
        return int(self.transition.shape[0])

    @property
    def num_actions(self) -> int:
        """Return A."""
        return int(self.transition.shape[1])

    @property
    def starts(self) -> Values:
        """Return the states in which an episode starts and something is decided, ascending."""
        return np.flatnonzero((self.initial != 0) & ~self.terminal)

    def state_name(self, state: int) -> str:
        """Return what people call a state."""
        return f"state {state}" if self.states is None else str(self.states[state])

    def action_name(self, action: int) -> str:
        """Return what people call an action."""
        return f"action {action}" if self.actions is None else str(self.actions[action])

    @cached_property
    def links(self) -> Links:
        """Return the transitions that can happen, as the MDP's own numbers."""
        possible = (self.transition != 0) & ~self.terminal[:, None, None]
        source, action, target = (index.astype(np.int64) for index in np.nonzero(possible))
        fanout = np.bincount(source, minlength=self.num_states)
        return Links(
            source=source,
            action=action,
            target=target,
            probability=self.transition[possible],
            reward=self.reward[possible],
            ends=self.terminal[target],
            first=np.cumsum(fanout) - fanout,
            fanout=fanout,
        )

    def links_as(self, exact: bool) -> Links:
        """Return the links with probabilities and rewards as Fractions or as floats."""
        links = self.links
        if not exact:
            return links._replace(probability=links.probability.astype(float), reward=links.reward.astype(float))
        return links._replace(
            probability=fractions(links.probability, "transition"), reward=fractions(links.reward, "reward")
        )

    def gamma_as(self, exact: bool) -> Number:
        """Return the discount as a Fraction or as a float."""
        if not exact:
            return float(self.gamma)
        return fractions(np.array([self.gamma], dtype=object), "gamma")[0]

    def growth(self, horizon: int) -> list[int]:
        """Return how many histories of 0, 1, ..., ``horizon`` steps can happen, ended ones included.

        The list ends early where there are more than a float can count.
        """
        links, count = self.links, np.zeros(self.num_states, dtype=object)
        count[self.starts] = 1
        sizes = [int(count.sum())]
        for _ in range(horizon):
            if sizes[-1] > LARGEST:
                break
            arrivals = count[links.source]
            sizes.append(int(arrivals.sum()) if arrivals.size else 0)
            count = np.zeros(self.num_states, dtype=object)
            np.add.at(count, links.target, arrivals)  # terminal states have no links to go on by
        return sizes

    def count_histories(self, horizon: int) -> int:
        """Return how many distinct histories of at most ``horizon`` steps can happen under any policy."""
        return sum(self.growth(horizon))

    def steps_to_reward(self) -> int | None:
        """Return after how many steps the task can pay anything but 0 for the first time; None if it never does."""
        links, here = self.links, np.zeros(self.num_states, dtype=bool)
        here[self.starts] = True
        reached = here.copy()
        for steps in range(1, self.num_states + 1):
            taken = here[links.source]
            if (links.reward[taken] != 0).any():
                return steps
            here = np.zeros(self.num_states, dtype=bool)
            here[links.target[taken & ~links.ends]] = True
            here &= ~reached
            reached |= here
        return None

    def longest_episode(self) -> int | None:
        """Return the number of steps after which every episode has ended, or None when one may go on for ever."""
        links, alive = self.links, np.zeros(self.num_states, dtype=bool)
        alive[self.starts] = True
        for steps in range(self.num_states + 1):
            if not alive.any():
                return steps
            arrived = links.target[alive[links.source] & ~links.ends]
            alive = np.zeros(self.num_states, dtype=bool)
            alive[arrived] = True
        return None

    def _check_shapes(self) -> None:
        shape = self.transition.shape
        if self.transition.ndim != 3 or shape[0] != shape[2] or 0 in shape:
            raise InputError(
                f"transition must have shape (S, A, S), received {shape}: transition[s, a, s2] is the probability of s2"
            )
        wanted = {"reward": shape, "initial": shape[:1], "terminal": shape[:1]}
        for name, expected in wanted.items():
            if getattr(self, name).shape != expected:
                raise InputError(
                    f"{name} must have shape {expected} to fit transition {shape}, "
                    f"received {getattr(self, name).shape}: reshape it"
                )

    def _check_probabilities(self) -> None:
        live = ~self.terminal
        for name, table in (("transition", self.transition[live]), ("initial", self.initial)):
            if (table < 0).any():
                raise InputError(f"{name} must hold probabilities, received {table.min()}: none may be negative")
        sums = self.transition.sum(axis=2)
        wrong = np.argwhere(live[:, None] & (abs(sums - 1) > _slack(sums)))
        if wrong.size:
            state, action = (int(index) for index in wrong[0])
            raise InputError(
                f"transition[{state}, {action}] must sum to 1, received {sums[state, action]}: give every action of "
                "every non-terminal state a distribution over successors"
            )
        total = self.initial.sum()
        if abs(total - 1) > _slack(self.initial):
            raise InputError(f"initial must sum to 1, received {total}: give at least one state a start probability")
        if not self.starts.size:
            raise InputError(
                "initial must give a non-terminal state positive probability, received terminal states only: "
                "nothing is ever decided there"
            )

    def _widen(self) -> None:
        """Keep single precision in double, with rows that sum to one there too: verdicts look closer than that."""
        for name in ("transition", "reward", "initial"):
            array = getattr(self, name)
            if array.dtype.kind != "f" or array.itemsize >= 8:
                continue
            wide = array.astype(float)
            if name != "reward":
                sums = wide.sum(axis=-1, keepdims=True)
                wide = wide / np.where(sums == 0, 1, sums)
            object.__setattr__(self, name, wide)

    def _check_names(self) -> None:
        wanted = {"states": self.num_states, "actions": self.num_actions, "cells": self.num_states}
        for name, length in wanted.items():
            given = getattr(self, name)
            if given is not None and len(given) != length:
                raise InputError(f"{name} must have {length} entries, received {len(given)}: one for each")


def _slack(sums: Values) -> float:
    """Return how far from 1 a sum of probabilities may be: their rounding, nothing where they are exact."""
    return max(ROW_TOLERANCE, 8 * float(np.finfo(sums.dtype).eps)) if sums.dtype.kind == "f" else 0


def _numbers_of(name: str, given: Any) -> Values:
    """Return numbers as an array: floats and ints as they are, anything else as exact objects."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError(f"{name} must be an array or nested lists of one shape ({error}): even it out") from None
    if array.dtype.kind in "biuf":
        finite = np.isfinite(array)
    elif array.dtype == object:
        finite = np.array([is_number(value) for value in array.ravel()], dtype=bool).reshape(array.shape)
    else:
        raise InputTypeError(f"{name} must hold real numbers, received {array.dtype}: pass floats, ints or Fractions")
    if not finite.all():
        where = tuple(int(index) for index in np.argwhere(~finite)[0])
        raise InputError(f"{name} must hold finite numbers, received {array[where]!r} at {where}: correct that entry")
    if array.dtype == object and all(exactly(value) is not None for value in array.ravel()):
        return fractions(array, name)
    return array.astype(float) if array.dtype == object else array


def _flags_of(given: Any) -> Values:
    array = np.asarray(given)
    if array.dtype == object and all(isinstance(flag, bool | np.bool_) for flag in array.ravel()):
        array = array.astype(bool)
    if array.dtype.kind != "b" and not (array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all()):
        raise InputTypeError(f"terminal must hold booleans, received {array.dtype}: mark where episodes end with True")
    return array.astype(bool)
