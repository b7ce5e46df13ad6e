"""The interface every conversion F -> F' has, and what each one promises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pbim import _arrays
from pbim._arrays import Array, Rows
from pbim.config import Component
from pbim.errors import InputError, InputTypeError

State = Any
"""A NamedTuple of arrays whose first field has shape (num_envs,): carry it, save it, scan over it."""

Extra = Mapping[str, Array]
"""What a conversion takes beyond bonus, ended and valid, by name, in shape (T, num_envs)."""


class Level(StrEnum):
    """How strong a promise about the set of optimal policies is."""

    EXACT = "exact for every trajectory"
    LIMIT = "in the limit of training"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a conversion promises about the set of optimal policies, under which assumption, and who proved it."""

    level: Level
    assumption: str
    reference: str

    def __str__(self) -> str:
        return f"{self.level}; {self.assumption} [{self.reference}]"


class Shaping(Component, ABC):
    """A conversion of a stream of bonuses F into shaping rewards F', with explicit state.

    Subclasses are frozen dataclasses: configuration only. ``init`` makes the state, ``step`` and ``rollout`` are
    pure functions of (state, arrays) that work on NumPy, JAX (under ``jit``, ``scan``, ``vmap``) and PyTorch.
    """

    guarantee: ClassVar[Guarantee]
    summary: ClassVar[str]
    extra: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        gamma: Any
    calls_back: ClassVar[bool] = False
    """Whether a function of the user's sees the arrays, and so must see them in the user's library."""

    def init(self, num_envs: int, like: Array | None = None) -> State:
        """Return the state before the first step of ``num_envs`` environments, in the library and dtype of ``like``."""
        if not is_count(num_envs):
            raise InputError(f"num_envs must be a whole number of at least 1, received {num_envs!r}: pass env.num_envs")
        if like is not None:
            _arrays.namespace(like=like)
        return self._start(_arrays.zeros((int(num_envs),), np.zeros(0) if like is None else like))

    def step(
        self, state: State, bonus: Array, ended: Array, *, valid: Array | None = None, **extra: Array
    ) -> tuple[State, Array]:
        """Convert one step: ``bonus``, ``ended`` and ``valid`` have shape (num_envs,), and so has the result.

        ``ended`` is true where the learner stops accumulating; steps where ``valid`` is false (the dummy step after
        an end under Gymnasium's NEXT_STEP autoreset) get 0 and leave the state of their environment alone.
        """
        if valid is None and not extra and _is_plain(bonus, ended):
            self._check_state(state, bonus)
            if bonus.shape == state[0].shape and type(state[0]) is np.ndarray:
                with np.errstate(over="ignore", invalid="ignore"):
                    after, (row,) = self._run(state, Rows(bonus[None], ended[None], None), {})
                    if isfinite(np.add.reduce(bonus)) and isfinite(np.add.reduce(row)):
                        return after, row
        state, shaped = self._convert(1, state, bonus, ended, valid, extra)  # says what is wrong, if anything is
        return state, shaped[0]

    def rollout(
        self, state: State, bonus: Array, ended: Array, *, valid: Array | None = None, **extra: Array
    ) -> tuple[State, Array]:
        """Convert a rollout of shape (T, num_envs); the same as T calls of ``step``, and the state carries on."""
        return self._convert(2, state, bonus, ended, valid, extra)

    def discard(self, state: State, where: Array) -> State:
        """Forget running episodes where true, shape (num_envs,), without settling them; statistics stay."""
        xp = _arrays.array_namespace(state[0])
        fresh = self._start(_arrays.zeros(state[0].shape, state[0]))

        def pick(new: Any, old: Any) -> Any:
            if isinstance(old, tuple):
                parts = [pick(*pair) for pair in zip(new, old, strict=True)]
                return type(old)(*parts) if hasattr(old, "_fields") else tuple(parts)
            return xp.where(where, new, old)

        parts = [
            old if name in self.shared else pick(new, old)
            for name, new, old in zip(state._fields, fresh, state, strict=True)
        ]
        return type(state)(*parts)

    def with_gamma(self, gamma: Any) -> "Shaping":
        """Return this conversion for another discount; one without a discount is the same for all."""
        return self if getattr(self, "gamma", None) is None else replace(self, gamma=gamma)  # type: ignore[type-var]

    @property
    def label(self) -> str:
        """A short name for people."""
        return type(self).__name__

    def __class_getitem__(cls, item: Any) -> Any:
        del item
        return cls

    def check_horizon(self, max_steps: int) -> None:
        """Warn when episodes of up to ``max_steps`` steps make the repayment too large for a learner."""
        del max_steps

    def _check_extra(self, extra: Extra) -> None:
        unknown = sorted(set(extra) - set(self.extra))
        if unknown:
            known = ", ".join(("valid", *self.extra))
            raise InputTypeError(
                f"{type(self).__name__} takes {known} besides bonus and ended, received {unknown}: drop them"
            )

    @cached_property
    def _state_form(self) -> Any:
        return _form(self._start(np.zeros(1)))

    def _check_state(self, state: Any, bonus: Any) -> None:
        """Refuse a state that is not of this conversion, and exact and rounded numbers together."""
        if not isinstance(state, tuple) or not state or not (self.calls_back or _form(state) == self._state_form):
            raise InputTypeError(
                f"state must be what init of {self} returned, received {type(state).__name__} of another form: call "
                "init(num_envs, like=bonus) of the same conversion first"
            )
        if isinstance(bonus, np.ndarray) and _arrays.is_exact(state[0]) != _arrays.is_exact(bonus):
            raise InputTypeError(
                f"bonus must hold exact numbers (dtype object) if and only if the state does, received {bonus.dtype} "
                f"and a state of {state[0].dtype}: call init(num_envs, like=bonus)"
            )

    def _convert(
        self, rank: int, state: State, bonus: Array, ended: Array, valid: Array | None, extra: Extra
    ) -> tuple[State, Array]:
        """Check a call and run it; tensors in main memory go through NumPy: no copy, same numbers, less overhead."""
        self._check_extra(extra)
        self._check_state(state, bonus)
        _arrays.namespace(state=state[0], bonus=bonus, ended=ended, valid=valid, **extra)
        viewed = not self.calls_back and _arrays.has_numpy_view(bonus)
        viewed = viewed and _arrays.have_numpy_views((state, ended, valid, dict(extra)))
        if viewed:
            state, bonus, ended, valid, extra = _arrays.to_numpy_views((state, bonus, ended, valid, dict(extra)))
        rows = _arrays.check_rows("bonus", bonus, ended, valid, lanes=state[0], rank=rank)
        if rows.values.shape[0] == 0:
            shaped = rows.values
        else:
            extra = {name: array[None] for name, array in extra.items()} if rank == 1 else extra
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is an error, below
                state, shaped = self._run(state, rows, extra)
        _check_overflow(self, shaped)
        return _arrays.to_tensors((state, shaped)) if viewed else (state, shaped)

    @abstractmethod
    def _start(self, lanes: Array) -> State:
        """Return the first state, given zeros of shape (num_envs,) in the wide dtype."""

    @abstractmethod
    def _run(self, state: State, rows: Rows, extra: Extra) -> tuple[State, Array]:
        """Convert checked rows of shape (T, num_envs), T >= 1."""


