"""Did it cancel? The discounted sum of F' over every finished episode, all at once or while training runs.

A residual is sum_t gamma^t F'_t of one whole episode; it is zero for every exact conversion. Its relative form divides
by sum_t gamma^t |F'_t|, so that 0 means settled and 1 means nothing was repaid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from pbim import _arrays
from pbim._arrays import Array
from pbim.errors import InputError
from pbim.shaping import check_gamma


class CertificateState(NamedTuple):
    """O(num_envs) state: ``total``, ``scale``, ``discount`` of running episodes, and the worst of the finished ones."""

    total: Array
    scale: Array
    discount: Array
    episodes: Array
    worst: Array
    worst_absolute: Array


@dataclass(frozen=True, kw_only=True)
class CertificateReport:
    """The verdict over all finished episodes: ``ok`` when at least one finished and none left a residual."""

    episodes: int
    worst: float
    worst_absolute: float
    tolerance: float
    gamma: float

    @property
    def ok(self) -> bool:
        """Tell whether there is evidence, and all of it says that F' cancelled."""
        return self.episodes > 0 and self.worst <= self.tolerance

    def __str__(self) -> str:
        if self.episodes == 0:
            return f"nothing to certify yet: no episode has ended (gamma={self.gamma})"
        verdict = "cancelled" if self.ok else "DID NOT CANCEL"
        return (
            f"{verdict}: {self.episodes} episodes, worst residual {self.worst:.2g} of the bonus paid "
            f"(tolerance {self.tolerance:.2g}, {self.worst_absolute:.2g} in reward units, gamma={self.gamma})"
        )


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A streaming check of cancellation: pure ``init`` and ``update``, and a ``report`` at any time.

    ``tolerance`` is relative; by default the square root of the dtype's epsilon (1.5e-8 in float64, 3.5e-4 in float32).

    >>> import numpy as np, pbim
    >>> shaping, certificate = pbim.PBIM(gamma=0.9), pbim.Certificate(gamma=0.9)
    >>> bonus, ended = np.random.default_rng(0).random((100, 4)), np.arange(400).reshape(100, 4) % 7 == 6
    >>> _, shaped = shaping.rollout(shaping.init(4), bonus, ended)
    >>> report = certificate.report(certificate.update(certificate.init(4), shaped, ended))
    >>> report.ok, report.episodes
    (True, 57)
    """

    gamma: Real | float
    tolerance: float | None = None

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive, received {self.tolerance}: leave it out for the dtype's own")

    def init(self, num_envs: int, like: Array | None = None) -> CertificateState:
        """Return the state before the first step, in the library and dtype of ``like``."""
        lanes = _arrays.zeros((num_envs,), np.zeros(0) if like is None else like)
        none = compat.array_namespace(lanes).sum(lanes)
        return CertificateState(lanes, lanes, lanes + 1, none, none, none)

    def update(
        self, state: CertificateState, shaped: Array, ended: Array, *, valid: Array | None = None
    ) -> CertificateState:
        """Return the state after a step (num_envs,) or a rollout (T, num_envs) of shaping rewards."""
        return self._run(state, shaped, ended, valid)[0]

    def discard(self, state: CertificateState, where: Array) -> CertificateState:
        """Return the state with the running episodes of ``where`` (num_envs,) forgotten; the verdict so far stays."""
        xp = compat.array_namespace(state.total)
        return state._replace(
            total=xp.where(where, 0, state.total),
            scale=xp.where(where, 0, state.scale),
            discount=xp.where(where, 1, state.discount),
        )

    def report(self, state: CertificateState, like: Array | None = None) -> CertificateReport:
        """Return the verdict so far; ``like`` gives the dtype the rewards were emitted in, if not the state's."""
        tolerance = self.tolerance
        if tolerance is None:
            kind = state.total if like is None else like
            tolerance = 0.0 if _arrays.is_exact(kind) else math.sqrt(compat.array_namespace(kind).finfo(kind.dtype).eps)
        return CertificateReport(
            episodes=int(state.episodes),
            worst=float(state.worst),
            worst_absolute=float(state.worst_absolute),
            tolerance=tolerance,
            gamma=float(self.gamma),
        )

    def _run(
        self, state: CertificateState, shaped: Array, ended: Array, valid: Array | None
    ) -> tuple[CertificateState, Array, Array]:
        """Return the new state, the running total after each row (T, num_envs), and where episodes ended."""
        rank = 1 if getattr(shaped, "ndim", 2) == 1 else 2
        rows = _arrays.check_rows("shaped", shaped, ended, valid, lanes=state[0], rank=rank, finite=False)
        if rows.values.shape[0] == 0:
            return state, rows.values, rows.ended
        valid = rows.valid if rows.valid is not None else compat.array_namespace(rows.ended).ones_like(rows.ended)
        gamma = _arrays.number_for(self.gamma, state.total)
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(rows.values, np.ndarray):
                state, totals = _sum_in_place(gamma, state, rows.values, rows.ended, valid)
            else:
                body = _summing(gamma, _arrays.array_namespace(rows.values))
                state, (totals,) = _arrays.scan(body, state, (rows.values, rows.ended, valid))
        return state, totals, rows.ended


