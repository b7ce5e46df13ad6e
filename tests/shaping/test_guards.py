"""Bad input gets one sentence that names the argument, the rule, what was received and the way out."""

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import pbim
from pbim import shaping as sh

NEVER = np.zeros(2, bool)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pbim.PBIM(gamma=0), ["gamma", "(0, 1]", "0", "learner"]),
        (lambda: pbim.PBIM(gamma=-0.5), ["gamma", "(0, 1]", "-0.5"]),
        (lambda: pbim.PBIM(gamma=1.01), ["gamma", "(0, 1]", "1.01"]),
        (lambda: pbim.PBIM(gamma=float("nan")), ["gamma", "(0, 1]", "nan"]),
        (lambda: pbim.PBIM(gamma="0.9"), ["gamma", "real number", "'0.9'"]),
        (lambda: pbim.PBIM(gamma=0.9, normalize="running"), ["normalize", "'running'", "PreviousRollout"]),
        (lambda: pbim.GRM(gamma=0.9, delay=0), ["delay", "at least 1", "0", "PBIM"]),
        (lambda: pbim.GRM(gamma=0.9, delay=1.5), ["delay", "whole number", "1.5"]),
        (lambda: pbim.Geometric(gamma=0.9, rate=0), ["rate", "(0, 1]", "0", "PBIM"]),
        (lambda: pbim.Geometric(gamma=0.9, rate=1.1), ["rate", "(0, 1]", "1.1"]),
        (lambda: pbim.Geometric(gamma=0.9, rate=float("nan")), ["rate", "(0, 1]", "nan"]),
        (lambda: sh.InexactPBIM(gamma=0.9, discount="begin"), ["discount", "start", "'begin'"]),
        (lambda: pbim.Bounded(gamma=0.9, limit=-1), ["limit", "at least 0", "-1"]),
        (lambda: pbim.Bounded(gamma=0.9, limit=float("nan")), ["limit", "at least 0", "nan"]),
        (lambda: pbim.Bounded(gamma=0.9, limit="1"), ["limit", "at least 0", "'1'"]),
        (lambda: pbim.Bounded(gamma=0.9, rate=1.5), ["rate", "[0, 1]", "1.5"]),
        (lambda: pbim.Mixture(members=()), ["members", "one or more", "()"]),
        (lambda: pbim.Mixture(members=(pbim.Raw(),)), ["members", "Raw", "PBIM"]),
        (
            lambda: pbim.Mixture(members=(sh.InexactPBIM(gamma=0.9, discount="end"),)),
            ["members", "PBIM, GRM", "Inexact"],
        ),
        (lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9), pbim.GRM(gamma=0.8))), ["gamma", "0.9", "0.8"]),
        (
            lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9), pbim.PBIM(gamma=0.9, normalize=False))),
            ["normalize", "True", "False"],
        ),
        (lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9),), weights=(0.5,)), ["weights", "sum to 1", "0.5"]),
        (lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9),), weights=(0.5, 0.5)), ["weights", "1 positive"]),
        (
            lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9), pbim.GRM(gamma=0.9)), weights=(1.5, -0.5)),
            ["weights", "positive", "-0.5"],
        ),
        (lambda: pbim.Custom(gamma=0.9, repay=0.5), ["repay", "function", "0.5"]),
        (lambda: pbim.Raw(scale="2"), ["scale", "finite number", "2"]),
        (lambda: pbim.Raw(scale=float("nan")), ["scale", "finite number", "nan"]),
        (lambda: pbim.PIES(decay_steps=0), ["decay_steps", "at least 1", "0"]),
        (lambda: pbim.PBRS(gamma=2), ["gamma", "(0, 1]", "2"]),
        (lambda: sh.ExponentialMean(rate=0), ["rate", "(0, 1]", "0"]),
        (lambda: sh.ExponentialMean(rate=True), ["rate", "(0, 1]", "True"]),
        (lambda: sh.PreviousRollout(steps=0), ["steps", "at least 1", "0"]),
        (lambda: sh.PreviousRollout(steps=True), ["steps", "whole number", "True"]),
        (lambda: sh.FixedMean(mean=float("nan")), ["mean", "finite", "nan"]),
        (lambda: sh.FixedMean(mean=True), ["mean", "number", "True"]),
        (lambda: pbim.PBIM(gamma=Fraction(10**400)), ["gamma", "(0, 1]", "1000"]),
        (lambda: pbim.PBIM(gamma=Fraction(1, 10**400), max_steps=4), ["gamma", "(0, 1]", "characters", "learner"]),
        (lambda: sh.FixedMean(mean=10**400), ["mean", "finite", "1000", "characters"]),
        (lambda: sh.FixedMean(mean=10**5000), ["mean", "finite", "digits"]),
        (lambda: pbim.Raw(scale=10**400), ["scale", "finite", "1000", "characters"]),
        (lambda: pbim.Bounded(gamma=0.9, limit=10**400), ["limit", "at least 0", "1000", "characters"]),
        (lambda: pbim.Bounded(gamma=0.9, rate=Fraction(10**400)), ["rate", "[0, 1]", "1000", "characters"]),
        (lambda: pbim.Geometric(gamma=0.9, rate=Fraction(10**400)), ["rate", "(0, 1]", "1000", "characters"]),
        (lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9),), weights=(10**400,)), ["weights", "characters"]),
        (lambda: pbim.PIES(decay_steps=10**11), ["decay_steps", "at most 2^31 - 1", "100000000000"]),
        (lambda: sh.PreviousRollout(steps=2**31), ["steps", "at most 2^31 - 1", "2147483648"]),
        (lambda: pbim.PBIM(gamma=0.9, max_steps=-1), ["max_steps", "at least 1", "-1"]),
        (lambda: pbim.PBIM(gamma=0.9, max_steps=float("nan")), ["max_steps", "whole number", "nan"]),
        (lambda: pbim.Mixture(members=(pbim.PBIM(gamma=0.9),), weights=(True,)), ["weights", "positive numbers"]),
        (lambda: pbim.PBIM(gamma=0.9).init(0), ["num_envs", "at least 1", "0"]),
        (lambda: pbim.PBIM(gamma=0.9).init(2.0), ["num_envs", "whole number", "2.0"]),
        (lambda: pbim.PBIM(gamma=0.9).init(2, like=[1.0]), ["like", "array", "list"]),
        (lambda: pbim.Certificate(gamma=0.9, tolerance=0), ["tolerance", "positive", "0"]),
        (lambda: sh.merge_means(), ["merge_means", "at least one"]),
    ],
)
def test_configurations_are_refused(make, words):
    with pytest.raises(pbim.InputError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("bonus", "ended", "words"),
    [
        (np.array([1.0, np.nan]), NEVER, ["bonus", "finite", "nan", "(1,)"]),
        (np.array([1.0, np.inf]), NEVER, ["bonus", "finite", "inf"]),
        (np.ones(3), np.zeros(3, bool), ["bonus", "(2,)", "(3,)", "num_envs"]),
        (np.ones((4, 2)), np.zeros((4, 2), bool), ["bonus", "(2,)", "(4, 2)", "rollout"]),
        (np.float64(1.0), NEVER, ["bonus", "(2,)", "()"]),
        (np.ones(2), np.zeros(1, bool), ["ended", "(2,)", "(1,)"]),
        (np.ones(2), np.array([0.5, 0.0]), ["ended", "boolean", "float64"]),
        (np.ones(2) * 1j, NEVER, ["bonus", "real", "complex"]),
        ([1.0, 2.0], NEVER, ["bonus", "array", "list", "asarray"]),
        (torch.ones(2), torch.zeros(2, dtype=torch.bool), ["one library", "torch", "numpy", "like=bonus"]),
        (jnp.ones(2), jnp.zeros(2, bool), ["one library", "jax", "numpy"]),
        (np.ones(2), torch.zeros(2, dtype=torch.bool), ["one library", "ended is from torch"]),
        (np.ma.masked_array(np.ones(2), [True, False]), NEVER, ["bonus", "plain", "MaskedArray", "filled(0)", "valid"]),
        (np.ones(2), np.ma.masked_array(NEVER, [True, False]), ["ended", "plain", "MaskedArray"]),
        (np.ones((1, 2)).view(np.matrix), NEVER, ["bonus", "matrix", "numpy.asarray(bonus)"]),
        (np.ones(2).view(np.recarray), NEVER, ["bonus", "plain", "recarray"]),
    ],
)
@pytest.mark.parametrize("conversion", [pbim.PBIM(gamma=0.9), pbim.Raw(), pbim.PBRS(gamma=0.9)])
def test_calls_are_refused_and_leave_the_state_alone(conversion, bonus, ended, words):
    state = conversion.init(2)
    before = {name: array.copy() for name, array in sh.state_arrays(state).items()}
    with pytest.raises(pbim.InputError) as error:
        conversion.step(state, bonus, ended)
    assert all(word in str(error.value) for word in words), str(error.value)
    for name, array in sh.state_arrays(state).items():
        np.testing.assert_array_equal(array, before[name])


