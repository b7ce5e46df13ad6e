"""What must hold for every member of the ledger family, for any bonus stream and any cut into rollouts."""

from fractions import Fraction

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings

import pbim
import streams as s
from pbim import shaping as sh

CUTS = st.lists(st.integers(0, 17), max_size=3)


def owed_scale(shaped: np.ndarray, ended: np.ndarray, gamma: float) -> float:
    """The largest sum gamma^(n-t) |F'_n| over the stream: what rounding errors are measured against."""
    scale, worst = np.zeros(shaped.shape[1]), 1.0
    for row, end in zip(np.abs(shaped), ended, strict=True):
        scale = (scale + row) / gamma
        worst = max(worst, float(scale.max()))
        scale = np.where(end, 0, scale)
    return worst


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=60)
def test_every_whole_episode_sums_to_zero_however_the_stream_is_cut(library, data):
    conversion = data.draw(s.ledgers())
    stream = data.draw(s.streams(dtype=data.draw(st.sampled_from(["float32", "float64"]))))
    cuts = [cut for cut in data.draw(CUTS) if cut <= len(stream.bonus)]
    shaped = s.convert(conversion, stream, cuts, library)
    rounding = 64 * np.finfo(shaped.dtype).eps
    for env, start, stop in s.episodes(stream.ended):
        terms = float(conversion.gamma) ** np.arange(stop - start) * shaped[start:stop, env].astype(float)
        assert abs(terms.sum()) <= rounding * max(1e-30, np.abs(terms).sum())


@given(data=st.data())
@settings(max_examples=150)
def test_floats_agree_with_the_definitions_in_rational_arithmetic(data):
    conversion, stream = data.draw(s.ledgers()), data.draw(s.streams())
    shaped = s.convert(conversion, stream)
    exact = np.array([[float(value) for value in row] for row in s.reference(conversion, stream)])
    tolerance = 256 * np.finfo(float).eps * owed_scale(exact, stream.ended, float(conversion.gamma)) * 8
    np.testing.assert_allclose(shaped, exact, rtol=0, atol=tolerance)


@given(data=st.data())
@settings(max_examples=60)
def test_fractions_agree_with_the_definitions_exactly(data):
    gamma = data.draw(st.sampled_from([Fraction(1), Fraction(9, 10), Fraction(1, 2)]))
    conversion = data.draw(
        st.sampled_from(
            [
                sh.PBIM(gamma=gamma),
                sh.PBIM(gamma=gamma, normalize=False),
                sh.GRM(gamma=gamma, delay=2),
                sh.Geometric(gamma=gamma, rate=Fraction(1, 3)),
                sh.Bounded(gamma=gamma, limit=Fraction(2, 3)),
                sh.Bounded(gamma=gamma, limit=3, rate=Fraction(1, 3)),
                sh.Mixture(members=(sh.GRM(gamma=gamma, delay=2), sh.Geometric(gamma=gamma, rate=Fraction(1, 3)))),
                sh.Mixture(
                    members=(sh.PBIM(gamma=gamma), sh.Bounded(gamma=gamma, limit=1)),
                    weights=(Fraction(1, 3), Fraction(2, 3)),
                ),
            ]
        )
    )
    stream = data.draw(s.streams())
    exact = np.array([[Fraction(float(value)) for value in row] for row in stream.bonus], dtype=object)
    _, shaped = conversion.rollout(conversion.init(exact.shape[1], like=exact), exact, stream.ended)
    assert shaped.tolist() == s.reference(conversion, stream)
    assert all(residual == 0 for residual in pbim.residuals(shaped, stream.ended, gamma))


@pytest.mark.parametrize("discount", ["start", "end", "none"])
@given(data=st.data())
@settings(max_examples=30)
def test_inexact_readings_agree_with_their_sums_exactly_dummy_steps_or_not(discount, data):
    """Dummy rows between the real ones change nothing, and what is left over is what the weights leave over."""
    gamma, stream = data.draw(st.sampled_from([Fraction(9, 10), Fraction(1, 2)])), data.draw(s.streams())
    conversion = sh.InexactPBIM(gamma=gamma, discount=discount, normalize=data.draw(st.booleans()))
    bonus = np.array([[Fraction(float(value)) for value in row] for row in stream.bonus], dtype=object)
    wanted = s.reference(conversion, stream)
    valid = np.arange(2 * len(bonus))[:, None].repeat(bonus.shape[1], 1) % 2 == 0
    state = conversion.init(bonus.shape[1], like=bonus)
    _, shaped = conversion.rollout(state, bonus, stream.ended)
    _, dummies = conversion.rollout(state, bonus.repeat(2, axis=0), stream.ended.repeat(2, axis=0), valid=valid)
    assert shaped.tolist() == dummies[::2].tolist() == wanted
    assert not dummies[1::2].any()


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=30)
def test_the_future_never_changes_the_past(library, data):
    conversion, stream = data.draw(s.ledgers()), data.draw(s.streams())
    now = data.draw(st.integers(0, len(stream.bonus) - 1))
    other = data.draw(s.streams(shapes=st.just(stream.bonus.shape)))
    changed = s.Stream(
        np.concatenate([stream.bonus[: now + 1], other.bonus[now + 1 :]]),
        np.concatenate([stream.ended[: now + 1], other.ended[now + 1 :]]),
    )
    before, after = (s.convert(conversion, each, library=library)[: now + 1] for each in (stream, changed))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=30)
