"""A bonus is a value: settings that compare, hash and encode; what it learns belongs to one object alone."""

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import jax
import numpy as np
import optax
import pytest
from gymnasium import spaces

import pbim
from pbim import intrinsic
from pbim.agents.bonus import is_stepwise
from pbim.config import components, decode, encode, find, kind_of
from pbim.errors import InputError
from pbim.intrinsic import EpisodicCount, LifetimeCount, Scaled, Spec, Sum, one_hot
from pbim.testing import random_transitions

SMALL = {"hidden": (8,), "features": 4}
STEPS = random_transitions(spaces.Discrete(9), spaces.Discrete(4), info=lambda obs: {"cell": obs})
SKILLED = random_transitions(spaces.Box(-1, 1, (5,)), spaces.Discrete(4))  # 2 entries of state, 3 of skill
KERNEL = np.random.default_rng(0).dirichlet(np.ones(9), size=(9, 2))


def parity(step):
    return step.next_obs % 2


TORCH = SMALL | {"init_scheme": "torch"}
BONUSES = {
    "count": lambda: EpisodicCount(alpha=Fraction(1, 3), key=parity),
    "lifetime-count": lambda: LifetimeCount(beta=0.2, key="cell"),
    "action-recency": lambda: intrinsic.ActionRecency(kappa=0.1),
    "pseudo-count": lambda: intrinsic.PseudoCount(bits=6, seed=3),
    "rnd": lambda: intrinsic.RND(encode=one_hot(9), normalize=False, optimizer=optax.sgd, **SMALL),
    "icm": lambda: intrinsic.ICM(num_actions=4, encode=intrinsic.coordinates(3), **SMALL),
    "ride": lambda: intrinsic.RIDE(num_actions=4, key=parity, **SMALL),
    "noveld": lambda: intrinsic.NovelD(rnd=intrinsic.RND(**SMALL), key="cell"),
    "e3b": lambda: intrinsic.E3B(num_actions=4, ridge=0.5, **SMALL),
    "disagreement": lambda: intrinsic.Disagreement(num_actions=4, members=3, **TORCH),
    "re3": lambda: intrinsic.RE3(k=2, encode=one_hot(9), **SMALL),
    "ngu": lambda: intrinsic.NGU(num_actions=4, rnd=intrinsic.RND(**SMALL), k=2, **SMALL),
    "diayn": lambda: intrinsic.DIAYN(count=3, encode=intrinsic.flatten, hidden=(8,)),
    "empowerment": lambda: intrinsic.Empowerment(transition=KERNEL),
    "scaled": lambda: Scaled(EpisodicCount(), Fraction(1, 2)),
    "sum": lambda: Sum(EpisodicCount(), Scaled(LifetimeCount(), 0.1)),
    "running-std-scaled": lambda: intrinsic.RunningStdScaled(EpisodicCount(), gamma=0.9),
    "normalized-observations": lambda: intrinsic.NormalizedObservations(intrinsic.RND(**SMALL), clip=2.0),
    "warm-up": lambda: intrinsic.WarmUp(EpisodicCount(), steps=2),
}
ENCODINGS = {"one-hot": lambda: one_hot(48), "coordinates": lambda: intrinsic.coordinates(12)}


def steps_of(kind):
    return SKILLED if kind == "diayn" else STEPS


def play(bonus, steps):
    paid = []
    for step in steps:
        paid.append(bonus.reward(step))
        bonus.update(step)
    return np.array(paid)


def test_the_kinds_are_those_of_the_public_classes():
    assert {cls.kind for cls in components("intrinsic")} == set(BONUSES)
    assert find("intrinsic", "count") is EpisodicCount


@pytest.mark.parametrize("kind", [*BONUSES, *ENCODINGS])
def test_settings_decide_equality_hash_and_json(kind):
    make = (BONUSES | ENCODINGS)[kind]
    one, other = make(), make()
    assert kind_of(one) == kind
    assert one == other
    assert hash(one) == hash(other)
    assert decode(encode(one)) == one
    assert len({one, other, decode(encode(other))}) == 1
    with pytest.raises(FrozenInstanceError):
        one.kind = "else"


@pytest.mark.parametrize("kind", BONUSES)
def test_what_a_bonus_learns_takes_no_part_in_what_it_is(kind):
    bonus = BONUSES[kind]()
    text, number = repr(bonus), hash(bonus)
    play(bonus, steps_of(kind)[:6])
    assert bonus == BONUSES[kind]()
    assert (repr(bonus), hash(bonus)) == (text, number)


@pytest.mark.parametrize("kind", BONUSES)
@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda bonus: pickle.loads(pickle.dumps(bonus))])
def test_a_copy_goes_on_from_where_it_was_made_and_shares_nothing(kind, twin):
    bonus, steps = BONUSES[kind](), steps_of(kind)
    play(bonus, steps[:8])
    left, right = twin(bonus), twin(bonus)
    expected = play(left, steps[8:])
    np.testing.assert_array_equal(play(right, steps[8:]), expected)
    np.testing.assert_array_equal(play(bonus, steps[8:]), expected)


