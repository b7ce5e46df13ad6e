"""A weighted mean of exact conversions: each cancels, so their sum does."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isclose, nan
from numbers import Real
from typing import ClassVar, NamedTuple

from pbim import _arrays
from pbim._arrays import Array, Rows, Values, array_namespace
from pbim.errors import InputError
from pbim.shaping._centring import Centring
from pbim.shaping._checks import is_number, short
from pbim.shaping._guarantee import Guarantee, Level, exact
from pbim.shaping._ledger import Ledger, LedgerState
from pbim.shaping._schedule import Debt, debt
from pbim.shaping._shaping import Extra, Shaping


class MixtureState(NamedTuple):
    """``lanes`` (num_envs,), and the states of the members."""

    lanes: Array
    members: tuple[LedgerState, ...]


@dataclass(frozen=True, kw_only=True)
class Mixture(Shaping[MixtureState]):
    """Convert the bonus by every member and add the results, F'_t = sum_i w_i F'_{i,t}; equal weights by default.

    The weights sum to 1, so that the bonus keeps its size: half of it may be repaid soon and half late.

    Args:
        members: Conversions of the ledger family with one gamma and one centring.
        weights: One positive number for each member, 1 in sum; equal ones by default.

    Raises:
        InputError: If the members do not fit together, or the weights do not fit the members.

    >>> import numpy as np, pbim
    >>> soon, late = pbim.GRM(gamma=0.5, delay=1, normalize=False), pbim.PBIM(gamma=0.5, normalize=False)
    >>> shaping = pbim.Mixture(members=(soon, late))
    >>> bonus, ended = np.array([[1.0], [1.0], [1.0]]), np.array([[False], [False], [True]])
    >>> state, shaped = shaping.rollout(shaping.init(1), bonus, ended)
    >>> shaped[:, 0]  # the mean of 1, -1, -2 and 1, 1, -6
    array([ 1.,  0., -4.])

    """

    members: tuple[Ledger, ...]
    weights: tuple[Real | float, ...] = ()
    kind: ClassVar[str] = "mixture"
    summary: ClassVar[str] = "takes parts of the bonus back in different ways, one conversion each"
    guarantee: ClassVar[Guarantee] = exact("pbim, docs/theory.md, a sum of exact ones")

    def __post_init__(self) -> None:
        super().__post_init__()
        members = tuple(self.members)
        if not members or not all(map(_fits, members)):
            raise InputError(
                f"members must be one or more of PBIM, GRM, Geometric and Bounded, received {self.members!r}: "
                "write any other repayment as one pbim.Custom"
            )
        if len({(each.gamma, each.normalize) for each in members}) > 1:
            raise InputError(
                f"members must share gamma and normalize, received {self.members!r}: "
                "a sum cancels for one discount only, and is centred once"
            )
        weights = tuple(self.weights) or (Fraction(1, len(members)),) * len(members)
        weights = tuple(Fraction(1) if is_number(each) and each == 1 else each for each in weights)  # 1.0 is 1
        numbers = all(is_number(each) and float(each) > 0 for each in weights)
        if len(weights) != len(members) or not numbers or not isclose(float(sum(weights)), 1):
            raise InputError(
                f"weights must be {len(members)} positive numbers that sum to 1, one for each member, received "
                f"{short(self.weights)}: leave them out for equal ones"
            )
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "weights", weights)

    @property
    def repays(self) -> bool:  # type: ignore[override]
        """Whether every member takes back before the last step."""
        return all(each.repays for each in self.members)

    @property
    def gamma(self) -> Real | float:
        """The discount of all members."""
        return self.members[0].gamma

    @property
    def label(self) -> str:
        """A short name for people: the share and the label of each member."""
        return " + ".join(
            f"{float(share):.2g} {each.label}" for share, each in zip(self.weights, self.members, strict=True)
        )

    @property
    def normalize(self) -> bool | Centring:
        """The centring of all members."""
        return self.members[0].normalize

    def with_gamma(self, gamma: Real | float) -> "Mixture":
        """Return this mixture with every member for another discount."""
        return replace(self, members=tuple(each.with_gamma(gamma) for each in self.members))

    def frozen(self, mean: Real | int = 0) -> "Mixture":
        """Return this mixture with F-bar fixed to ``mean`` in every member, unless it is fixed already."""
        return replace(self, members=tuple(each.frozen(mean) for each in self.members))

    def frozen_at(self, state: MixtureState) -> "Mixture":
        """Return this mixture with F-bar fixed to the mean that ``state`` subtracts next, in every member."""
        members = zip(self.members, state.members, strict=True)
        return replace(self, members=tuple(each.frozen_at(part) for each, part in members))

    def check_horizon(self, max_steps: int) -> None:
        """Warn when episodes of up to ``max_steps`` steps make a member's repayment too large for a learner."""
        for each in self.members:
            each.check_horizon(max_steps)

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        shares = zip(self.weights, self.members, strict=True)
        return sum(float(share) * each._guidance(gae_lambda, steps, rollout) for share, each in shares)

    def _owed(self, bonus: float, entries: float) -> Debt:
        shares = list(zip(self.weights, self.members, strict=True))
        worst = sum(float(share) * each._owed(bonus, entries).worst for share, each in shares)  # at the same time
        parts = [replace(part, weight=float(share)) for share, each in shares for part in each._schedules()]
        known = len(parts) == len(shares)
        return Debt(worst=worst, expected=debt(parts, bonus, entries).expected if known else nan)

    def _start(self, lanes: Values) -> MixtureState:
        return MixtureState(lanes, tuple(each._start(lanes) for each in self.members))

    def _run(self, state: MixtureState, rows: Rows, extra: Extra) -> tuple[MixtureState, Values]:
        runs = [each._run(old, rows, extra) for each, old in zip(self.members, state.members, strict=True)]
        weights = [_arrays.number_for(weight, rows.values) for weight in self.weights]
        shaped = sum(weight * part for weight, (_, part) in zip(weights, runs, strict=True))
        dtype, xp = rows.values.dtype, array_namespace(rows.values)
        return MixtureState(state.lanes, tuple(new for new, _ in runs)), xp.astype(shaped, dtype, copy=False)

    def _discard(self, state: MixtureState, where: Values) -> MixtureState:
        parts = zip(self.members, state.members, strict=True)
        return MixtureState(state.lanes, tuple(each._discard(old, where) for each, old in parts))


def _fits(member: object) -> bool:
    return isinstance(member, Ledger) and not member.calls_back and member.guarantee.level is Level.EXACT
