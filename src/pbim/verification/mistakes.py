"""Conversions as they are got wrong in practice, for the verifier to catch."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from array_api_compat import array_namespace

from pbim import _arrays
from pbim._arrays import Rows, Values
from pbim.shaping import PBIM, PBRS, Guarantee, Level, Shaping, State


@dataclass(frozen=True, kw_only=True)
class UnsettledPBRS(Shaping[Any]):
    """F'_t = gamma * Phi(s_{t+1}) - Phi(s_t) without the zero potential after the last step.

    The agent keeps gamma^N * Phi(s_N), so it prefers to end where the potential is high (Grzes 2017).
    """

    gamma: Real | float
    kind: ClassVar[str] = "unsettled-pbrs"
    summary: ClassVar[str] = "a mistake: potentials whose last value is never taken back"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE, assumption="the last potential is kept", reference="Grzes 2017"
    )

    def _start(self, lanes: Values) -> State:
        return PBRS(gamma=self.gamma)._start(lanes)

    def _run(self, state: State, rows: Rows, extra: Mapping[str, Values]) -> tuple[State, Values]:
        state, settled = PBRS(gamma=self.gamma)._run(state, rows, extra)
        kept = _arrays.number_for(self.gamma, rows.values) * rows.values
        return state, settled + array_namespace(kept).where(rows.ended, kept, 0)


@dataclass(frozen=True, kw_only=True)
class FlippedPBIM(Shaping[Any]):
    """PBIM with the sign of its last step wrong: the debt is paid out once more instead of taken back."""

    gamma: Real | float
    kind: ClassVar[str] = "flipped-pbim"
    summary: ClassVar[str] = "a mistake: PBIM whose settlement has the wrong sign"
    guarantee: ClassVar[Guarantee] = Guarantee(
        level=Level.NONE, assumption="the settlement doubles the bonus", reference="by definition"
    )

    def _start(self, lanes: Values) -> State:
        return PBIM(gamma=self.gamma, normalize=False)._start(lanes)

    def _run(self, state: State, rows: Rows, extra: Mapping[str, Values]) -> tuple[State, Values]:
        state, settled = PBIM(gamma=self.gamma, normalize=False)._run(state, rows, extra)
        return state, array_namespace(settled).where(rows.ended, -settled, settled)