def check_gamma(gamma: Any) -> None:
    """Refuse a discount outside (0, 1]."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise InputTypeError(f"gamma must be a real number in (0, 1], received {gamma!r}: pass the learner's discount")
    if not 0 < float(gamma) <= 1:
        raise InputError(f"gamma must be in (0, 1], received {gamma}: pass the discount your learner trains with")


def is_count(number: Any) -> bool:
    """Tell whether ``number`` is a whole number of at least 1, of Python's or of NumPy's kind."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= 1


def _form(state: Any) -> Any:
    """Return the nesting of a state and the shapes of its arrays but for num_envs."""
    return (type(state), *map(_form, state)) if isinstance(state, tuple) else getattr(state, "shape", ())[:-1]


def _is_plain(bonus: Any, ended: Any) -> bool:
    """Tell whether one step is NumPy floats and booleans of one shape: then few checks are enough."""
    return (
        type(bonus) is type(ended) is np.ndarray
        and bonus.dtype.char in "fd"
        and ended.dtype.char == "?"
        and bonus.ndim == 1
        and bonus.shape == ended.shape
    )


def _check_overflow(shaping: Shaping, shaped: Array) -> None:
    """Stop where the repayment left the range of the dtype; inside ``jax.jit`` the certificate shows it instead."""
    if not _arrays.is_finite(shaped):
        raise OverflowError(
            f"{shaping} overflowed {shaped.dtype}: what it owes grows by 1/gamma each step of an episode; "
            "use pbim.Geometric (bounded ledger), pbim.GRM with a short delay, a larger gamma or shorter episodes"
        )
