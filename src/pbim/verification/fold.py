"""Bonuses as the verifier reads them: functions of the history, folds over it, or functions of the whole episode.

Four kinds of ``intrinsic`` are understood by :func:`pbim.verify`:

- a **bonus of ours that depends on the episode alone** (``from_history``: ``pbim.EpisodicCount``,
  ``pbim.ActionRecency``, and ``Scaled`` and ``Sum`` of these) is paid by the formula that ``pbim.wrap`` and the
  learners use. What depends on training (``LifetimeCount``, ``RND``, ...) is refused;
- a **function of the history** ``intrinsic(history)``, with ``history = (s_0, a_0, s_1, ..., a_t, s_{t+1})``, returns
  the bonus of step t. It cannot see later steps, so Assumption 1 holds by construction;
- a **fold** has ``start(state) -> memory`` and ``step(memory, action, state) -> (memory, bonus)``, with a hashable
  memory. All it can know of the past is its memory, so histories that agree in state, memory and ledger merge;
- a **function of the whole episode** has ``sees_future = True`` and is called ``intrinsic(episode, t)``. The verifier
  compares the bonus of step t between episodes that part after t.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

from pbim.errors import InputTypeError
from pbim.intrinsic.protocol import Intrinsic, refuse_class
from pbim.verification.numbers import Number

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

    >>> first = Fold(start=lambda state: (state,), step=lambda visited, action, state: (  # 1 in a new state
    ...     tuple(sorted({*visited, state})), int(state not in visited)))
    >>> first((0, 1, 2, 1, 0)), first((0, 1, 2))
    (0, 1)
    """

    start: Callable[[int], Memory]
    step: Callable[[Any, int, int], tuple[Memory, Number]]
    name: str = "fold"

    def __call__(self, history: History) -> Number:
        """Return the bonus of the last step of ``history``."""
        return bonus_of(self, history)


Verifiable: TypeAlias = Callable[..., Number] | Folding | Intrinsic
"""What ``pbim.verify`` takes for a bonus; an ``Intrinsic`` must be one of ours that depends on the episode alone."""


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


def readable(intrinsic: Any) -> Any:
    """Return ``intrinsic`` as the verifier reads it: one of our bonuses becomes a fold, the rest stays as it is.

    Raises:
        InputTypeError: If it depends on training, or is no bonus.

    """
    if isinstance(intrinsic, type):
        refuse_class(intrinsic)
    if getattr(intrinsic, "from_history", False):
        return Fold(start=intrinsic.first_memory, step=intrinsic.next_memory, name=name_of(intrinsic))
    if is_folding(intrinsic) or callable(intrinsic):
        return intrinsic
    name = type(intrinsic).__name__
    if not sees_future(intrinsic) and hasattr(intrinsic, "reward"):
        raise InputTypeError(
            f"intrinsic must depend on the history of one episode alone, received {name}, which depends on training: "
            "run episodes with pbim.verification.certify_episodes, or wrap the environment and read env.certificate()"
        )
    raise InputTypeError(
        f"intrinsic must be a function of the history (s_0, a_0, s_1, ...), or of (episode, t) if it sees the future, "
        f"received {name}: pass a callable, or an object with start and step (pbim.verification.Fold)"
    )


def as_fold(intrinsic: Any) -> Folding:
    """Return any causal bonus as a fold; a function of the history remembers the whole of it."""
    if is_folding(intrinsic):
        return intrinsic

    def step(history: History, action: int, state: int) -> tuple[History, Number]:
        longer = (*history, action, state)
        return longer, intrinsic(longer)

    return Fold(start=lambda state: (state,), step=step, name=name_of(intrinsic))


def name_of(thing: Any) -> str:
    """Return what to call a bonus or a conversion in a sentence."""
    names = (getattr(thing, name, None) for name in ("name", "kind", "__name__"))
    name = str(next(filter(None, names), type(thing).__name__))
    return "intrinsic" if name == "<lambda>" else name
