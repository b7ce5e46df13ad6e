"""Unusual input means the same as the usual form of it, and bad input is refused with a way out."""

from decimal import Decimal
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

import pbim
from pbim.errors import InputError, InputTypeError
from pbim.verification import _continuous, certify_episodes
from pbim.verification.numbers import NotExact, exactly, parse, require_exact
from pbim.verification.procrastination import EXACT_STEPS, stalling_gain
from pbim.verification.recording import record
from pbim.verification.witness import Step, Way, Witness

CYCLE = {"obs": [0, 1, 1], "next_obs": [1, 1, 2], "term": [0.0, 0.9, 0.0], "terminated": [False, False, True]}


class Pictured(gymnasium.ObservationWrapper):
    """Shows a discrete observation in another form."""

    def __init__(self, env, form):
        super().__init__(env)
        self.form = form

    def observation(self, obs):
        return self.form(obs)


def state_of(obs):
    while isinstance(obs, dict | tuple):
        obs = obs["cell"] if isinstance(obs, dict) else obs[0]
    return obs


@pytest.mark.parametrize("form", [lambda obs: {"cell": obs}, lambda obs: (obs, 0), lambda obs: {"cell": (obs,)}])
def test_episodes_of_structured_observations_are_replayed_as_those_of_numbers(form):
    def bonus(transition):
        return np.asarray(state_of(transition.next_obs), float) / 10

    shaping = pbim.Geometric(gamma=0.99, rate=0.02)
    plain, other = (
        certify_episodes(env, intrinsic=bonus, shaping=shaping, episodes=5, seed=1)
        for env in (gymnasium.make("FrozenLake-v1"), Pictured(gymnasium.make("FrozenLake-v1"), form))
    )
    assert (other.ok, other.replays, other.certificate.episodes) == (True, plain.replays, 5)


class Locked:
    """A bonus that cannot be copied, and that learns nothing."""

    def reward(self, transition):
        return np.zeros(len(transition.action))

    def __deepcopy__(self, memo):
        raise TypeError("a socket")


def test_a_bonus_that_cannot_be_copied_is_certified_without_replays():
    lake, shaping = gymnasium.make("FrozenLake-v1"), pbim.GRM(gamma=0.9, delay=1)
    with pytest.raises(InputTypeError, match=r"intrinsic must allow copy\.deepcopy .* pass replays=0"):
        certify_episodes(lake, intrinsic=Locked(), shaping=shaping, episodes=2)
    assert certify_episodes(lake, intrinsic=Locked(), shaping=shaping, episodes=2, replays=0).replays == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": object()}, "env must be a single gymnasium.Env"),
        ({"shaping": "geometric"}, "shaping must be a conversion"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1"),
        ({"replays": True}, "replays must be a whole number of at least 0"),
    ],
)
def test_episodes_refuse_what_cannot_be_played(change, words):
    given = {"env": gymnasium.make("FrozenLake-v1"), "intrinsic": Locked(), "shaping": pbim.GRM(gamma=0.9, delay=1)}
    with pytest.raises(InputError, match=words):
        certify_episodes(**given | change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": gymnasium.make_vec("FrozenLake-v1", 2)}, "env must be a single gymnasium.Env"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1"),
        ({"term": lambda t: t.info["dense"]}, "received 'dense' where info has 'prob'"),
        ({"term": lambda t: [t.next_obs, t.next_obs]}, "term must return one number per transition"),
    ],
)
def test_a_recording_refuses_what_is_no_term(change, words):
    with pytest.raises(InputError, match=words):
        record(**{"env": gymnasium.make("FrozenLake-v1"), "term": lambda t: t.next_obs * 0.1, "episodes": 1} | change)


def same_verdict(**log):
    found, usual = pbim.audit(**CYCLE | log, gamma=0.99), pbim.audit(**CYCLE, gamma=0.99)
    return (found.potential_based, found.violation) == (usual.potential_based, usual.violation)


def test_an_audit_takes_columns_and_states_of_any_form():
    assert same_verdict(term=np.array([[0.0], [0.9], [0.0]]))
    assert same_verdict(terminated=np.array([[False], [False], [True]]))
    assert same_verdict(obs=[{"cell": [0]}, {"cell": [1]}, {"cell": [1]}], next_obs=[{"cell": [1]}, {"cell": [1]}, {}])
    assert same_verdict(obs=[(0,), (1, 1), (1, 1)], next_obs=[(1, 1), (1, 1), (2, 2, 2)])
    assert same_verdict(
        obs=[np.zeros(1), np.ones(2), np.ones(2)], next_obs=[np.ones(2), np.ones(2), np.zeros(3)]
    )  # rows of different shapes


