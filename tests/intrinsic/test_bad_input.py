"""What a bonus cannot use it refuses in one sentence that names the argument and the way out."""

import numpy as np
import pytest

from pbim.errors import InputTypeError
from pbim.intrinsic import (
    DIAYN,
    E3B,
    ICM,
    NGU,
    RE3,
    RIDE,
    RND,
    ActionRecency,
    Disagreement,
    Empowerment,
    EpisodicCount,
    LifetimeCount,
    NovelD,
    PseudoCount,
    Transition,
    as_intrinsic,
    one_hot,
)

NO = np.zeros(2, bool)
FLOATS = Transition(
    np.zeros((2, 3)), np.zeros(2, int), np.ones((2, 3)), NO, NO, {"cell": np.array([1, 2]), "hp": np.ones(2)}
)
INTEGERS = FLOATS._replace(obs=np.zeros(2, int), next_obs=np.ones(2, int))
NAN = FLOATS._replace(obs=np.full((2, 3), np.nan), next_obs=np.full((2, 3), np.nan))


def refuses(call, step, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        call(step)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [EpisodicCount, LifetimeCount, lambda: RIDE(num_actions=4), NovelD])
def test_float_observations_are_no_keys(make):
    name = type(make()).__name__
    refuses(
        make().reward,
        FLOATS,
        f"{name}: keys must be discrete, received an array of float64: discretise .* or use PseudoCount",
    )


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (lambda _: [[1], [2]], r"keys must be hashable, received list \[1\]: discretise with key="),
        (lambda _: [0.5, 1.5], "keys must be discrete, received 0.5"),
        (lambda _: [(1, 0.5), (2, 1.5)], r"keys must be discrete, received \(1, 0.5\)"),
        (lambda _: [np.ones(2), np.ones(2)], "keys must be discrete, received float64"),
        (lambda _: [1], "key must give 2 keys, one per environment, received 1"),
        (lambda _: 5, r"keys must have a leading \(num_envs,\) axis"),
        ("position", "info has no entry 'position', received 'cell', 'hp': name one of these"),
        ("hp", "keys must be discrete, received an array of float64"),
    ],
)
def test_bad_keys_are_named(key, sentence):
    refuses(EpisodicCount(key=key).reward, FLOATS, sentence)


def test_info_reported_by_some_environments_only_is_named():
    step = FLOATS._replace(info={"cell": np.array([1, 0]), "_cell": np.array([True, False])})
    refuses(
        EpisodicCount(key="cell").reward,
        step,
        r"'cell', received none from environments \[1\]: report it on every step",
    )
    EpisodicCount(key="cell").reward(step._replace(valid=np.array([True, False])))


@pytest.mark.parametrize(
    "make",
    [RND, PseudoCount, RE3, *(lambda cls=cls: cls(num_actions=4) for cls in (ICM, E3B, Disagreement, NGU))],
)
@pytest.mark.parametrize("method", ["reward", "update"])
@pytest.mark.parametrize("value", [np.nan, 1e300])
def test_observations_that_no_network_can_hold_are_refused(make, method, value):
    observed = np.full((2, 3), value)
    step = FLOATS._replace(obs=observed, next_obs=observed)
    refuses(
        getattr(make(), method), step, "obs must be finite in single precision, received NaN, infinity or more than"
    )


def test_nan_in_a_row_that_is_no_step_is_not_looked_at():
    obs = np.array([[1.0, 2.0], [np.nan, 0.0]])
    bonus, step = RND(), FLOATS._replace(next_obs=obs, valid=np.array([True, False]))
    bonus.update(step)
    assert np.isfinite(bonus.reward(step)).all()
    assert all(np.isfinite(array).all() for array in bonus.state_dict().values())


