"""What the verifier found, for people (``str``) and for machines (``to_json``)."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pbim.verification.fold import History
from pbim.verification.mdp import LARGEST, FiniteMDP
from pbim.verification.numbers import Number, rough, shown

TIES = "The task alone calls all actions equally good at every history: this verdict is about ties and nothing else."


@dataclass(frozen=True, kw_only=True)
class Course:
    """One way an episode can go on: the whole ``history``, and what it pays from the step in question on.

    ``task`` and ``bonus`` are the discounted sums of extrinsic rewards R and of shaping rewards F'.
    """

    history: History
    task: Number
    bonus: Number

    @property
    def total(self) -> Number:
        """Return the shaped return."""
        return self.task + self.bonus


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """A shortest history at which the shaped problem has other optimal actions than the task.

    ``original_values`` and ``shaped_values`` list what every action is worth. ``original_course`` and
    ``shaped_course`` are the (most likely) ways on of an optimal policy of either problem. ``fading``: the conversion
    promises something for the time when its bonus has faded, and is judged before.
    """

    history: History
    step: int
    original_actions: tuple[int, ...]
    shaped_actions: tuple[int, ...]
    original_values: tuple[Number, ...]
    shaped_values: tuple[Number, ...]
    original_course: Course
    shaped_course: Course
    certain: bool
    bonus_name: str
    shaping_name: str
    mdp: FiniteMDP
    fading: bool = False

    @property
    def state(self) -> int:
        """Return the state in which the two problems part."""
        return self.history[-1]

    @property
    def why(self) -> str:
        """Say in plain words what happens and why."""
        act, mdp = self.mdp.action_name, self.mdp
        where = "At the very start" if self.step == 0 else f"After {_steps(self.step)}"
        task_best, shaped_best = _listed(mdp, self.original_actions), _listed(mdp, self.shaped_actions)
        added = [action for action in self.shaped_actions if action not in self.original_actions]
        chosen = (added or list(self.shaped_actions))[0]
        best = self.original_actions[0]
        verdict = (
            f"{where}, in {mdp.state_name(self.state)}, the task alone calls {task_best} best. "
            f"Add the bonus '{self.bonus_name}' through {self.shaping_name} and {shaped_best} "
            f"{'is' if len(self.shaped_actions) == 1 else 'are'} best instead. "
        )
        if not added:
            lost = next(action for action in self.original_actions if action not in self.shaped_actions)
            return verdict + (
                f"The task sees no difference between {act(lost)} and {act(chosen)} (both are worth "
                f"{shown(self.original_values[lost])}), but the shaped reward does: {shown(self.shaped_values[lost])} "
                f"against {shown(self.shaped_values[chosen])}. A tie of the task is broken by the bonus."
            )
        lost, won = (
            self.original_values[best] - self.original_values[chosen],
            self.shaped_values[chosen] - self.shaped_values[best],
        )
        return verdict + (
            f"Choosing {act(chosen)} costs {shown(lost)} of the task's return ({shown(self.original_values[chosen])} "
            f"instead of {shown(self.original_values[best])}), yet in the shaped reward it is "
            + (f"ahead by {shown(won)}" if won > 0 else "level")
            + f" ({shown(self.shaped_values[chosen])} against {shown(self.shaped_values[best])}): "
            + self._bribe()
            + f" An agent that learns the shaped reward perfectly {'does' if won > 0 else 'may do'} the wrong thing, "
            + ("until the bonus has faded." if self.fading else "however long it trains.")
        )

    def _bribe(self) -> str:
        likely = "" if self.certain else "most likely "
        mine, theirs = self.shaped_course, self.original_course
        return (
            f"the {likely}way on that it leads to collects {shown(mine.bonus)} of shaping reward in "
            f"{_steps(_length(mine.history) - self.step)}, the task's own best way {shown(theirs.bonus)} in "
            f"{_steps(_length(theirs.history) - self.step)}."
        )

    def __str__(self) -> str:
        mdp = self.mdp
        rows = [
            ("history", narrate(mdp, self.history)),
            ("the task alone", f"best: {_listed(mdp, self.original_actions)}   ({self._valued(self.original_values)})"),
            ("with the bonus", f"best: {_listed(mdp, self.shaped_actions)}   ({self._valued(self.shaped_values)})"),
            ("task's way on", narrate(mdp, self.original_course.history[2 * self.step :])),
            ("bonus's way on", narrate(mdp, self.shaped_course.history[2 * self.step :])),
        ]
        return "\n".join([*(f"  {name:<16}{text}" for name, text in rows), "", self.why])

    def _valued(self, values: tuple[Number, ...]) -> str:
        return ", ".join(f"{self.mdp.action_name(action)} {shown(value)}" for action, value in enumerate(values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "history": list(self.history),
            "step": self.step,
            "state": self.state,
            "original_actions": list(self.original_actions),
            "shaped_actions": list(self.shaped_actions),
            "original_values": _plain(self.original_values),
            "shaped_values": _plain(self.shaped_values),
            "original_course": _course(self.original_course),
            "shaped_course": _course(self.shaped_course),
            "why": self.why,
        }


@dataclass(frozen=True, kw_only=True)
class Assumption1:
    """Whether F_t is constant in the actions after t (Assumption 1 of Forbes et al. 2024), and if not, a pair of
    episodes that agree up to and including ``step`` and yet are paid differently for it.
    """  # noqa: D205

    holds: bool
    reason: str
    step: int | None = None
    episodes: tuple[History, History] | None = None
    bonuses: tuple[Number, Number] | None = None

    def __str__(self) -> str:
        return f"Assumption 1 {'holds' if self.holds else 'is BROKEN'}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "holds": self.holds,
            "reason": self.reason,
            "step": self.step,
            "episodes": None if self.episodes is None else [list(episode) for episode in self.episodes],
            "bonuses": None if self.bonuses is None else _plain(self.bonuses),
        }


@dataclass(frozen=True, kw_only=True)
class Report:
    """The verdict on one MDP, bonus and conversion.

    ``preserved``: the optimal actions are the same at every reachable history of at most ``horizon`` steps.
    ``histories`` counts those, ``expanded`` the ones built after merging equals; ``exact`` says whether rational
    arithmetic was used, and ``tolerance`` up to which relative difference floats count as equal (0 when exact).
    ``counterexample`` is a shortest history with other optimal actions, ``costly`` a shortest one where following the
    bonus also loses return in the task (a broken tie does not). ``undecided``: floats hide what decides, because it is
    smaller than the tolerance or than their rounding, so nothing is ``preserved`` and there is no counterexample.
    ``indifferent``: the task calls all actions equally good at every history, so that only ties can change.
    """

    preserved: bool
    counterexample: Counterexample | None
    costly: Counterexample | None
    assumption1: Assumption1
    histories: int
    expanded: int
    exact: bool
    tolerance: float
    horizon: int
    elapsed: float
    bonus_name: str
    shaping_name: str
    undecided: bool = False
    indifferent: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.preserved:
            head = (
                f"PRESERVED: with the bonus '{self.bonus_name}' through {self.shaping_name}, the optimal actions are "
                f"those of the task at every history of up to {_steps(self.horizon)}."
            )
        elif self.undecided:
            head = (
                f"UNDECIDED in floats: with the bonus '{self.bonus_name}' through {self.shaping_name}, actions "
                f"differ by less than the tolerance of {self.tolerance:g} times the largest returns, or by so little "
                "that rounding hides it. Pass Fractions, which decide it exactly, or a smaller tolerance."
            )
        else:
            head = f"NOT PRESERVED: the bonus '{self.bonus_name}' through {self.shaping_name} changes what is optimal."
        arithmetic = "exactly, in rational arithmetic" if self.exact else f"in floats, equal within {self.tolerance:g}"
        merged = "" if self.expanded == self.histories else f" ({self.expanded:,} after merging equal ones)"
        tail = f"Checked {rough(self.histories)} histories{merged} {arithmetic}, in {self.elapsed:.2g} s."
        parts = [head, self._narrative(), TIES if self.indifferent else "", str(self.assumption1)]
        return "\n\n".join(part for part in [*parts, *(f"Note: {note}" for note in self.notes), tail] if part)

    def _narrative(self) -> str:
        """Return the counterexample, and what it costs if that one costs nothing."""
        if self.counterexample is None:
            return ""
        if self.costly is None:
            return f"{self.counterexample}\n\nOnly ties change: no history was found where it costs the task anything."
        if self.costly.history == self.counterexample.history:
            return str(self.counterexample)
        return f"{self.counterexample}\n\nA shortest history where it also costs the task some return:\n\n{self.costly}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; exact numbers appear as floats and, beside them, as strings such as "9/10"."""
        return {
            "preserved": self.preserved,
            "undecided": self.undecided,
            "indifferent": self.indifferent,
            "counterexample": None if self.counterexample is None else self.counterexample.to_dict(),
            "costly": None if self.costly is None else self.costly.to_dict(),
            "assumption1": self.assumption1.to_dict(),
            "histories": min(self.histories, LARGEST),
            "expanded": self.expanded,
            "exact": self.exact,
            "tolerance": self.tolerance,
            "horizon": self.horizon,
            "elapsed": self.elapsed,
            "intrinsic": self.bonus_name,
            "shaping": self.shaping_name,
            "notes": list(self.notes),
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)


def narrate(mdp: FiniteMDP, history: History) -> str:
    """Return a history as people tell it: cell 0 -right-> cell 1."""
    text = mdp.state_name(history[0])
    for action, state in zip(history[1::2], history[2::2], strict=True):
        text += f" -{mdp.action_name(action)}-> {mdp.state_name(state)}"
    return text


def _length(history: History) -> int:
    return len(history) // 2


def _steps(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"


def _listed(mdp: FiniteMDP, actions: tuple[int, ...]) -> str:
    names = [mdp.action_name(action) for action in actions]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _plain(values: tuple[Number, ...]) -> dict[str, Any]:
    data: dict[str, Any] = {"values": [float(value) for value in values]}
    if all(isinstance(value, int | Fraction) for value in values):
        data["exact"] = [str(value) for value in values]
    return data


def _course(course: Course) -> dict[str, Any]:
    return {"history": list(course.history), "task": float(course.task), "bonus": float(course.bonus)}