@pytest.mark.parametrize("bad", [["a", "b", "c"], np.ones(3, complex), [object()] * 3])
def test_an_audit_refuses_a_term_that_is_no_number(bad):
    with pytest.raises(InputTypeError, match="term must hold real numbers"):
        pbim.audit(**CYCLE | {"term": bad}, gamma=0.99)


def test_features_need_arrays():
    with pytest.raises(InputError, match="obs must be an array of numbers for features"):
        pbim.audit(**CYCLE | {"obs": list("abb"), "next_obs": list("bbc")}, gamma=0.99, features=lambda obs: obs)


def test_numbers_are_exact_or_none():
    assert exactly(Decimal("0.1")) == Fraction(1, 10)
    assert exactly(Decimal("inf")) is None
    assert exactly(np.int64(3)) == 3
    assert parse(" 0.995 ") == Fraction(199, 200)
    for text in ("1e101", "1" + "0" * 101):
        with pytest.raises(ValueError, match="out of range"):
            parse(text)


def test_a_certificate_takes_its_own_tolerance_and_rollouts_without_steps():
    with pytest.raises(InputError, match="tolerance must be positive"):
        pbim.Certificate(gamma=0.9, tolerance=0.0)
    strict, loose = (pbim.Certificate(gamma=0.9, tolerance=tolerance) for tolerance in (1e-3, 0.5))
    for certificate, ok in ((strict, False), (loose, True)):
        state = certificate.init(1)
        state = certificate.update(state, np.zeros((0, 1)), np.zeros((0, 1), bool))
        state = certificate.update(state, np.array([[1.0], [-1.0]]), np.array([[False], [True]]))  # 0.1 is left
        assert (certificate.report(state).ok, certificate.report(state).episodes) == (ok, 1)


def test_a_long_way_names_its_first_and_its_last_state():
    steps = tuple(Step(state=n, next_state=n + 1, pay=0.0, terminated=n == 99, row=n) for n in range(100))
    text = str(Way(start=0, steps=steps, repeats=None, total=0.0))
    assert text.startswith("0 -> 1 -> ")
    assert text.endswith(" more) -> 100 (the end)")


def test_ways_that_no_task_tells_apart_have_none():
    step = Step(state="a", next_state="b", pay=0.5, terminated=True, row=0)
    way = Way(start="a", steps=(step,), repeats=None, total=0.5)
    about = {"way": way, "gamma": 0.9, "difference": 0.5}
    assert Witness(kind="ways", instead=None, **about).task() is None
    assert Witness(kind="ways", instead=way, **about).task() is None  # paid the same


def test_a_witness_says_itself_in_words_and_as_data():
    step = Step(state=(0, 1), next_state="b", pay=0.5, terminated=False, row=0)
    way = Way(start=(0, 1), steps=(step,), repeats=None, total=0.5)
    nothing = Way(start=(0, 1), steps=(), repeats=None, total=0.0)
    about = {"way": way, "difference": 0.5}
    ways = Witness(kind="ways", instead=nothing, gamma=0.9, ends={(0, 1): 2.0}, **about)
    assert "a potential pays both the same" in str(ways)
    assert ways.to_dict()["ends"] == [{"state": [0, 1], "potential": 2.0}]
    assert "where the log stops" in str(Witness(kind="open ways", instead=nothing, gamma=0.9, **about))
    assert Witness(kind="pair", instead=nothing, gamma=0.9, **about).task() is None
    assert Witness(kind="ways", instead=None, gamma=1.0, **about).task() is None


def test_what_is_computed_from_floats_is_not_called_exact():
    assert list(require_exact(np.array([0.0, Fraction(1, 2)], dtype=object), "the bonus")) == [0, Fraction(1, 2)]
    with pytest.raises(NotExact, match=r"the bonus pays the float 0\.5"):
        require_exact(np.array([0.5], dtype=object), "the bonus")


def test_many_steps_of_stalling_are_added_in_floats():
    gain = stalling_gain(Fraction(1, 50), Fraction(199, 200), n=1, t=EXACT_STEPS + 1)
    assert isinstance(gain, float)
    assert gain == pytest.approx(stalling_gain(0.02, 0.995, n=1, t=EXACT_STEPS + 1))


def test_a_class_of_potentials_is_fitted_to_some_of_many_rows(monkeypatch):
    rng = np.random.default_rng(0)
    obs, next_obs = rng.normal(size=(2, 400, 1))
    log = {"obs": obs, "next_obs": next_obs, "terminated": np.zeros(400, bool), "episode": np.arange(400) // 20}
    term = (0.9 * next_obs - obs)[:, 0]  # the potential is the observation
    whole = pbim.audit(**log, term=term, gamma=0.9, features=lambda x: x)
    monkeypatch.setattr(_continuous, "MOST_ROWS", 50)
    some = pbim.audit(**log, term=term, gamma=0.9, features=lambda x: x)
    assert some.reason == whole.reason
    assert some.violation == pytest.approx(whole.violation, abs=1e-3)