@pytest.mark.parametrize(
    ("call", "step", "sentence"),
    [
        (
            RND().reward,
            FLOATS._replace(next_obs=np.array(["a", "b"])),
            "next_obs must hold numbers, received dtype <U1",
        ),
        (
            RND().reward,
            FLOATS._replace(next_obs={"image": np.ones((2, 3))}),
            "one array .* a dict with 'image': pass encode=",
        ),
        (RND(encode=one_hot(4)).reward, FLOATS, r"one_hot\(4\) must read integers"),
        (
            RND().reward,
            FLOATS._replace(next_obs=np.ones((3, 3))),
            r"leading axis \(2,\) of terminated, received shape \(3, 3\)",
        ),
        (RND().reward, FLOATS._replace(terminated=np.zeros((2, 1), bool)), r"must both have shape \(num_envs,\)"),
        (RND().reward, FLOATS._replace(valid=np.ones(3, bool)), r"valid must have shape \(2,\)"),
        (ICM().reward, FLOATS, "ICM: num_actions must be given for integer actions, received None: pass num_actions="),
        (
            ICM(num_actions=4).reward,
            FLOATS._replace(action=np.array([0, 4])),
            r"actions must lie in 0 .. 3, received 0 .. 4",
        ),
        (ICM(num_actions=4).reward, FLOATS._replace(action=np.ones((2, 2))), "num_actions=4 means integer actions"),
        (Empowerment(transition=np.ones((1, 1, 1))).reward, FLOATS, "must be integer states"),
        (Empowerment(transition=np.ones((1, 1, 1))).reward, INTEGERS, r"states must lie in 0 .. 0, received \[1, 1\]"),
    ],
)
def test_unusable_transitions_are_named(call, step, sentence):
    refuses(call, step, sentence)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: EpisodicCount(alpha=0), "EpisodicCount: alpha must be a finite number above 0, received 0"),
        (lambda: EpisodicCount(key=3), "key must be None .* received int"),
        (lambda: LifetimeCount(beta=float("nan")), "beta must be a finite number above 0, received nan"),
        (lambda: ActionRecency(kappa=-1), "kappa must be a finite number above 0"),
        (lambda: PseudoCount(bits=40), r"bits must lie in 1 .. 24"),
        (lambda: RND(learning_rate=0), "learning_rate must be a finite number above 0"),
        (lambda: RND(hidden=(64, 0)), r"hidden\[1\] must be an integer of at least 1, received 0"),
        (lambda: RND(batch_size=0), "batch_size must be an integer of at least 1"),
        (lambda: RND(update_proportion=1.5), "update_proportion must lie in"),
        (lambda: ICM(beta=2), r"beta must lie in \[0, 1\], received 2"),
        (lambda: ICM(num_actions=0), "num_actions must be an integer of at least 1"),
        (lambda: E3B(ridge=0), "ridge must be a finite number above 0"),
        (lambda: NovelD(alpha=2), r"alpha must lie in \[0, 1\]"),
        (lambda: Disagreement(members=1), "members must be at least 2"),
        (lambda: RE3(k=0), "k must be an integer of at least 1, received 0"),
        (lambda: RE3(capacity=1.5), "capacity must be an integer of at least 1"),
        (lambda: NGU(epsilon=0), "epsilon must be a finite number above 0"),
        (lambda: NGU(cluster=-1), "cluster must be a finite number above 0, received -1"),
        (lambda: NGU(cluster=float("inf")), "cluster must be a finite number above 0, received inf"),
        (lambda: NGU(cluster="x"), "cluster must be a finite number above 0, received 'x'"),
        (lambda: NGU(most=True), "most must be a finite number above 0, received True"),
        (lambda: NGU(beta=None), r"beta must lie in \[0, 1\], received None"),
        (lambda: NGU(rnd=3), "rnd must be an RND, received 3"),
        (lambda: NGU(k=5, capacity=4), "k must be at most capacity, 4, received 5"),
        (lambda: RE3(k=2000), "k must be at most capacity, 1024, received 2000"),
        (lambda: RE3(capacity=2**31), "capacity must be at most 2147483647, received 2147483648"),
        (lambda: RE3(hidden=3), "hidden must be a sequence of widths, received 3"),
        (lambda: ICM(hidden="ab"), "hidden must be a sequence of widths, received 'ab'"),
        (lambda: RE3(encode=3), "encode must be a function of observations, received 3"),
        (lambda: NGU(most=0.5), "most must be at least 1, received 0.5"),
        (lambda: DIAYN(count=1), "count must be at least 2, received 1: one skill tells nothing apart"),
        (lambda: Empowerment(transition=np.ones((2, 2))), r"shape \(S, A, S\), received \(2, 2\)"),
        (lambda: Empowerment(transition=np.ones((2, 1, 2))), "probabilities that sum to 1"),
        (lambda: Empowerment(transition=np.ones((1, 9, 1)), steps=12), "lower steps"),
        (lambda: one_hot(1), "n must be at least 2"),
        (lambda: as_intrinsic(3), "must be a callable transition -> array or have reward"),
    ],
)
def test_bad_settings_are_named(make, sentence):
    refuses(lambda _: make(), None, sentence)


@pytest.mark.parametrize(
    "bonus", [EpisodicCount(), E3B(num_actions=4), NGU(num_actions=4), RIDE(num_actions=4, encode=one_hot(4))]
)
def test_another_number_of_environments_is_refused(bonus):
    step = FLOATS if isinstance(bonus, E3B | NGU) else INTEGERS
    bonus.update(step)
    wider = Transition(*(np.concatenate([field, field]) for field in step[:5]), {})
    refuses(bonus.reward, wider, "remembers 2 environments and received a transition of 4")


def test_a_state_saved_with_other_settings_is_refused():
    saved, other = RND(features=4), RND(features=8)
    saved.update(FLOATS)
    other.load_state_dict(saved.state_dict())
    refuses(other.reward, FLOATS, "does not fit these settings, .* must have shape .* construct the bonus with")


def test_a_key_that_cannot_be_saved_is_named():
    bonus = EpisodicCount(key=lambda _: [frozenset({1}), frozenset({2})])
    bonus.update(INTEGERS)
    refuses(lambda _: bonus.state_dict(), None, "to be saved, received a key of type frozenset")


def test_texts_are_keys_and_an_entry_that_is_none_is_named():
    """MiniGrid's observations: Gymnasium batches their missions as a tuple, one text per environment."""
    no = np.zeros(2, bool)
    view = {
        "direction": np.array([0, 1]),
        "image": np.zeros((2, 3), np.uint8),
        "mission": ("get the key", "get the key"),
    }
    step = Transition(view, no, view, no, no, {})
    bonus = EpisodicCount(alpha=1.0)
    bonus.update(step)
    np.testing.assert_array_equal(bonus.reward(step), [0.5, 0.5])
    moved = {**view, "mission": ("get the key", "open the door")}
    np.testing.assert_array_equal(bonus.reward(step._replace(next_obs=moved)), [0.5, 1.0])
    floats = step._replace(next_obs={**view, "place": np.zeros((2, 2))})
    with pytest.raises(InputTypeError, match=r"entry 'place' of the observation: keys must be discrete.*key=lambda"):
        bonus.reward(floats)
