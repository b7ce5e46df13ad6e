"""Every conversion is a value: JSON, a copy and a pickle of it are the conversion again, used or not."""

import copy
import json
import pickle
from dataclasses import fields
from fractions import Fraction

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import streams as s
from pbim import shaping as sh
from pbim.config import components, decode, encode, encode_short

GAMMAS = st.one_of(st.floats(0.1, 1), st.fractions(Fraction(1, 10), 1), st.just(1))
SHARES = st.one_of(st.floats(0.01, 1), st.fractions(Fraction(1, 100), 1))
CENTRINGS = st.one_of(
    st.booleans(),
    st.builds(sh.RunningMean),
    st.builds(sh.FixedMean, mean=st.one_of(st.integers(-5, 5), st.fractions(-2, 2))),
    st.builds(sh.ExponentialMean, rate=st.floats(0.001, 1)),
    st.builds(sh.PreviousRollout, steps=st.integers(1, 512)),
)


@st.composite
def mixtures(draw):
    gamma, normalize = draw(GAMMAS), draw(CENTRINGS)
    members = tuple(draw(ledgers(st.just(gamma), st.just(normalize))) for _ in range(draw(st.integers(1, 3))))
    share = draw(st.fractions(Fraction(1, 9), Fraction(8, 9)))
    return sh.Mixture(members=members, weights=(share, 1 - share) if len(members) == 2 else ())


def ledgers(gamma=GAMMAS, normalize=CENTRINGS):
    common = {"gamma": gamma, "normalize": normalize}
    return st.one_of(
        st.builds(sh.PBIM, **common, max_steps=st.sampled_from([None, 2])),
        st.builds(sh.GRM, **common, delay=st.integers(1, 64)),
        st.builds(sh.Geometric, **common, rate=SHARES),
        st.builds(sh.Bounded, **common, limit=st.one_of(st.floats(0), SHARES), rate=SHARES),
    )


CONVERSIONS = st.one_of(
    ledgers(),
    mixtures(),
    st.builds(sh.Custom, gamma=GAMMAS, repay=st.just(s.every_other_step), recall=st.just(s.counter)),
    st.builds(sh.InexactPBIM, gamma=GAMMAS, discount=st.sampled_from(["start", "end", "none"]), normalize=CENTRINGS),
    st.builds(sh.Raw, scale=st.one_of(st.floats(-5, 5), st.fractions(-5, 5))),
    st.just(sh.NoBonus()),
    st.builds(sh.PIES, decay_steps=st.integers(1, 10**6)),
    st.builds(sh.PBRS, gamma=GAMMAS),
    st.builds(sh.LookAhead, gamma=GAMMAS),
    st.builds(sh.LookBack, gamma=GAMMAS),
    st.builds(sh.ExpressedAdvice, gamma=GAMMAS, num_cells=st.integers(1, 9), learning_rate=st.floats(0.01, 1)),
)


@given(conversion=CONVERSIONS)
@settings(max_examples=300)
def test_json_and_back_is_the_same_conversion(conversion):
    for data in (encode(conversion), encode_short(conversion)[0]):
        again = decode(json.loads(json.dumps(data, allow_nan=False)))
        assert again == conversion
        assert type(again) is type(conversion)
        assert type(again.gamma) in (type(conversion.gamma), float)


@given(conversion=CONVERSIONS)
@settings(max_examples=60)
def test_copies_and_pickles_are_the_same_conversion_after_use_too(conversion):
    for library in s.LIBRARIES.keys() - {"jax"}:
        bonus = s.LIBRARIES[library](np.ones((2, 1), np.float32))
        extra = dict.fromkeys(conversion.extra, (bonus > 9) * 0)
        conversion.rollout(conversion.init(1, like=bonus), bonus, bonus > 0, **extra)
        assert copy.deepcopy(conversion) == conversion
        assert pickle.loads(pickle.dumps(conversion)) == conversion
        assert set(vars(conversion)) == {field.name for field in fields(conversion)}  # a value holds no cache


def test_the_strategies_draw_every_conversion():
    family = {cls for cls in components("shaping") if issubclass(cls, sh.Shaping)}
    drawn = {"PBIM", "GRM", "Geometric", "Bounded", "Mixture", "Custom", "Raw", "NoBonus", "PIES", "PBRS"}
    assert {cls.__name__ for cls in family} == drawn | {"LookAhead", "LookBack", "ExpressedAdvice", "InexactPBIM"}
    for cls in family:
        assert cls.kind
        assert cls.summary
        assert cls.guarantee


@pytest.mark.parametrize("limit", [float("inf"), 0, Fraction(1, 3)])
def test_limits_without_end_are_strict_json(limit):
    conversion = sh.Bounded(gamma=0.9, limit=limit)
    assert decode(json.loads(json.dumps(encode(conversion), allow_nan=False))) == conversion


def test_equal_conversions_share_one_compiled_loop():
    """The cache goes by value, so a study's thousandth GRM compiles nothing."""
    from pbim.shaping._ledger import _cached_body

    bonus = jnp.ones((3, 1))
    for _ in range(2):
        conversion = sh.GRM(gamma=0.73, delay=3)
        conversion.rollout(conversion.init(1, like=bonus), bonus, bonus > 2)
        before = _cached_body.cache_info().misses
        assert pickle.loads(pickle.dumps(conversion)) == copy.deepcopy(conversion) == conversion
    conversion = sh.GRM(gamma=0.73, delay=3)
    conversion.rollout(conversion.init(1, like=bonus), bonus, bonus > 2)
    assert _cached_body.cache_info().misses == before


def test_a_function_that_cannot_be_hashed_repays_in_jax_too():
    class Unhashable:
        __hash__ = None

        def __call__(self, memory, ledger, _):
            return memory, 0.5 * ledger

    bonus = np.ones((4, 1), np.float32)
    conversion = sh.Custom(gamma=0.9, repay=Unhashable())
    expected = s.convert(sh.Geometric(gamma=0.9, rate=0.5), s.Stream(bonus, bonus > 2))
    np.testing.assert_allclose(s.convert(conversion, s.Stream(bonus, bonus > 2), library="jax"), expected, rtol=1e-5)
