"""Potential-based shaping: conversions that take a potential (or advice) instead of a bonus.

They are ledgers too. With L_t = Phi_t, f_t = gamma * Phi_{t+1} and pay_t = L_t the ledger's equations read
F'_t = gamma * Phi_{t+1} - Phi_t, and its settlement is the zero terminal potential of Grzes (2017).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from pbim import _arrays
from pbim._arrays import Array, ArrayT, Rows, Values, array_namespace
from pbim.errors import InputError
from pbim.shaping._centring import FixedMean
from pbim.shaping._checks import check_gamma
from pbim.shaping._geometric import Geometric
from pbim.shaping._guarantee import Guarantee, Level, exact
from pbim.shaping._ledger import LedgerState
from pbim.shaping._schedule import NOTHING, Debt
from pbim.shaping._shaping import Extra, Shaping


class PotentialState(NamedTuple):
    """``potential`` of the state each environment is in, and whether it stands at the start of an episode."""

    potential: Array
    fresh: Array


@dataclass(frozen=True, kw_only=True)
class PBRS(Shaping[PotentialState]):
    """F'_t = gamma * Phi(s_{t+1}) - Phi(s_t), with Phi = 0 after the last step (Ng et al. 1999, Grzes 2017).

    In ``step`` and ``rollout``, ``bonus`` is the potential of the next state, Phi(s_{t+1}); what is passed at an ended
    step is not used. Pass ``start`` of the same shape, Phi(s_0), to say the potential of the state an episode starts in
    (read at the first step of each episode only); without it the start counts as 0, which shifts every return by a
    constant of s_0. A potential that moves in time (Devlin & Kudenko 2012), depends on action frequencies (Goyal et al.
    2019) or is a share of the critic's value (BSRS, arXiv 2501.00989) is a potential like any other.

    Args:
        gamma: The learner's discount, in (0, 1].

    Raises:
        InputError: If ``gamma`` is out of range.

    >>> import numpy as np, pbim
    >>> shaping = pbim.PBRS(gamma=0.5)
    >>> potential, ended = np.array([[2.0], [4.0], [9.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), potential, ended, start=np.ones((3, 1)))
    >>> shaped[:, 0]  # 0 + 0.5 * 0 + 0.25 * -4 = -Phi(s_0)
    array([ 0.,  0., -4.])

    """

    gamma: Real | float
    extra: ClassVar[tuple[str, ...]] = ("start",)
    kind: ClassVar[str] = "pbrs"
    summary: ClassVar[str] = "pays differences of a potential of states"
    guarantee: ClassVar[Guarantee] = exact(
        "Ng et al. 1999; Devlin & Kudenko 2012; Grzes 2017", "Phi(s_t) was fixed before action t was chosen"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)

    def _owed(self, bonus: float, entries: float) -> Debt:
        return Debt(worst=bonus, expected=bonus) if entries else NOTHING  # the potential of the state itself

    def _start(self, lanes: Values) -> PotentialState:
        return PotentialState(lanes, lanes == 0)

    def _run(self, state: PotentialState, rows: Rows, extra: Extra) -> tuple[PotentialState, Values]:
        xp = array_namespace(rows.values)
        start = extra.get("start", xp.zeros_like(rows.values))
        if xp is not array_namespace(start) or start.shape != rows.values.shape:
            raise InputError(
                f"start must be an array of the library and shape {tuple(rows.values.shape)} of the potentials, "
                f"received {tuple(start.shape)}: pass Phi of the state each step starts from"
            )
        flags = (rows.ended,) if rows.valid is None else (rows.ended, rows.valid)
        body = _telescoping(xp, rows.values.dtype, _arrays.number_for(self.gamma, rows.values))
        carry, (shaped,) = _arrays.scan(body, tuple(state), (rows.values, start, *flags))
        return PotentialState(*carry), shaped


@lru_cache(maxsize=64, typed=True)  # Fraction(1, 2) equals 0.5 but is another number
def _telescoping(xp: Any, dtype: Any, gamma: Any) -> Callable[..., Any]:
    def body(carry: tuple[Values, Values], row: tuple[Values, ...]) -> tuple[tuple[Values, Values], tuple[Values]]:
        potential, fresh = carry
        next_potential, start, ended = row[:3]
        here = xp.where(fresh, xp.astype(start, potential.dtype, copy=False), potential)  # Phi(s_t)
        there = xp.where(ended, 0, xp.astype(next_potential, potential.dtype, copy=False))  # Phi(s_{t+1})
        shaped = xp.astype(gamma * there - here, dtype, copy=False)
        if len(row) > 3:
            valid = row[3]
            shaped, there = xp.where(valid, shaped, 0), xp.where(valid, there, potential)
            ended = xp.where(valid, ended, fresh)
        return (there, ended), (shaped,)

    return body


@dataclass(frozen=True, kw_only=True)
class LookAhead(PBRS):
    """Look-ahead advice F'_t = gamma * Phi(s_{t+1}, a_{t+1}) - Phi(s_t, a_t) (Wiewiora et al. 2003).

    ``bonus`` is the advice for the pair chosen next, ``start`` that for the first pair of an episode. The learner must
    choose its actions with :func:`advised_values`, or the optimal policy is lost.

    Args:
        gamma: The learner's discount, in (0, 1].

    Raises:
        InputError: If ``gamma`` is out of range.

    """

    kind: ClassVar[str] = "look-ahead"
    summary: ClassVar[str] = "pays differences of a potential of state-action pairs; actions chosen with Q + Phi"
    guarantee: ClassVar[Guarantee] = exact(
        "Wiewiora et al. 2003, look-ahead", "actions are chosen greedily by Q + Phi (advised_values)"
    )


@dataclass(frozen=True, kw_only=True)
class LookBack(Shaping[LedgerState]):
    """Look-back advice F'_t = Phi(s_t, a_t) - Phi(s_{t-1}, a_{t-1}) / gamma (Wiewiora et al. 2003), settled at the end.

    ``bonus`` is the advice for the pair just taken. It is a ledger that repays everything at once:
    ``Geometric(rate=1, normalize=False)``.

    Args:
        gamma: The learner's discount, in (0, 1].

    Raises:
        InputError: If ``gamma`` is out of range.

    """

    gamma: Real | float
    kind: ClassVar[str] = "look-back"
    summary: ClassVar[str] = "pays a potential of state-action pairs, takes it back at the next step"
    guarantee: ClassVar[Guarantee] = exact(
        "Wiewiora et al. 2003, look-back; settled as Forbes et al. 2024",
        "Phi(s_t, a_t) does not depend on actions after t",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        return self._ledger()._guidance(gae_lambda, steps, rollout)

    def _owed(self, bonus: float, entries: float) -> Debt:
        return self._ledger()._owed(bonus, entries)

    def _start(self, lanes: Values) -> LedgerState:
        return self._ledger()._start(lanes)

    def _run(self, state: LedgerState, rows: Rows, extra: Extra) -> tuple[LedgerState, Values]:
        return self._ledger()._run(state, rows, extra)

    def _ledger(self) -> Geometric:
        return Geometric(gamma=self.gamma, rate=1, normalize=FixedMean())


def advised_values(action_values: ArrayT, advice: ArrayT) -> ArrayT:
    """Return what look-ahead advice and PIES choose actions by: Q(s, .) + Phi(s, .).

    Args:
        action_values: Q(s, .), shape (..., num_actions).
        advice: Phi(s, .), of the same shape.

    """
    total: ArrayT = action_values + advice
    return total


class AdviceState(NamedTuple):
    """``lanes`` (num_envs,) and the learned potential of every cell, (num_cells, num_envs)."""

    lanes: Array
    potential: Array


@dataclass(frozen=True, kw_only=True)
class ExpressedAdvice(Shaping[AdviceState]):
    """Learn a potential whose differences are an arbitrary reward (Harutyunyan et al. 2015).

    The potential Phi(s, a) is learned on-policy from the negated bonus, and F'_t = gamma * Phi_{t+1}(s', a') -
    Phi_t(s, a). In ``step`` and ``rollout``, ``cell`` and ``next_cell`` number the state-action pairs, below
    ``num_cells``; each environment learns its own table, which outlives its episodes. Here for comparison: it does not
    keep the optimal policies (Behboudian et al. 2022).

    Args:
        gamma: The learner's discount, in (0, 1].
        num_cells: How many state-action pairs there are.
        learning_rate: How far each step moves the potential, in (0, 1].

    Raises:
        InputError: If an argument is out of range.

    """

    gamma: Real | float
    num_cells: int
    learning_rate: float = 0.1
    extra: ClassVar[tuple[str, ...]] = ("cell", "next_cell")
    shared = ("potential",)
    kind: ClassVar[str] = "expressed-advice"
    summary: ClassVar[str] = "learns a potential whose differences are the bonus"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE,
        assumption="claimed for any reward; refuted in general",
        reference="Harutyunyan et al. 2015; Behboudian et al. 2022",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)
        if not isinstance(self.num_cells, int) or self.num_cells < 1:
            raise InputError(f"num_cells must be at least 1, received {self.num_cells!r}: pass states times actions")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate must be in (0, 1], received {self.learning_rate}: 0.1 is usual")

    def _start(self, lanes: Values) -> AdviceState:
        return AdviceState(lanes, _arrays.zeros((self.num_cells, *lanes.shape), lanes))

    def _run(self, state: AdviceState, rows: Rows, extra: Extra) -> tuple[AdviceState, Values]:
        if len(extra) < len(self.extra):
            raise InputError(
                "ExpressedAdvice needs cell and next_cell, the numbers of the state-action pairs: "
                "call step(state, bonus, ended, cell=..., next_cell=...)"
            )
        flags = (rows.ended,) if rows.valid is None else (rows.ended, rows.valid)
        body = _expressing(self, array_namespace(rows.values), rows.values.dtype)
        potential, (shaped,) = _arrays.scan(
            body, state.potential, (rows.values, extra["cell"], extra["next_cell"], *flags)
        )
        return AdviceState(state.lanes, potential), shaped


@lru_cache(maxsize=64)
def _expressing(conversion: ExpressedAdvice, xp: Any, dtype: Any) -> Callable[..., Any]:
    gamma, rate = float(conversion.gamma), conversion.learning_rate

    def body(potential: Values, row: tuple[Values, ...]) -> tuple[Values, tuple[Values]]:
        bonus, cell, next_cell, ended = row[:4]
        here = xp.arange(conversion.num_cells, dtype=cell.dtype)[:, None] == cell  # one-hot, (num_cells, num_envs)
        now = xp.sum(xp.where(here, potential, 0), axis=0)
        there = xp.arange(conversion.num_cells, dtype=cell.dtype)[:, None] == next_cell
        ahead = xp.where(ended, 0, xp.sum(xp.where(there, potential, 0), axis=0))
        error = gamma * ahead - bonus - now
        new = potential + xp.where(here, rate * error, 0)
        then = xp.where(ended, 0, xp.sum(xp.where(there, new, 0), axis=0))
        shaped = xp.astype(gamma * then - now, dtype, copy=False)
        if len(row) > 4:
            shaped, new = xp.where(row[4], shaped, 0), xp.where(row[4], new, potential)
        return new, (shaped,)

    return body
