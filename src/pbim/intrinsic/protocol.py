"""What a bonus reads and what it offers: ``Transition`` in, one number per environment out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pbim._arrays import on_host
from pbim.errors import InputError, InputTypeError

__all__ = ["Bonus", "Intrinsic", "Spec", "Transition", "as_intrinsic", "check_core", "ended"]

Tree: TypeAlias = Any
"""An array with a leading (num_envs,) axis, or a dict or tuple of such, as the environment's space has it."""
Mask: TypeAlias = Any
"""Booleans of shape (num_envs,): of NumPy at the edge, of JAX in a compiled loop."""


class Transition(NamedTuple):
    """One step of a batch of environments; every field has a leading (num_envs,) axis.

    Attributes:
        obs: The observations that the actions were taken in.
        action: The actions.
        next_obs: The true successors: at an episode end the final observation, never the reset one.
        terminated: Where the task is over.
        truncated: Where a time limit cut the episode off.
        info: What else the environments say, one array per name, as in Gymnasium's vector environments.
        valid: Which rows are real steps. Rows that are not (the reset step of NEXT_STEP autoreset) teach a bonus
            nothing. None means all rows.

    >>> import numpy as np
    >>> step = Transition(np.array([0]), np.array([1]), np.array([2]), np.array([False]), np.array([True]), {})
    >>> bool(ended(step)[0])
    True

    """

    obs: Tree
    action: Tree
    next_obs: Tree
    terminated: Mask
    truncated: Mask
    info: Mapping[str, Any]
    valid: Mask | None = None


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a compiled loop tells a bonus before the first step.

    Attributes:
        example: A transition whose arrays have the shapes and dtypes of every later one; its values do not matter.
        num_actions: How many discrete actions there are; None if they are continuous or not known.
        num_keys: How many states a table must tell apart: keys are 0 .. num_keys-1. None if nobody knows.

    >>> no = np.zeros(3, bool)
    >>> Spec(example=Transition(np.zeros(3), np.zeros(3), np.zeros(3), no, no, {}), num_keys=9).num_envs
    3

    """

    example: Transition
    num_actions: int | None = None
    num_keys: int | None = None

    @property
    def num_envs(self) -> int:
        """How many environments run side by side."""
        return int(self.example.terminated.shape[0])


@runtime_checkable
class Intrinsic(Protocol):
    """A bonus that learns: ``reward`` computes and never learns, ``update`` learns and returns nothing."""

    def reward(self, transition: Transition, /) -> NDArray[np.floating[Any]]:
        """Return the bonus of this step, shape (num_envs,)."""

    def update(self, transition: Transition, /) -> None:
        """Learn from this step."""


Bonus: TypeAlias = Intrinsic | Callable[[Transition], ArrayLike]
"""What may stand for a bonus, which is an object with ``reward`` and ``update``, or a function of one transition."""


def as_numbers(returned: Any) -> NDArray[Any]:
    """Return what a bonus returned, an array of any library or a list, as a NumPy array."""
    if type(returned) is np.ndarray:
        return returned
    if isinstance(returned, np.ma.MaskedArray):
        raise InputError(
            "intrinsic must return plain numbers, received a masked array, whose gaps have no meaning here: return "
            "bonus.filled(0)"
        )
    try:
        return np.asarray(on_host(returned))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"intrinsic must return one real number per environment, received a {type(returned).__name__} that NumPy "
            f"cannot read ({error}): return an array of shape (num_envs,)"
        ) from None


class _Fixed:
    """A callable ``transition -> array`` as a bonus that has nothing to learn."""

    def __init__(self, function: Callable[[Transition], ArrayLike]) -> None:
        self.function = function
        self.causal: bool = getattr(function, "causal", True)

    def reward(self, transition: Transition, /) -> NDArray[np.floating[Any]]:
        return as_numbers(self.function(transition))

    def update(self, transition: Transition, /) -> None:
        """Learn nothing."""


def as_intrinsic(bonus: Bonus) -> Intrinsic:
    """Return ``bonus`` itself, or, for a callable ``transition -> (num_envs,)``, an object that calls it.

    Raises:
        InputTypeError: If it is neither, or a class.

    >>> import numpy as np
    >>> bonus = as_intrinsic(lambda transition: np.ones(len(transition.terminated)))
    >>> bonus.reward(Transition(np.zeros(2), np.zeros(2), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {}))
    array([1., 1.])

    """
    if isinstance(bonus, type):
        refuse_class(bonus)
    if hasattr(bonus, "reward") and hasattr(bonus, "update"):
        return bonus
    if callable(bonus):
        return _Fixed(bonus)
    raise InputTypeError(
        f"intrinsic must be a callable transition -> array or have reward(transition) and update(transition), "
        f"received {type(bonus).__name__}: add the missing method or pass a function"
    )


def refuse_class(bonus: type[Any]) -> NoReturn:
    """Say that a bonus is made first."""
    raise InputTypeError(
        f"intrinsic must be an instance, received the class {bonus.__name__}: make one, as in {bonus.__name__}(...)"
    )


def check_core(bonus: Any) -> None:
    """Refuse a bonus that cannot run inside a compiled loop.

    Raises:
        InputError: If ``init``, ``reward_fn`` or ``update_fn`` is missing.

    """
    missing = [name for name in ("init", "reward_fn", "update_fn") if not hasattr(bonus, name)]
    if missing:
        raise InputError(
            f"intrinsic must have a pure core to run compiled, received {type(bonus).__name__} without "
            f"{', '.join(missing)}: use it through pbim.wrap with a Gymnasium environment instead"
        )


def ended(transition: Transition) -> Any:
    """Return where an episode ended, shape (num_envs,).

    An episodic memory ends with its episode, whichever of ``terminated`` and ``truncated`` ended it: after either, the
    next observation comes from a reset. (What a truncation means for bootstrapping is the learner's decision.)
    """
    return transition.terminated | transition.truncated
