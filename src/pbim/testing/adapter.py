"""A conformance suite for adapters: episodes of known lengths and ends, against the conversion on plain arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, spaces
from numpy.typing import NDArray

from pbim.errors import InputError
from pbim.intrinsic.protocol import Transition
from pbim.shaping import GRM, PBIM, Geometric, Level, Raw, Shaping
from pbim.testing.errors import ConformanceError
from pbim.testing.scripted import STORY, ScriptedEnv, codes
from pbim.truncation import Truncation, ends
from pbim.verification import residuals

__all__ = ["CONVERSIONS", "AdapterCase", "check_adapter"]

CONVERSIONS: tuple[Shaping[Any], ...] = (
    PBIM(gamma=0.5, normalize=False),
    PBIM(gamma=1.0, normalize=False),
    GRM(gamma=0.9, delay=2, normalize=False),
    Geometric(gamma=0.99, rate=0.3, normalize=False),
    Raw(),
)
"""What ``check_adapter`` converts with by default; none is centred, because F-bar depends on how lanes interleave."""

_CENTRED = PBIM(gamma=0.5)
_CUT = 2  # inside the first episode of the story
_TOLERANCE, _EXACT = 1e-5, 1e-6  # of the largest F': some frameworks keep rewards in float32


class AdapterCase(NamedTuple):
    """What an adapter is asked to run; everything in it can be pickled and sent to another process.

    Attributes:
        envs: One function per lane that makes its environment, a ``gymnasium.Env``.
        intrinsic: The bonus, a function of the transition; NumPy and PyTorch on the CPU will do.
        shaping: The conversion.
        truncation: What the learner does at a truncation: ``"settle"`` or ``"bootstrap"``.
        steps: How many steps to record in each lane.
        cut: After so many steps, all environments are reset, in the middle of an episode; None for never. A case
            with a cut has one lane.

    """

    envs: tuple[Callable[[], Env[Any, Any]], ...]
    intrinsic: Callable[[Transition], NDArray[np.float64]]
    shaping: Shaping[Any]
    truncation: Truncation
    steps: int
    cut: int | None = None


Run = Callable[[AdapterCase], Sequence[Sequence[float]]]


def check_adapter(
    run: Run,
    *,
    lanes: int = 3,
    steps: int = 50,
    kind: str = "discrete",
    action_space: spaces.Space[Any] | None = None,
    conversions: Sequence[Shaping[Any]] = CONVERSIONS,
    truncations: Sequence[Truncation] = ("settle", "bootstrap"),
    info: bool = True,
    centred: bool = True,
    cut: bool = True,
) -> float:
    """Raise ``ConformanceError``, one sentence, at the first step where an adapter pays what it should not.

    The environments play episodes of known lengths: early ends, time limits, both at once, one-step episodes of each
    kind, and one that is still running when the record stops. The bonus reads everything a transition says, so that a
    reset observation in place of the final one, or another lane's entry, shows. ``run`` returns what the learner gets,
    R + F', and that must be what ``shaping.rollout`` gives on the same bonuses as plain arrays. The laws, by name:
    *count* (all steps are there, dummy steps are not), *reward* (R + F' of every step) and *residual* (F' of every
    finished episode that was settled sums to zero, if the conversion's guarantee is exact).

    Args:
        run: Takes an :class:`AdapterCase`, drives the adapter with any actions, and returns for each lane the rewards
            that the learner gets, in order; steps that only reset are left out.
        lanes: How many environments run side by side, at least 1.
        steps: How many steps to record in each lane, at least 25: every kind of episode comes then.
        kind: The observation space: "discrete", "box", "multidiscrete", "dict" or "tuple".
        action_space: The action space; three discrete actions unless given. Actions change nothing.
        conversions: What to convert with, not centred.
        truncations: The choices that the adapter offers.
        info: False for a framework that hands the bonus no info.
        centred: False leaves the case out that centres by the running mean; it has one lane.
        cut: False leaves the case out that resets in the middle of an episode; it has one lane.

    Returns:
        The largest residual of a finished episode, relative to the largest F'.

    Raises:
        ConformanceError: At the first law that does not hold.
        InputError: If there are too few lanes or steps to check anything.

    >>> import pbim
    >>> def run(case):
    ...     rewards = []
    ...     for make in case.envs:
    ...         env = pbim.wrap(make(), case.intrinsic, case.shaping, case.truncation)
    ...         lane, over = [], True
    ...         while len(lane) < case.steps:
    ...             if over or len(lane) == case.cut:
    ...                 env.reset()
    ...             _, reward, terminated, truncated, _ = env.step(0)
    ...             over = terminated or truncated
    ...             lane.append(reward)
    ...         rewards.append(lane)
    ...     return rewards
    >>> check_adapter(run) < 1e-12
    True

    """
    if lanes < 1 or steps < 25:
        raise InputError(
            f"check_adapter: lanes must be at least 1 and steps at least 25, received {lanes} and {steps}: give more"
        )
    action_space = spaces.Discrete(3) if action_space is None else action_space
    makers = tuple(partial(KnownEnv, lane, kind, action_space) for lane in range(lanes))
    bonus = KnownBonus(info)
    cases = [
        AdapterCase(makers, bonus, shaping, truncation, steps) for shaping in conversions for truncation in truncations
    ]
    alone = [None] * centred + [_CUT] * cut
    cases += [AdapterCase(makers[:1], bonus, _CENTRED, truncations[0], steps, cut=at) for at in alone]
    return max(_check_case(run, case) for case in cases)


class KnownEnv(ScriptedEnv):
    """A scripted environment that pays what its observation says, whatever the action, and reports the action."""

    def __init__(self, first: int, kind: str, action_space: spaces.Space[Any]) -> None:
        super().__init__(first, kind)
        self.action_space = action_space

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go one step on."""
        obs, _, terminated, truncated, info = super().step(0)
        return obs, _task_reward(info["at"]), terminated, truncated, {**info, "action": action}


@dataclass(frozen=True)
class KnownBonus:
    """A bonus that reads every entry of a transition; dyadic, so that float32 holds it exactly."""

    info: bool

    def __call__(self, step: Transition, /) -> NDArray[np.float64]:
        """Return the bonus (num_envs,) of a step."""
        at, terminated, truncated = codes(step.next_obs), np.asarray(step.terminated), np.asarray(step.truncated)
        bonus: NDArray[np.float64] = _bonus(codes(step.obs), at, terminated, truncated)
        if not self.info:
            return bonus
        taken, reported = (
            np.asarray(part, np.float64).reshape(len(at), -1) for part in (step.action, step.info["action"])
        )
        wrong = np.any(taken != reported, axis=1)
        bonus += (np.asarray(step.info["at"]) - at) + 1024.0 * wrong
        return bonus


def _bonus(before: Any, after: Any, terminated: Any, truncated: Any) -> Any:
    return before / 4 + after / 8 + 64.0 * terminated + 128.0 * (truncated & ~terminated)


def _task_reward(code: Any) -> Any:
    return code / 16


class _Stream(NamedTuple):
    """What is known of one lane, all of shape (T,)."""

    task: NDArray[np.float64]
    bonus: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    cut: NDArray[np.bool_]

    @property
    def over(self) -> NDArray[np.bool_]:
        """Where an episode is over, whatever ends it."""
        return self.terminated | self.truncated | self.cut


def _stream(first: int, case: AdapterCase) -> _Stream:
    """Write the story of a lane down, without an environment."""
    rows: list[tuple[float, float, bool, bool, bool]] = []
    number = first
    while len(rows) < case.steps:
        episode = STORY[number % len(STORY)]
        for time in range(1, episode.length + 1):
            last, code = time == episode.length, 10 * number + time
            flags = last and episode.terminated, last and episode.truncated
            bonus = _bonus(code - 1, code, *map(np.bool_, flags))
            cut = len(rows) + 1 == case.cut
            rows.append((_task_reward(code), bonus, *flags, cut))
            if cut:
                break
        number += 1
    task, bonuses, *masks = (np.array(column) for column in zip(*rows[: case.steps], strict=True))
    return _Stream(task, bonuses, *masks)


def _reference(case: AdapterCase, stream: _Stream) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return F' on plain arrays, and where the ledger is settled; a ledger that nobody settles is forgotten."""
    end = ends(case.truncation, stream.terminated, stream.truncated)
    state, parts = case.shaping.init(1, like=stream.bonus), []
    forgotten = np.flatnonzero(end.left_open | stream.cut) + 1
    pieces = (np.split(array[:, None], forgotten) for array in (stream.bonus, end.settled))
    for bonus, settled in zip(*pieces, strict=True):
        if len(bonus):
            state, shaped = case.shaping.rollout(state, bonus, settled)
            parts.append(shaped[:, 0])
        state = case.shaping.discard(state, np.array([True]))
    return np.concatenate(parts), end.settled


def _check_case(run: Run, case: AdapterCase) -> float:
    """Return the largest relative residual of one case."""
    where = f"with {case.shaping!r} and truncation={case.truncation!r}"
    received = run(case)
    if len(received) != len(case.envs):
        raise ConformanceError("count", f"run must return {len(case.envs)} lanes, received {len(received)} {where}")
    worst = 0.0
    for lane, rewards in enumerate(received):
        if len(rewards) != case.steps:
            raise ConformanceError(
                "count", f"lane {lane} must have {case.steps} steps, received {len(rewards)} {where}; leave dummies out"
            )
        stream = _stream(lane, case)
        expected, settled = _reference(case, stream)
        shaped = np.array([float(reward) for reward in rewards]) - stream.task
        scale = max(1.0, float(np.abs(expected).max()))
        wrong = np.flatnonzero(~(np.abs(shaped - expected) <= _TOLERANCE * scale))
        if len(wrong):
            step = int(wrong[0])
            raise ConformanceError(
                "reward",
                f"step {step} of lane {lane}, {_position(stream, step)}, must get F' = {expected[step]:.6g}, received "
                f"{shaped[step]:.6g} {where}",
            )
        if case.shaping.guarantee.level is Level.EXACT:
            left = _residual(case.shaping, shaped, settled, stream) / scale
            if left > _EXACT:
                raise ConformanceError("residual", f"an episode of lane {lane} leaves {left:.3g} of F' {where}")
            worst = max(worst, left)
    return worst


def _residual(shaping: Shaping[Any], shaped: NDArray[np.float64], settled: NDArray[np.bool_], stream: _Stream) -> float:
    """Return the largest discounted sum of F' over an episode that was settled."""
    gamma = 1.0 if shaping.gamma is None else float(shaping.gamma)
    over = stream.over
    return float(np.max(np.abs(residuals(shaped, over, gamma)[settled[over]]), initial=0.0))


def _position(stream: _Stream, step: int) -> str:
    names = [name for name in ("terminated", "truncated", "cut") if getattr(stream, name)[step]]
    begins = step == 0 or bool(stream.over[step - 1])
    return " and ".join([*(["the first of an episode"] if begins else []), *names]) or "inside an episode"
