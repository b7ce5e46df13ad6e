"""What several workers learn together: F-bar and a bonus, merged so that nothing is lost and nothing counts twice.

Each worker owns one entry, which nobody else changes: what it added itself (counts, the sum of its bonuses), its copy
of what is averaged (networks), and its certificate. A merge keeps the newest entry of every worker, so that merging
twice, in any order, or with workers that have done nothing yet changes nothing. Sums over all entries are exact.
Networks start from one average, and a merge moves it by what each worker has changed by its own training since its
last entry in it, weighted by its steps since then. A worker that trained on while the merge travelled takes over the
average and adds what it has changed since then. Where nobody is late, that is the weighted mean of the networks.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from pbim.adapters._engine import RewardPath, description
from pbim.adapters._evidence import TrainingReport
from pbim.adapters.batching import Arrays
from pbim.errors import InputError
from pbim.intrinsic.protocol import Bonus
from pbim.shaping import Mean, RunningMean, Shaping

State = dict[str, Any]
"""Plain dictionaries, numbers and arrays: what a worker sends and a checkpoint holds."""

_SENT = 8
"""How many of its latest states a worker remembers, to tell what it learned since the one in an average."""


class Pool:
    """What one worker knows of all of them.

    >>> import numpy as np, pbim
    >>> one, other = Pool(np.ravel, pbim.PBIM(gamma=0.9)), Pool(np.ravel, pbim.PBIM(gamma=0.9))
    >>> one.merge([other.state(), other.state()])
    >>> one.mean()
    Mean(count=0.0, mean=0.0)
    """

    def __init__(self, intrinsic: Bonus, shaping: Shaping[Any]) -> None:
        self._bonus, self._shaping = intrinsic, shaping
        self._me = uuid.uuid4().hex
        self._workers: dict[str, State] = {}
        self._average: State = {"steps": {}, "arrays": {}}
        self._others: Arrays = {}  # what the others had added when the path last took it over
        self._taken = 0  # the steps behind the average that the path last took over
        self._before: Arrays | None = None  # what is averaged, as of the last note
        self._learned: Arrays = {}  # how much of it this worker's own training has changed in all
        self._sent: dict[int, Arrays] = {}  # the same, as of the latest states, by steps
        self._merged: dict[str, Arrays] = {}  # the same of every worker, as far as it is in the average

    def state(self) -> State:
        """Return all that is known, to be sent or saved."""
        if self._me in self._workers:
            self._sent = dict([*self._sent.items(), (self._workers[self._me]["steps"], self._learned)][-_SENT:])
        names = {"conversion": description(self._shaping), "bonus": description(self._bonus)}
        return {**names, "workers": dict(self._workers), "average": self._average}

    def join(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Take over the newest entry of every worker, and the newest average.

        Raises:
            InputError: If a state is of another conversion or bonus.

        """
        for state in states:
            self._check(state)
            for worker, entry in state["workers"].items():
                if worker not in self._workers or entry["steps"] > self._workers[worker]["steps"]:
                    self._workers[worker] = entry
            if _age(state["average"]) > _age(self._average) or not self._average["arrays"]:
                self._average = state["average"]

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Take over what workers sent, and move the average by what they have learned since it was made.

        One pool does this for all: the workers' own pools take over what it sends them.

        Raises:
            InputError: If a state is of another conversion or bonus.

        """
        self.join(states)
        known = self._average["steps"]
        new = {w: e["steps"] - known.get(w, 0) for w, e in self._workers.items() if e["averaged"]}
        new = {worker: steps for worker, steps in new.items() if steps > 0}
        if not new:
            return
        entries = {worker: self._workers[worker] for worker in new}
        changes: list[tuple[Arrays, Arrays, int]] = []
        for worker, entry in entries.items():
            nothing = entry["learned"] if worker in known else {}
            changes.append((entry["learned"], self._merged.get(worker, nothing), new[worker]))
        arrays = _moved(self._average["arrays"], changes, [entry["averaged"] for entry in entries.values()])
        self._average = {"steps": {**known, **{w: e["steps"] for w, e in entries.items()}}, "arrays": arrays}
        for worker, entry in entries.items():
            self._merged[worker] = entry["learned"]
            self._workers[worker] = {**entry, "averaged": {}, "learned": {}}  # it is in the average: nobody needs it

    def note(self, path: RewardPath, steps: int) -> None:
        """Write this worker's entry, after ``steps`` steps of its own."""
        arrays = path.state_dict()
        averaged = self._averaged(arrays)
        self._learn(averaged)
        self._workers[self._me] = {
            "steps": steps,
            "added": _sum([(self._added(arrays), 1), (self._others, -1)]),
            "averaged": averaged,
            "learned": self._learned,
            "alone": self._alone(arrays),
            "report": vars(path.report()),
        }

    def give(self, path: RewardPath, steps: int) -> None:
        """Let a path go on with what all workers know; its running episodes stay as they are."""
        self.note(path, steps)
        others = {worker: entry for worker, entry in self._workers.items() if worker != self._me}
        if not others:
            return
        arrays = path.state_dict()
        if steps == 0:
            arrays |= max(others.values(), key=lambda entry: int(entry["steps"]))["alone"]
        self._others = _sum([(entry["added"], 1) for entry in others.values()])
        arrays |= _with_means(_sum([(self._others, 1), (self._workers[self._me]["added"], 1)]))
        if _age(self._average) > self._taken:
            arrays |= self._caught_up(self._averaged(arrays))
        path.load_state_dict(arrays)

    def mean(self) -> Mean:
        """Return F-bar over the steps of all workers; empty for a conversion that has no running mean."""
        sums = _sum([(entry["added"], 1) for entry in self._workers.values()])
        counts = [name for name in sums if name.endswith(".count") and f"{name[:-6]}.total" in sums]
        if not counts:
            return Mean(0.0, 0.0)
        count, total = float(sums[counts[0]]), float(sums[f"{counts[0][:-6]}.total"])
        return Mean(count, total / count if count else 0.0)

    def report(self, own: TrainingReport) -> TrainingReport:
        """Return one verdict over the episodes of all workers; ``own`` is this worker's."""
        entries = [entry["report"] for worker, entry in self._workers.items() if worker != self._me]
        reports = [own, *(TrainingReport(**entry) for entry in entries)]
        counted = ("episodes", "bootstrapped", "abandoned")
        joined = {name: sum(getattr(each, name) for each in reports) for name in counted}
        names = [field.name for field in fields(TrainingReport) if field.name not in counted]
        return TrainingReport(**joined, **{name: max(getattr(each, name) for each in reports) for name in names})

    def _check(self, state: Mapping[str, Any]) -> None:
        for name, part in (("conversion", self._shaping), ("bonus", self._bonus)):
            if state[name] != description(part):
                raise InputError(
                    f"the state must be of the same {name}, received one of {state[name]}, this connector has "
                    f"{description(part)}: build it with the {name} the state was saved with"
                )

    def _learn(self, averaged: Arrays) -> None:
        """Add to what this worker's training has changed; the first arrays are what it starts from."""
        if self._before is None:
            self._before = averaged
        if not self._average["arrays"]:
            self._average = {"steps": {}, "arrays": averaged}
        learned, before = self._learned, self._before
        self._learned = {
            name: _plus(learned.get(name, 0), array, before.get(name, 0)) for name, array in averaged.items()
        }
        self._before = averaged

    def _caught_up(self, own: Arrays) -> Arrays:
        """Return the average, moved by what this worker has learned since its entry in it."""
        self._taken = _age(self._average)
        steps = self._average["steps"].get(self._me, 0)
        known = self._sent.get(steps, self._learned) if steps else {}
        self._sent = {sent: learned for sent, learned in self._sent.items() if sent >= steps}
        arrays = _moved(self._average["arrays"], [(self._learned, known, 1)], [own])
        self._before = {**own, **arrays}
        return arrays

    def _added(self, arrays: Arrays) -> Arrays:
        """Return what workers add up: counts, and for a running mean its count and total."""
        found = {name: array for name, array in arrays.items() if self._declares("added", name)}
        if "shaping.transitions" in arrays:
            found["shaping.transitions"] = arrays["shaping.transitions"]
        for stem in self._running_means(arrays):
            count, mean = arrays[f"{stem}.count"], arrays[f"{stem}.mean"]
            found |= {f"{stem}.count": count, f"{stem}.total": count * mean}
        return found

    def _averaged(self, arrays: Arrays) -> Arrays:
        found = {name: array for name, array in arrays.items() if self._declares("averaged", name)}
        means = self._running_means(arrays)
        for name, array in arrays.items():  # a conversion's numbers without an axis are shared by its environments
            if name.startswith("shaping.") and array.ndim == 0 and name != "shaping.transitions":
                found |= {} if name.rpartition(".")[0] in means else {name: array}
        return found

    def _alone(self, arrays: Arrays) -> Arrays:
        """Return what a bonus that says nothing about sharing has learned: a new worker goes on with it."""
        own = {name: array for name, array in arrays.items() if name.startswith("intrinsic.")}
        shared = any(self._declares(how, name) for how in ("added", "averaged") for name in own)
        return {} if shared or getattr(self._bonus, "episodic", False) else own

    def _declares(self, how: str, name: str) -> bool:
        part, _, rest = name.partition(".")
        return part == "intrinsic" and _declares(self._bonus, how, rest)

    def _running_means(self, arrays: Arrays) -> list[str]:
        conversion = getattr(self._shaping, "members", (self._shaping,))[0]
        normalize = getattr(conversion, "normalize", False)
        if normalize is not True and not isinstance(normalize, RunningMean):
            return []
        return [name[:-6] for name in arrays if name.startswith("shaping.") and name.endswith(".count")]