def test_unknown_arrays_are_refused_by_name():
    conversion = pbim.PBIM(gamma=0.9)
    with pytest.raises(TypeError, match=r"PBIM takes valid besides bonus and ended, received \['start'\]"):
        conversion.step(conversion.init(2), np.ones(2), NEVER, start=np.ones(2))
    with pytest.raises(pbim.InputError, match="start must be an array of the library and shape"):
        pbim.PBRS(gamma=0.9).step(pbim.PBRS(gamma=0.9).init(2), np.ones(2), NEVER, start=np.ones(3))
    advice = sh.ExpressedAdvice(gamma=0.9, num_cells=4)
    with pytest.raises(pbim.InputError, match="needs cell and next_cell"):
        advice.step(advice.init(2), np.ones(2), NEVER)


def test_a_large_repayment_is_announced_with_numbers_and_alternatives():
    with pytest.warns(pbim.RepaymentWarning, match=r"gamma=0.99 .* 4500 steps .* 4.34e\+19 .*Geometric.*GRM"):
        pbim.PBIM(gamma=0.99, max_steps=4500)
    with pytest.warns(pbim.RepaymentWarning, match="Geometric: with gamma=0.9"):
        pbim.Geometric(gamma=0.9, rate=0.01, max_steps=1000)
    with pytest.warns(pbim.RepaymentWarning, match="GRM: with gamma=0.5"):
        pbim.GRM(gamma=0.5, delay=10, max_steps=1000)
    with pytest.warns(pbim.RepaymentWarning, match="Bounded: with gamma=0.99"):
        pbim.Bounded(gamma=0.99, limit=1000, max_steps=10_000)
    with pytest.warns(pbim.RepaymentWarning, match="PBIM: with gamma=0.99"):
        pbim.Mixture(members=(pbim.PBIM(gamma=0.99), pbim.GRM(gamma=0.99))).check_horizon(10_000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pbim.Geometric(gamma=0.9, rate=0.02), r"gamma=0.9, .* 1000 steps owe 1.*e\+38; .*rate=0.2\)"),
        (lambda: pbim.Geometric(gamma=0.9, rate=0.1), "owe 1.11e"),  # at 1 - gamma a debt neither grows nor falls
        (lambda: pbim.Geometric(gamma=Fraction(1, 2), rate=Fraction(1, 3)), r"Geometric\(gamma=1/2, rate=1\)"),
        (lambda: pbim.GRM(gamma=0.5, delay=32), r"GRM\(gamma=0.5, delay=2\)"),
        (lambda: pbim.Bounded(gamma=0.99, limit=1e8), r"limit 1e\+08.* owe up to 1.01e\+08;"),
        (lambda: pbim.Geometric(gamma=0.99, rate=0.0101), r"owe up to 1e\+04;"),
        (lambda: pbim.Bounded(gamma=0.9, limit=float("inf")), "owe"),
        (lambda: replace(pbim.Geometric(gamma=0.99, rate=0.02), gamma=0.9), "rate=0.2"),
        (lambda: OwnGeometric(gamma=0.9, rate=0.02), "rate=0.2"),
    ],
)
def test_debts_that_grow_without_bound_are_announced_where_they_are_made(make, words):
    """At construction, when no length of an episode is known, on the line of the caller."""
    with pytest.warns(pbim.RepaymentWarning, match=words) as caught:
        make()
    assert [warning.filename for warning in caught] == [__file__]
    assert caught[0].lineno == make.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pbim.Geometric(gamma=0.99, rate=0.01, max_steps=10**5), r"100000 steps owe 1.01e\+05; consider"),
        (lambda: pbim.Geometric(gamma=0.99, rate=0.0099, max_steps=10_000), r"10000 steps owe 1.*e\+04; consider"),
        (lambda: pbim.GRM(gamma=1, delay=10**5, max_steps=10**5), r"100000 steps owe 1e\+05; consider"),
        (lambda: pbim.Geometric(gamma=0.99, rate=0.01, max_steps=10**400), "steps owe inf; consider"),
        (lambda: pbim.Geometric(gamma=0.99, rate=0.005, max_steps=10**400), "is repaid inf times as large"),
    ],
)
def test_a_known_length_does_not_silence_what_it_owes(make, words):
    with pytest.warns(pbim.RepaymentWarning, match=words) as caught:
        make()
    assert len(caught) == 1
    assert len(str(caught[0].message)) < 400