def test_permuting_environments_permutes_outputs(library, data):
    conversion, stream = data.draw(s.ledgers()), data.draw(s.streams(shapes=st.just((9, 4))))
    order = data.draw(st.permutations(range(4)))
    straight = s.convert(conversion, stream, library=library)[:, order]
    permuted = s.convert(conversion, s.Stream(stream.bonus[:, order], stream.ended[:, order]), library=library)
    scale = owed_scale(straight, stream.ended[:, order], float(conversion.gamma))
    np.testing.assert_allclose(permuted, straight, rtol=0, atol=256 * np.finfo(straight.dtype).eps * scale)


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=30)
def test_rollout_equals_repeated_step(library, data):
    conversion, stream, to = data.draw(s.ledgers()), data.draw(s.streams()), s.LIBRARIES[library]
    state = conversion.init(stream.bonus.shape[1], like=to(stream.bonus))
    end, whole = conversion.rollout(state, to(stream.bonus), to(stream.ended))
    rows = []
    for bonus, ended in zip(stream.bonus, stream.ended, strict=True):
        state, shaped = conversion.step(state, to(bonus), to(ended))
        rows.append(np.asarray(shaped))
    scale = owed_scale(np.asarray(whole), stream.ended, float(conversion.gamma))
    tolerance = 256 * np.finfo(rows[0].dtype).eps * scale
    np.testing.assert_allclose(np.stack(rows), np.asarray(whole), rtol=0, atol=tolerance)
    for name, array in sh.state_arrays(end).items():
        np.testing.assert_allclose(sh.state_arrays(state)[name], array, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=30)
def test_invalid_steps_might_as_well_not_exist(library, data):
    conversion = data.draw(s.ledgers(normalize=data.draw(st.sampled_from([True, False]))))
    stream = data.draw(s.streams(shapes=st.just((9, 1))))
    kept = data.draw(st.lists(st.booleans(), min_size=9, max_size=9).filter(any))
    valid = np.array(kept)[:, None]
    noise = np.where(valid, stream.bonus, np.nan)
    masked = s.convert(conversion, s.Stream(noise, stream.ended), library=library, valid=valid)
    alone = s.convert(conversion, s.Stream(stream.bonus[kept], stream.ended[kept]), library=library)
    scale = owed_scale(alone, stream.ended[kept], float(conversion.gamma))
    np.testing.assert_allclose(masked[kept], alone, rtol=0, atol=256 * np.finfo(alone.dtype).eps * scale)
    assert (masked[~np.array(kept)] == 0).all()


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data())
@settings(max_examples=20)
def test_one_step_episodes_get_nothing(library, data):
    conversion, stream = data.draw(s.ledgers()), data.draw(s.streams())
    all_ends = s.Stream(stream.bonus, np.ones_like(stream.ended))
    assert (s.convert(conversion, all_ends, library=library) == 0).all()


@given(
    gamma=st.floats(0.5, 1.0), margin=st.floats(0.01, 1.0), bonus=st.lists(st.floats(-5, 5), min_size=50, max_size=200)
)
@settings(max_examples=60)
def test_a_geometric_ledger_stays_bounded_when_the_episode_never_ends(gamma, margin, bonus):
    rate = min(1.0, 1 - gamma + margin)
    conversion = sh.Geometric(gamma=gamma, rate=rate, normalize=False)
    stream = np.array(bonus)[:, None]
    state, _ = conversion.rollout(conversion.init(1), stream, np.zeros(stream.shape, bool))
    assert abs(state.ledger[0]) <= np.abs(stream).max() / (gamma - (1 - rate)) * (1 + 1e-9)


def test_the_bound_is_tight_and_pbim_has_none():
    ones, never = np.ones((3000, 1)), np.zeros((3000, 1), bool)
    bounded, _ = (c := sh.Geometric(gamma=0.9, rate=0.2, normalize=False)).rollout(c.init(1), ones, never)
    np.testing.assert_allclose(bounded.ledger, 1 / (0.9 - 0.8), rtol=1e-9)
    grown, _ = (c := sh.PBIM(gamma=0.9, normalize=False)).rollout(c.init(1), ones, never)
    assert grown.ledger[0] > 1e100


