"""What every adapter does with a step: transition -> F -> F' -> reward, and a certificate of every finished episode.

Where an episode is truncated, someone has to say whether the learner goes on accumulating there:

``truncation="settle"``
    The learner stops: its last target is r + F'. The ledger is settled at the truncation as at a termination, so
    sum_t gamma^t F'_t = 0 over every episode of either kind. The certificate counts every episode.
``truncation="bootstrap"``
    The learner goes on: its last target is r + F' + gamma * V'(s_N), where V' is the shaped value it learns, and
    V' = V - L_N after any history. So F' is paid as on any other step and the open ledger L_N is left to V':
    sum_{t<N} gamma^t F'_t - gamma^N L_N = 0. Settling here as well would charge the episode twice. The certificate
    counts terminated episodes only and reports the others as ``bootstrapped``. Two conditions: V' must be able to
    learn L_N (it does from episodes that terminate), and on a task that never terminates nothing is ever settled: use
    a conversion whose ledger stays bounded there (``pbim.Geometric`` with rate > 1 - gamma), or ``"settle"``.

An episode that the user abandons (``reset`` in its middle) cannot be settled: no later reward reaches the learner. Its
ledger is discarded, and the certificate reports it as ``abandoned``.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pbim._arrays import Rows
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition, as_intrinsic, as_numbers
from pbim.shaping import Shaping, load_arrays, state_arrays
from pbim.verification import Certificate, CertificateReport

Truncation = Literal["settle", "bootstrap"]
Arrays = dict[str, NDArray[Any]]
Mask = NDArray[np.bool_]

REWARDS = ("extrinsic_reward", "intrinsic_reward", "shaping_reward")
"""The names under which every adapter puts R, F and F' into its info."""

_BLOCK = 128


class Rewards(NamedTuple):
    """R, F, F' and what the learner gets, R + F'; all of shape (num_envs,)."""

    extrinsic: NDArray[Any]
    intrinsic: NDArray[Any]
    shaping: NDArray[Any]
    total: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class EpisodeReport(CertificateReport):
    """A certificate that also counts the episodes it could not check: ``bootstrapped`` and ``abandoned``."""

    bootstrapped: int = 0
    abandoned: int = 0

    def __str__(self) -> str:
        unchecked = {"truncated, left to the learner's bootstrap": self.bootstrapped, "abandoned": self.abandoned}
        notes = "".join(f"; {count} {name}" for name, count in unchecked.items() if count)
        return super().__str__() + notes


