"""Bonuses made of bonuses: scaling, normalising, adding, warming up. All act before the conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import flags, integers, numeric, positive, same_num_envs, within
from pbim.intrinsic._moments import Moments, merge, spread, standardize
from pbim.intrinsic.protocol import Bonus, Intrinsic, Transition, as_intrinsic

__all__ = ["NormalizedObservations", "RunningStdScaled", "Scaled", "Sum", "WarmUp"]

Arrays = dict[str, NDArray[np.generic]]
Rewards = NDArray[np.floating[Any]]


def _saved(bonus: Intrinsic, prefix: str) -> Arrays:
    """Return what the inner bonus saves, each name under ``prefix``; nothing if it does not save."""
    inner = bonus.state_dict() if hasattr(bonus, "state_dict") else {}
    return {f"{prefix}.{name}": value for name, value in inner.items()}


def _load(bonus: Intrinsic, prefix: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    if hasattr(bonus, "load_state_dict"):
        mine = {name[len(prefix) + 1 :]: value for name, value in arrays.items() if name.startswith(f"{prefix}.")}
        bonus.load_state_dict(mine)


def _restart(bonus: Intrinsic, where: NDArray[np.bool_]) -> None:
    if hasattr(bonus, "restart"):
        bonus.restart(where)


class _Around:
    """What every composition of one bonus shares: it says of itself what the inner bonus says, and saves it."""

    def __init__(self, bonus: Bonus) -> None:
        self.bonus = as_intrinsic(bonus)
        self.causal: bool = getattr(self.bonus, "causal", True)
        self.episodic: bool = getattr(self.bonus, "episodic", False)

    def update(self, transition: Transition, /) -> None:
        """Let the inner bonus learn."""
        self.bonus.update(transition)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Let the inner bonus forget the episodes that were abandoned, where true (num_envs,)."""
        _restart(self.bonus, where)

    def state_dict(self) -> Arrays:
        """Return the state of this bonus and the inner one as flat arrays."""
        return _saved(self.bonus, "bonus")

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        _load(self.bonus, "bonus", arrays)


class Scaled(_Around):
    """Pay ``coefficient`` times the inner bonus.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> Scaled(lambda transition: np.array([2.0]), 0.1).reward(step)
    array([0.2])
    """

    def __init__(self, bonus: Bonus, coefficient: float) -> None:
        if not np.isfinite(coefficient):
            raise InputError(f"Scaled: coefficient must be finite, got {coefficient!r}.")
        super().__init__(bonus)
        self.coefficient = coefficient

    def reward(self, transition: Transition, /) -> Rewards:
        """Return the bonus of this step, shape (num_envs,)."""
        return self.coefficient * self.bonus.reward(transition)