def _declares(bonus: Any, how: str, name: str) -> bool:
    """Tell whether a bonus, or the part of it that a name belongs to, lists a saved array as added or averaged."""
    number, _, rest = name.partition(".")
    inner = getattr(bonus, "inner", ())
    if number.isdigit() and int(number) < len(inner):
        return _declares(inner[int(number)], how, rest)
    return any(name == head or name.startswith((f"{head}.", f"{head}[")) for head in getattr(bonus, how, ()))


def _age(average: Mapping[str, Any]) -> int:
    return sum(average["steps"].values())


def _sum(parts: Iterable[tuple[Arrays, int]]) -> Arrays:
    """Return the sum of arrays by name, each part times its sign; tables of texts and numbers add up by their texts."""
    sums: Arrays = {}
    tables: dict[str, Counter[str]] = {}
    for arrays, sign in parts:
        for name, array in arrays.items():
            if name.endswith("key"):
                table = tables.setdefault(name[:-3], Counter())
                for key, value in zip(array.tolist(), arrays[f"{name[:-3]}value"].tolist(), strict=True):
                    table[key] += sign * value
            elif f"{name.removesuffix('value')}key" not in arrays:
                sums[name] = sums[name] + sign * array if name in sums else sign * array
    for stem, table in tables.items():
        kept = {key: value for key, value in table.items() if value}
        sums |= {f"{stem}key": np.array(list(kept), np.str_), f"{stem}value": np.array(list(kept.values()), np.int64)}
    return sums


