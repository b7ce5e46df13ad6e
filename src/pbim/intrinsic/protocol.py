"""What a bonus reads and what it offers: ``Transition`` in, one number per environment out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pbim._arrays import on_host
from pbim.errors import InputError, InputTypeError

__all__ = ["Bonus", "Intrinsic", "Transition", "as_intrinsic", "ended"]


class Transition(NamedTuple):
    """One step of a batch of environments; every field has a leading (num_envs,) axis.

    ``next_obs`` is the true successor: at an episode end the final observation, never the reset one.
    ``info`` follows Gymnasium's vector layout, one array per name. ``valid`` marks the rows that are real steps;
    rows that are not (the reset step of NEXT_STEP autoreset) teach a bonus nothing. ``None`` means all rows.
    Do not edit the arrays of a transition while it is in use: bonuses may keep what ``reward`` read for ``update``.

    >>> import numpy as np
    >>> step = Transition(np.array([0]), np.array([1]), np.array([2]), np.array([False]), np.array([True]), {})
    >>> bool(ended(step)[0])
    True
    """

    obs: Any
    action: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    info: Mapping[str, Any]
    valid: Any = None


@runtime_checkable
class Intrinsic(Protocol):
    """A bonus that learns: ``reward`` computes and never learns, ``update`` learns and returns nothing."""

    def reward(self, transition: Transition, /) -> NDArray[np.floating[Any]]:
        """Return the bonus of this step, shape (num_envs,)."""

    def update(self, transition: Transition, /) -> None:
        """Learn from this step."""


Bonus: TypeAlias = Intrinsic | Callable[[Transition], Any]


def as_numbers(returned: Any) -> NDArray[Any]:
    """Return what a bonus returned, an array of any library or a list, as a NumPy array."""
    if type(returned) is np.ndarray:
        return returned
    try:
        return np.asarray(on_host(returned))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"intrinsic must return one real number per environment, received a {type(returned).__name__} that NumPy "
            f"cannot read ({error}): return an array of shape (num_envs,)"
        ) from None


class _Fixed:
    """A callable ``transition -> array`` as a bonus that has nothing to learn."""

    def __init__(self, function: Callable[[Transition], Any]) -> None:
        self.function = function
        self.causal: bool = getattr(function, "causal", True)

    def reward(self, transition: Transition, /) -> NDArray[np.floating[Any]]:
        return as_numbers(self.function(transition))

    def update(self, transition: Transition, /) -> None:
        """Learn nothing."""


def as_intrinsic(bonus: Bonus) -> Intrinsic:
    """Return ``bonus`` itself, or, for a callable ``transition -> (num_envs,)``, an object that calls it.

    >>> import numpy as np
    >>> bonus = as_intrinsic(lambda transition: np.ones(len(transition.terminated)))
    >>> bonus.reward(Transition(np.zeros(2), np.zeros(2), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {}))
    array([1., 1.])
    """
    if isinstance(bonus, type):
        raise InputTypeError(
            f"intrinsic must be an instance, received the class {bonus.__name__}: make one, as in {bonus.__name__}(...)"
        )
    if hasattr(bonus, "reward") and hasattr(bonus, "update"):
        return bonus
    if callable(bonus):
        return _Fixed(bonus)
    raise InputTypeError(
        f"intrinsic must be a callable transition -> array or have reward(transition) and update(transition), "
        f"got {type(bonus).__name__}: add the missing method or pass a function."
    )


def ended(transition: Transition) -> Any:
    """Return where an episode ended, shape (num_envs,).

    An episodic memory ends with its episode, whichever of ``terminated`` and ``truncated`` ended it: after either, the
    next observation comes from a reset. (What a truncation means for bootstrapping is the learner's decision.)
    """
    return transition.terminated | transition.truncated
