"""Bonuses made of bonuses: scaling, normalising, adding, warming up. All act before the conversion."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pbim._arrays import array_namespace
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic._checks import flags, integers, numeric, positive, same_num_envs, within
from pbim.intrinsic._moments import Moments, merge, standardize
from pbim.intrinsic._parts import Composition
from pbim.intrinsic.protocol import Bonus, Transition, as_intrinsic, ended

__all__ = ["NormalizedObservations", "RunningStdScaled", "Scaled", "Sum", "WarmUp"]


@dataclass(frozen=True)
class Around(Composition):
    """A composition of one bonus."""

    bonus: Bonus

    def __post_init__(self) -> None:
        as_intrinsic(self.bonus)
        super().__post_init__()

    @property
    def inner(self) -> tuple[Bonus, ...]:
        """The one bonus."""
        return (self.bonus,)


@dataclass(frozen=True)
class Scaled(Around):
    """Pay ``coefficient`` times the inner bonus.

    Args:
        bonus: The inner bonus.
        coefficient: Any finite number; a Fraction keeps ``pbim.verify`` exact.

    Raises:
        InputError: If the coefficient is not finite, or ``bonus`` is no bonus.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> Scaled(lambda transition: np.array([2.0]), 0.1).reward(step)
    array([0.2])

    """

    coefficient: float | Fraction

    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        if not math.isfinite(self.coefficient):
            raise InputError(f"Scaled: coefficient must be finite, received {self.coefficient!r}: pass a number")
        super().__post_init__()

    def pay(self, own: tuple[()], paid: Sequence[Any]) -> Any:
        """Return the scaled bonus."""
        del own
        exact = isinstance(paid[0], int | Fraction)  # arrays know no Fractions
        return (self.coefficient if exact else float(self.coefficient)) * paid[0]


class Sums(NamedTuple):
    """Count, mean and variance of the discounted sums so far, and the running sums (num_envs,)."""

    count: Any
    mean: Any
    variance: Any
    sums: Any


@dataclass(frozen=True)
class RunningStdScaled(Around):
    """Divide the inner bonus by the running standard deviation of its discounted sum.

    The statistics are those of earlier steps, fixed while a step is paid, so the divisor does not depend on the action
    it scales; one sum of 0 is always among them, so that a few that are alike do not make the next bonus explode. They
    change within an episode, which is harmless here, before the conversion, and would break it after. Each
    environment's sum starts anew when its episode ends; rows that are not valid leave no trace. ``update`` asks the
    inner bonus for the reward of its step.

    Burda et al. 2019, Section 2.4 (the sum is that of Gymnasium's ``NormalizeReward``).

    Args:
        bonus: The inner bonus.
        gamma: The discount of the sums, in [0, 1].

    Raises:
        InputError: If gamma is outside [0, 1], or ``bonus`` is no bonus.

    >>> no = np.array([False, False])
    >>> step = Transition(np.zeros(2, int), np.zeros(2, int), np.zeros(2, int), no, no, {})
    >>> bonus = RunningStdScaled(lambda transition: np.array([0.0, 4.0]), gamma=0.9)
    >>> bonus.update(step)
    >>> bonus.reward(step)  # the sums so far: 0, 4, and the 0 that is always there
    array([0.        , 2.12132034])

    """

    gamma: float

    kind: ClassVar[str] = "running-std-scaled"
    statistics: ClassVar[type[Any] | None] = Sums
    averaged: ClassVar[tuple[str, ...]] = ("count", "mean", "variance")
    learns_from_pay: ClassVar[bool] = True

    def __post_init__(self) -> None:
        within("RunningStdScaled", 0, 1, gamma=self.gamma)
        super().__post_init__()

    @property
    def stepwise(self) -> bool:
        """True: the sums follow the steps."""
        return True

    def check(self, transition: Transition) -> Transition:
        """Return a transition with boolean flags and ``valid``."""
        return _flagged("RunningStdScaled", transition)

    def start(self, example: Transition) -> Sums:
        """Return empty statistics."""
        nothing = np.zeros(())
        return Sums(nothing, nothing, nothing, np.zeros(example.terminated.shape))

    def pay(self, own: Sums, paid: Sequence[Any]) -> Any:
        """Return the bonus over the standard deviation of earlier sums, as if one more of them had been 0.

        Without that one, two sums that happen to be alike would make the next bonus hundreds of times too large.
        """
        n = own.count
        variance = n / (n + 1) * (own.variance + own.mean**2 / (n + 1))
        return paid[0] / (variance + (n == 0) + 1e-16) ** 0.5

    def learn(self, own: Sums, transition: Transition, paid: Sequence[Any]) -> Sums:
        """Return the statistics with this step's discounted sums."""
        valid, over = transition.valid, ended(transition)
        same_num_envs("RunningStdScaled", len(own.sums), len(over))
        xp = array_namespace(own.sums)
        sums = xp.where(valid, self.gamma * own.sums + paid[0], own.sums)
        moments = merge(Moments(*own[:3]), sums, xp.astype(valid, sums.dtype))
        return Sums(*moments, xp.where(over & valid, xp.zeros_like(sums), sums))


@dataclass(frozen=True)
class NormalizedObservations(Around):
    """Show the inner bonus observations that are centred, divided by their running standard deviation and clipped.

    Reward and update of one step see the same statistics, those of earlier steps.

    Args:
        bonus: The inner bonus.
        clip: The largest magnitude that the inner bonus sees.

    Raises:
        InputError: If clip is not a finite number above 0, or ``bonus`` is no bonus.

    >>> no = np.array([False, False])
    >>> step = Transition(np.array([[0.0], [4.0]]), np.zeros(2), np.array([[0.0], [4.0]]), no, no, {})
    >>> bonus = NormalizedObservations(lambda transition: transition.next_obs[:, 0])
    >>> bonus.update(step)
    >>> bonus.reward(step).round(3)
    array([-1.,  1.])

    """

    clip: float = 5.0

    kind: ClassVar[str] = "normalized-observations"
    statistics: ClassVar[type[Any] | None] = Moments
    averaged: ClassVar[tuple[str, ...]] = ("count", "mean", "variance")

    def __post_init__(self) -> None:
        positive("NormalizedObservations", clip=self.clip)
        super().__post_init__()

    def check(self, transition: Transition) -> Transition:
        """Return a transition with observations of finite float64, boolean flags and ``valid``."""
        step = _flagged("NormalizedObservations", transition)
        return step._replace(**{name: _rows(name, step) for name in ("obs", "next_obs")})

    def start(self, example: Transition) -> Moments:
        """Return empty statistics, one number per entry of an observation."""
        return Moments(np.zeros(()), *np.zeros((2, *example.next_obs.shape[1:])))

    def view(self, own: Moments, transition: Transition) -> Transition:
        """Return the transition with standardised observations."""
        obs, next_obs = (standardize(own, rows, self.clip) for rows in (transition.obs, transition.next_obs))
        return transition._replace(obs=obs, next_obs=next_obs)

    def pay(self, own: Moments, paid: Sequence[Any]) -> Any:
        """Return what the inner bonus pays."""
        del own
        return paid[0]

    def learn(self, own: Moments, transition: Transition, paid: Sequence[Any]) -> Moments:
        """Return the statistics with this step's next observations."""
        del paid
        return merge(own, transition.next_obs, array_namespace(own.mean).astype(transition.valid, own.mean.dtype))


class UpdateCount(NamedTuple):
    """How many updates there were."""

    done: Any


@dataclass(frozen=True)
class WarmUp(Around):
    """Pay nothing for the first ``steps`` updates, in which the inner bonus already learns.

    Args:
        bonus: The inner bonus.
        steps: How many updates are not paid.

    Raises:
        InputError: If steps is not an integer of at least 1, or ``bonus`` is no bonus.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> bonus = WarmUp(lambda transition: np.array([2.0]), steps=1)
    >>> cold = bonus.reward(step)
    >>> bonus.update(step)
    >>> float(cold[0]), float(bonus.reward(step)[0])
    (0.0, 2.0)

    """

    steps: int

    kind: ClassVar[str] = "warm-up"
    statistics: ClassVar[type[Any] | None] = UpdateCount
    averaged: ClassVar[tuple[str, ...]] = ("done",)

    def __post_init__(self) -> None:
        integers("WarmUp", steps=self.steps)
        super().__post_init__()

    def check(self, transition: Transition) -> Transition:
        """Return a transition with boolean flags and ``valid``."""
        return _flagged("WarmUp", transition)

    def start(self, example: Transition) -> UpdateCount:
        """Return that there were none."""
        del example
        return UpdateCount(np.zeros((), np.int32))

    def pay(self, own: UpdateCount, paid: Sequence[Any]) -> Any:
        """Return the bonus, or 0 in the first steps."""
        return paid[0] * (own.done >= self.steps)

    def learn(self, own: UpdateCount, transition: Transition, paid: Sequence[Any]) -> UpdateCount:
        """Return one update more if there was a real step."""
        del paid
        return UpdateCount(own.done + transition.valid.any())  # type: ignore[union-attr]


@dataclass(frozen=True, init=False)
class Sum(Composition):
    """Pay the sum of several bonuses: ``Sum(one, other)``.

    Args:
        parts: The bonuses, one after the other.
        bonuses: The same as one tuple, by name.

    Raises:
        InputError: If there is none, or one of them is no bonus.

    >>> no = np.array([False])
    >>> step = Transition(np.array([0]), np.array([0]), np.array([0]), no, no, {})
    >>> Sum(lambda transition: np.array([2.0]), lambda transition: np.array([0.5])).reward(step)
    array([2.5])

    """

    bonuses: tuple[Bonus, ...]

    kind: ClassVar[str] = "sum"

    def __init__(self, *parts: Bonus, bonuses: Sequence[Bonus] = ()) -> None:
        object.__setattr__(self, "bonuses", (*parts, *bonuses))
        if not self.bonuses:
            raise InputError("Sum: bonuses must hold at least one bonus, received none: pass Sum(one, other)")
        self.__post_init__()

    @property
    def inner(self) -> tuple[Bonus, ...]:
        """The bonuses."""
        return self.bonuses

    def pay(self, own: tuple[()], paid: Sequence[Any]) -> Any:
        """Return the sum."""
        del own
        return reduce(add, paid)


def _flagged(who: str, transition: Transition) -> Transition:
    """Return a transition with ``terminated``, ``truncated`` and ``valid`` as boolean arrays."""
    _, valid = flags(who, transition)
    terminated, truncated = (np.asarray(mask, bool) for mask in (transition.terminated, transition.truncated))
    obs, action, next_obs, info = transition.obs, transition.action, transition.next_obs, transition.info
    return Transition(obs, action, next_obs, terminated, truncated, info, valid)


def _rows(name: str, step: Transition) -> Any:
    """Return one array per observation, in float64."""
    value = numeric("NormalizedObservations", name, getattr(step, name), np.asarray(step.valid))
    if not isinstance(value, np.ndarray):
        raise InputTypeError(
            f"NormalizedObservations must read one array per observation, received a {type(value).__name__}: wrap the "
            f"bonus in a function that picks or joins the arrays first"
        )
    return value.astype(np.float64)
