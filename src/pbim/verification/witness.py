"""What shows that a term is unsafe: two ways on from one state that it pays differently, and a task it spoils."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from pbim.verification.fold import Fold
from pbim.verification.mdp import FiniteMDP
from pbim.verification.verifier import MAX_HORIZON

Kind = Literal["cycle", "ways", "open ways", "pair", "transition"]
SHOWN, LONG = 8, 60
"""So many states of a way are named before the rest is counted, and a longer name is replaced by a row of the log."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One transition of the log: ``row`` is where it stands, ``pay`` what the term paid for it."""

    state: Hashable
    next_state: Hashable
    pay: float
    terminated: bool
    row: int


@dataclass(frozen=True, kw_only=True)
class Way:
    """Transitions one after the other, from the state ``start`` on.

    ``total`` is their discounted pay from the first step on, with the rounds that follow for ever: the way repeats
    itself from step number ``repeats`` on, unless that is None. A way without end and without repetition stops with the
    log, or where the other way of a witness goes on just the same.
    """

    start: Hashable
    steps: tuple[Step, ...]
    repeats: int | None
    total: float

    @property
    def ends(self) -> bool:
        """Tell whether it leads to the end of an episode."""
        return bool(self.steps) and self.steps[-1].terminated

    def __str__(self) -> str:
        names = self._names()
        if len(names) > SHOWN:
            names = [*names[: SHOWN - 2], f"({len(names) - SHOWN + 1} more)", names[-1]]
        tail = " (the end)" if self.ends else "" if self.repeats is None else ", and so on for ever"
        return " -> ".join(names) + tail

    def _names(self) -> list[str]:
        """Return what the states are called; images and the like by the first row of the way that has them."""
        names = {step.next_state: _name(step.next_state, f"next_obs[{step.row}]") for step in reversed(self.steps)}
        names |= {step.state: _name(step.state, f"obs[{step.row}]") for step in reversed(self.steps)}
        first = names.get(self.start, _name(self.start, "this state"))
        return [first, *(names[step.next_state] for step in self.steps)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "states": [_json(self.start), *(_json(step.next_state) for step in self.steps)],
            "pays": [step.pay for step in self.steps],
            "rows": [step.row for step in self.steps],
            "ends": self.ends,
            "repeats": self.repeats,
            "total": self.total,
        }


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Transitions of the log that no potential explains together.

    What each ``kind`` proves, where gamma is the discount that was asked about:

    - ``cycle``: one round of ``way`` leads back to where it starts, and going round once before going on ``instead`` is
      paid ``difference`` more (or less) than going on at once. A potential makes that 0 at every round.
    - ``ways``: from one state, ``way`` and ``instead`` are paid differently by ``difference``, discounted and to their
      ends. A potential pays every way on from a state the same, -Phi of that state.
    - ``open ways``: the same where a way stops with the log: no value of the states where it stops, which the rest of
      the log determines, makes the two equal.
    - ``pair``: the same transition is paid differently in two rows.
    - ``transition``: the row that the fitted potential explains worst (continuous observations: no proof).

    ``name`` is what usually causes it, if that was recognised; ``ends`` then says which potential the end states have.
    """

    kind: Kind
    way: Way
    instead: Way | None
    difference: float
    gamma: float
    name: str = ""
    ends: Mapping[Hashable, float] = field(default_factory=dict)

    def __str__(self) -> str:
        listed = ", ".join(f"{value:.4g} at {state}" for state, value in islice(self.ends.items(), SHOWN))
        parts = [f"{self.name}{': ' if listed else ''}{listed}."] if self.name else []
        return " ".join([*parts, getattr(self, f"_{self.kind.replace(' ', '_')}")()])

    def task(self) -> "Task | None":
        """Return a task in which the term changes what is optimal; None if the witness does not hold one."""
        return make_task(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "way": self.way.to_dict(),
            "instead": None if self.instead is None else self.instead.to_dict(),
            "difference": self.difference,
            "ends": [{"state": _json(state), "potential": value} for state, value in self.ends.items()],
            "text": str(self),
        }

    def _cycle(self) -> str:
        pays = sum(step.pay for step in self.way.steps)
        agree = pays != 0 and (pays > 0) == (self.difference > 0)
        verb = "is paid" if not agree else "pays" if pays > 0 else "costs"
        rows = ", ".join(str(step.row) for step in self.way.steps[:SHOWN])
        path = str(replace(self.way, repeats=None))
        where = f"row{'s' if len(self.way.steps) > 1 else ''} {rows}"
        text = f"{path} {verb} {pays if verb == 'is paid' else abs(pays):.4g} in each round ({where})"
        if self.gamma == 1:
            return f"{text}; a potential pays 0 per round."
        going = "" if self.instead is None else f", {self.instead},"
        effect = "adds" if self.difference > 0 else "takes away"
        return f"{text}; one more round before going on{going} {effect} {abs(self.difference):.4g}, discounted."

    def _ways(self) -> str:
        return (
            f"From {self.way._names()[0]}, the way {self.way} is paid {self.way.total:.4g} and the way {self.instead} "
            f"{0 if self.instead is None else self.instead.total:.4g}, discounted: a potential pays both the same."
        )

    def _open_ways(self) -> str:
        return (
            f"{self._ways()[:-1]} once the values of the states where the log stops are settled, and no values "
            "of these settle all transitions."
        )

    def _pair(self) -> str:
        one, other = self.way.steps[0], (self.instead or self.way).steps[0]
        paid = f"is paid {one.pay:.4g} in row {one.row} and {other.pay:.4g} in row {other.row}"
        return f"{' -> '.join(self.way._names())} {paid}."

    def _transition(self) -> str:
        step = self.way.steps[0]
        rest = f"{step.pay - self.difference:.4g} by the fitted potential"
        return f"The worst explained is row {step.row}: it is paid {step.pay:.4g}, and would be paid {rest}."


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task made from a witness: at its start the agent chooses between two ways, and the term decides wrongly.

    Pass it to ``pbim.verify(task.mdp, intrinsic=task.bonus, shaping=..., horizon=task.horizon)``: with ``pbim.Raw()``
    the optimum changes. The task prefers one way by half of what the term pays more for the other; nothing else is
    rewarded. Where ways stop with the log, the episode stops in one step more, unpaid; one for ever is
    cut where the rest hardly matters.
    """

    mdp: FiniteMDP
    bonus: Fold
    horizon: int


