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
from pbim._arrays import Array, ArrayT, Flags, Values
from pbim.errors import InputError
from pbim.shaping import check_gamma


class CertificateState(NamedTuple):
    """The sums of running episodes, and the worst of the finished ones.

    Attributes:
        total: sum gamma^t F'_t of each running episode, (num_envs,).
        scale: sum gamma^t |F'_t| of each, (num_envs,).
        discount: gamma^t of each, (num_envs,).
        episodes: How many episodes have finished, ().
        worst: The largest relative residual of these, ().
        worst_absolute: The largest residual of these, ().
        rounding: The largest epsilon of the dtypes that F' was emitted in, ().

    """

    total: Values
    scale: Values
    discount: Values
    episodes: Values
    worst: Values
    worst_absolute: Values
    rounding: Values


@dataclass(frozen=True, kw_only=True)
class CertificateReport:
    """The verdict over all finished episodes: ``ok`` when at least one finished and none left a residual.

    Attributes:
        episodes: How many episodes have finished.
        worst: The largest residual, relative to the discounted sum of |F'|.
        worst_absolute: The largest residual in units of the reward.
        tolerance: The largest relative residual that passes.
        gamma: The discount.

    """

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

    Args:
        gamma: The learner's discount, in (0, 1].
        tolerance: The largest relative residual that passes; by default the square root of the epsilon of the
            dtype that F' came in (1.5e-8 in float64, 3.5e-4 in float32).

    Raises:
        InputError: If an argument is out of range.

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
        """Return the state before the first step.

        Args:
            num_envs: How many environments step together.
            like: An array of the library, device and dtype of the shaping rewards; NumPy's float64 by default.

        """
        lanes = _arrays.zeros((num_envs,), np.zeros(0) if like is None else like)
        none = compat.array_namespace(lanes).sum(lanes)
        return _arrays.distinct(CertificateState(lanes, lanes, lanes + 1, _arrays.counter(lanes), none, none, none))

    def update(
        self, state: CertificateState, shaped: Array, ended: Flags, *, valid: Flags | None = None
    ) -> CertificateState:
        """Return the state after a step or a rollout.

        Args:
            state: What ``init`` or the last call returned.
            shaped: Shaping rewards F', shape (num_envs,) or (T, num_envs).
            ended: True where the learner stops accumulating rewards, of the same shape.
            valid: False at dummy steps, which do not count.

        Raises:
            InputError: If arrays do not fit the state or each other.

        """
        return self._run(state, shaped, ended, valid)[0]

    def discard(self, state: CertificateState, where: Flags) -> CertificateState:
        """Return the state without the running episodes of some environments; what has finished stays.

        Args:
            state: What ``init`` or the last call returned.
            where: True for the environments whose episode is dropped, shape (num_envs,).

        Raises:
            InputError: If ``where`` does not fit the state.

        """
        mask = _arrays.check_mask("where", where, lanes=state.total)
        return _restarted(_arrays.array_namespace(mask), state, mask)

    def report(self, state: CertificateState, like: Array | None = None) -> CertificateReport:
        """Return the verdict so far.

        Args:
            state: What ``init`` or the last call returned.
            like: An array of the dtype that the rewards were rounded to before they got here, if that is coarser.

        """
        tolerance = self.tolerance
        if tolerance is None:
            known = [_epsilon(array) for array in (state.total, like) if array is not None]
            tolerance = math.sqrt(max(*known, float(state.rounding), 0.0))
        return CertificateReport(
            episodes=int(state.episodes),
            worst=float(state.worst),
            worst_absolute=float(state.worst_absolute),
            tolerance=tolerance,
            gamma=float(self.gamma),
        )

    def _run(
        self, state: CertificateState, shaped: Values, ended: Values, valid: Values | None
    ) -> tuple[CertificateState, Values, Values]:
        """Return the new state, the total after each row that ends an episode (T, num_envs), and where."""
        rank = 1 if getattr(shaped, "ndim", 2) == 1 else 2
        if _arrays.is_tensor(shaped):
            state, shaped = _arrays.detached((state, shaped))
        rows = _arrays.check_rows("shaped", shaped, ended, valid, lanes=state[0], rank=rank, finite=False)
        if rows.values.shape[0] == 0:
            return state, rows.values, rows.ended
        valid = rows.valid if rows.valid is not None else compat.array_namespace(rows.ended).ones_like(rows.ended)
        gamma = _arrays.number_for(self.gamma, state.total)
        state = state._replace(rounding=_coarser(state.rounding, _epsilon(rows.values)))
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(rows.values, np.ndarray):
                state, totals = _sum_at_once(gamma, state, rows.values, rows.ended, valid)
            else:
                body = _summing(gamma, _arrays.array_namespace(rows.values))
                state, (totals,) = _arrays.scan(body, state, (rows.values, rows.ended, valid))
        return state, totals, rows.ended


@lru_cache(maxsize=64, typed=True)  # Fraction(1, 2) equals 0.5 but is another number
def _summing(gamma: Any, xp: Any) -> Callable[..., Any]:
    def body(state: CertificateState, row: tuple[Values, Values, Values]) -> tuple[CertificateState, tuple[Values]]:
        shaped, ended, valid = row
        state = _added(xp, gamma, state, xp.astype(shaped, state.total.dtype, copy=False), valid)
        return _judged(xp, state, ended), (state.total,)

    return body


