"""What an end of an episode does: the one place that decides, for every adapter and every learner.

An episode *terminates* (the task is over) or is *truncated* (a time limit cut it off). What a truncation means is the
learner's choice, and the ledger, what a conversion has paid out and still owes, must follow it:

``"settle"``
    The learner stops at a truncation: its last target is r + F'. The ledger is settled there as at a termination.
``"bootstrap"``
    The learner goes on in its value: its last target is r + F' + gamma V'(s_N), where V' is the shaped value that it
    learns. Since V' = V - L_N after any history, the open ledger L_N is left to V', and F' is paid as at any other
    step. To settle there as well would charge the episode twice. Afterwards the ledger is forgotten.
``"continue"``
    A time limit is the edge of a window in a task that goes on: the environment is not reset, and neither the ledger
    nor the target takes notice.
"""

from typing import Generic, Literal, NamedTuple, TypeVar, get_args

from pbim.errors import choose

Truncation = Literal["settle", "bootstrap", "continue"]
MaskT = TypeVar("MaskT")


class Ends(NamedTuple, Generic[MaskT]):
    """Where a step ends what; masks of one shape and library.

    Attributes:
        settled: The ledger is settled: F' = -L.
        left_open: The episode is over and its ledger is left to the learner's value, then forgotten.
        over: The episode is over: later rewards are not its own, and the environment restarts.
        stops: The learner's target holds no value of the next state.

    """

    settled: MaskT
    left_open: MaskT
    over: MaskT
    stops: MaskT


def check_truncation(truncation: str) -> None:
    """Refuse any word but settle, bootstrap and continue.

    Raises:
        InputError: For any other word, with the nearest one suggested.

    """
    choose("truncation", truncation, get_args(Truncation))


def ends(truncation: Truncation, terminated: MaskT, truncated: MaskT) -> Ends[MaskT]:
    """Return what a step ends.

    Args:
        truncation: What the learner does where an episode is truncated.
        terminated: Boolean mask of any shape, of NumPy, JAX or PyTorch.
        truncated: Boolean mask of the same shape.

    >>> import numpy as np
    >>> goal, limit = np.array([True, False, True]), np.array([False, True, True])
    >>> ends("bootstrap", goal, limit).settled, ends("bootstrap", goal, limit).left_open
    (array([ True, False,  True]), array([False,  True, False]))

    """
    t, goes_on = terminated, ~terminated  # type: ignore[operator]
    never, either = t & goes_on, t | truncated  # type: ignore[operator]
    if truncation == "settle":
        return Ends(settled=either, left_open=never, over=either, stops=either)
    if truncation == "bootstrap":
        return Ends(settled=t, left_open=truncated & goes_on, over=either, stops=t)
    return Ends(settled=t, left_open=never, over=t, stops=t)
