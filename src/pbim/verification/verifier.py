"""Proof or counterexample: does a bonus, converted so, keep the optimal actions of a finite MDP?"""

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from pbim.errors import InputError, InputTypeError, RepaymentWarning
from pbim.shaping import Level, Shaping
from pbim.verification.fold import Verifiable, as_fold, is_folding, name_of, readable, sees_future
from pbim.verification.future import FutureVerdict, judge as judge_episodes
from pbim.verification.induction import compare, optimal, original_values, shaped_values
from pbim.verification.mdp import FiniteMDP
from pbim.verification.numbers import NotExact, Number, exactly, is_number, rough
from pbim.verification.report import Counterexample, Report
from pbim.verification.story import CausalVerdict
from pbim.verification.tree import Advance, Growing, outline

MAX_HISTORIES, MAX_HORIZON = 2_000_000, 1_000
TOLERANCE = 1e-9
FLOAT_SPEED, EXACT_SPEED = (250_000, 2_800_000), (40_000, 2_100_000)
"""Histories per second, and histories per gigabyte, with a cheap bonus on one core."""


def verify(
    mdp: FiniteMDP,
    *,
    intrinsic: Verifiable,
    shaping: Shaping[Any],
    horizon: int | None = None,
    mean: Number = 0,
    exact: bool | None = None,
    tolerance: float = TOLERANCE,
    max_histories: int = MAX_HISTORIES,
    progress: bool | None = None,
) -> Report:
    """Return whether the optimal actions are the same, with and without the bonus, at every reachable history.

    Values are discounted by ``mdp.gamma``; a conversion with another gamma is judged as it is.

    Args:
        mdp: The task.
        intrinsic: A function of the history ``(s_0, a_0, s_1, ..., a_t, s_{t+1})`` that returns the bonus of step t,
            or one of our bonuses that depends on the episode alone, such as ``pbim.EpisodicCount(alpha=...)``;
            :mod:`pbim.verification.fold` names two more kinds.
        shaping: The conversion.
        horizon: After how many steps episodes are cut off, at most 1,000; may be left out when every episode ends by
            itself. One within which the task pays nothing is refused: all policies would be worth the same.
        mean: F-bar, the constant that a centring conversion subtracts.
        exact: True insists on rational arithmetic, False on floats; None uses Fractions where all numbers allow it.
        tolerance: How close two values must be to tie, in floats; what it or rounding hides is
            ``undecided``.
        max_histories: More histories than this are refused beforehand.
        progress: Whether to show a progress bar; None shows one on a terminal.

    Returns:
        The verdict, with the shortest counterexample if there is one.

    Raises:
        InputError: If an argument breaks a rule, or there are more histories than ``max_histories``.
        InputTypeError: If the bonus depends on training (``LifetimeCount``, ``RND``, ...) or is none.

    >>> from fractions import Fraction
    >>> import pbim
    >>> mdp = FiniteMDP(transition=[[[0, 1], [1, 0]], [[0, 1], [0, 1]]], reward=[[[0, 1], [0, 0]], [[0, 0], [0, 0]]],
    ...     initial=[1, 0], terminal=[False, True], gamma=Fraction(9, 10), actions=("go", "wait"))
    >>> stays = lambda history: int(history[-1] == 0)  # pays for not reaching the goal
    >>> verify(mdp, intrinsic=stays, shaping=pbim.Raw(), horizon=4).counterexample.shaped_actions
    (1,)
    >>> verify(mdp, intrinsic=stays, shaping=pbim.PBIM(gamma=Fraction(9, 10)), horizon=4).preserved
    True
    >>> count = pbim.EpisodicCount(alpha=Fraction(1, 2))
    >>> verify(mdp, intrinsic=count, shaping=pbim.GRM(gamma=Fraction(9, 10)), horizon=4).preserved
    True

    """
    start = time.perf_counter()
    _check_kind("mdp", mdp, FiniteMDP, "build one with pbim.FiniteMDP(...) or FiniteMDP.from_toy_text(env, gamma=...)")
    _check_kind("shaping", shaping, Shaping, "pass a conversion such as pbim.Geometric(gamma=...)")
    _check_numbers(mean, tolerance, max_histories)
    bonus = readable(intrinsic)
    horizon = _horizon(mdp, horizon)
    _check_estimate(mdp, horizon, max_histories, merging=is_folding(bonus), exact=exact is not False)
    question = _Question(mdp, bonus, shaping, horizon, mean, max_histories, tolerance)
    histories = mdp.count_histories(horizon)
    with _progress(progress, None if is_folding(bonus) else histories) as advance:
        found, note = question.settle(exact, advance)
    exact, changed = found.verdicts.shaped[0].exact, found.verdicts.first()
    undecided = changed is None and found.verdicts.unsure
    return Report(
        preserved=changed is None and not undecided,
        counterexample=question.counterexample(found, changed),
        costly=question.counterexample(found, found.verdicts.first(costly=True)),
        assumption1=found.assumption,
        histories=histories,
        expanded=found.tree.expanded,
        exact=exact,
        tolerance=0.0 if exact else tolerance,
        horizon=horizon,
        elapsed=time.perf_counter() - start,
        bonus_name=name_of(bonus),
        shaping_name=type(shaping).__name__,
        undecided=undecided,
        indifferent=found.verdicts.indifferent,
        notes=(*_gamma_notes(mdp, shaping), *_limit_notes(shaping), *note),
    )


