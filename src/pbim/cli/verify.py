"""``pbim verify``: arguments as data, and ``run(arguments) -> code``."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Self

import tyro

from pbim import config
from pbim.cli import components
from pbim.errors import InputError, RepaymentWarning, choose
from pbim.shaping import Shaping, recommended
from pbim.verification.bonuses import BONUSES
from pbim.verification.gallery import MDPS
from pbim.verification.mdp import FiniteMDP
from pbim.verification.mistakes import FlippedPBIM, UnsettledPBRS
from pbim.verification.numbers import parse, shown
from pbim.verification.picture import draw
from pbim.verification.verifier import MAX_HISTORIES, verify

PRESERVED, NOT_PRESERVED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
GYM_GAMMA, GYM_ALPHA, GYM_HISTORIES = Fraction(9, 10), Fraction(1, 5), 100_000


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Prove that a bonus keeps the best policies of a small task, or show where it does not.

    pbim verify [--env] TASK --intrinsic BONUS --shaping CONVERSION [options]

    --list shows the tasks, bonuses and conversions. CONVERSION can also be your own class, package.module:Class. The
    default is geometric. The settings of the conversion are options: --shaping.rate 1/5, or --rate 1/5 for short.

    Exit code 0: the best policies stay the same. 1: they change. 2: bad input. 3: floating point cannot decide.

    Example: pbim verify --env corridor --intrinsic count --shaping raw
    """

    env: str = "corridor"
    """A task of --list, or a Gymnasium toy-text id such as FrozenLake-v1."""
    intrinsic: str = "count"
    """A bonus of --list."""
    shaping: Any = None
    gamma: str | None = None
    """The discount of the task, as 0.95 or 19/20. Each task has its own if you leave this out."""
    shaping_gamma: str | None = None
    """The discount of the conversion, if it differs from that of the task."""
    alpha: str | None = None
    """What the bonus is multiplied by. Each task has its own if you leave this out."""
    horizon: int | None = None
    """The number of steps after which an episode ends. It must be long enough to reach a reward of the task."""
    mean: str = "0"
    """The mean of the bonuses, which a conversion with centring subtracts."""
    exact: bool = False
    """Refuse numbers that are not exact fractions. Fractions are used anyway where all numbers allow it."""
    float_: Annotated[bool, tyro.conf.arg(name="float")] = False
    """Compute in floating point."""
    max_histories: int = MAX_HISTORIES
    """Stop with an error if there are more histories than this."""
    picture: Path | None = None
    """Draw the counterexample into this file (grid worlds only)."""
    json: bool = False
    """Print one JSON object."""
    list_: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Show the tasks, bonuses and conversions, and stop."""

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Return the command that the words after ``pbim verify`` ask for."""
        if arguments and not arguments[0].startswith("-"):  # the task may come first, as in pbim train
            arguments = ["--env", *arguments]
        name, rest = components.take(arguments, "--shaping", recommended(1).kind)
        try:
            shaping = named_shaping(name, _discount(rest))
        except InputError as error:
            if "--json" in rest:
                print(json.dumps({"error": str(error)}))
            raise
        if any(word.partition("=")[0] == "--shaping.gamma" for word in rest):
            raise InputError("--shaping.gamma is the task's gamma here: pass --shaping-gamma for another one")
        own = [option for option in components.options_of(cls) if option != "shaping"] + ["float", "list"]
        words = components.lengthen(rest, own, {"shaping": shaping})
        with _short_episodes():
            return components.read(cls, "verify", words, cls(shaping=shaping), exact=True)

    def run(self) -> int:
        """Print the verdict and return the exit code."""
        return run(self)


MISTAKES: dict[str, type[Shaping[Any]]] = {"unsettled-pbrs": UnsettledPBRS, "flipped-pbim": FlippedPBIM}
"""Conversions with a mistake that others made, for the gallery."""


def named_shaping(name: str, gamma: Fraction) -> Shaping[Any]:
    """Return the conversion of that name for a discount, with exact numbers where it has some."""
    if name in MISTAKES:
        return MISTAKES[name](gamma=gamma)  # type: ignore[call-arg]
    made: Shaping[Any] = exactly(components.conversion(name, gamma))
    return made


def _discount(words: Sequence[str]) -> Fraction:
    """Return the discount that the words give the conversion: a default may depend on it."""
    for option in ("--shaping-gamma", "--gamma"):
        text, _ = components.take(words, option, "")
        if text:
            return number(option.removeprefix("--"), text)
    env, _ = components.take(words, "--env", Verify.env)
    return MDPS[env].gamma if env in MDPS else GYM_GAMMA


