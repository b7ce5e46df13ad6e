"""The running episodes of a bonus and a conversion: F, F', and what the certificate hears of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.adapters._evidence import EpisodeRecord, Mask
from pbim.adapters.batching import Arrays
from pbim.errors import InputError
from pbim.intrinsic.protocol import Intrinsic, Transition, as_numbers
from pbim.shaping import Shaping, Stepper, load_arrays, state_arrays
from pbim.truncation import Ends


class Episodes:
    """The running episodes of a bonus and a conversion; those without ``evidence`` are not certified."""

    def __init__(
        self,
        intrinsic: Intrinsic,
        update: Callable[[Transition], None] | None,
        shaping: Shaping[Any],
        num_envs: int,
        like: NDArray[np.floating],
        evidence: EpisodeRecord | None,
    ) -> None:
        self._intrinsic, self._update, self._shaping, self._evidence = intrinsic, update, shaping, evidence
        self._like, self._shape = like, (num_envs,)
        self._stepper = Stepper(shaping, num_envs, like)
        self.running = np.zeros(num_envs, np.bool_)
        self._everywhere = np.ones(num_envs, np.bool_)
        self._uncertified: Mask | None = None
        """Whose episode began elsewhere; None for nobody's."""

    @property
    def state(self) -> Any:
        """What the conversion remembers."""
        return self._stepper.state

    @state.setter
    def state(self, state: Any) -> None:
        self._stepper.state = state

    def step(self, transition: Transition, end: Ends[Mask] | None) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return F and F' of one step, which ends no episode if ``end`` is None."""
        valid = transition.valid
        settled = None if end is None else end.settled
        bonus = self._checked(self._intrinsic.reward(transition), valid)
        if self._update is not None:
            self._update(transition)
        shaped = self._stepper.step(bonus, settled, valid)
        goes_on = self._everywhere if end is None else ~end.over
        self.running = goes_on if valid is None else np.where(valid, goes_on, self.running)
        if self._evidence is not None:
            certified = valid if self._uncertified is None else self._certified(end, valid)
            self._evidence.add(shaped, settled, certified)
        if end is not None and np.count_nonzero(end.left_open):
            self._leave_open(end.left_open if valid is None else end.left_open & valid)
        return bonus, shaped

    def resume(self, arrays: Arrays) -> None:
        """Continue from a state kept elsewhere."""
        before, state = self.state, load_arrays(self.state, arrays)
        moved = _differ(before, state, self._shape)
        if np.count_nonzero(moved):
            self.abandon(self.running & moved)
            fresh = self._shaping.init(*self._shape, like=self._like)
            elsewhere = ~self._everywhere if self._uncertified is None else self._uncertified
            self._uncertified = np.where(moved, _differ(fresh, state, self._shape), elsewhere)
        self.state = state

    def abandon(self, where: Mask) -> None:
        """Forget the running episodes where true; the bonus hears of it."""
        if not where.any():
            return
        if self._evidence is not None:
            self._evidence.abandoned += int(where.sum())
        self._discard(where)
        restart = getattr(self._intrinsic, "restart", None)
        if restart is not None and (self._evidence is not None or self._update is not None):
            restart(where)
        self.running = self.running & ~where

    def _leave_open(self, where: Mask) -> None:
        """Leave the ledgers of truncated episodes to the learner's value."""
        if self._evidence is not None:
            self._evidence.bootstrapped += int(where.sum())
        self._discard(where)

    def _discard(self, where: Mask) -> None:
        self.state = self._shaping.discard(self.state, where)
        if self._evidence is not None:
            self._evidence.discard(where)

    def _certified(self, end: Ends[Mask] | None, valid: Mask | None) -> Mask:
        """Return whose step counts: not that of an episode that began elsewhere, until it is over."""
        elsewhere = self._uncertified
        assert elsewhere is not None
        certified = ~elsewhere if valid is None else valid & ~elsewhere
        if end is not None:
            left = elsewhere & ~(end.over if valid is None else end.over & valid)
            self._uncertified = left if left.any() else None
        return certified

    def _checked(self, returned: Any, valid: Mask | None) -> NDArray[np.floating]:
        """Return the bonus in the dtype of the rewards after checking its shape; the conversion refuses NaN."""
        bonus = as_numbers(returned)
        if bonus.shape != self._shape or bonus.dtype.kind not in "fiub":
            repeat = f"return an array, such as numpy.full({self._shape[0]}, bonus)"
            raise InputError(
                f"intrinsic must return real numbers of shape {self._shape}, one per environment, received "
                f"{bonus.dtype} of shape {bonus.shape}: "
                + (repeat if bonus.ndim == 0 else "reduce over every axis but the first, as float32 or float64")
            )
        if bonus.dtype != self._like.dtype:
            bonus = bonus.astype(self._like.dtype)
        if valid is not None:
            bonus = np.where(valid, bonus, 0)
        return bonus


def _differ(state: Any, other: Any, lanes: tuple[int]) -> Mask:
    """Return where two states of a conversion differ in what is of one environment alone (num_envs,)."""
    pairs = zip(state_arrays(state).values(), state_arrays(other).values(), strict=True)
    found = np.zeros(lanes, np.bool_)
    for one, two in pairs:
        if one.shape[-1:] == lanes:
            found |= (one != two).reshape(-1, *lanes).any(axis=0)
    return found
