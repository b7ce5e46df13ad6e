"""Bad input gets one sentence that names the argument, the rule, what was received and the way out."""

import warnings
from fractions import Fraction

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
        (lambda: sh.PreviousRollout(steps=0), ["steps", "at least 1", "0"]),
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