@contextmanager
def _short_episodes() -> Iterator[None]:
    """Say nothing of what long episodes would owe: here none is longer than the horizon."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepaymentWarning)
        yield


def exactly(shaping: Any) -> Any:
    """Return a conversion with every decimal number as the fraction it looks like: 0.1 is 1/10."""
    changes: dict[str, Any] = {}
    for field in fields(shaping):
        value = getattr(shaping, field.name)
        if isinstance(value, float) and isfinite(value):
            changes[field.name] = Fraction(str(value))
        elif field.name == "members":
            changes[field.name] = tuple(map(exactly, value))
    return replace(shaping, **changes)


def run(args: Verify) -> int:
    """Run ``pbim verify`` and return its exit code."""
    if args.list_:
        print(listing(as_json=args.json))
        return PRESERVED
    try:
        with _short_episodes():
            return _judge(args)
    except InputError as error:
        return refuse(error, as_json=args.json)


def convertible() -> list[type[Shaping[Any]]]:
    """Return the conversions that a command line can make and that take a bonus alone."""
    found = []
    for cls in config.components("shaping"):
        if issubclass(cls, Shaping) and not set(cls.extra) - {"start"} and not cls.calls_back:
            found.append(cls)
    return found


def listing(*, as_json: bool = False) -> str:
    """Return the worlds, bonuses and conversions with what each teaches."""
    parts = {
        "env": {name: world.teaches for name, world in MDPS.items()},
        "intrinsic": {name: bonus.teaches for name, bonus in BONUSES.items()},
        "shaping": {cls.kind: cls.summary for cls in (*convertible(), *MISTAKES.values())},
    }
    if as_json:
        return json.dumps(parts)
    lines = []
    for flag, entries in parts.items():
        lines += [f"--{flag}", *(f"  {name:<16} {text}" for name, text in entries.items()), ""]
    return "\n".join([*lines, "Gymnasium's toy-text environments work too: --env FrozenLake-v1 --horizon 6"])


def _judge(args: Verify) -> int:
    if args.exact and args.float_:
        raise InputError("--exact and --float exclude each other, received both: leave one out")
    mdp, alpha, horizon = _problem(args)
    if args.picture is not None and mdp.cells is None:
        raise InputError(f"--picture needs a grid world, received {args.env!r}: choose corridor, two-goals or cliff")
    gamma = mdp.gamma if args.shaping_gamma is None else number("shaping-gamma", args.shaping_gamma)
    report = verify(
        mdp,
        intrinsic=BONUSES[choose("--intrinsic", args.intrinsic, BONUSES)].make(mdp, alpha),
        shaping=args.shaping.with_gamma(gamma),
        horizon=horizon,
        mean=number("mean", args.mean),
        exact=True if args.exact else False if args.float_ else None,
        max_histories=args.max_histories,
    )
    counterexample = report.counterexample
    if args.picture is not None and counterexample is None:
        print(f"pbim: nothing to draw into {args.picture}, as nothing changed", file=sys.stderr)
    elif args.picture is not None and counterexample is not None:
        save(lambda path: draw(counterexample, path), args.picture)
    if args.json:
        chosen = {"env": args.env, "gamma": str(mdp.gamma), "alpha": str(alpha)}
        print(json.dumps({**chosen, **report.to_dict()}))
    else:
        print(f"{args.env}, gamma = {shown(mdp.gamma)}, alpha = {shown(alpha)}, episodes of at most {horizon} steps\n")
        print(report)
        if report.undecided and args.float_:
            print("Here that means: leave --float out.")
    return PRESERVED if report.preserved else UNDECIDED if report.undecided else NOT_PRESERVED


def _problem(args: Verify) -> tuple[FiniteMDP, Any, int | None]:
    """Return the MDP, the bonus coefficient and the horizon that the arguments ask for."""
    gamma = None if args.gamma is None else number("gamma", args.gamma)
    alpha = None if args.alpha is None else number("alpha", args.alpha)
    if re.search(r"-v\d+$", args.env):
        mdp = _toy_text(args.env, GYM_GAMMA if gamma is None else gamma)
        fits = max((steps for steps in range(1, 9) if mdp.count_histories(steps) <= GYM_HISTORIES), default=1)
        shortest = max(fits, mdp.steps_to_reward() or 1)
        return mdp, GYM_ALPHA if alpha is None else alpha, shortest if args.horizon is None else args.horizon
    world = MDPS[choose("--env", args.env, MDPS)]
    mdp = world.make(world.gamma if gamma is None else gamma)
    return mdp, world.alpha if alpha is None else alpha, world.horizon if args.horizon is None else args.horizon


def _toy_text(name: str, gamma: Any) -> FiniteMDP:
    try:
        import gymnasium
    except ImportError:
        raise InputError(
            f"env must be in the gallery when Gymnasium is missing, received {name!r}: pip install 'pbim[gymnasium]'"
        ) from None
    try:
        env = gymnasium.make(name)
    except gymnasium.error.Error as error:
        raise InputError(f"env must be a registered environment, received {name!r} ({error}): correct it") from None
    return FiniteMDP.from_toy_text(env, gamma=gamma)


def number(flag: str, text: str) -> Fraction:
    """Return the number a flag was given, exactly."""
    try:
        return parse(text)
    except ValueError:
        raise InputError(
            f"--{flag} must be a number such as 0.9 or 9/10, at most 1e100, received {text[:40]!r}: correct it"
        ) from None


def save(make: Callable[[Path], Any], path: Path) -> None:
    """Write a picture; what stands in the way is said in one sentence."""
    try:
        make(path)
    except ImportError:
        raise InputError(f"pictures need matplotlib, which is missing, for {path}: pip install 'pbim[plot]'") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a picture could not be written to {path} ({error}): choose another path") from None


def refuse(error: InputError, *, as_json: bool) -> int:
    """Say what is wrong, as JSON too where that was asked for."""
    if as_json:
        print(json.dumps({"error": str(error)}))
    print(f"pbim: {error}", file=sys.stderr)
    return BAD_INPUT