@dataclass(frozen=True)
class _Question:
    """Everything that was asked, checked."""

    mdp: FiniteMDP
    intrinsic: Any
    shaping: Shaping[Any]
    horizon: int
    mean: Number
    limit: int
    tolerance: float

    def settle(self, exact: bool | None, advance: Advance) -> tuple[CausalVerdict | FutureVerdict, tuple[str, ...]]:
        """Return the verdict, in rational arithmetic where that is wanted and possible, and why it was not."""
        if exact is False:
            return self.judge(advance, exact=False), ()
        try:
            return self.judge(advance, exact=True), ()
        except NotExact as reason:
            if exact:
                raise InputError(
                    f"exact=True needs rational numbers, and {reason}: pass Fractions, or leave exact out"
                ) from None
            return self.judge(advance, exact=False), (f"floats were used because {reason}",)

    def judge(self, advance: Advance, *, exact: bool) -> CausalVerdict | FutureVerdict:
        """Return the values of both problems in one arithmetic; ``NotExact`` when rational numbers do not reach."""
        mdp, gamma, links = self.mdp, self.mdp.gamma_as(exact), self.mdp.links_as(exact)
        frozen = _frozen(self.shaping, self.mean, exact)
        original = original_values(links, mdp.num_actions, self.horizon, gamma)
        if sees_future(self.intrinsic):
            tree = outline(mdp, self.horizon, links)
            return judge_episodes(
                tree, mdp, self.intrinsic, frozen, original, gamma, self.tolerance, advance, self.mean
            )
        tree = Growing(
            mdp=mdp,
            links=links,
            bonus=as_fold(self.intrinsic),
            shaping=frozen,
            horizon=self.horizon,
            exact=exact,
            merging=is_folding(self.intrinsic),
            limit=self.limit,
            advance=advance,
            mean=self.mean,
        ).grow()
        shaped = shaped_values(tree, mdp.num_actions, gamma)
        verdicts = compare(tree, original, shaped, self.tolerance, gamma, tree.smallest)
        return CausalVerdict(tree=tree, verdicts=verdicts, gamma=gamma)

    def counterexample(
        self, found: CausalVerdict | FutureVerdict, where: tuple[int, int] | None
    ) -> Counterexample | None:
        """Return what there is to tell about the history ``where`` the two problems part."""
        if where is None:
            return None
        depth, node = where
        row = np.array([node])
        task, paid = found.verdicts.original[depth].at(row), found.verdicts.shaped[depth].at(row)
        sets = (optimal(values, found.verdicts.rounding)[0] for values in (task, paid))
        original, shaped = (tuple(np.flatnonzero(best).tolist()) for best in sets)
        added = [action for action in shaped if action not in original]
        original_course, shaped_course = found.courses(depth, node, (original[0], (added or shaped)[0]))
        return Counterexample(
            history=found.tree.history(depth, node),
            step=depth,
            original_actions=original,
            shaped_actions=shaped,
            original_values=tuple(task.actions[0].tolist()),
            shaped_values=tuple(paid.actions[0].tolist()),
            original_course=original_course,
            shaped_course=shaped_course,
            certain=bool((found.tree.links.probability == 1).all()),
            bonus_name=name_of(self.intrinsic),
            shaping_name=type(self.shaping).__name__,
            mdp=self.mdp,
            fading=self.shaping.guarantee.level is Level.LIMIT,
        )


