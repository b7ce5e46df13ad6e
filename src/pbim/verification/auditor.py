"""Is a reward term safe in every MDP? The answer from a log of transitions, without a model."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pbim._arrays import Array, Flags
from pbim.errors import InputError
from pbim.shaping import check_gamma
from pbim.verification._continuous import Features, fit_class
from pbim.verification._diagnosis import mistake
from pbim.verification._graph import Graph, build, code, ways as ways_of
from pbim.verification._inversions import episodes, invert
from pbim.verification._log import LARGEST, Columns, Key, States, is_continuous, keyed, number_rows, number_states, read
from pbim.verification._potential import Fit, fit
from pbim.verification._search import Search
from pbim.verification.audit_report import AuditReport, Coverage
from pbim.verification.witness import Step, Way, Witness, pair

Column = Array | Flags | Any
"""One entry per transition: an array of NumPy, JAX or PyTorch, or a list."""


def audit(
    *,
    obs: Column,
    next_obs: Column,
    term: Column,
    terminated: Column,
    gamma: float,
    truncated: Column | None = None,
    extrinsic: Column | None = None,
    episode: Column | None = None,
    action: Column | None = None,
    key: Key | None = None,
    features: Features | None = None,
    tolerance: float | None = None,
) -> AuditReport:
    """Tell from logged transitions whether a reward term is safe in every MDP, and if not, what shows it.

    A term that depends on the two states of a transition alone is safe if and only if it is gamma Phi(s') - Phi(s) for
    a Phi that is zero where episodes terminate (Ng et al. 1999, Grzes 2017). The audit looks for that Phi. States are
    compared exactly, and then the verdict is a proof about the visited transitions, up to the rounding of the numbers.
    Real observations that hardly ever recur are fitted by a stated class of potentials instead, which is evidence: a
    term is unsafe if a rival that breaks the rule predicts unused episodes better, and may stay undecided.

    Args:
        obs: The observations, one per transition: numbers, rows of numbers, texts, anything hashable.
        next_obs: The true successors: at an episode's end the final observation, never that of the reset.
        term: The reward term F alone, without the task's reward.
        terminated: Where the task was over: the potential is 0 there.
        gamma: The learner's discount.
        truncated: Where a time limit cut off; such transitions are ordinary, but they separate episodes.
        extrinsic: The task's own reward, for ``inversions``.
        episode: Which episode each row belongs to; rows of one episode are in the order of time. Without it
            ``terminated`` and ``truncated`` separate the rows, if they follow each other.
        action: The actions, to tell a term that depends on them from one that depends on history.
        key: A function of one observation that returns what tells states apart.
        features: A function of observations (N, ...) that returns (N, k): asks for potentials linear in these.
        tolerance: By how much each pay may be off, relative to the largest; the rounding of the numbers if left out.

    Returns:
        The verdict, with a witness if the term is unsafe.

    Raises:
        InputError: If an argument breaks a rule.

    >>> report = audit(obs=["far", "near", "near"], next_obs=["near", "near", "goal"], term=[0.0, 1.0, 0.0],
    ...                terminated=[False, False, True], gamma=0.9)
    >>> report.potential_based
    False
    >>> str(report.witness).split(";")[0]
    'near -> near pays 1 in each round (row 1)'

    """
    check_gamma(gamma)
    gamma = float(gamma)
    if tolerance is not None and not (isinstance(tolerance, int | float | np.floating) and 0 <= tolerance < 1):
        raise InputError(f"tolerance must be in [0, 1), received {tolerance!r}: it is relative to the largest pay")
    if key is not None and features is not None:
        raise InputError(
            "features must be left out where key= tells states apart, received both: key= makes the audit exact, "
            "features= fits a class of potentials"
        )
    if key is not None:
        obs, next_obs = keyed("obs", obs, key), keyed("next_obs", next_obs, key)
    obs, next_obs, log = read(
        obs=obs,
        next_obs=next_obs,
        term=term,
        terminated=terminated,
        truncated=truncated,
        extrinsic=extrinsic,
        episode=episode,
    )
    known: list[States] = []

    def states() -> States:
        if not known:
            known.append(number_states(obs, next_obs))
        return known[0]

    if features is not None or (key is None and is_continuous(obs, states)):
        return _judge_class(obs, next_obs, log, states, gamma, features)
    actions = None if action is None else number_rows(action, "action")
    if actions is not None and len(actions) != len(log.term):
        raise InputError(f"action must have {len(log.term):,} entries like term, received {len(actions):,}: cut it")
    return _judge(log, states(), gamma, actions, 0.0 if tolerance is None else float(tolerance) * log.scale)


def _judge(log: Columns, states: States, gamma: float, actions: Any, noise: float) -> AuditReport:
    """Return the verdict where states are compared exactly."""
    graph = build(states, log.terminated, log.term)
    ways = ways_of(graph)
    found = fit(graph, ways, gamma, rounding=log.rounding, noise=noise)
    number, whole = episodes(log, states.target[:-1] == states.source[1:])
    ranking = invert(log, number, states.source, gamma) if log.extrinsic is not None and whole else None
    scale = log.scale or 1.0
    reason, witness, violation = "safe", None, found.worst / scale
    apart = graph.spread > 4 * log.rounding * (np.abs(graph.pay) + np.abs(found.value[graph.source])) + 2 * noise
    if apart.any():
        reason, witness = _unsteady(log, states, graph, apart, gamma, actions, noise)
        violation = max(violation, float(graph.spread.max()) / scale)
    elif not found.holds:
        along = fit(graph, ways, gamma, rounding=log.rounding, noise=noise, along_ways=True)
        along = found if along.holds else along
        witness = Search(graph, ways, along, states.label).witness()
        cause = mistake(graph, ways, gamma, rounding=log.rounding, noise=noise, label=states.label)
        reason = "not-potential-based" if cause is None else cause.code
        if cause is not None:
            witness = replace(witness, name=cause.name, ends=cause.ends)
    squares = float((graph.pay**2).sum())
    share = 1.0 if not squares or reason == "safe" else max(0.0, 1 - float((found.residual**2).sum()) / squares)
    return AuditReport(
        potential_based=reason == "safe",
        violation=violation,
        witness=witness,
        coverage=_coverage(log, graph, found.checks(graph)),
        inversions=None if ranking is None else ranking.count,
        ranking=ranking,
        reason=reason,
        gamma=gamma,
        share=share,
        evaluate=lambda: _mapping(graph, found, states),
    )


def _unsteady(
    log: Columns, states: States, graph: Graph, apart: Any, gamma: float, actions: Any, noise: float
) -> tuple[str, Witness]:
    """Return the reason and the pair of rows where one transition is paid differently."""
    by_action = actions is not None and _steady_by_action(log, states, graph, apart, actions, noise)
    reason = "action-dependent" if by_action else "history-dependent"
    edge = int(np.argmax(np.where(apart, graph.spread, -1.0)))
    rows = (int(graph.highest[edge]), int(graph.lowest[edge]))
    steps = [
        Step(
            state=states.label(int(states.source[row])),
            next_state=states.label(int(states.target[row])),
            pay=float(log.term[row]),
            terminated=bool(log.terminated[row]),
            row=row,
        )
        for row in rows
    ]
    names = {"action-dependent": "The pay depends on the action", "history-dependent": "The pay depends on history"}
    return reason, pair(steps, gamma, names[reason])


def _steady_by_action(log: Columns, states: States, graph: Graph, apart: Any, actions: Any, noise: float) -> bool:
    """Tell whether the pay of a transition is steady once its action is fixed; what never recurs tells nothing."""
    chosen, number = np.unique(states.source * (int(actions.max()) + 1) + actions, return_inverse=True)
    wide = build(replace(states, source=number, count=max(len(chosen), states.count)), log.terminated, log.term)
    rows = wide.lowest
    edges = np.searchsorted(graph.codes, code(states.source[rows], states.target[rows], wide.ends, states.count))
    again = apart[edges] & (wide.lowest != wide.highest)
    steady = wide.spread <= np.finfo(np.float32).eps * log.scale + 2 * noise
    return bool(again.any() and steady.all())


def _judge_class(
    obs: Any, next_obs: Any, log: Columns, states: Callable[[], States], gamma: float, features: Features | None
) -> AuditReport:
    """Return the verdict of a class of potentials."""
    if not isinstance(obs, np.ndarray) or not isinstance(next_obs, np.ndarray) or obs.dtype.kind not in "biuf":
        raise InputError("obs must be an array of numbers for features, received other objects: pass key= instead")
    for name, values in (("obs", obs), ("next_obs", next_obs)):
        if not (np.abs(values.astype(float)) <= LARGEST).all():
            raise InputError(
                f"{name} must be between -{LARGEST:g} and {LARGEST:g} where it is continuous, received other numbers: "
                "clip it, or pass key= to make the states discrete"
            )
    same: Any = np.equal(next_obs[:-1], obs[1:])
    number, whole = episodes(log, same.reshape(len(same), -1).all(axis=1))
    found = fit_class(obs, next_obs, log, number, gamma, features)
    ranking = invert(log, number, None, gamma) if log.extrinsic is not None and whole else None
    step = Step(
        state=None,
        next_state=None,
        pay=float(log.term[found.row]),
        terminated=bool(log.terminated[found.row]),
        row=found.row,
    )
    way = Way(start=None, steps=(step,), repeats=None, total=step.pay)
    witness = Witness(kind="transition", way=way, instead=None, difference=found.worst, gamma=gamma)
    return AuditReport(
        potential_based=found.explains,
        violation=abs(found.worst) / (log.scale or 1.0),
        witness=None if found.explains else witness,
        coverage=_coverage(log, build(states(), log.terminated, log.term), found.judged),
        inversions=None if ranking is None else ranking.count,
        ranking=ranking,
        reason="safe" if found.explains else "undecided" if found.rival is None else found.rival.reason,
        gamma=gamma,
        share=found.share,
        class_name=found.class_name,
        rival=None if found.rival is None else found.rival.in_words,
        rival_share=found.rival_share,
        evaluate=lambda: found.potential,
    )


def _coverage(log: Columns, graph: Graph, checks: int) -> Coverage:
    left = np.zeros(graph.states, dtype=bool)
    left[graph.source] = True
    return Coverage(
        transitions=len(log.term),
        distinct=len(graph.pay),
        states=graph.states,
        ends=len(np.unique(graph.target[graph.ends])),
        dead_ends=int((graph.live & ~left).sum()),
        components=len(np.unique(graph.component)),
        checks=checks,
        paid=int(np.count_nonzero(log.term)),
    )


def _mapping(graph: Graph, found: Fit, states: States) -> Mapping[Hashable, float]:
    """Return Phi = -V of every state; 0 where every arrival ends an episode."""
    potential = np.where(graph.live, -found.value, 0.0) + 0.0
    return {states.label(state): value for state, value in enumerate(potential.tolist())}
