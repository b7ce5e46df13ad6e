"""What several workers learn together: F-bar and a bonus, merged so that nothing is lost and nothing counts twice.

Each worker owns one entry, which nobody else changes: what it added itself (counts, the sum of its bonuses), its copy
of what is averaged (networks), and its certificate. A merge keeps the newest entry of every worker, so that merging
twice, in any order, or with workers that have done nothing yet changes nothing. Sums over all entries are exact.
Averages are weighted by the steps that each worker took since the last one: the workers' networks start from one
average, train on their own steps, and meet again.
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


class Pool:
    """What one worker knows of all of them.

    >>> import numpy as np, pbim
    >>> one, other = Pool(np.ravel, pbim.PBIM(gamma=0.9)), Pool(np.ravel, pbim.PBIM(gamma=0.9))
    >>> one.join([other.state(), other.state()])
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

    def state(self) -> State:
        """Return all that is known, to be sent or saved."""
        names = {"conversion": description(self._shaping), "bonus": description(self._bonus)}
        return {**names, "workers": dict(self._workers), "average": self._average}

    def join(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Take over the newest entry of every worker, and blend what is averaged.

        Raises:
            InputError: If a state is of another conversion or bonus.

        """
        for state in states:
            self._check(state)
            for worker, entry in state["workers"].items():
                if worker not in self._workers or entry["steps"] > self._workers[worker]["steps"]:
                    self._workers[worker] = entry
            if _age(state["average"]) > _age(self._average):
                self._average = state["average"]
        self._blend()

    def note(self, path: RewardPath, steps: int) -> None:
        """Write this worker's entry, after ``steps`` steps of its own."""
        arrays = path.state_dict()
        self._workers[self._me] = {
            "steps": steps,
            "added": _sum([(self._added(arrays), 1), (self._others, -1)]),
            "averaged": self._averaged(arrays),
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
            self._taken = _age(self._average)
            arrays |= {name: array for name, array in self._average["arrays"].items() if name in arrays}
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

    def _blend(self) -> None:
        """Average what workers trained since the last average, weighted by their steps since then."""
        known = self._average["steps"]
        new = {w: e["steps"] - known.get(w, 0) for w, e in self._workers.items() if e["averaged"]}
        new = {worker: steps for worker, steps in new.items() if steps > 0}
        if not new:
            return
        parts = [(self._workers[worker]["averaged"], steps / sum(new.values())) for worker, steps in new.items()]
        names = set.intersection(*(set(arrays) for arrays, _ in parts))
        blended = {name: _blended([(arrays[name], share) for arrays, share in parts]) for name in sorted(names)}
        self._average = {"steps": {**known, **{w: self._workers[w]["steps"] for w in new}}, "arrays": blended}

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


def _blended(parts: list[tuple[Any, float]]) -> Any:
    """Return the weighted mean of arrays in their own dtype; whole numbers are rounded."""
    kind = parts[0][0].dtype
    mean = sum(share * np.asarray(array, np.float64) for array, share in parts)
    return np.asarray(mean if kind.kind == "f" else np.round(mean), kind)