class RunningStdScaled(_Around):
    """Divide the inner bonus by the running standard deviation of its discounted sum.

    The statistics are those of earlier steps, fixed while a step is paid, so the divisor does not depend on the action
    it scales. They change within an episode, which is harmless here, before the conversion, and would break it after.
    Each environment's sum starts anew when its episode ends; rows that are not valid leave no trace.

    Burda et al. 2019, Section 2.4 (the sum is that of Gymnasium's ``NormalizeReward``).

    >>> no = np.array([False, False])
    >>> step = Transition(np.zeros(2, int), np.zeros(2, int), np.zeros(2, int), no, no, {})
    >>> bonus = RunningStdScaled(lambda transition: np.array([0.0, 4.0]), gamma=0.9)
    >>> bonus.update(step)
    >>> bonus.reward(step)
    array([0., 2.])
    """

    def __init__(self, bonus: Bonus, gamma: float) -> None:
        within("RunningStdScaled", 0, 1, gamma=gamma)
        super().__init__(bonus)
        self.gamma = gamma
        self._moments = Moments(0.0, 0.0, 0.0)
        self._sums: NDArray[np.float64] = np.zeros(0)
        self._paid: tuple[Transition, Rewards] | None = None

    def reward(self, transition: Transition, /) -> Rewards:
        """Return the bonus of this step, shape (num_envs,)."""
        inner = self.bonus.reward(transition)
        self._paid = (transition, inner)
        return np.asarray(inner / float(spread(self._moments) + 1e-16) ** 0.5)

    def update(self, transition: Transition, /) -> None:
        """Add this step's discounted sums to the statistics, then let the inner bonus learn."""
        over, valid = flags("RunningStdScaled", transition)
        known = self._paid is not None and self._paid[0] is transition
        inner = self._paid[1] if known and self._paid else self.bonus.reward(transition)
        self._paid = None
        if not len(self._sums):
            self._sums = np.zeros(len(over))
        same_num_envs("RunningStdScaled", len(self._sums), len(over))
        sums = np.where(valid, self.gamma * self._sums + inner, self._sums)
        self._moments = Moments(*map(float, merge(self._moments, sums, valid.astype(np.float64))))
        self._sums = np.where(over & valid, 0.0, sums)
        self.bonus.update(transition)

    def state_dict(self) -> Arrays:
        """Return the state of this bonus and the inner one as flat arrays."""
        return super().state_dict() | {"moments": np.array(self._moments), "sums": self._sums.copy()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        super().load_state_dict(arrays)
        self._moments = Moments(*arrays["moments"].tolist())
        self._sums = np.array(arrays["sums"], dtype=np.float64)


class NormalizedObservations(_Around):
    """Show the inner bonus observations that are centred, divided by their running standard deviation and clipped.

    Reward and update of one step see the same statistics, those of earlier steps.

    >>> no = np.array([False, False])
    >>> step = Transition(np.array([[0.0], [4.0]]), np.zeros(2), np.array([[0.0], [4.0]]), no, no, {})
    >>> bonus = NormalizedObservations(lambda transition: transition.next_obs[:, 0])
    >>> bonus.update(step)
    >>> bonus.reward(step).round(3)
    array([-1.,  1.])
    """

    def __init__(self, bonus: Bonus, *, clip: float = 5.0) -> None:
        positive("NormalizedObservations", clip=clip)
        super().__init__(bonus)
        self.clip = clip
        self._moments: Moments | None = None

    def reward(self, transition: Transition, /) -> Rewards:
        """Return the bonus of this step, shape (num_envs,)."""
        return self.bonus.reward(self._seen(transition))

    def update(self, transition: Transition, /) -> None:
        """Let the inner bonus learn, then add this step's next observations to the statistics."""
        self.bonus.update(self._seen(transition))
        _, valid = flags("NormalizedObservations", transition)
        rows = self._array("next_obs", transition)
        self._moments = merge(self._before(rows), rows, valid.astype(np.float64))

    def state_dict(self) -> Arrays:
        """Return the state of this bonus and the inner one as flat arrays."""
        if self._moments is None:
            return super().state_dict()
        return super().state_dict() | {name: np.asarray(value) for name, value in self._moments._asdict().items()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        super().load_state_dict(arrays)
        self._moments = Moments(*(arrays[name] for name in Moments._fields)) if "count" in arrays else None

    def _array(self, name: str, transition: Transition) -> NDArray[np.float64]:
        _, valid = flags("NormalizedObservations", transition)
        value = numeric("NormalizedObservations", name, getattr(transition, name), valid)
        if not isinstance(value, np.ndarray):
            raise InputTypeError(
                f"NormalizedObservations: reads one array per observation, got a {type(value).__name__}; wrap the "
                f"bonus in a function that picks or joins the arrays first."
            )
        return value.astype(np.float64)

    def _before(self, rows: NDArray[np.float64]) -> Moments:
        return self._moments or Moments(0.0, np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:]))

    def _seen(self, transition: Transition) -> Transition:
        obs, next_obs = (self._array(name, transition) for name in ("obs", "next_obs"))
        moments = self._before(next_obs)
        return Transition(
            standardize(moments, obs, self.clip),
            transition.action,
            standardize(moments, next_obs, self.clip),
            transition.terminated,
            transition.truncated,
            transition.info,
            getattr(transition, "valid", None),
        )


class WarmUp(_Around):
    """Pay nothing for the first ``steps`` updates, in which the inner bonus already learns.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> bonus = WarmUp(lambda transition: np.array([2.0]), steps=1)
    >>> cold = bonus.reward(step)
    >>> bonus.update(step)
    >>> float(cold[0]), float(bonus.reward(step)[0])
    (0.0, 2.0)
    """

    def __init__(self, bonus: Bonus, steps: int) -> None:
        integers("WarmUp", steps=steps)
        super().__init__(bonus)
        self.steps = steps
        self._done = 0

    def reward(self, transition: Transition, /) -> Rewards:
        """Return the bonus of this step, shape (num_envs,)."""
        return self.bonus.reward(transition) * float(self._done >= self.steps)

    def update(self, transition: Transition, /) -> None:
        """Let the inner bonus learn and count the step."""
        self.bonus.update(transition)
        self._done += bool(flags("WarmUp", transition)[1].any())

    def state_dict(self) -> Arrays:
        """Return the state of this bonus and the inner one as flat arrays."""
        return super().state_dict() | {"done": np.array(self._done)}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        super().load_state_dict(arrays)
        self._done = int(arrays["done"])


class Sum:
    """Pay the sum of several bonuses.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> Sum(lambda transition: np.array([2.0]), lambda transition: np.array([0.5])).reward(step)
    array([2.5])
    """

    def __init__(self, *bonuses: Bonus) -> None:
        if not bonuses:
            raise InputError("Sum: pass at least one bonus.")
        self.bonuses = tuple(map(as_intrinsic, bonuses))
        self.causal = all(getattr(bonus, "causal", True) for bonus in self.bonuses)
        self.episodic = any(getattr(bonus, "episodic", False) for bonus in self.bonuses)

    def reward(self, transition: Transition, /) -> Rewards:
        """Return the bonus of this step, shape (num_envs,)."""
        return np.sum([bonus.reward(transition) for bonus in self.bonuses], axis=0)  # type: ignore[no-any-return]

    def update(self, transition: Transition, /) -> None:
        """Let every bonus learn."""
        for bonus in self.bonuses:
            bonus.update(transition)

    def restart(self, where: NDArray[np.bool_], /) -> None:
        """Let every bonus forget the episodes that were abandoned, where true (num_envs,)."""
        for bonus in self.bonuses:
            _restart(bonus, where)

    def state_dict(self) -> Arrays:
        """Return the states of all bonuses as flat arrays."""
        return {k: v for index, bonus in enumerate(self.bonuses) for k, v in _saved(bonus, str(index)).items()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[np.generic]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        for index, bonus in enumerate(self.bonuses):
            _load(bonus, str(index), arrays)