@pytest.mark.parametrize("gamma", [0.9, 0.99, 1.0])
@pytest.mark.parametrize("max_steps", [10, 2_000, 20_000])
def test_a_ledger_of_known_length_that_raises_no_warning_owes_little(gamma, max_steps):
    """The law behind the warning, where ``max_steps`` says how long episodes are."""
    for make in (
        lambda: pbim.Geometric(gamma=gamma, rate=1 - gamma + 1e-5, max_steps=max_steps, normalize=False),
        lambda: pbim.Geometric(gamma=gamma, rate=max(1e-5, 0.99 - gamma), max_steps=max_steps, normalize=False),
        lambda: pbim.Bounded(gamma=gamma, limit=2e4, max_steps=max_steps, normalize=False),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            conversion = make()
        if not caught:
            bonus = np.ones((max_steps, 1))
            state, _ = conversion.rollout(conversion.init(1), bonus, bonus > 1)
            assert state.ledger[0] <= 1e4


def test_an_endless_length_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pbim.Geometric(gamma=0.99, rate=0.02, max_steps=10**400)


@dataclass(frozen=True, kw_only=True)
class OwnGeometric(pbim.Geometric):
    """A conversion of a user's, with a check of its own."""

    def __post_init__(self):
        super().__post_init__()


def test_a_geometric_ledger_that_raises_no_warning_owes_little():
    """The law behind the warning: without it, bonuses of 1 never owe more than the bound, however long the episode."""
    for gamma, rate in ((0.9, 0.101), (0.99, 0.02), (0.995, 0.02), (0.5, 0.501), (1.0, 0.001)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            conversion = pbim.Geometric(gamma=gamma, rate=rate, normalize=False)
        bonus = np.ones((20_000, 1))
        state, _ = conversion.rollout(conversion.init(1), bonus, bonus > 1)
        assert state.ledger[0] <= 1e4


@pytest.mark.parametrize("gamma", [1, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.5, 0.1, Fraction(9, 10), Fraction(1, 2)])
def test_no_default_raises_a_warning(gamma):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for conversion in (pbim.Geometric(gamma=gamma), pbim.GRM(gamma=gamma), pbim.Bounded(gamma=gamma)):
            conversion.check_horizon(10**6)
            conversion.frozen(1)
        assert sh.recommended(gamma) == pbim.Geometric(gamma=gamma)
        assert type(sh.recommended(gamma).rate) is (float if isinstance(gamma, float) else Fraction)


def test_what_was_warned_of_once_is_not_warned_of_again():
    with pytest.warns(pbim.RepaymentWarning):
        conversion = pbim.Geometric(gamma=0.9, rate=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conversion.frozen_at(conversion.init(1))
        conversion.rollout(conversion.init(1), np.ones((3, 1)), np.zeros((3, 1), bool))
        pbim.Geometric(gamma=0.9, rate=0.02, max_steps=20)


def test_the_alternatives_it_names_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pbim.PBIM(gamma=0.995, max_steps=640)
        pbim.PBIM(gamma=1.0, max_steps=10**9)
        pbim.Geometric(gamma=0.99, rate=0.02, max_steps=10**6)
        pbim.GRM(gamma=0.99, delay=32, max_steps=10**6)
        pbim.Bounded(gamma=0.99, limit=1, max_steps=10**6)


@pytest.mark.parametrize("to", [np.asarray, jnp.asarray, torch.asarray])
def test_an_overflow_is_an_error_and_never_clipped(to):
    conversion = pbim.PBIM(gamma=0.5, normalize=False)
    bonus = to(np.ones((3000, 1)))
    ended = to(np.arange(3000)[:, None] == 2999)
    with pytest.raises(OverflowError, match=r"PBIM\(gamma=0.5.*grows by 1/gamma.*Geometric"):
        conversion.rollout(conversion.init(1, like=bonus), bonus, ended)
    bounded = pbim.Geometric(gamma=0.5, rate=0.6, normalize=False)
    shaped = bounded.rollout(bounded.init(1, like=bonus), bonus, ended)[1]
    assert np.isfinite(np.asarray(shaped)).all()


def test_inside_jit_an_overflow_shows_in_the_certificate():
    conversion, certificate = pbim.PBIM(gamma=0.5, normalize=False), pbim.Certificate(gamma=0.5)
    bonus, ended = jnp.ones((3000, 1)), jnp.arange(3000)[:, None] == 2999

    @jax.jit
    def run():
        _, shaped = conversion.rollout(conversion.init(1, like=bonus), bonus, ended)
        return certificate.update(certificate.init(1, like=bonus), shaped, ended)

    report = certificate.report(run())
    assert not report.ok
    assert report.worst == float("inf")


@pytest.mark.parametrize("to", [np.asarray, jnp.asarray, torch.asarray])
@pytest.mark.parametrize("conversion", [pbim.Raw(), pbim.PBIM(gamma=1.0)])
def test_many_finite_half_precision_bonuses_are_no_overflow(conversion, to):
    bonus, never = to(np.ones((256, 1024), np.float16)), to(np.zeros((256, 1024), bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, shaped = conversion.rollout(conversion.init(1024, like=bonus), bonus, never)
    assert shaped.dtype == bonus.dtype


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert pbim.GRM(gamma=0.9, delay=np.int64(2)) == pbim.GRM(gamma=0.9, delay=2)
    assert repr(pbim.PIES(decay_steps=np.int32(9))) == repr(pbim.PIES(decay_steps=9))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, ["state", "init", "NoneType"]),
        (pbim.PBIM(gamma=0.9).init(2, like=np.zeros(0, object)), ["bonus", "exact", "float64", "init"]),
        (pbim.Raw().init(2), ["state", "PBIM(gamma=0.9", "Stateless", "init"]),
        (pbim.GRM(gamma=0.9, delay=3).init(2), ["state", "PBIM(gamma=0.9", "init"]),
        (pbim.PBIM(gamma=0.9, normalize=False).init(2), ["state", "normalize=True", "init"]),
    ],
)
def test_states_that_do_not_fit_are_refused(state, words):
    with pytest.raises(pbim.InputTypeError) as error:
        pbim.PBIM(gamma=0.9).step(state, np.ones(2), NEVER)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_state_of_another_delay_is_refused():
    with pytest.raises(pbim.InputTypeError, match=r"delay=2.*another form"):
        pbim.GRM(gamma=0.9, delay=2).step(pbim.GRM(gamma=0.9, delay=3).init(2), np.ones(2), NEVER)


def test_exact_bonuses_are_not_rounded_behind_the_users_back():
    with pytest.raises(pbim.InputTypeError, match=r"exact.*like=bonus"):
        pbim.PBIM(gamma=0.9).step(pbim.PBIM(gamma=0.9).init(2), np.array([Fraction(1, 3)] * 2), NEVER)


@pytest.mark.parametrize("to", [np.asarray, jnp.asarray, torch.asarray])
@pytest.mark.parametrize(
    ("repay", "words"),
    [
        (lambda *_: None, ["repay", "(memory, payment)", "NoneType"]),
        (lambda _memory, ledger, _earned: ledger, ["repay", "(memory, payment)", "return the memory"]),
        (lambda memory, ledger, _earned: (memory, ledger[:1]), ["repay", "(2,)", "(1,)", "per environment"]),
    ],
)
def test_repayments_that_are_none_are_refused(repay, words, to):
    conversion, bonus = pbim.Custom(gamma=0.9, repay=repay), to(np.ones(2))
    with pytest.raises(pbim.InputError) as error:
        conversion.step(conversion.init(2, like=bonus), bonus, to(NEVER))
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("to", [np.asarray, jnp.asarray, torch.asarray])
@pytest.mark.parametrize(
    ("recall", "repay", "words"),
    [
        (lambda zeros: (zeros[:1],), lambda m, x, _: (m, x), ["recall", "num_envs=2", "(1,)", "zeros"]),
        (lambda _: (0.0,), lambda m, x, _: (m, x), ["recall", "num_envs=2", "float"]),
        (lambda zeros: zeros, lambda m, x, _: (m, x), ["recall", "tuple of arrays", "(zeros,)"]),
        (lambda zeros: (zeros,), lambda m, x, _: ((m[0][:1],), x), ["repay", "memory", "(1,)", "(2,)", "recall"]),
    ],
)
def test_memories_that_do_not_fit_are_refused(recall, repay, words, to):
    conversion, bonus = pbim.Custom(gamma=0.9, repay=repay, recall=recall), to(np.ones(2))
    with pytest.raises(pbim.InputError) as error:
        conversion.step(conversion.init(2, like=bonus), bonus, to(NEVER))
    assert all(word in str(error.value) for word in words), str(error.value)


def not_a_number(memory, ledger, earned):
    return memory, ledger + float("nan")


@pytest.mark.parametrize("to", [np.asarray, jnp.asarray, torch.asarray])
def test_nan_is_not_called_an_overflow(to):
    bonus, never = to(np.ones((3, 2))), to(np.zeros((3, 2), bool))
    custom, potential = pbim.Custom(gamma=0.9, repay=not_a_number), pbim.PBRS(gamma=0.9)
    with pytest.raises(pbim.InputError, match="finite"):
        custom.rollout(custom.init(2, like=bonus), bonus, never)
    with pytest.raises(pbim.InputError, match="start must be finite, received nan"):
        potential.rollout(potential.init(2, like=bonus), bonus, never, start=bonus + float("nan"))
    unread = to(np.array([[1.0, 1.0], [np.nan, np.nan], [np.nan, np.nan]]))  # read at the first step only
    assert bool((potential.rollout(potential.init(2, like=bonus), bonus, never, start=unread)[1] < 1).all())


def edits_everything(memory, ledger, earned):
    (before,) = memory
    before += earned
    ledger *= 0.3
    earned *= 0
    return (before,), ledger


def edits_nothing(memory, ledger, earned):
    return (memory[0] + earned,), 0.3 * ledger


def edited(zeros):
    zeros += 7
    return (zeros,)


@dataclass(frozen=True, kw_only=True)
class Editing(pbim.PBIM):
    def _repayment(self, arithmetic):
        return sh.Ledger._repayment(self, arithmetic)

    def payment(self, xp, memory, ledger, entry):
        del xp
        ledger *= 0.3
        entry *= 0
        return memory, ledger


@pytest.mark.parametrize("to", [np.asarray, torch.asarray])
def test_a_repayment_may_edit_what_it_is_given(to):
    rng = np.random.default_rng(0)
    bonus, ended = to(rng.random((40, 3))), to(rng.random((40, 3)) < 0.2)
    pure = pbim.Custom(gamma=0.9, repay=edits_nothing, recall=lambda zeros: (zeros + 7,))
    expected = pure.rollout(pure.init(3, like=bonus), bonus, ended)[1]
    for conversion in (pbim.Custom(gamma=0.9, repay=edits_everything, recall=edited), Editing(gamma=0.9)):
        state = conversion.init(3, like=bonus)
        shaped = conversion.rollout(state, bonus, ended)[1]
        np.testing.assert_allclose(shaped, expected, rtol=1e-12)
        np.testing.assert_array_equal(conversion.rollout(state, bonus, ended)[1], shaped)
        assert abs(np.asarray(pbim.residuals(shaped, ended, 0.9))).max() < 1e-12


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sh.ExpressedAdvice(gamma=0.9, num_cells=0), "num_cells must be at least 1, received 0"),
        (lambda: sh.ExpressedAdvice(gamma=0.9, num_cells=4, learning_rate=1.5), r"learning_rate must be in \(0, 1\]"),
    ],
)
def test_settings_of_expressed_advice_are_checked(make, words):
    with pytest.raises(pbim.InputError, match=words):
        make()


