"""Bonuses as the verifier reads them: functions of the history, folds over it, or functions of the whole episode.

Three kinds of ``intrinsic`` are understood by :func:`pbim.verify`:

- a **function of the history** ``intrinsic(history)``, with ``history = (s_0, a_0, s_1, ..., a_t, s_{t+1})``, returns
  the bonus of step t. It cannot see later steps, so Assumption 1 holds by construction;
- a **fold** has ``start(state) -> memory`` and ``step(memory, action, state) -> (memory, bonus)``, with a hashable
  memory. All it can know of the past is its memory, so histories that agree in state, memory and ledger merge;
- a **function of the whole episode** has ``sees_future = True`` and is called ``intrinsic(episode, t)``. The verifier
  compares the bonus of step t between episodes that part after t.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from pbim.errors import InputTypeError
from pbim.verification._numbers import Number

History = tuple[int, ...]
Memory = Hashable


class Folding(Protocol):
    """A bonus that remembers the past in a hashable memory and nothing else."""

    def start(self, state: int) -> Memory:
        """Return the memory of an episode that starts in ``state``."""

    def step(self, memory: Any, action: int, state: int) -> tuple[Memory, Number]:
        """Return the memory after ``action`` led to ``state``, and the bonus of that step."""


@dataclass(frozen=True)
class Fold:
    """A bonus made of two functions, ``start`` and ``step``; also callable with a history.

    >>> visits = Fold(start=lambda state: (state,), step=lambda seen, action, state: (  # a tuple of what was seen
    ...     tuple(sorted({*seen, state})), int(state not in seen)))
    >>> visits((0, 1, 2, 1, 0)), visits((0, 1, 2))
    (0, 1)
    """

    start: Callable[[int], Memory]
    step: Callable[[Any, int, int], tuple[Memory, Number]]
    name: str = "fold"

    def __call__(self, history: History) -> Number:
        """Return the bonus of the last step of ``history``."""
        return bonus_of(self, history)


def bonus_of(fold: Folding, history: History) -> Number:
    """Return the bonus of the last step of ``history``, folding it from the start."""
    memory, bonus = fold.start(history[0]), 0
    for action, state in zip(history[1::2], history[2::2], strict=True):
        memory, bonus = fold.step(memory, action, state)
    return bonus


def is_folding(intrinsic: Any) -> TypeGuard[Folding]:
    """Tell whether ``intrinsic`` has the two methods of a fold."""
    return callable(getattr(intrinsic, "start", None)) and callable(getattr(intrinsic, "step", None))


def sees_future(intrinsic: Any) -> bool:
    """Tell whether ``intrinsic`` wants the whole episode: it says ``sees_future = True`` or ``causal = False``."""
    return bool(getattr(intrinsic, "sees_future", False)) or getattr(intrinsic, "causal", True) is False


def as_fold(intrinsic: Any) -> Folding:
    """Return any causal bonus as a fold; a function of the history remembers the whole of it."""
    if is_folding(intrinsic):
        return intrinsic
    if not callable(intrinsic):
        raise InputTypeError(
            f"intrinsic must be a function of the history (s_0, a_0, s_1, ...), received {type(intrinsic).__name__}: "
            "pass a callable, or an object with start and step (pbim.verification.Fold)"
        )

    def step(history: History, action: int, state: int) -> tuple[History, Number]:
        longer = (*history, action, state)
        return longer, intrinsic(longer)

    return Fold(start=lambda state: (state,), step=step, name=name_of(intrinsic))


def name_of(thing: Any) -> str:
    """Return what to call a bonus or a conversion in a sentence."""
    name = str(getattr(thing, "name", None) or getattr(thing, "__name__", None) or type(thing).__name__)
    return "intrinsic" if name == "<lambda>" else name
