"""The conformance suite passes what pbim ships and names the law that a broken conversion breaks."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import pbim
from pbim.shaping import Guarantee, Level, Shaping
from pbim.testing.errors import ConformanceError
from pbim.testing.shaping import _check_causality, check_shaping

SHIPPED = [
    pbim.PBIM(gamma=0.9),
    pbim.PBIM(gamma=0.9, normalize=False),
    pbim.PBIM(gamma=1.0),
    pbim.PBIM(gamma=0.95, normalize=pbim.shaping.PreviousRollout(steps=8)),
    pbim.PBIM(gamma=0.95, normalize=pbim.shaping.ExponentialMean(rate=0.1)),
    pbim.GRM(gamma=0.9, delay=2),
    pbim.Geometric(gamma=0.9, rate=0.3),
    pbim.Bounded(gamma=0.9, limit=0.5, rate=0.1),
    pbim.Mixture(members=(pbim.PBIM(gamma=0.9), pbim.Geometric(gamma=0.9, rate=0.3)), weights=(0.25, 0.75)),
    pbim.Custom(gamma=0.9, repay=lambda memory, ledger, _: (memory, 0.5 * ledger)),
    pbim.LookBack(gamma=0.9),
    pbim.PBRS(gamma=0.9),
    pbim.Raw(scale=2.0),
    pbim.NoBonus(),
    pbim.PIES(decay_steps=60),
]


@pytest.mark.parametrize("shaping", SHIPPED, ids=lambda shaping: type(shaping).__name__)
def test_every_shipped_conversion_conforms(shaping: Any) -> None:
    check_shaping(shaping)


class Carried(NamedTuple):
    ledger: Any


@dataclass(frozen=True, kw_only=True)
class Plain(Shaping):
    """A conversion as a user would write it: correct, for NumPy; the broken ones differ in one line each."""

    gamma: float = 0.9
    summary: ClassVar[str] = "settles at the end"
    guarantee: ClassVar[Guarantee] = Guarantee(level=Level.EXACT, assumption="causal", reference="test")

    def _start(self, lanes: Any) -> Any:
        return Carried(lanes)

    def _run(self, state: Any, rows: Any, _: Any) -> Any:
        ledger, shaped = state.ledger, np.zeros_like(rows.values)
        for index in range(len(shaped)):
            valid = np.ones_like(rows.ended[index]) if rows.valid is None else rows.valid[index]
            pay = self.pay(rows, index, ledger)
            shaped[index] = np.where(valid, pay, 0)
            ledger = np.where(valid, np.where(rows.ended[index], 0, (ledger + shaped[index]) / self.gamma), ledger)
        return Carried(ledger), shaped

    def pay(self, rows: Any, index: int, ledger: Any) -> Any:
        return np.where(rows.ended[index], -ledger, rows.values[index])


class WrongShape(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        state, shaped = super()._run(state, rows, extra)
        return state, shaped[:, :1]


class WrongDtype(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        state, shaped = super()._run(state, rows, extra)
        return state, shaped.astype(np.float16)


class EditsBonus(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        result = super()._run(state, rows, extra)
        rows.values[...] = 0
        return result


class EditsState(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        result = super()._run(state, rows, extra)
        state.ledger[...] = result[0].ledger
        return result


class Restless(Plain):
    calls: ClassVar[list[int]] = []

    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        self.calls.append(1)
        state, shaped = super()._run(state, rows, extra)
        return state, shaped * len(self.calls)


class ForgetsBetweenRollouts(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        fresh = Carried(np.zeros_like(state.ledger)) if len(rows.values) > 1 else state
        return super()._run(fresh, rows, extra)


class LooksAhead(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        centred = rows._replace(values=rows.values - rows.values.mean().astype(rows.values.dtype))
        return super()._run(state, centred if len(rows.values) > 1 else rows, extra)


class Ordered(Plain):
    def pay(self, rows: Any, index: int, ledger: Any) -> Any:
        weights = np.arange(1, rows.values.shape[1] + 1)
        return np.where(rows.ended[index], -ledger, weights * rows.values[index])


class IgnoresTheMask(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        return super()._run(state, rows._replace(valid=None), extra)


class PaysMaskedSteps(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        state, shaped = super()._run(state, rows, extra)
        return state, shaped if rows.valid is None else shaped + (~rows.valid).astype(shaped.dtype)


class CountsMaskedSteps(Plain):
    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        state, shaped = super()._run(state, rows, extra)
        return Carried(state.ledger + (0 if rows.valid is None else 0.1 * ~rows.valid[-1])), shaped


class DiscardsNothing(Plain):
    shared: ClassVar[tuple[str, ...]] = ("ledger",)


class DiscardsAll(Plain):
    def _discard(self, state: Any, _: Any) -> Any:
        return Carried(np.zeros_like(state.ledger))


class KeepsTheLastBonus(Plain):
    def pay(self, rows: Any, index: int, ledger: Any) -> Any:
        return np.where(rows.ended[index], rows.values[index] - ledger, rows.values[index])


class WrongDiscount(Plain):
    def pay(self, rows: Any, index: int, ledger: Any) -> Any:
        return np.where(rows.ended[index], -0.9 * ledger, rows.values[index])


class HidesState(Plain):
    held: ClassVar[dict[int, Any]] = {}

    def _run(self, state: Any, rows: Any, extra: Any) -> Any:
        _, shaped = result = super()._run(state, rows, extra)
        if id(state) in self.held and rows.valid is None:
            shaped[0] += np.where(rows.ended[0], 0, 1e-13)
        self.held[id(result[0])] = result[0]
        return result


BROKEN = {
    WrongShape: ("shape", "must return shape"),
    WrongDtype: ("dtype", "must return float64 like the bonus, got float16"),
    EditsBonus: ("inputs-edited", "edits bonus in place"),
    EditsState: ("inputs-edited", "edits the state's ledger in place"),
    Restless: ("determinism", "two results for one state"),
    ForgetsBetweenRollouts: ("rollout", "two rollouts must"),
    LooksAhead: ("rollout", "must give what single steps give"),
    Ordered: ("permutation", "another order"),
    PaysMaskedSteps: ("valid", "must pay 0 where valid is false"),
    IgnoresTheMask: ("valid", "must not let masked steps change later rewards"),
    CountsMaskedSteps: ("valid", "must not let masked steps change later rewards"),
    DiscardsNothing: ("discard", "must sum to zero by itself"),
    DiscardsAll: ("discard", "leave the environments alone"),
    KeepsTheLastBonus: ("one-step", "a one-step episode must get 0"),
    WrongDiscount: ("residual", "repay at the last step what was paid"),
    HidesState: ("save-load", "must continue identically"),
}


def test_a_correct_conversion_of_a_users_own_conforms() -> None:
    check_shaping(Plain())


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_conversion_is_told_which_law_it_breaks(broken: Any) -> None:
    law, sentence = BROKEN[broken]
    with pytest.raises(ConformanceError, match=sentence) as caught:
        check_shaping(broken())
    assert caught.value.check == law
    assert "\n" not in str(caught.value)


def test_a_look_into_the_future_within_a_rollout_is_named_where_steps_cannot_show_it() -> None:
    bonus, ended = np.random.default_rng(0).random((10, 2)), np.zeros((10, 2), bool)
    with pytest.raises(ConformanceError, match="change with later bonuses"):
        _check_causality(LooksAhead(), (bonus, ended))


def test_another_gamma_than_the_learners_leaves_a_residual() -> None:
    with pytest.raises(ConformanceError, match="residual"):
        check_shaping(pbim.PBIM(gamma=0.9), gamma=0.99)


def test_too_little_data_is_refused() -> None:
    with pytest.raises(ValueError, match="num_envs must be at least 2"):
        check_shaping(pbim.PBIM(gamma=0.9), num_envs=1)
