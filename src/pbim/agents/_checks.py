"""What both learners check of their parts, and what a run of them promises."""

import math
from numbers import Real
from typing import Any

from pbim.envs import Interface
from pbim.errors import InputError, InputTypeError
from pbim.shaping import Level, Shaping
from pbim.truncation import Truncation


def check_counts(config: Any, *names: str) -> None:
    """Refuse a field that is not a whole number of at least 1."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, received {value!r}: raise it")


def check_numbers(config: Any, rule: str, *names: str) -> None:
    """Refuse a field that is not a finite number, or not in the interval that ``rule`` writes, such as "(0, 1]"."""
    low, high = (float(bound) for bound in rule[1:-1].split(","))
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputTypeError(f"{name} must be a number in {rule}, received {value!r}: pass a float")
        number = float(value)
        above = number > low or (number == low and rule[0] == "[")
        below = number < high or (number == high and rule[-1] == "]")
        if not (math.isfinite(number) and above and below):
            raise InputError(f"{name} must be a finite number in {rule}, received {value}: change it, or leave it out")


def check_parts(config: Any) -> None:
    """Refuse an environment, a bonus or a conversion that is something else."""
    for name, needed, example in (("env", "max_steps", "DoorKey(size=8)"), ("shaping", "guarantee", "NoBonus()")):
        part = getattr(config, name)
        if isinstance(part, type) or not hasattr(part, needed):
            home = "pbim.envs" if name == "env" else "pbim.shaping"
            raise InputTypeError(f"{name} must be an object of {home}, received {part!r}: pass {example}, for example")
    bonus = config.intrinsic
    if bonus is not None and (isinstance(bonus, type) or not hasattr(bonus, "reward_fn")):
        raise InputTypeError(
            f"intrinsic must be None or a bonus with init, reward_fn and update_fn, received {bonus!r}: pass "
            "EpisodicCount() of pbim.intrinsic, for example"
        )


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