@pytest.mark.parametrize("kind", BONUSES)
def test_the_same_settings_make_a_fresh_bonus(kind):
    steps, used = steps_of(kind), BONUSES[kind]()
    fresh = play(BONUSES[kind](), steps)
    play(used, steps[:9])
    for again in (replace(BONUSES[kind]()), decode(encode(used))):
        np.testing.assert_array_equal(play(again, steps), fresh)


def test_seeds_are_settings_and_share_compiled_code():
    from pbim.intrinsic._core import call

    make = intrinsic.PseudoCount
    assert make(seed=0) != make(seed=1)
    assert encode(make(seed=1))["seed"] == 1
    make(bits=7, seed=0).reward(STEPS[0])
    before = call._cache_size()
    assert make(bits=7, seed=1).reward(STEPS[0]).shape == (3,)
    assert call._cache_size() == before


@pytest.mark.parametrize("kind", BONUSES)
def test_one_init_for_every_pure_core(kind):
    """The core, scanned from ``init(key, spec)``, pays what the NumPy edge pays."""
    compare_core_with_edge(BONUSES[kind]())


@pytest.mark.parametrize(
    "bonus",
    [
        Sum(EpisodicCount(), intrinsic.ActionRecency(), intrinsic.WarmUp(LifetimeCount(), steps=3)),
        intrinsic.RunningStdScaled(Scaled(EpisodicCount(), -2.0), gamma=0.5),
    ],
    ids=lambda bonus: bonus.kind,
)
def test_nested_parts_reach_the_pure_core(bonus):
    compare_core_with_edge(bonus)


def compare_core_with_edge(bonus):
    steps, key = steps_of(bonus.kind), jax.random.PRNGKey(getattr(bonus, "seed", 0))
    state = bonus.init(key, Spec(example=steps[0], num_actions=4, num_keys=9))
    assert jax.tree.structure(bonus.update_fn(state, steps[0])) == jax.tree.structure(state)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *steps)
    _, paid = jax.lax.scan(lambda s, t: (bonus.update_fn(s, t), bonus.reward_fn(s, t)), state, stacked)
    np.testing.assert_allclose(paid, play(bonus, steps), rtol=3e-3, atol=1e-5)


def test_what_must_learn_at_every_step_says_so():
    stepwise = {kind for kind, make in BONUSES.items() if is_stepwise(make())}
    assert set(BONUSES) - stepwise == {"rnd", "icm", "disagreement", "diayn", "empowerment", "normalized-observations"}
    assert not is_stepwise(Scaled(intrinsic.RND(), 2.0))
    assert is_stepwise(Sum(intrinsic.RND(), EpisodicCount()))
    assert not is_stepwise(lambda transition: transition.next_obs)
    assert not is_stepwise(None)


@pytest.mark.parametrize(
    ("bonus", "spec", "sentence"),
    [
        (EpisodicCount(), {}, "EpisodicCount must know num_keys"),
        (EpisodicCount(key="cell"), {"num_keys": 9, "info": {}}, "info has no entry 'cell', received nothing"),
        (EpisodicCount(), {"num_keys": 9, "next_obs": np.zeros((3, 7, 7))}, "whole numbers .* pass key='count_key'"),
        (intrinsic.RIDE(num_actions=4), {}, "RIDE must know num_keys"),
        (intrinsic.ActionRecency(), {"num_keys": 9}, "num_actions must be an integer"),
        (Scaled(parity, 2.0), {}, "received function without init, reward_fn, update_fn"),
    ],
)
def test_a_loop_that_does_not_offer_enough_is_told(bonus, spec, sentence):
    sizes = {name: spec.pop(name) for name in ("num_keys",) if name in spec}
    with pytest.raises(InputError, match=sentence):
        bonus.init(jax.random.key(0), Spec(example=STEPS[0]._replace(**spec), **sizes))


def test_sum_takes_its_bonuses_one_by_one_or_as_a_tuple():
    assert Sum(EpisodicCount(), LifetimeCount()) == Sum(bonuses=(EpisodicCount(), LifetimeCount()))


def test_without_jax_counting_works_and_learning_names_the_extra():
    code = """
import sys
sys.modules["jax"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("jax", "optax") else found(name, *rest)
import numpy as np, pbim, pbim._extras
pbim._extras.find_spec = importlib.util.find_spec
no = np.zeros(1, bool)
step = pbim.intrinsic.Transition(np.array([0]), np.array([0]), np.array([1]), no, no, {})
bonus = pbim.intrinsic.Sum(pbim.EpisodicCount(), pbim.LifetimeCount(), pbim.ActionRecency(kappa=1.0))
bonus.update(step)
assert bonus.reward(step)[0] > 0
for load in (lambda: pbim.RND, lambda: pbim.intrinsic.one_hot, lambda: pbim.intrinsic.Disagreement):
    try:
        load()
    except pbim.MissingExtraError as error:
        assert "pip install 'pbim[jax]'" in str(error), error
    else:
        raise AssertionError("jax was found")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_stand_in_one_list():
    assert set(dir(intrinsic)) == set(intrinsic.__all__)
    assert pbim.EpisodicCount is intrinsic.EpisodicCount