@given(
    gamma=st.floats(0.5, 1.0),
    limit=st.floats(0, 10),
    rate=st.floats(0, 1),
    bonus=st.lists(st.floats(-5, 5), min_size=50, max_size=200),
)
@settings(max_examples=60)
def test_a_bounded_ledger_keeps_its_limit_when_the_episode_never_ends(gamma, limit, rate, bonus):
    conversion = sh.Bounded(gamma=gamma, limit=limit, rate=rate, normalize=False)
    state = conversion.init(1)
    for value in bonus:
        state, shaped = conversion.step(state, np.array([value]), np.array([False]))
        assert abs(state.ledger[0]) <= ((1 - rate) * limit + abs(value)) / gamma * (1 + 1e-9) + 1e-12
    worst = ((1 - rate) * limit + 5) / gamma
    assert abs(shaped[0]) <= worst + 5 + 1e-9


def test_the_limit_is_reached_and_a_bonus_of_one_is_repaid_as_often_as_growth_says():
    ones, never = np.ones((3000, 1)), np.zeros((3000, 1), bool)
    held, _ = (c := sh.Bounded(gamma=0.9, limit=4, normalize=False)).rollout(c.init(1), ones, never)
    np.testing.assert_allclose(held.ledger, (4 + 1) / 0.9, rtol=1e-9)
    for limit in (0, 0.5, 1, 7.3, 1e4, float("inf")):
        conversion = sh.Bounded(gamma=0.9, limit=limit, normalize=False)
        for length in (2, 3, 20, 60):
            owed, state = 0.0, conversion.init(1)
            for t in range(length - 1):
                state, _ = conversion.step(state, np.array([float(t == 0)]), np.array([False]))
                owed = max(owed, state.ledger[0])
            assert owed <= conversion.growth(length) * (1 + 1e-9)
        assert owed >= conversion.growth(60) * 0.89  # the bound is not a loose one


@given(data=st.data(), gamma=s.DISCOUNTS, normalize=st.booleans(), rate=st.floats(0.01, 1))
@settings(max_examples=60)
def test_bounded_without_a_limit_is_pbim_or_geometric_and_with_none_at_all_repays_at_once(data, gamma, normalize, rate):
    stream = data.draw(s.streams())
    common = {"gamma": gamma, "normalize": normalize}
    at_once = s.convert(sh.Geometric(rate=1, **common), stream)
    for one, other in (
        (sh.Bounded(limit=float("inf"), **common), s.convert(sh.PBIM(**common), stream)),
        (sh.Bounded(limit=float("inf"), rate=rate, **common), s.convert(sh.Geometric(rate=rate, **common), stream)),
        (sh.Bounded(limit=0, rate=rate, **common), at_once),
        (sh.Bounded(limit=5, rate=1, **common), at_once),
    ):
        np.testing.assert_allclose(s.convert(one, stream), other, rtol=1e-12, atol=1e-12)


