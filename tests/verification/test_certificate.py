"""The certificate sees what the equations promise, and what happens when they are not kept."""

import re
from fractions import Fraction

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import pbim
import streams as s


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data(), gamma=s.DISCOUNTS)
@settings(max_examples=30)
def test_the_stream_and_the_whole_agree_with_a_plain_sum(library, data, gamma):
    stream, to = data.draw(s.streams()), s.LIBRARIES[library]
    totals = {
        (stop, env): gamma ** np.arange(stop - start) @ stream.bonus[start:stop, env]
        for env, start, stop in s.episodes(stream.ended)
    }
    expected = [totals[key] for key in sorted(totals)]
    whole = np.asarray(pbim.residuals(to(stream.bonus), to(stream.ended), gamma))
    np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-4 if library == "jax" else 1e-12)
    certificate = pbim.Certificate(gamma=gamma)
    state = certificate.init(stream.bonus.shape[1], like=to(stream.bonus))
    for bonus, ended in zip(stream.bonus, stream.ended, strict=True):
        state = certificate.update(state, to(bonus), to(ended))
    report = certificate.report(state)
    assert report.episodes == len(expected)
    np.testing.assert_allclose(report.worst_absolute, max(map(abs, expected), default=0), rtol=1e-5, atol=1e-5)


def test_it_tells_a_settled_from_an_unsettled_stream():
    rng = np.random.default_rng(0)
    bonus, ended = rng.random((200, 4)), rng.random((200, 4)) < 0.05
    certificate = pbim.Certificate(gamma=0.99)
    verdicts = {}
    for shaping in (pbim.PBIM(gamma=0.99), pbim.PBIM(gamma=0.98), pbim.Raw(), pbim.NoBonus()):
        _, shaped = shaping.rollout(shaping.init(4), bonus, ended)
        verdicts[repr(shaping)] = certificate.report(certificate.update(certificate.init(4), shaped, ended))
    right, wrong_gamma, raw, none = verdicts.values()
    assert right.ok
    assert none.ok
    assert not wrong_gamma.ok
    assert raw.worst == 1
    assert "DID NOT CANCEL" in str(raw)
    assert right.episodes == ended.sum()


def test_a_missing_settlement_is_seen_in_a_single_episode_among_thousands():
    rng = np.random.default_rng(0)
    bonus, ended = rng.random((500, 64)), rng.random((500, 64)) < 0.1
    shaping = pbim.Geometric(gamma=0.99, rate=0.1)
    _, shaped = shaping.rollout(shaping.init(64), bonus, ended)
    row, env = np.argwhere(ended & (shaped < -1e-3))[7]
    shaped[row, env] *= 1.001
    certificate = pbim.Certificate(gamma=0.99)
    assert not certificate.report(certificate.update(certificate.init(64), shaped, ended)).ok


def test_no_evidence_is_no_certificate():
    certificate = pbim.Certificate(gamma=0.9)
    report = certificate.report(certificate.init(3))
    assert not report.ok
    assert "no episode has ended" in str(report)


def test_nan_never_passes():
    certificate = pbim.Certificate(gamma=0.9)
    state = certificate.update(certificate.init(1), np.array([[np.nan], [1.0]]), np.array([[False], [True]]))
    assert not certificate.report(state).ok


def test_very_long_episodes_of_a_bounded_conversion_are_certified():
    """gamma^t underflows after 75,000 steps at 0.99; the sums stay what they are."""
    shaping, certificate = pbim.Geometric(gamma=0.99, rate=0.1), pbim.Certificate(gamma=0.99)
    state, seen = shaping.init(2), certificate.init(2)
    rng = np.random.default_rng(0)
    for block in range(20):
        bonus, ended = rng.random((5000, 2)), np.zeros((5000, 2), bool)
        ended[-1] = block == 19
        state, shaped = shaping.rollout(state, bonus, ended)
        seen = certificate.update(seen, shaped, ended)
    report = certificate.report(seen)
    assert report.ok
    assert report.episodes == 2


def test_invalid_steps_do_not_count():
    shaped, ended = np.array([[1.0], [99.0], [-2.0]]), np.array([[False], [True], [True]])
    valid = np.array([[True], [False], [True]])
    np.testing.assert_array_equal(pbim.residuals(shaped, ended, 0.5, valid=valid), [0.0])