class RewardPath:
    """The way of a reward through one bonus and one conversion, for ``num_envs`` environments.

    >>> import numpy as np, pbim
    >>> path = RewardPath(lambda step: np.ones(1), pbim.PBIM(gamma=0.5, normalize=False), 1)
    >>> def move(terminated):
    ...     return Transition(None, None, None, np.array([terminated]), np.array([False]), {})
    >>> [float(path.step(move(last), np.zeros(1)).total[0]) for last in (False, False, True)]
    [1.0, 1.0, -6.0]
    >>> path.report().ok
    True
    """

    def __init__(
        self,
        intrinsic: Bonus,
        shaping: Shaping,
        num_envs: int,
        *,
        truncation: Truncation = "settle",
        dtype: Any = np.float64,
        max_episode_steps: int | None = None,
    ) -> None:
        _check_choice(shaping, truncation)
        self.bonus, self.intrinsic = intrinsic, as_intrinsic(intrinsic)
        self.shaping, self.num_envs, self.truncation = shaping, num_envs, truncation
        if max_episode_steps is not None:
            shaping.check_horizon(max_episode_steps)
        self._like = np.zeros(0, dtype)
        self._state = shaping.init(num_envs, like=self._like)
        self._ledger = _Evidence(Certificate(gamma=getattr(shaping, "gamma", 1.0)), num_envs, self._like)
        self._running = np.zeros(num_envs, np.bool_)
        self._unchecked = {"bootstrapped": 0, "abandoned": 0}

    @property
    def gamma(self) -> float | None:
        """The conversion's discount; None for one that has none."""
        gamma = getattr(self.shaping, "gamma", None)
        return None if gamma is None else float(gamma)

    def step(self, transition: Transition, extrinsic: NDArray[Any]) -> Rewards:
        """Return the rewards of one step; rows where ``transition.valid`` is false pass through untouched."""
        valid = transition.valid
        if valid is not None and not valid.any():
            self._running = np.zeros(self.num_envs, np.bool_)
            none = np.zeros(self.num_envs, self._like.dtype)
            return Rewards(extrinsic, none, none, extrinsic.copy())
        bonus = self._checked(self.intrinsic.reward(transition), valid)
        self.intrinsic.update(transition)
        terminated, over = transition.terminated, transition.terminated | transition.truncated
        ended = over if self.truncation == "settle" else terminated
        shaped = self._convert(bonus, ended, valid)
        self._ledger.add(shaped, ended, valid)
        self._running = ~over if valid is None else valid & ~over
        if self.truncation == "bootstrap":
            self._leave(transition.truncated & ~terminated, valid)
        return Rewards(extrinsic, bonus, shaped, extrinsic + shaped)

    def restart(self, where: Mask | None = None) -> None:
        """Begin new episodes where true (everywhere by default); what was running there is abandoned."""
        abandoned = self._running if where is None else self._running & where
        if not abandoned.any():
            return
        self._unchecked["abandoned"] += int(abandoned.sum())
        self._discard(abandoned)
        forget = getattr(self.intrinsic, "restart", None)
        if forget is not None:
            forget(abandoned)
        self._running = self._running & ~abandoned

    def report(self) -> EpisodeReport:
        """Return the verdict over every episode finished so far."""
        return EpisodeReport(**vars(self._ledger.report()), **self._unchecked)

    def state_dict(self) -> Arrays:
        """Return all that a resumed training needs, as flat arrays: ledger, statistics, certificate, bonus."""
        parts = {
            "shaping": state_arrays(self._state),
            "certificate": self._ledger.arrays(),
            "episodes": {name: np.array(count) for name, count in self._unchecked.items()},
        }
        if hasattr(self.intrinsic, "state_dict"):
            parts["intrinsic"] = dict(self.intrinsic.state_dict())
        arrays = {f"{part}.{name}": array for part, held in parts.items() for name, array in held.items()}
        return {"conversion": np.array(_described(self.shaping)), "running": self._running.copy(), **arrays}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned."""
        for name in ("conversion", "running"):
            if name not in arrays:
                raise InputError(
                    f"the saved state has no {name!r}, it holds {sorted(arrays)}: pass what state_dict() returned"
                )
        saved = str(arrays["conversion"])
        if saved != _described(self.shaping):
            raise InputError(
                f"the state was saved with {saved}, this environment is wrapped with {self.shaping!r}: "
                "wrap it with the conversion it was saved with"
            )
        self._state = load_arrays(self._state, _part(arrays, "shaping"))
        self._ledger.load(_part(arrays, "certificate"))
        self._unchecked = {name: int(count) for name, count in _part(arrays, "episodes").items()}
        self._running = np.asarray(arrays["running"], np.bool_).copy()
        if hasattr(self.intrinsic, "load_state_dict"):
            self.intrinsic.load_state_dict(_part(arrays, "intrinsic"))

    def _checked(self, returned: Any, valid: Mask | None) -> NDArray[Any]:
        """Return the bonus in the dtype of the rewards after checking its shape and that it is finite."""
        bonus = as_numbers(returned)
        if bonus.shape != (self.num_envs,) or bonus.dtype.kind not in "fiub":
            repeat = f"return an array, such as numpy.full({self.num_envs}, bonus)"
            raise InputError(
                f"intrinsic must return real numbers of shape ({self.num_envs},), one per environment, received "
                f"{bonus.dtype} of shape {bonus.shape}: "
                + (repeat if bonus.ndim == 0 else "reduce over every axis but the first, as float32 or float64")
            )
        if bonus.dtype != self._like.dtype:
            bonus = bonus.astype(self._like.dtype)
        if valid is not None:
            bonus = np.where(valid, bonus, 0)
        if not math.isfinite(np.add.reduce(bonus)) and not np.isfinite(bonus).all():
            where = int(np.flatnonzero(~np.isfinite(bonus))[0])
            raise InputError(
                f"intrinsic must return finite numbers, received {bonus[where]} for environment {where}: "
                "look for a division by zero or an exploding network in the bonus"
            )
        return bonus

    def _convert(self, bonus: NDArray[Any], ended: Mask, valid: Mask | None) -> NDArray[Any]:
        """Return F' of one step; the arrays are checked, so the conversion's own checks are left out."""
        shaped: NDArray[Any]
        if valid is None:
            rows = Rows(bonus[None], ended[None], None)
        else:
            rows = Rows(bonus[None], (ended & valid)[None], valid[None])
        state, (shaped,) = self.shaping._run(self._state, rows, {})
        if not math.isfinite(np.add.reduce(shaped)):
            _, shaped = self.shaping.step(self._state, bonus, ended, valid=valid)  # raises, with the way out
        self._state = state
        return shaped

    def _leave(self, truncated: Mask, valid: Mask | None) -> None:
        """Leave the open ledgers of truncated episodes to the learner's bootstrap and begin new ones."""
        left = truncated if valid is None else truncated & valid
        if left.any():
            self._unchecked["bootstrapped"] += int(left.sum())
            self._discard(left)

    def _discard(self, where: Mask) -> None:
        """Begin a new episode where true without settling the old one; statistics shared by all stay as they are."""
        settled, _ = self.shaping.step(self._state, np.zeros(self.num_envs, self._like.dtype), where, valid=where)
        before, after = state_arrays(self._state), state_arrays(settled)
        lanes = {name: array if array.shape[-1:] == (self.num_envs,) else before[name] for name, array in after.items()}
        self._state = load_arrays(self._state, lanes)
        self._ledger.discard(where)


