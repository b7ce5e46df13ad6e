"""What both learners check of their parts, and what a run of them promises."""

import math
from typing import Any

import numpy as np

from pbim._numbers import single
from pbim.envs import Interface, Skills
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic import DIAYN
from pbim.shaping import Ledger, Level, Shaping
from pbim.truncation import Truncation


def check_counts(config: Any, *names: str) -> None:
    """Refuse a field that is not a whole number from 1 to what a float can hold."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, received {value!r}: raise it")
        if single(value) == math.inf:
            raise InputError(
                f"{name} must be a finite number, received {value}, which is inf in single precision: lower it"
            )


def check_numbers(config: Any, rule: str, *names: str) -> None:
    """Refuse a field that is not a finite number in the interval that ``rule`` writes, such as "(0, 1]".

    Learners compute in single precision, so what this makes of the number must obey, too.
    """
    for name in names:
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise InputTypeError(f"{name} must be a number in {rule}, received {value!r}: pass a float")
        number = single(value)
        if not (_obeys(value, rule) and _obeys(number, rule)):
            rounded = f", which is {number} in single precision" if _obeys(value, rule) else ""
            raise InputError(
                f"{name} must be a finite number in {rule}, received {value}{rounded}: change it, or leave it out"
            )


def _obeys(number: Any, rule: str) -> bool:
    low, high = (float(bound) for bound in rule[1:-1].split(","))
    above = number > low or (number == low and rule[0] == "[")
    below = number < high or (number == high and rule[-1] == "]")
    return bool(above and below and abs(number) != math.inf)


def check_parts(config: Any) -> None:
    """Refuse an environment, a bonus, a conversion or a method that is something else."""
    for name, needed, example in (("env", "max_steps", "DoorKey(size=8)"), ("shaping", "rollout", "NoBonus()")):
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
    method = getattr(config, "method", None)
    if method is not None and (
        isinstance(method, type) or not (hasattr(method, "lesson") and hasattr(method, "guarantee"))
    ):
        raise InputTypeError(
            f"method must be None or a method of pbim.agents, received {method!r}: pass EIPO(), for example"
        )


def check_skills(config: Any) -> None:
    """Refuse a bonus for more or fewer skills than the environment has: the others would look like states."""
    for bonus in _parts(config.intrinsic):
        _check_skills(config.env, bonus)


def _parts(bonus: Any) -> list[Any]:
    """Return a bonus and all that it is composed of."""
    return [bonus, *(part for each in getattr(bonus, "inner", ()) for part in _parts(each))]


def _check_skills(env: Any, bonus: Any) -> None:
    if isinstance(bonus, DIAYN) and hasattr(env, "reset") and not hasattr(env, "skill"):
        raise InputError(
            f"intrinsic diayn needs episodes that follow skills, received env {type(env).__name__}: pass "
            f"Skills(env=..., count={bonus.count}), on the command line --skills {bonus.count}"
        )
    if isinstance(env, Skills) and isinstance(bonus, DIAYN) and bonus.count != env.count:
        raise InputError(
            f"intrinsic must pay for the skills of env, {env.count}, received a count of {bonus.count}: pass count "
            f"{env.count}, or leave it out on the command line"
        )


def check_discount(shaping: Shaping[Any], gamma: float) -> None:
    """Refuse a conversion whose discount is not the one that F' is learned with."""
    converted = shaping.gamma
    if converted is not None and float(converted) != gamma:
        raise InputError(
            f"shaping.gamma must be the discount that F' is learned with, {gamma}, received {converted}: "
            f"cancellation holds for that one only; pass gamma={gamma} to {type(shaping).__name__}, on the command "
            f"line --shaping.gamma {gamma}"
        )


def check_ledger(config: Any) -> None:
    """Refuse to show the critic a ledger where there is none, or where several things happen to it."""
    if config.critic_input == "observation":
        return
    plain = (config.truncation, config.settlement, config.critics, config.method) == (
        "settle",
        "episode",
        "joint",
        None,
    )
    if not (plain and isinstance(config.shaping, Ledger)):
        raise InputError(
            f"critic_input 'ledger' needs a conversion with a ledger, truncation 'settle', settlement 'episode', "
            f"critics 'joint' and no method, received {config.shaping.label}, {config.truncation!r}, "
            f"{config.settlement!r}, {config.critics!r} and {config.method}: pass these, or critic_input='observation'"
        )


def check_task(config: Any) -> None:
    """Refuse to leave the task's reward out without a bonus, or with one that is cancelled, by any method."""
    if config.task_reward == "none" and (config.intrinsic is None or config.cancels or config.intrinsic_scale == 0):
        why = f"shaping {config.shaping.label} cancels it" if config.intrinsic_scale else "intrinsic_scale is 0"
        why = "there is none" if config.intrinsic is None else why
        raise InputError(
            f"task_reward 'none' leaves the bonus alone to learn from, and {why}: add a bonus (--intrinsic) and "
            "shaping raw, or leave task_reward out"
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