def test_exact_residuals_are_exact():
    third = Fraction(1, 3)
    shaped = np.array([third, -third / Fraction(9, 10)], dtype=object)
    assert pbim.residuals(shaped, np.array([False, True]), Fraction(9, 10)).tolist() == [0]


def test_it_runs_inside_jit_and_says_when_it_cannot():
    certificate = pbim.Certificate(gamma=0.5)
    shaped, ended = jax.numpy.array([[1.0], [-2.0]]), jax.numpy.array([[False], [True]])
    state = jax.jit(certificate.update)(certificate.init(1, like=shaped), shaped, ended)
    assert certificate.report(state).ok
    with pytest.raises(pbim.InputError, match=r"unknown length.*pbim\.Certificate"):
        jax.jit(lambda flags: pbim.residuals(shaped, flags, 0.5))(ended)


def test_bad_input_is_refused():
    with pytest.raises(pbim.InputError, match=r"shaped must have shape .* received \(1, 1, 1\)"):
        pbim.residuals(np.zeros((1, 1, 1)), np.zeros((1, 1, 1), bool), 0.9)
    with pytest.raises(pbim.InputError, match="gamma must be in"):
        pbim.residuals(np.zeros(3), np.zeros(3, bool), 0)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_flags_of_another_shape_than_the_rewards_are_named_as_they_were_given(shape):
    with pytest.raises(pbim.InputError, match=re.escape(f"ended must have the shape (3,) of shaped, received {shape}")):
        pbim.residuals(np.zeros(3), np.zeros(shape, bool), 0.9)


@pytest.mark.parametrize("library", [*s.LIBRARIES, "jit"])
def test_a_discarded_episode_does_not_count_and_the_finished_ones_do(library):
    to, certificate = s.LIBRARIES.get(library, jax.numpy.asarray), pbim.Certificate(gamma=0.5)
    discard = jax.jit(certificate.discard) if library == "jit" else certificate.discard
    shaped = np.array([[1.0, 1.0], [-2.0, 4.0], [3.0, -6.0], [-6.0, 0.0]])
    ended = np.array([[False, False], [True, False], [False, True], [True, False]])
    state = certificate.init(2, like=to(shaped))
    state = certificate.update(state, to(shaped[:2]), to(ended[:2]))
    state = certificate.update(state, to(shaped[2]), to(ended[2]))  # the second environment ends at 1 + 2 - 1.5
    assert certificate.report(state).episodes == 2
    assert certificate.report(state).worst_absolute == 1.5
    state = discard(state, to(np.array([True, False])))  # 3 was paid and will not be repaid
    state = certificate.update(state, to(np.array([0.0, 0.0])), to(np.array([True, False])))
    report = certificate.report(state)
    assert (report.episodes, report.worst_absolute) == (3, 1.5)


def test_its_state_may_be_donated():
    certificate = pbim.Certificate(gamma=0.5)
    shaped, ended = jax.numpy.ones((2, 3)), jax.numpy.zeros((2, 3), bool)
    update = jax.jit(certificate.update, donate_argnums=0)
    update(update(certificate.init(3, like=shaped), shaped, ended), shaped, ended)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_the_tolerance_is_that_of_the_rewards_dtype(library, dtype):
    """The sums are wider than the rewards, whose rounding they inherit."""
    if library == "jax" and dtype == "float64":
        pytest.skip("JAX computes in float32 here")
    rng = np.random.default_rng(0)
    bonus, ended = rng.random((256, 4)).astype(dtype), rng.random((256, 4)) < 0.05
    arrays = {"numpy": np.asarray, "torch": torch.asarray, "jax": jnp.asarray}[library]
    bonus, ended = arrays(bonus), arrays(ended)
    shaping, certificate = pbim.Geometric(gamma=0.99, rate=0.02), pbim.Certificate(gamma=0.99)
    _, shaped = shaping.rollout(shaping.init(4, like=bonus), bonus, ended)
    report = certificate.report(certificate.update(certificate.init(4, like=bonus), shaped, ended))
    assert report.ok
    assert report.tolerance == pytest.approx(np.sqrt(np.finfo(dtype).eps))
    wrong = certificate.report(certificate.update(certificate.init(4, like=bonus), bonus, ended))
    assert not wrong.ok