class _Evidence:
    """A certificate's state, with the latest steps waiting in a block: checking many at once costs less."""

    def __init__(self, certificate: Certificate, num_envs: int, like: NDArray[Any]) -> None:
        self._certificate, self._like = certificate, like
        self._state = certificate.init(num_envs, like=like)
        self._shaped = np.zeros((_BLOCK, num_envs), like.dtype)
        self._ended, self._valid = np.zeros_like(self._shaped, np.bool_), np.ones_like(self._shaped, np.bool_)
        self._waiting = 0

    def add(self, shaped: NDArray[Any], ended: Mask, valid: Mask | None) -> None:
        row = self._waiting
        self._shaped[row], self._ended[row] = shaped, ended
        if valid is not None:
            self._valid[row] = valid
        self._waiting = row + 1
        if self._waiting == _BLOCK:
            self._flush()

    def discard(self, where: Mask) -> None:
        self._flush()
        state = self._state
        total, scale = np.where(where, 0, state.total), np.where(where, 0, state.scale)
        self._state = state._replace(total=total, scale=scale, discount=np.where(where, 1, state.discount))

    def report(self) -> CertificateReport:
        self._flush()
        return self._certificate.report(self._state, like=self._like)

    def arrays(self) -> Arrays:
        self._flush()
        return state_arrays(self._state)

    def load(self, arrays: Arrays) -> None:
        self._waiting = 0
        self._state = load_arrays(self._state, arrays)

    def _flush(self) -> None:
        n, self._waiting = self._waiting, 0
        if n:
            self._state = self._certificate.update(
                self._state, self._shaped[:n], self._ended[:n], valid=self._valid[:n]
            )
            self._valid[:n] = True


def _check_choice(shaping: Any, truncation: Any) -> None:
    if not isinstance(shaping, Shaping):
        raise InputTypeError(
            f"shaping must be a conversion, received {shaping!r}: pass an instance such as pbim.PBIM(gamma=0.99)"
        )
    needed = sorted(set(shaping.extra) - {"start"})
    if needed:
        raise InputError(
            f"shaping must need nothing but a bonus to be wrapped, {type(shaping).__name__} also needs {needed}: "
            "call its step in your own loop"
        )
    if truncation not in get_args(Truncation):
        raise InputError(
            "truncation must be 'settle' (the learner stops at a truncation) or 'bootstrap' (it adds gamma * V there), "
            f"received {truncation!r}: choose what your learner does"
        )


def _part(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _described(shaping: Shaping) -> str:
    """Return the conversion in words that are the same in every process (functions without their address)."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(shaping))
