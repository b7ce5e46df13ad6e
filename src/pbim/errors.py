"""What pbim raises when an argument breaks a rule, and warns when one is risky."""

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "GuidanceWarning",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "RepaymentWarning",
    "choose",
    "warn",
]


class InputError(ValueError):
    """An argument broke a rule; the message names the argument, the rule, what was received and the way out."""


class InputTypeError(InputError, TypeError):
    """An argument is of the wrong kind (library, dtype, type)."""


class MissingExtraError(ModuleNotFoundError):
    """An optional package is not installed; the message has the ``pip install`` line that brings it."""


class RepaymentWarning(UserWarning):
    """A conversion would have to repay numbers too large for a learner."""


class GuidanceWarning(UserWarning):
    """A learner would hardly feel a conversion, or would fear what the last step takes back."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside pbim that called it, however deep: constructors of dataclasses lie between."""
    level = 2
    while _is_ours(level):
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(level: int) -> bool:
    """Tell whether the caller of ``warn`` that many frames up is pbim, or what makes a dataclass."""
    try:
        frame = sys._getframe(level)
    except ValueError:  # there is nothing above
        return False
    module = str(frame.f_globals.get("__name__", ""))
    made = frame.f_code.co_filename == "<string>" or frame.f_code.co_name == "__post_init__"
    return made or module == "dataclasses" or module.split(".")[0] == "pbim"


def choose(argument: str, received: str, options: Iterable[str]) -> str:
    """Return ``received`` if it is one of ``options``, else raise with the nearest one suggested.

    >>> choose("shaping", "pbin", ["pbim", "grm"])
    Traceback (most recent call last):
    ...
    pbim.errors.InputError: shaping must be one of pbim, grm, received 'pbin': did you mean 'pbim'?
    """
    known = list(options)
    if received in known:
        return received
    near = get_close_matches(received, known, n=1) if isinstance(received, str) else []
    hint = f"did you mean {near[0]!r}?" if near else "choose one of these"
    raise InputError(f"{argument} must be one of {', '.join(known)}, received {received!r}: {hint}")
