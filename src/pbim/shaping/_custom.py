"""A ledger whose repayment is the user's own function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pbim import _arrays
from pbim._arrays import Values, copied
from pbim.errors import InputError, InputTypeError
from pbim.shaping._arithmetic import Arithmetic
from pbim.shaping._checks import is_number
from pbim.shaping._guarantee import CAUSAL, Guarantee, exact
from pbim.shaping._ledger import Ledger, Memory, Repayment


@dataclass(frozen=True, kw_only=True)
class Custom(Ledger):
    """Repay what a function of the past says: ``repay(memory, ledger, earned) -> (memory, payment)``.

    Whatever is repaid, the episode is settled exactly.

    Args:
        gamma: The learner's discount, in (0, 1].
        repay: A function of the memory, the ledger L_t and the centred bonus f_t, ``earned``, both (num_envs,), that
            returns the new memory and the payment (num_envs,). Use array operations only, so that it also runs inside
            ``jax.jit``. It gets copies, which it may edit in place. The memory is a tuple of arrays whose last axis is
            num_envs.
        recall: A function that makes the memory at the start of every episode from zeros of shape (num_envs,); without
            it the memory is ().
        normalize: Whether to centre the bonus: to subtract the mean of all earlier bonuses, so that an average bonus
            pays nothing. False (``--no-normalize``) subtracts nothing. A ``Centring`` subtracts another mean.
        max_steps: Not used: what a function repays is its author's to bound.

    Raises:
        InputError: If an argument is out of range.

    >>> import numpy as np, pbim
    >>> def half_of_what_is_owed_above_one(memory, ledger, earned):
    ...     return memory, 0.5 * ledger * (abs(ledger) > 1)
    >>> shaping = pbim.Custom(gamma=0.5, repay=half_of_what_is_owed_above_one, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1.,  0., -4.])

    """

    repay: Callable[[Memory, Values, Values], tuple[Memory, Values]]
    recall: Callable[[Values], Memory] | None = None
    calls_back: ClassVar[bool] = True
    kind: ClassVar[str] = "custom"
    summary: ClassVar[str] = "takes back what your function of the past says"
    guarantee: ClassVar[Guarantee] = exact(
        "pbim, docs/theory.md, as Theorem 2", f"{CAUSAL}, and the repayment is a function of the past"
    )

    def __post_init__(self) -> None:
        if not callable(self.repay):
            raise InputError(
                f"repay must be a function (memory, ledger, earned) -> (memory, payment), received {self.repay!r}: "
                "see the example of pbim.Custom"
            )
        super().__post_init__()

    def growth(self, max_steps: int) -> float:
        """Return 1: what a function repays is its author's to bound."""
        del max_steps
        return 1.0

    def _empty_memory(self, lanes: Values) -> Memory:
        if self.recall is None:
            return ()
        memory = self.recall(copied(lanes))
        if not isinstance(memory, tuple | list):
            raise InputTypeError(
                f"recall must return a tuple of arrays, received {type(memory).__name__}: return (zeros,) for one"
            )
        for part in memory:
            if tuple(getattr(part, "shape", ()))[-1:] != tuple(lanes.shape):
                raise InputError(
                    f"recall must return arrays whose last axis is num_envs={lanes.shape[0]}, received "
                    f"{_form(part)}: make them from the zeros it is given"
                )
        found: Memory = _arrays.detached(tuple(memory))
        return found

    def _repayment(self, arithmetic: Arithmetic) -> Repayment:
        del arithmetic
        return self._checked_repayment

    def _checked_repayment(self, memory: Memory, ledger: Values, entry: Values) -> tuple[Memory, Values]:
        returned = self.repay(tuple(map(copied, memory)), copied(ledger), copied(entry))
        if not isinstance(returned, tuple) or len(returned) != 2:  # an array of two environments unpacks, too
            raise InputTypeError(
                f"repay must return (memory, payment), received {type(returned).__name__}: return the memory it was "
                "given, () by default, and the payment"
            )
        if not isinstance(returned[0], tuple) or len(returned[0]) != len(memory):
            raise InputTypeError(
                f"repay must return a memory of {len(memory)} arrays as it was given, received {returned[0]!r}: say in "
                "recall what it starts as"
            )
        for old, new in zip(memory, returned[0], strict=True):
            if getattr(new, "shape", None) != old.shape:
                raise InputError(
                    f"repay must return a memory of the shapes it was given, received {_form(new)} for "
                    f"{tuple(old.shape)}: say in recall what it starts as"
                )
        shape = () if is_number(returned[1]) else getattr(returned[1], "shape", None)
        if shape not in ((), ledger.shape):
            raise InputError(
                f"repay must return a payment of shape {tuple(ledger.shape)}, received "
                f"{_form(returned[1])}: pay one number per environment"
            )
        return returned

    def _reset_memory(self, arithmetic: Arithmetic, memory: Memory, ledger: Values, ended: Values) -> Memory:
        fresh = self._empty_memory(_arrays.zeros(ledger.shape, ledger))
        return tuple(arithmetic.xp.where(ended, new, old) for new, old in zip(fresh, memory, strict=True))


def _form(part: object) -> str:
    """Return the shape of an array, or what else it is."""
    return str(tuple(part.shape)) if hasattr(part, "shape") else type(part).__name__