@lru_cache(maxsize=64, typed=True)  # Fraction(1, 2) equals 0.5 but is another number
def _summing(gamma: Any, xp: Any) -> Callable[..., Any]:
    def body(state: CertificateState, row: tuple[Array, Array, Array]) -> tuple[CertificateState, tuple[Array]]:
        shaped, ended, valid = row
        term = xp.where(valid, state.discount * xp.astype(shaped, state.total.dtype, copy=False), 0)  # gamma^t F'_t
        total, scale = state.total + term, state.scale + abs(term)
        discount = xp.where(valid, state.discount * gamma, state.discount)
        state = state._replace(total=total, scale=scale, discount=discount)
        return _judged(xp, state, ended), (total,)

    return body


def _sum_in_place(
    gamma: Any, state: CertificateState, shaped: Array, ended: Array, valid: Array
) -> tuple[CertificateState, Array]:
    """Run the same sums over NumPy rows, and judge only the rows in which an episode ended."""
    totals = np.empty(shaped.shape, state.total.dtype)
    total, scale, discount = state.total, state.scale, state.discount
    ends, whole = ended.any(axis=1).tolist(), valid.all(axis=1).tolist()
    for index, row in enumerate(totals):
        term, grown = discount * shaped[index], discount * gamma
        if not whole[index]:
            term, grown = np.where(valid[index], term, 0), np.where(valid[index], grown, discount)
        total, scale, discount = np.add(total, term, out=row), scale + abs(term), grown
        if ends[index]:
            state = state._replace(total=total, scale=scale, discount=discount)
            state = _judged(np, state, ended[index])
            total, scale, discount = state.total, state.scale, state.discount
    return state._replace(total=total.copy(), scale=scale, discount=discount), totals


def _judged(xp: Any, state: CertificateState, ended: Array) -> CertificateState:
    """Return the state with the episodes that ended counted, compared with the worst, and begun anew."""
    relative = abs(state.total) / xp.where(state.scale == 0, 1, state.scale)
    relative = xp.where(relative == relative, relative, float("inf"))  # NaN never passes
    return CertificateState(
        total=xp.where(ended, 0, state.total),
        scale=xp.where(ended, 0, state.scale),
        discount=xp.where(ended, 1, state.discount),
        episodes=state.episodes + xp.sum(xp.astype(ended, state.total.dtype)),
        worst=_larger(xp, state.worst, xp.max(xp.where(ended, relative, 0))),
        worst_absolute=_larger(xp, state.worst_absolute, xp.max(xp.where(ended, abs(state.total), 0))),
    )


def _larger(xp: Any, a: Array, b: Array) -> Array:
    return xp.where(xp.asarray(a > b), a, b)


def residuals(shaped: Array, ended: Array, gamma: Real | float, *, valid: Array | None = None) -> Array:
    """Return the discounted sum of F' of every finished episode, in the order they finish.

    ``shaped`` and ``ended`` have shape (T, num_envs), or (T,) for one environment, and begin at an episode's start in
    every environment; the unfinished tail is left out. Zero for every exact conversion.

    >>> import numpy as np
    >>> residuals(np.array([1.0, 1.0, -6.0, 2.0]), np.array([False, False, True, True]), gamma=0.5)
    array([0., 2.])
    """
    certificate = Certificate(gamma=gamma)
    _arrays.namespace(shaped=shaped, ended=ended, valid=valid)
    for name, array in (("ended", ended), ("valid", valid)):
        if array is not None and tuple(array.shape) != tuple(shaped.shape):
            raise InputError(
                f"{name} must have the shape {tuple(shaped.shape)} of shaped, received {tuple(array.shape)}: reshape it"
            )
    if shaped.ndim == 1:
        shaped, ended, valid = shaped[:, None], ended[:, None], None if valid is None else valid[:, None]
    if shaped.ndim != 2:
        raise InputError(f"shaped must have shape (T, num_envs) or (T,), received {tuple(shaped.shape)}: reshape it")
    _, totals, ends = certificate._run(certificate.init(shaped.shape[1], like=shaped), shaped, ended, valid)
    if not _arrays.is_concrete(ends):
        raise InputError(
            "residuals has a result of unknown length, which jax.jit cannot have: use pbim.Certificate there"
        )
    return totals[ends]