def _with_means(sums: Arrays) -> Arrays:
    """Return sums with means in place of totals."""
    means = {name: array for name, array in sums.items() if not name.endswith(".total")}
    for name in sums.keys() - means.keys():
        count = sums[f"{name[:-6]}.count"]
        means[f"{name[:-6]}.mean"] = sums[name] / (count + (count == 0))
    return means


def _plus(sum_so_far: Any, array: Any, before: Any) -> Any:
    """Return a sum with one more change, in the dtype of the array if that has fractions."""
    total = sum_so_far + np.subtract(array, before, dtype=np.float64)
    return np.asarray(total, array.dtype if array.dtype.kind == "f" else np.float64)


def _moved(start: Arrays, changes: list[tuple[Arrays, Arrays, int]], newest: list[Arrays]) -> Arrays:
    """Return arrays moved by the weighted mean of changes, in the dtypes of the newest; whole numbers are rounded.

    What nobody has below zero (a variance, a count) stays at or above the least that anybody has: two late changes
    may take more away than there is.
    """
    total = sum(weight for *_, weight in changes)
    moved: Arrays = {}
    for name in sorted(set.intersection(*(set(arrays) for arrays in newest))):
        parts = [arrays[name] for arrays in newest] + ([start[name]] if name in start else [])
        steps = (
            weight / total * np.subtract(now[name], then.get(name, 0), dtype=np.float64)
            for now, then, weight in changes
        )
        array = start.get(name, 0) + sum(steps)
        least = np.minimum.reduce(parts)
        if np.all(least >= 0):
            array = np.maximum(array, least)
        kind = parts[0].dtype
        moved[name] = np.asarray(array if kind.kind == "f" else np.round(array), kind)
    return moved
