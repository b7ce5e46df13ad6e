"""What both learners check of their parts, and what a run of them promises."""

from typing import Any

from pbim.envs import Interface
from pbim.errors import InputError
from pbim.shaping import Level, Shaping
from pbim.truncation import Truncation


def check_counts(config: Any, *names: str) -> None:
    """Refuse a field that is not a whole number of at least 1."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, received {value!r}: raise it")


def check_discount(shaping: Shaping, gamma: float) -> None:
    """Refuse a conversion whose discount is not the one that F' is learned with."""
    converted = getattr(shaping, "gamma", None)
    if converted is not None and float(converted) != gamma:
        raise InputError(
            f"shaping.gamma must be the discount that F' is learned with, {gamma}, received {converted}: "
            f"cancellation holds for that one only; pass gamma={gamma} to {type(shaping).__name__}"
        )


def check_continues(env: Interface, truncation: Truncation) -> None:
    """Refuse to go on past a time limit where the environment cannot."""
    if truncation == "continue" and getattr(env, "stops_at_limit", False):
        raise InputError(
            f"truncation 'continue' needs an environment that goes on after its time limit, received "
            f"{type(env).__name__}, which does not: pass 'settle' or 'bootstrap'"
        )


def is_exact(shaping: Shaping, truncation: Truncation) -> bool:
    """Tell whether F' cancels over every whole episode; in an endless task, whether it is repaid along the way."""
    parts: tuple[Shaping, ...] = getattr(shaping, "members", (shaping,))
    repays = all(getattr(part, "repays", True) for part in parts)
    return shaping.guarantee.level is Level.EXACT and (repays or truncation != "continue")