def make_task(witness: Witness) -> Task | None:
    """Return the task of a witness, None if it has no two ways on or they take too many steps to tell apart."""
    if witness.kind in ("pair", "transition") or (witness.instead is None and witness.gamma < 1):
        return None
    ways = _unrolled(witness)
    if ways is None:
        return None
    pays = [sum(witness.gamma**step * pay for step, pay in enumerate(way)) for way in ways]
    difference = pays[0] - pays[1]
    if not difference:
        return None
    lengths = [len(way) for way in ways]
    names = ["the start", *(f"way {which + 1}, step {at + 1}" for which in (0, 1) for at in range(lengths[which]))]
    states = len(names)
    transition, reward = np.zeros((states, 2, states)), np.zeros((states, 2, states))
    terminal, paid = np.zeros(states, dtype=bool), dict[tuple[int, int], float]()
    first = (1, 1 + lengths[0])
    for which, way in enumerate(ways):
        path = [0, *range(first[which], first[which] + lengths[which])]
        terminal[path[-1]] = True
        for at, pay in enumerate(way):
            actions = [which] if at == 0 else [0, 1]
            transition[path[at], actions, path[at + 1]] = 1
            paid[path[at], path[at + 1]] = pay
    better = 1 if difference > 0 else 0
    reward[0, better, first[better]] = abs(difference) / 2
    mdp = FiniteMDP(
        transition=transition,
        reward=reward,
        initial=np.arange(states) == 0,
        terminal=terminal,
        gamma=witness.gamma,
        states=names,
        actions=("the way", "the other way"),
    )
    bonus = Fold(start=lambda state: state, step=lambda here, _, state: (state, paid[here, state]), name="the term")
    return Task(mdp=mdp, bonus=bonus, horizon=max(lengths))


def _unrolled(witness: Witness) -> tuple[list[float], list[float]] | None:
    """Return the pays of the two ways, those for ever cut off where they differ about as much as they do in the end."""
    way, instead = witness.way, witness.instead
    if witness.kind == "cycle":  # one round and then on; at gamma = 1 whatever follows pays both the same, here 0
        rounds = [step.pay for step in way.steps]
        one, other = ([0.0], [0.0]) if instead is None else (_pays(instead), _pays(instead))
        one = rounds + one
    elif instead is None:
        return None
    else:  # where ways stop with the log, the episode stops in one step more
        stop = [0.0] if witness.kind == "open ways" else []
        one, other = _pays(way) + stop, _pays(instead) + stop
    endless = instead is not None and instead.repeats is not None
    endless = endless or (witness.kind != "cycle" and way.repeats is not None)
    if not endless:
        return (one, other) if max(len(one), len(other)) <= MAX_HORIZON else None
    one, other = one[:MAX_HORIZON], other[:MAX_HORIZON]
    sums = [_running(pays, witness.gamma) for pays in (one, other)]
    first = 2 * len(way.steps) + (0 if instead is None else len(instead.steps))
    close = np.abs(sums[0] - sums[1] - witness.difference) <= abs(witness.difference) / 4
    close[:first] = False
    if not close.any():
        return None
    steps = int(np.argmax(close)) + 1
    return one[:steps], other[:steps]


def _running(pays: Sequence[float], gamma: float) -> Any:
    """Return the discounted sums of the first 1, 2, ... pays, (MAX_HORIZON,); after the last one they stay."""
    padded = np.zeros(MAX_HORIZON)
    padded[: len(pays)] = pays
    return np.cumsum(gamma ** np.arange(MAX_HORIZON) * padded)


def _pays(way: Way) -> list[float]:
    """Return the pays of a way; if it repeats itself, of as many steps as an episode may have."""
    pays = [step.pay for step in way.steps]
    while way.repeats is not None and len(pays) < MAX_HORIZON:
        pays += [step.pay for step in way.steps[way.repeats :]]
    return pays


def _name(label: Any, row: str) -> str:
    """Return a state in words: the parts of a dict by their names; a long one by its row in the log."""
    named = isinstance(label, tuple) and label and all(isinstance(p, tuple) and len(p) == 2 for p in label)
    if named and all(isinstance(part, str) for part, _ in label):
        text = f"({', '.join(f'{part}={value}' for part, value in label)})"
    else:
        text = str(label)
    return text if len(text) <= LONG else row


def _json(label: Any) -> Any:
    """Return a state's name as JSON has it."""
    if isinstance(label, tuple | list):
        return [_json(part) for part in label]
    return label if isinstance(label, bool | int | float | str) or label is None else str(label)


def pair(steps: Sequence[Step], gamma: float, name: str) -> Witness:
    """Return the witness of two rows of one transition that are paid differently."""
    one, other = (Way(start=step.state, steps=(step,), repeats=None, total=step.pay) for step in steps)
    return Witness(kind="pair", way=one, instead=other, difference=one.total - other.total, gamma=gamma, name=name)