@given(data=st.data())
@settings(max_examples=40)
def test_a_mixture_of_one_is_that_one_and_weights_are_linear(data):
    gamma, normalize = data.draw(s.DISCOUNTS), data.draw(st.booleans())
    one, two = (data.draw(s.ledgers(gamma=gamma, normalize=normalize, mixing=False)) for _ in range(2))
    stream, weight = data.draw(s.streams()), data.draw(st.floats(0.01, 0.99))
    alone, other = s.convert(one, stream), s.convert(two, stream)
    np.testing.assert_array_equal(s.convert(sh.Mixture(members=(one,)), stream), alone)
    np.testing.assert_array_equal(s.convert(sh.Mixture(members=(one, one)), stream), alone)
    mixed = s.convert(sh.Mixture(members=(one, two), weights=(weight, 1 - weight)), stream)
    np.testing.assert_allclose(mixed, weight * alone + (1 - weight) * other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("library", s.LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_conversions_that_repay_stay_bounded_and_cancel_in_episodes_of_any_length(library, dtype):
    """gamma^-20,000 is 2e87: a ledger whose rounding errors grow like that ends in noise, then in infinity."""
    gamma, steps, to = 0.99, 20_000, s.LIBRARIES[library]
    bonus = np.random.default_rng(0).random((steps, 3)).astype(dtype)
    ended = np.zeros((steps, 3), bool)
    ended[-1] = ended[5_000, 1] = True
    conversions = [
        *(sh.GRM(gamma=gamma, delay=delay) for delay in (1, 7, 32)),
        sh.Geometric(gamma=gamma, rate=0.02),
        sh.Bounded(gamma=gamma, limit=1.0),
        sh.Mixture(members=(sh.GRM(gamma=gamma, delay=7), sh.Geometric(gamma=gamma, rate=0.02))),
    ]
    for conversion in conversions:
        _, shaped = conversion.rollout(conversion.init(3, like=to(bonus)), to(bonus), to(ended))
        shaped = np.asarray(shaped).astype(float)
        assert np.abs(shaped).max() < 60, conversion  # what Geometric owes at most: 1 / (1 - .98 / .99)
        report = pbim.Certificate(gamma=gamma)
        assert report.report(report.update(report.init(3), shaped, ended)).worst < 1e-6, conversion


@given(data=st.data(), gamma=s.DISCOUNTS, normalize=st.booleans())
@settings(max_examples=60)
def test_grm_with_a_delay_beyond_the_episode_is_pbim(data, gamma, normalize):
    stream = data.draw(s.streams())
    late = sh.GRM(gamma=gamma, normalize=normalize, delay=len(stream.bonus) + data.draw(st.sampled_from([0, 3, 5000])))
    pbim_itself = sh.PBIM(gamma=gamma, normalize=normalize)
    np.testing.assert_array_equal(s.convert(late, stream), s.convert(pbim_itself, stream))


@given(data=st.data(), gamma=s.DISCOUNTS, normalize=st.booleans())
@settings(max_examples=60)
def test_repaying_all_at_once_is_grm_with_delay_one_and_look_back_advice(data, gamma, normalize):
    stream = data.draw(s.streams())
    geometric = s.convert(sh.Geometric(gamma=gamma, rate=1, normalize=normalize), stream)
    grm = s.convert(sh.GRM(gamma=gamma, delay=1, normalize=normalize), stream)
    np.testing.assert_allclose(geometric, grm, rtol=1e-12, atol=1e-12)
    if not normalize:
        np.testing.assert_array_equal(s.convert(sh.LookBack(gamma=gamma), stream), geometric)


@given(data=st.data())
@settings(max_examples=25)
def test_jax_transformations_change_nothing(data):
    conversion = data.draw(s.ledgers())
    stream = data.draw(s.streams(dtype="float32", shapes=st.just((9, 2))))
    eager = s.convert(conversion, stream, library="jax")
    state = conversion.init(2, like=jax.numpy.asarray(stream.bonus))
    bonus, ended = jax.numpy.asarray(stream.bonus), jax.numpy.asarray(stream.ended)
    scanned = jax.jit(lambda: jax.lax.scan(lambda c, row: conversion.step(c, *row), state, (bonus, ended)))()[1]
    batched = jax.vmap(lambda b, e: conversion.rollout(state, b, e)[1])(bonus[None], ended[None])[0]
    tolerance = 256 * np.finfo(np.float32).eps * owed_scale(eager, stream.ended, float(conversion.gamma))
    np.testing.assert_allclose(np.asarray(scanned), eager, rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.asarray(batched), eager, rtol=0, atol=tolerance)


@given(data=st.data())
@settings(max_examples=60)
def test_inputs_are_never_edited(data):
    conversion, stream = data.draw(s.ledgers()), data.draw(s.streams())
    state = conversion.init(stream.bonus.shape[1])
    state, _ = conversion.rollout(state, stream.bonus, stream.ended)
    kept = {name: array.copy() for name, array in sh.state_arrays(state).items()}
    bonus, ended = stream.bonus.copy(), stream.ended.copy()
    conversion.rollout(state, stream.bonus, stream.ended)
    np.testing.assert_array_equal(stream.bonus, bonus)
    np.testing.assert_array_equal(stream.ended, ended)
    for name, array in sh.state_arrays(state).items():
        np.testing.assert_array_equal(array, kept[name])


@given(data=st.data(), split=st.integers(0, 12), base=st.integers(0, 5))
@settings(max_examples=60)
def test_means_of_workers_merge_exactly(data, split, base):
    values = data.draw(st.lists(st.integers(-64, 64), min_size=12, max_size=12))
    shared = _mean(values[:base])
    first, second = _mean(values[: max(base, split)]), _mean(values[:base] + values[max(base, split) :])
    merged = sh.merge_means(first, second, base=shared)
    assert merged.count == len(values)
    np.testing.assert_allclose(merged.mean, np.mean(values), rtol=0, atol=1e-12)


def _mean(values):
    conversion = sh.PBIM(gamma=1.0)
    state = conversion.init(1)
    if values:
        state, _ = conversion.rollout(state, np.array(values, float)[:, None], np.ones((len(values), 1), bool))
    return state.centre