def _frozen(shaping: Shaping[Any], mean: Number, exact: bool) -> Any:
    """Return the conversion with a constant F-bar, and with exact parameters where they are wanted."""
    number = exactly(mean) if exact else mean
    if number is None:
        raise NotExact(f"mean is the float {mean!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepaymentWarning)
        frozen: Any = shaping.frozen(number)
        return _exact(frozen, type(shaping).__name__) if exact else frozen


def _exact(part: Any, name: str) -> Any:
    """Return a number as a Fraction, and a conversion with Fractions for its numbers."""
    if isinstance(part, float | np.floating):
        number = exactly(part)
        if number is None:
            raise NotExact(f"{name} is the float {part!r}")
        return number
    if isinstance(part, tuple):
        return tuple(_exact(each, f"{name}[{index}]") for index, each in enumerate(part))
    if is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        changes = {key: _exact(value, f"{name}.{key}") for key, value in values.items()}
        return replace(part, **{key: new for key, new in changes.items() if new is not values[key]})
    return part


def _check_kind(name: str, value: Any, kind: type, way_out: str) -> None:
    if not isinstance(value, kind):
        raise InputTypeError(f"{name} must be a {kind.__name__}, received {type(value).__name__}: {way_out}")


def _check_numbers(mean: Any, tolerance: Any, most: Any) -> None:
    if not is_number(mean):
        raise InputTypeError(f"mean must be a finite number, received {mean!r}: it stands for F-bar, 0 by default")
    if not is_number(tolerance) or not 0 < tolerance < 1:
        raise InputError(f"tolerance must be in (0, 1), received {tolerance!r}: leave it out for {TOLERANCE:g}")
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise InputError(
            f"max_histories must be a whole number of at least 1, received {most!r}: leave it out for {MAX_HISTORIES:,}"
        )


def _horizon(mdp: FiniteMDP, horizon: int | None) -> int:
    if horizon is None:
        horizon = mdp.longest_episode()
        if horizon is None:
            raise InputError(
                "horizon must be given, received None: this MDP has episodes that never end, "
                "so say after how many steps they are cut off"
            )
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise InputError(f"horizon must be a whole number of at least 1, received {horizon!r}: pass a number of steps")
    if horizon > MAX_HORIZON:
        raise InputError(f"horizon must be at most {MAX_HORIZON:,}, received {horizon}: a few dozen steps tell as much")
    needed = mdp.steps_to_reward()
    if needed is not None and horizon < needed:
        raise InputError(
            f"horizon must be at least {needed} to reach a reward of the task, received {horizon}: within it all "
            f"policies are worth the same, so pass {needed} or more"
        )
    return int(horizon)


def _check_estimate(mdp: FiniteMDP, horizon: int, limit: int, *, merging: bool, exact: bool) -> None:
    """Stop before expanding what is known to be too much; merging is only known while expanding."""
    sizes = np.cumsum(np.array(mdp.growth(horizon), dtype=object))
    if sizes[-1] <= limit or merging:
        return
    fits = int(np.flatnonzero(sizes <= limit)[-1]) if sizes[0] <= limit else 0
    most = "more than " if len(sizes) <= horizon else ""
    seconds, gigabytes = (int(sizes[-1] // cost) for cost in (EXACT_SPEED if exact else FLOAT_SPEED))
    enough = fits >= (mdp.steps_to_reward() or 1)
    advice = f"horizon={fits} fits ({sizes[fits]:,} histories)" if enough else "give it fewer start states"
    raise InputError(
        f"max_histories must cover all histories, received {limit:,}, and {horizon} steps make {most}"
        f"{rough(sizes[-1])} histories (about {rough(seconds)} seconds and {rough(gigabytes)} GB): {advice}, or raise "
        "max_histories, or write the bonus as a pbim.verification.Fold, which lets equal histories merge"
    )


def _gamma_notes(mdp: FiniteMDP, shaping: Shaping[Any]) -> Iterator[str]:
    gamma = shaping.gamma
    if gamma is None:
        return
    given, own = exactly(gamma), exactly(mdp.gamma)
    if given != own if given and own else float(gamma) != float(mdp.gamma):
        yield (
            f"the conversion's gamma ({gamma}) is not the task's ({mdp.gamma}): what is paid out and what is taken "
            "back are then discounted differently and need not cancel; give both the learner's gamma"
        )


def _limit_notes(shaping: Shaping[Any]) -> Iterator[str]:
    if shaping.guarantee.level is Level.LIMIT:
        yield (
            f"{type(shaping).__name__} is judged as it starts, with the whole bonus; what it promises is for later: "
            f"{shaping.guarantee.assumption}"
        )


@contextmanager
def _progress(wanted: bool | None, total: int | None) -> Iterator[Advance]:
    """Yield a function to report progress to: a bar on a terminal, else nothing."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("histories"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=sys.stderr.isatty()) as bar:
        task = bar.add_task("histories", total=total)
        yield lambda count: bar.advance(task, count)
