"""The interface that every conversion F -> F' has, and what each one promises."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, cast

import numpy as np

from pbim import _arrays
from pbim._arrays import Array, ArrayT, Flags, Rows, Values
from pbim._trees import same_form
from pbim.config import Component
from pbim.errors import InputError, InputTypeError
from pbim.shaping._calls import check_exactness, check_overflow, is_plain
from pbim.shaping._checks import check_count, check_lambda, is_number, short
from pbim.shaping._guarantee import Guarantee, Level
from pbim.shaping._schedule import Debt
from pbim.shaping._state import has_numpy_view, have_numpy_views, to_numpy_views, to_tensors, where_tree

State = Any
"""A NamedTuple of arrays whose first field has shape (num_envs,): carry it, save it, scan over it."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python 3.11 has no defaults: a bare Shaping is one of any state

    StateT = TypeVar("StateT", bound=tuple[Any, ...], default=Any)
else:
    from typing import TypeVar

    StateT = TypeVar("StateT")

Extra = Mapping[str, Values]
"""What a conversion takes beyond bonus, ended and valid, by name, in shape (T, num_envs)."""


class Shaping(Component, ABC, Generic[StateT]):
    """A conversion of a stream of bonuses F into shaping rewards F', with explicit state.

    Subclasses are frozen dataclasses: configuration only. ``init`` makes the state, ``step`` and ``rollout`` are
    pure functions of (state, arrays) that work on NumPy, JAX (under ``jit``, ``scan``, ``vmap``) and PyTorch. The state
    is a NamedTuple whose first field has shape (num_envs,).

    Attributes:
        guarantee: What the conversion promises.
        summary: What it does, in half a sentence.
        title: Its name for people; the name of the class unless given.
        extra: The arrays it takes besides bonus, ended and valid.
        shared: The fields of its state that all environments share; the arrays of all others end in num_envs.
        repays: Whether it takes back before the last step, as a task that never ends needs.
        calls_back: Whether a function of the user's sees the arrays, and so must see them in the user's library.

    """

    guarantee: ClassVar[Guarantee]
    summary: ClassVar[str]
    title: ClassVar[str] = ""
    extra: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()
    calls_back: ClassVar[bool] = False
    repays: ClassVar[bool] = True

    if TYPE_CHECKING:

        @property
        def gamma(self) -> Real | float | None:
            """The discount for which the conversion cancels; None if it has none."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        declared = any("gamma" in vars(each).get("__annotations__", ()) for each in cls.mro())
        if not declared and not hasattr(cls, "gamma"):  # a value in Shaping itself would be every gamma's default
            type.__setattr__(cls, "gamma", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self, "guarantee"):
            raise InputTypeError(
                f"{type(self).__name__} must say what it promises, received no guarantee: add guarantee: "
                "ClassVar[Guarantee] = Guarantee(level=Level.NONE, assumption=..., reference=...) to the class"
            )

    @property
    def label(self) -> str:
        """A short name for people: what the conversion is, and its settings that are not the default.

        >>> import pbim
        >>> pbim.GRM(gamma=0.99, delay=32).label, pbim.PBIM(gamma=0.99, normalize=False).label
        ('GRM, delay 32', 'PBIM, not centred')
        """
        parts = [self.title or re.sub("(?<=[a-z])(?=[A-Z])", " ", type(self).__name__)]
        for field in fields(cast(Any, self)):
            value = getattr(self, field.name)
            if field.name not in _UNLABELLED and (field.default is MISSING or value != field.default):
                parts.append(f"{field.name.replace('_', ' ')} {_text(value)}")
        return ", ".join(parts)

    def init(self, num_envs: int, like: Array | None = None) -> StateT:
        """Return the state before the first step.

        Args:
            num_envs: How many environments step together.
            like: An array of the library, device and dtype that the bonuses will have; NumPy's float64 by default.

        Raises:
            InputError: If ``num_envs`` is not a whole number of at least 1, or ``like`` is not an array.

        """
        size = check_count("num_envs", num_envs, "pass env.num_envs")
        if like is not None:
            _arrays.namespace(like=like)
        lanes = _arrays.zeros((size,), np.zeros(0) if like is None else like)
        return _arrays.distinct(self._start(lanes))

    def step(
        self, state: StateT, bonus: ArrayT, ended: Flags, *, valid: Flags | None = None, **extra: Array
    ) -> tuple[StateT, ArrayT]:
        """Convert one step; all arrays have shape (num_envs,).

        A reward is data: PyTorch's F' and state carry no gradient, whatever was passed. JAX computes gradients only
        where ``jax.grad`` asks for them, and then through F' as through any function.

        Args:
            state: What ``init`` or the last call returned.
            bonus: F_t.
            ended: True where the learner stops accumulating rewards.
            valid: False at dummy steps (the step after an end under Gymnasium's NEXT_STEP autoreset), which get 0 and
                leave the state of their environment alone.
            extra: The arrays that the conversion's ``extra`` names.

        Returns:
            The new state, and F'_t in the library and dtype of ``bonus``.

        Raises:
            InputError: If arrays do not fit the state or each other, or a bonus is not finite.
            OverflowError: If F' left the range of its dtype.

        """
        if not extra and isinstance(state, tuple) and is_plain(bonus, ended, valid, state[0]):
            self._check_state(state)  # few checks are enough for one step of NumPy numbers
            row = Rows(bonus[None], ended[None], None)
            if valid is not None:
                mask: Any = valid
                row = Rows(np.where(mask, bonus, 0)[None], (mask & ended)[None], mask[None])  # type: ignore[call-overload]
            with np.errstate(over="ignore", invalid="ignore"):
                after, rows = self._run(state, row, {})
            if isfinite(np.add.reduce(row.values[0])) and isfinite(np.add.reduce(rows[0])):
                return after, rows[0]
        state, shaped = self._convert(1, state, bonus, ended, valid, extra)  # says what is wrong, if anything is
        return state, shaped[0]

    def rollout(
        self, state: StateT, bonus: ArrayT, ended: Flags, *, valid: Flags | None = None, **extra: Array
    ) -> tuple[StateT, ArrayT]:
        """Convert a rollout; all arrays have shape (T, num_envs).

        The same as T calls of ``step``: arguments, results and errors are as there, and the state carries on.
        """
        return self._convert(2, state, bonus, ended, valid, extra)

    def discard(self, state: StateT, where: Flags) -> StateT:
        """Forget running episodes without settling them; statistics, such as the mean F-bar, stay.

        Args:
            state: What ``init`` or the last call returned.
            where: True for the environments whose episode is dropped, shape (num_envs,).

        Returns:
            The state with these environments at the start of an episode.

        Raises:
            InputError: If ``where`` does not fit the state.

        >>> import numpy as np, pbim
        >>> shaping = pbim.PBIM(gamma=0.5, normalize=False)
        >>> state, _ = shaping.step(shaping.init(2), np.array([1.0, 1.0]), np.array([False, False]))
        >>> shaping.discard(state, np.array([True, False])).ledger
        array([0., 2.])

        """
        self._check_state(state)
        return self._discard(state, _arrays.check_mask("where", where, lanes=state[0]))

    def with_gamma(self, gamma: Real | float) -> Self:
        """Return this conversion for another discount; one without a discount is the same for all."""
        return self if self.gamma is None else replace(self, gamma=gamma)  # type: ignore[type-var]

    def frozen_at(self, state: StateT) -> "Shaping[Any]":
        """Return this conversion with its statistics fixed to what ``state`` holds, for an evaluation.

        Args:
            state: What ``init``, ``step`` or ``rollout`` of this conversion returned.

        Returns:
            A conversion of its own, with a state of its own (``init``), whose F-bar and coefficients stay as they are.

        >>> import numpy as np, pbim
        >>> shaping = pbim.PBIM(gamma=0.9)
        >>> state, _ = shaping.step(shaping.init(2), np.array([1.0, 3.0]), np.array([False, False]))
        >>> shaping.frozen_at(state).normalize
        FixedMean(mean=2.0)

        """
        del state
        return self

    def frozen(self, mean: Real | int = 0) -> "Shaping[Any]":
        """Return this conversion as it is between two updates of its statistics, with F-bar fixed to ``mean``."""
        del mean
        return self

    def guidance(self, gae_lambda: Real | float, steps: int | None = None, rollout: int | None = None) -> float:
        """Return the share of a bonus that GAE(lambda) credits to the step that earned it: 1 - E[lambda^delay].

        ``delay`` is how many steps later the bonus is taken back. The share holds for a critic that does not see the
        ledger (docs/guidance.md). 0 for every exact conversion at lambda = 1; 1 where nothing is taken back.

        Args:
            gae_lambda: The learner's lambda, in [0, 1]: 0 is one-step TD, as in Q-learning, 1 are Monte-Carlo returns.
            steps: How many steps after the bonus the last step of the episode is; None for an end far away.
            rollout: After how many steps the learner bootstraps, as A2C does after 5: what is taken back later is not
                seen at all, so short rollouts feel more. The mean over the places in a rollout; None for no such cut.

        Returns:
            The guidance in [0, 1]; NaN where it is not one number that the settings say, as for potentials, ``Bounded``
            and a repayment of your own.

        Raises:
            InputError: If an argument is out of range.

        >>> import pbim
        >>> round(pbim.GRM(gamma=0.99, delay=32).guidance(0.95), 3)
        0.806

        """
        lam = check_lambda(gae_lambda)
        end, cut = _check_steps("steps", steps), _check_steps("rollout", rollout)
        if lam == 1 and cut == inf and self.guarantee.level is Level.EXACT:
            return 0.0  # what comes back in full is a baseline of the Monte-Carlo return
        return self._guidance(lam, end, cut)

    def debt(self, bonus: Real | float = 1.0, steps: int | None = None) -> Debt:
        """Return how much is owed for bonuses of a given size, and so how much the last step may have to settle.

        Args:
            bonus: The size of the centred bonus: its largest for ``worst``, its standard deviation for ``expected``.
            steps: The length of the episode; None for one that does not end.

        Returns:
            ``worst`` and ``expected``; infinite where it grows without bound, NaN where the settings do not say it.

        Raises:
            InputError: If an argument is out of range.

        >>> import pbim
        >>> debt = pbim.GRM(gamma=0.99, delay=32).debt(bonus=0.1, steps=640)
        >>> round(debt.worst, 2), round(debt.expected, 2)
        (3.79, 0.67)

        """
        if not is_number(bonus) or not isfinite(bonus) or bonus < 0:
            raise InputError(f"bonus must be a number of at least 0, received {short(bonus)}: pass its largest size")
        return self._owed(float(bonus), _check_steps("steps", steps) - 1)  # the last step settles, and pays no bonus

    def check_horizon(self, max_steps: int) -> None:
        """Warn when episodes of up to ``max_steps`` steps make the repayment too large for a learner."""
        del max_steps

    def _guidance(self, gae_lambda: float, steps: float, rollout: float) -> float:
        """Return the guidance below lambda = 1 for a conversion that promises to cancel, else for every lambda."""
        del gae_lambda, steps, rollout
        return nan

    def _owed(self, bonus: float, entries: float) -> Debt:
        """Return what is owed after that many bonuses of an episode."""
        del bonus, entries
        return Debt(worst=nan, expected=nan)

    def _check_extra(self, extra: Extra) -> None:
        unknown = sorted(set(extra) - set(self.extra))
        if unknown:
            known = ", ".join(("valid", *self.extra))
            raise InputTypeError(
                f"{type(self).__name__} takes {known} besides bonus and ended, received {unknown}: drop them"
            )

    def _check_state(self, state: Any) -> None:
        fits = isinstance(state, tuple) and len(state) > 0
        if not fits or not (self.calls_back or _form(state) == _first_form(self)):
            raise InputTypeError(
                f"state must be what init of {self} returned, received {type(state).__name__} of another form: call "
                "init(num_envs, like=bonus) of the same conversion first"
            )

    def _convert(
        self, rank: int, state: StateT, bonus: ArrayT, ended: Flags, valid: Flags | None, extra: Extra
    ) -> tuple[StateT, ArrayT]:
        """Check a call and run it; tensors in main memory go through NumPy: no copy, same numbers, less overhead."""
        self._check_extra(extra)
        self._check_state(state)
        check_exactness(state, bonus)
        _arrays.namespace(state=state[0], bonus=bonus, ended=ended, valid=valid, **extra)
        given: Any = (state, bonus, ended, valid, dict(extra))
        if _arrays.is_tensor(bonus):
            given = _arrays.detached(given)
        viewed = not self.calls_back and has_numpy_view(given[1]) and have_numpy_views(given)
        current, values, ends, mask, more = to_numpy_views(given) if viewed else given
        rows = _arrays.check_rows("bonus", values, ends, mask, lanes=current[0], rank=rank)
        if rows.values.shape[0] == 0:
            shaped = rows.values
        else:
            more = {name: array[None] for name, array in more.items()} if rank == 1 else more
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is an error, below
                current, shaped = self._run(current, rows, more)
        check_overflow(self, shaped, more)
        result: tuple[StateT, ArrayT] = (current, shaped)
        if viewed:
            return cast(tuple[StateT, ArrayT], to_tensors(result))
        return _arrays.detached(result) if _arrays.is_tensor(bonus) else result  # a user's function may hold parameters

    @abstractmethod
    def _start(self, lanes: Values) -> StateT:
        """Return the first state, given zeros of shape (num_envs,) in the wide dtype."""

    @abstractmethod
    def _run(self, state: StateT, rows: Rows, extra: Extra) -> tuple[StateT, Values]:
        """Convert checked rows of shape (T, num_envs), T >= 1."""

    def _discard(self, state: StateT, where: Values) -> StateT:
        """Return the state with all fields but the shared ones as at the start, where true."""
        names = getattr(state, "_fields", range(len(state)))
        fresh = self._start(_arrays.zeros(state[0].shape, state[0]))
        parts = (
            old if name in self.shared else where_tree(where, new, old)
            for name, new, old in zip(names, fresh, state, strict=True)
        )
        return cast(StateT, same_form(state, parts))


def _check_steps(name: str, steps: int | None) -> float:
    return inf if steps is None else check_count(name, steps, "None for no end")


_UNLABELLED = ("gamma", "normalize", "max_steps")
"""Fields that a label leaves out: the learner's own discount, and what has words of its own."""


def _text(value: Any) -> str:
    """Return a setting as a label says it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else f"{value:,}" if abs(value) < 10**15 else short(value)
    return str(value) if isinstance(value, str | bool | Fraction) else getattr(value, "__name__", repr(value))


def _form(state: Any) -> Any:
    """Return the nesting of a state and the shapes of its arrays but for num_envs."""
    return (type(state), *map(_form, state)) if isinstance(state, tuple) else getattr(state, "shape", ())[:-1]


@lru_cache(maxsize=256)
def _first_form(conversion: Shaping[Any]) -> Any:
    return _form(conversion._start(np.zeros(1)))
