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


def check_discount(shaping: Shaping[Any], gamma: float) -> None:
    """Refuse a conversion whose discount is not the one that F' is learned with."""
    converted = shaping.gamma
    if converted is not None and float(converted) != gamma:
        raise InputError(
            f"shaping.gamma must be the discount that F' is learned with, {gamma}, received {converted}: "
            f"cancellation holds for that one only; pass gamma={gamma} to {type(shaping).__name__}"
        )


def check_windows(env: Interface, truncation: Truncation) -> None:
    """Refuse to go on past a time limit where there is none, or where the environment restarts there by itself."""
    if truncation == "continue" and not (env.max_steps and hasattr(env, "reset")):
        raise InputError(
            f"truncation 'continue' (as resets 'terminations') needs a compiled environment with a time limit, "
            f"received {env}: pass 'settle' or 'bootstrap', and resets 'ends', for one that Gymnasium restarts"
        )


def is_exact(shaping: Shaping[Any], truncation: Truncation) -> bool:
    """Tell whether F' cancels over every whole episode; in an endless task, whether it is repaid along the way."""
    return shaping.guarantee.level is Level.EXACT and (shaping.repays or truncation != "continue")