def test_a_repayment_returns_as_many_arrays_as_it_was_given():
    shaping = sh.Custom(gamma=0.9, repay=lambda _, ledger, __: ((ledger,), ledger))
    with pytest.raises(pbim.InputError, match="repay must return a memory of 0 arrays"):
        shaping.step(shaping.init(1), np.ones(1), np.zeros(1, bool))


def test_no_warning_names_a_growth_that_nobody_can_know():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sh.Custom(gamma=0.9, repay=lambda memory, ledger, _: (memory, ledger), max_steps=1000)
        sh.InexactPBIM(gamma=0.9, discount="start", max_steps=1000)


def test_values_of_adops_have_the_shape_of_the_bonus():
    names = ("extrinsic_value", "next_extrinsic_value", "intrinsic_value", "next_intrinsic_value")
    given = {name: np.zeros(2) for name in names} | {"next_intrinsic_value": np.zeros(3)}
    with pytest.raises(pbim.InputError, match="next_intrinsic_value must have the bonus's shape"):
        sh.adops(np.zeros(2), np.zeros(2), gamma=0.9, ended=NEVER, **given)


def test_a_mixture_takes_back_early_if_all_its_members_do():
    early, late = pbim.Geometric(gamma=0.9, rate=0.2), pbim.PBIM(gamma=0.9)
    assert pbim.Mixture(members=(early, pbim.GRM(gamma=0.9))).repays
    assert not pbim.Mixture(members=(early, late)).repays


