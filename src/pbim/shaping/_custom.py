"""A ledger whose repayment is the user's own function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pbim import _arrays
from pbim._arrays import Array
from pbim.errors import InputError, InputTypeError
from pbim.shaping._ledger import CAUSAL, Ledger, Memory
from pbim.shaping._shaping import Guarantee, Level


@dataclass(frozen=True, kw_only=True)
class Custom(Ledger):
    """Repay what a function of the past says: ``repay(memory, ledger, earned) -> (memory, payment)``.

    ``ledger`` is L_t and ``earned`` f_t, both (num_envs,). ``memory`` is a tuple of arrays whose last axis is num_envs;
    ``recall(zeros)`` makes it at the start of every episode from zeros of shape (num_envs,). Use array operations
    only, so that it also runs inside ``jax.jit``. Whatever is repaid, the episode is settled exactly.

    >>> import numpy as np, pbim
    >>> def half_of_what_is_owed_above_one(memory, ledger, earned):
    ...     return memory, 0.5 * ledger * (abs(ledger) > 1)
    >>> shaping = pbim.Custom(gamma=0.5, repay=half_of_what_is_owed_above_one, normalize=False)
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]
    array([ 1.,  0., -4.])
    """

    repay: Callable[[Memory, Array, Array], tuple[Memory, Array]]
    recall: Callable[[Array], Memory] | None = None
    calls_back: ClassVar[bool] = True
    kind: ClassVar[str] = "custom"
    summary: ClassVar[str] = "takes back what your function of the past says"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.EXACT,
        assumption=f"{CAUSAL}, and the repayment is a function of the past",
        reference="pbim, docs/theory.md, as Theorem 2",
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

    def _recall(self, lanes: Array) -> Memory:
        return () if self.recall is None else tuple(self.recall(lanes))

    def _repay(self, xp: Any, memory: Memory, ledger: Array, earned: Array) -> tuple[Memory, Array]:
        del xp
        returned = self.repay(memory, ledger, earned)
        if not isinstance(returned, tuple) or len(returned) != 2:  # an array of two environments unpacks, too
            raise InputTypeError(
                f"repay must return (memory, payment), received {type(returned).__name__}: return the memory it was "
                "given, () by default, and the payment"
            )
        if getattr(returned[1], "shape", ()) not in ((), ledger.shape):
            raise InputError(
                f"repay must return a payment of shape {tuple(ledger.shape)}, received {tuple(returned[1].shape)}: "
                "pay one number per environment"
            )
        return returned

    def _forget(self, xp: Any, memory: Memory, ledger: Array, ended: Array) -> Memory:
        fresh = self._recall(_arrays.zeros(ledger.shape, ledger))
        return tuple(xp.where(ended, new, old) for new, old in zip(fresh, memory, strict=True))
