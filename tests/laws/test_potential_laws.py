"""Potentials telescope, fading bonuses fade, and corrected bonuses leave no action on the wrong side."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import pbim
import streams as s
from pbim import shaping as sh


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data(), gamma=s.DISCOUNTS)
@settings(max_examples=40)
def test_potentials_telescope_to_the_potential_of_the_start(library, data, gamma):
    stream = data.draw(s.streams())
    start = data.draw(hnp.arrays("float64", stream.bonus.shape, elements=st.floats(-8, 8, width=32)))
    shaped = s.convert(sh.PBRS(gamma=gamma), stream, [1], library, start=start)
    for env, first, stop in s.episodes(stream.ended):
        terms = gamma ** np.arange(stop - first) * shaped[first:stop, env]
        np.testing.assert_allclose(terms.sum(), -start[first, env], rtol=0, atol=2e-4 if library == "jax" else 1e-12)
    without, certificate = s.convert(sh.PBRS(gamma=gamma), stream, library=library), pbim.Certificate(gamma=gamma)
    state = certificate.update(certificate.init(without.shape[1]), without, stream.ended)
    assert certificate.report(state).worst < 1e-5


@given(data=st.data(), gamma=s.DISCOUNTS)
@settings(max_examples=60)
def test_shaping_is_the_difference_of_potentials(data, gamma):
    stream = data.draw(s.streams())
    shaped = s.convert(sh.PBRS(gamma=gamma), stream)
    before = np.vstack([np.zeros(stream.bonus.shape[1]), np.where(stream.ended, 0, stream.bonus)[:-1]])
    np.testing.assert_allclose(shaped, gamma * np.where(stream.ended, 0, stream.bonus) - before, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(s.convert(sh.LookAhead(gamma=gamma), stream), shaped)


@given(data=st.data())
@settings(max_examples=40)
def test_potentials_skip_invalid_steps(data):
    stream = data.draw(s.streams(shapes=st.just((9, 1))))
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=9, max_size=9).filter(any)))
    masked = s.convert(sh.PBRS(gamma=0.9), stream, valid=kept[:, None])
    alone = s.convert(sh.PBRS(gamma=0.9), s.Stream(stream.bonus[kept], stream.ended[kept]))
    np.testing.assert_allclose(masked[kept], alone, rtol=0, atol=1e-14)
    assert (masked[~kept] == 0).all()


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data(), decay=st.integers(1, 40))
@settings(max_examples=20)
def test_pies_fades_linearly_over_all_environments(library, data, decay):
    stream = data.draw(s.streams())
    shaped = s.convert(sh.PIES(decay_steps=decay), stream, [1], library)
    seen = np.arange(len(stream.bonus)) * stream.bonus.shape[1]
    expected = stream.bonus * np.maximum(0, 1 - seen / decay)[:, None]
    np.testing.assert_allclose(shaped, expected, rtol=1e-5, atol=1e-6)


@given(data=st.data())
@settings(max_examples=40)
def test_the_baselines_are_what_they_say(data):
    stream = data.draw(s.streams())
    np.testing.assert_array_equal(s.convert(sh.Raw(), stream), stream.bonus)
    np.testing.assert_array_equal(s.convert(sh.Raw(scale=0.5), stream), 0.5 * stream.bonus)
    assert (s.convert(sh.NoBonus(), stream) == 0).all()


CRITICS = ("extrinsic_value", "next_extrinsic_value", "intrinsic_value", "next_intrinsic_value")


@pytest.mark.parametrize("library", s.LIBRARIES)
@given(data=st.data(), gamma=st.floats(0.1, 1.0))
@settings(max_examples=40)
def test_adops_leaves_no_action_on_the_wrong_side(library, data, gamma):
    draw = lambda: data.draw(hnp.arrays("float32", (5,), elements=st.floats(-4, 4, width=32)))  # noqa: E731
    bonus, reward, ended = draw(), draw(), data.draw(hnp.arrays(bool, (5,)))
    critics = {name: draw() for name in CRITICS}
    to, alive = s.LIBRARIES[library], ~ended
    shaped = np.asarray(
        sh.adops(
            to(bonus), to(reward), **{k: to(v) for k, v in critics.items()}, ended=to(ended), gamma=gamma, epsilon=0.01
        )
    )
    extrinsic = reward + gamma * alive * critics["next_extrinsic_value"] - critics["extrinsic_value"]
    intrinsic = shaped + gamma * alive * critics["next_intrinsic_value"] - critics["intrinsic_value"]
    clear = np.abs(extrinsic) > 1e-4
    assert (extrinsic + intrinsic <= -0.01 + 1e-4)[clear & (extrinsic < 0)].all()
    assert (extrinsic + intrinsic >= -1e-4)[clear & (extrinsic > 0)].all()
    untouched = np.abs(shaped - bonus) < 1e-6
    uncorrected = extrinsic + intrinsic - shaped + bonus
    harmless = np.where(extrinsic < 0, uncorrected < -0.02, uncorrected > 0.01)
    assert untouched[clear & harmless].all()


def test_adopes_brings_the_correction_in_gradually():
    one, zero = np.ones(1), np.zeros(1)
    critics = {
        "extrinsic_value": one,
        "next_extrinsic_value": zero,
        "intrinsic_value": zero,
        "next_intrinsic_value": zero,
    }
    common = {"ended": np.array([False]), "gamma": 0.9, "epsilon": 0.5, **critics}
    full = sh.adops(3 * one, zero, **common)
    assert full == [0.5]  # gap = 1 + 0 - 0 - 3 = -2, lowered by 2.5
    np.testing.assert_allclose(sh.adopes(3 * one, zero, coefficient=0.0, **common), 3.0)
    np.testing.assert_allclose(sh.adopes(3 * one, zero, coefficient=0.4, **common), 3 - 0.4 * 2.5)


def test_expressed_advice_learns_the_negated_bonus_of_a_loop():
    """One pair that repeats: Phi = -F / (1 - gamma) at the fixed point, so F' = gamma Phi - Phi = F."""
    conversion = sh.ExpressedAdvice(gamma=0.5, num_cells=2, learning_rate=0.5)
    bonus, ended, cell = np.full((200, 1), 3.0), np.zeros((200, 1), bool), np.zeros((200, 1), int)
    state, shaped = conversion.rollout(conversion.init(1), bonus, ended, cell=cell, next_cell=cell)
    np.testing.assert_allclose(state.potential[:, 0], [-6.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(shaped[-1], 3.0, atol=1e-9)


def test_advised_values_undo_the_bias_that_look_ahead_leaves_in_q():
    """With Q' = Q - Phi (Wiewiora 2003), the greedy action of Q' + Phi is that of Q."""
    action_values, advice = np.array([[1.0, 2.0, 0.0]]), np.array([[0.0, 3.0, 1.0]])
    learnt = action_values - advice
    assert learnt.argmax() != action_values.argmax()
    assert sh.advised_values(learnt, advice).argmax() == action_values.argmax()