def test_a_shaping_of_ones_own_says_what_it_promises_and_owes_nobody_knows_what():
    @dataclass(frozen=True, kw_only=True)
    class Silent(sh.Shaping):
        kind = "silent"
        summary = "says nothing"

        def _start(self, lanes):
            return lanes

        def _run(self, *given):
            raise AssertionError(given)

    with pytest.raises(pbim.InputTypeError, match="Silent must say what it promises"):
        Silent()

    @dataclass(frozen=True, kw_only=True)
    class Plain(Silent):
        guarantee: ClassVar = pbim.Raw.guarantee

    assert np.isnan(Plain().debt(bonus=1.0, steps=10).worst)


def test_a_ledger_needs_a_payment():
    class Forgetful(sh.Ledger):
        kind = "forgetful"

    shaping = Forgetful(gamma=0.9)
    with pytest.raises(NotImplementedError, match="Forgetful must define payment"):
        shaping.step(shaping.init(1), np.ones(1), np.zeros(1, bool))


def test_expressed_advice_learns_and_pays_nothing_in_a_dummy_step():
    """In a real step the potential of the cell that was left changes, and there only."""
    advice = sh.ExpressedAdvice(gamma=0.5, num_cells=3, learning_rate=0.5)
    cells = {"cell": np.array([0, 0]), "next_cell": np.array([1, 1])}
    state, shaped = advice.step(advice.init(2), np.ones(2), NEVER, **cells, valid=np.array([True, False]))
    assert shaped.tolist()[1] == 0
    _, paid = advice.step(state, np.zeros(2), NEVER, **cells)
    assert paid.tolist() == [0.5, 0.0]


def test_a_memory_that_nobody_resets_outlives_episodes_and_all_still_cancel():
    @dataclass(frozen=True, kw_only=True)
    class Alternating(sh.Ledger):
        """Repays half of the ledger in every other step of a life."""

        kind = "alternating"

        def _empty_memory(self, lanes):
            return (lanes * 0,)

        def payment(self, xp, memory, ledger, entry):
            del xp, entry
            return (1 - memory[0],), memory[0] * ledger / 2

    rng = np.random.default_rng(0)
    bonus, ended = rng.normal(size=(60, 3)), rng.random((60, 3)) < 0.2
    shaping = Alternating(gamma=0.9, normalize=False)
    _, shaped = shaping.rollout(shaping.init(3), bonus, ended)
    assert np.abs(pbim.residuals(shaped, ended, 0.9)).max() < 1e-12
    assert np.abs(shaped[~ended] - bonus[~ended]).max() > 0