def _sum_at_once(
    gamma: Any, state: CertificateState, shaped: Values, ended: Values, valid: Values
) -> tuple[CertificateState, Values]:
    """Do the same with NumPy rows: an episode is a stretch of its environment's column; totals stand at ends only."""
    lanes, kind = np.arange(shaped.shape[1]), state.total.dtype
    powers = np.full(len(shaped) + 1, gamma, kind)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)  # gamma^k
    steps = np.cumsum(valid, axis=0)
    ends = np.maximum.accumulate(steps * ended, axis=0)  # the steps at the latest end, this row included
    before, begins = np.zeros_like(ends), np.ones_like(ended)
    before[1:], begins[1:] = ends[:-1], ended[:-1]
    discount = powers[steps - valid - before] * np.where(before == 0, state.discount, 1)
    terms = np.where(valid, discount * shaped, 0).astype(kind, copy=False).T.ravel()  # environment by environment
    starts = np.flatnonzero(begins.T)
    heads = np.searchsorted(starts, lanes * len(shaped))  # of each environment, the episode that was running
    stops, last = np.append(starts[1:], terms.size) - 1, np.append(heads[1:], starts.size) - 1
    total, scale = np.add.reduceat(terms, starts), np.add.reduceat(abs(terms), starts)
    total[heads] += state.total
    scale[heads] += state.scale
    done = ended.T.ravel()[stops]
    if done.any():
        state = _compared(np, state, total[done], scale[done], np.ones(np.count_nonzero(done), np.bool_))
    totals = np.zeros(terms.size, kind)
    totals[stops[done]] = total[done]
    running = powers[steps[-1] - ends[-1]] * np.where(ends[-1] == 0, state.discount, 1)
    state = state._replace(
        total=np.where(done[last], 0, total[last]), scale=np.where(done[last], 0, scale[last]), discount=running
    )
    return state, totals.reshape(shaped.shape[::-1]).T


def _added(xp: Any, gamma: Any, state: CertificateState, shaped: Values, valid: Values) -> CertificateState:
    """Return the state with one step of shaping rewards in its sums."""
    term, discount = state.discount * shaped, state.discount * gamma  # gamma^t F'_t, gamma^(t+1)
    term, discount = xp.where(valid, term, 0), xp.where(valid, discount, state.discount)
    return CertificateState(state.total + term, state.scale + abs(term), discount, *state[3:])


def _judged(xp: Any, state: CertificateState, ended: Values) -> CertificateState:
    """Return the state with the episodes that ended counted, compared with the worst, and forgotten."""
    return _restarted(xp, _compared(xp, state, state.total, state.scale, ended), ended)


def _compared(xp: Any, state: CertificateState, total: Values, scale: Values, ended: Values) -> CertificateState:
    """Return the state with episodes counted and compared with the worst: those of the sums, where true."""
    relative = abs(total) / xp.where(scale == 0, 1, scale)
    relative = xp.where(relative == relative, relative, float("inf"))  # NaN never passes
    return state._replace(
        episodes=_arrays.counted(state.episodes, xp.sum(xp.astype(ended, total.dtype))),
        worst=_larger(xp, state.worst, xp.max(xp.where(ended, relative, 0))),
        worst_absolute=_larger(xp, state.worst_absolute, xp.max(xp.where(ended, abs(total), 0))),
    )


def _restarted(xp: Any, state: CertificateState, where: Values) -> CertificateState:
    """Return the state with running episodes at their start where true."""
    return state._replace(
        total=xp.where(where, 0, state.total),
        scale=xp.where(where, 0, state.scale),
        discount=xp.where(where, 1, state.discount),
    )


def _epsilon(array: Values) -> float:
    """Return the epsilon of an array's dtype; 0 for exact numbers."""
    return 0.0 if _arrays.is_exact(array) else float(compat.array_namespace(array).finfo(array.dtype).eps)


def _coarser(rounding: Values, epsilon: float) -> Values:
    """Return the larger of two epsilons, as an array like the first."""
    if not epsilon:
        return rounding
    xp = compat.array_namespace(rounding)
    return xp.where(rounding > epsilon, rounding, xp.zeros_like(rounding) + epsilon)


def _larger(xp: Any, a: Values, b: Values) -> Values:
    return xp.where(xp.asarray(a > b), a, b)


def residuals(shaped: ArrayT, ended: Flags, gamma: Real | float, *, valid: Flags | None = None) -> ArrayT:
    """Return the discounted sum of F' of every finished episode, in the order they finish.

    Zero for every exact conversion.

    Args:
        shaped: Shaping rewards F', shape (T, num_envs) or, for one environment, (T,); every environment starts with a
            new episode, and its unfinished last one is left out.
        ended: True where the learner stops accumulating rewards, of the same shape.
        gamma: The learner's discount, in (0, 1].
        valid: False at dummy steps, which do not count.

    Returns:
        One number per finished episode, in the library of ``shaped``.

    Raises:
        InputError: If arrays do not fit each other, or inside ``jax.jit``, where no length may depend on values.

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
    if shaped.ndim not in (1, 2):
        raise InputError(f"shaped must have shape (T, num_envs) or (T,), received {tuple(shaped.shape)}: reshape it")
    rows = [array if array is None or array.ndim == 2 else array[:, None] for array in (shaped, ended, valid)]
    state = certificate.init(1 if shaped.ndim == 1 else shaped.shape[1], like=shaped)
    _, totals, ends = certificate._run(state, *rows)
    if not _arrays.is_concrete(ends):
        raise InputError(
            "residuals has a result of unknown length, which jax.jit cannot have: use pbim.Certificate there"
        )
    left: ArrayT = totals[ends]
    return left
