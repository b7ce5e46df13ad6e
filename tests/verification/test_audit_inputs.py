"""Bad input to an audit: one sentence that names the argument, the rule, what was received and the way out."""

import numpy as np
import pytest

import pbim

FINE = {
    "obs": [0, 1, 1],
    "next_obs": [1, 1, 2],
    "term": [0.0, 0.5, 0.0],
    "terminated": [False, False, True],
    "gamma": 0.9,
}
CONTINUOUS = {
    "obs": np.random.default_rng(0).random((40, 2)),
    "next_obs": np.random.default_rng(1).random((40, 2)),
    "term": np.zeros(40),
    "terminated": np.zeros(40, bool),
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gamma": 0}, "gamma must be in (0, 1], received 0"),
        ({"gamma": 1.5}, "gamma must be in (0, 1], received 1.5"),
        ({"gamma": "0.9"}, "gamma must be a real number"),
        ({"gamma": float("nan")}, "gamma must be in (0, 1]"),
        ({"term": [0.0, float("nan"), 0.0]}, "term must be finite, received nan in row 1"),
        ({"term": [0.0, np.inf, 0.0]}, "term must be finite, received inf in row 1"),
        ({"term": ["a", "b", "c"]}, "term must hold real numbers"),
        ({"term": np.zeros(3, complex)}, "term must hold real numbers, received complex128"),
        ({"term": np.zeros(3, "datetime64[s]")}, "term must hold real numbers, received datetime64"),
        ({"term": [0.0, -1e200, 0.0]}, "term must be between -1e+100 and 1e+100, received -1e+200 in row 1"),
        ({"term": {0.0, 0.5, 1.0}}, "term must be an array or a list with one entry per transition, received set"),
        ({"term": np.ma.masked_equal([0.0, 0.5, 0.0], 0.5)}, "term must hold no masked entries"),
        ({"term": [[0.0, 1.0]] * 3}, "term must have one number per transition, received shape (3, 2)"),
        ({"term": [0.0, 1.0]}, "obs must have one entry per transition, 2 like term, received 3"),
        ({"term": 1.0}, "term must be an array or a list"),
        ({"term": None}, "term must be given"),
        ({"terminated": [False]}, "terminated must have one entry per transition, 3 like term, received 1"),
        ({"terminated": [0, 1, 2]}, "terminated must hold one boolean"),
        ({"truncated": ["no"] * 3}, "truncated must hold one boolean"),
        ({"extrinsic": [0, None, 1]}, "extrinsic must"),
        ({"action": [0, 1]}, "action must have 3 entries like term, received 2"),
        ({"obs": [{1}, {2}, {3}]}, "obs must be hashable, received set"),
        ({"obs": [0.5, np.nan, 1.0]}, "obs must hold no NaN, received one in row 1"),
        ({"next_obs": [[1, 1], [1, 1], [2, 2]]}, "next_obs must have rows of the shape of obs"),
        ({"obs": np.zeros((3, 0)), "next_obs": np.zeros((3, 0))}, "obs must have rows that tell states apart"),
        ({"obs": np.array(["NaT", "2020", "2021"], "datetime64[s]")}, "obs must hold no NaN, received one in row 0"),
        ({"obs": {"a": [0, 1, 1]}, "next_obs": {"b": [1, 1, 2]}}, "next_obs must have rows of the shape of obs, ['a']"),
        ({"obs": {"a": [0, 1, 1]}}, "next_obs must have rows of the shape of obs, ['a'], received ()"),
        ({"key": "column"}, "key must be a function of one observation"),
        ({"key": lambda _: [set()]}, "key must be hashable"),
        ({"tolerance": -1}, "tolerance must be in [0, 1)"),
        ({name: [] for name in ("obs", "next_obs", "term", "terminated")}, "received an empty log"),
        (CONTINUOUS, "episode must tell at least two episodes apart"),
        (CONTINUOUS | {"features": 3, "episode": np.arange(40)}, "features must be a function"),
        (
            CONTINUOUS | {"features": lambda rows: ["a"] * len(rows), "episode": np.arange(40)},
            "features must return n",
        ),
        (CONTINUOUS | {"obs": np.vstack([[[np.inf, 0]], CONTINUOUS["obs"][1:]])}, "obs must be between"),
        (
            CONTINUOUS | {"next_obs": np.zeros((40, 3)), "features": np.atleast_2d},
            "next_obs must have rows of the shape",
        ),
        (CONTINUOUS | {"features": lambda _: [1.0], "episode": np.arange(40)}, "features must return one finite row"),
    ],
)
def test_one_sentence(change, words):
    with pytest.raises(pbim.InputError) as caught:
        pbim.audit(**FINE | change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_episode_is_enough_for_exact_states():
    report = pbim.audit(**FINE, extrinsic=[0, 0, 1])
    assert not report.potential_based
    assert report.inversions == 0


def test_inputs_are_not_edited():
    obs, term = np.array([0.0, -0.0, 1.0]), np.array([0.0, 0.5, 0.0])
    before = obs.copy(), term.copy()
    pbim.audit(**FINE | {"obs": obs, "term": term})
    assert all(np.array_equal(*pair) for pair in zip(before, (obs, term), strict=True))
    assert pbim.audit(**FINE | {"obs": obs, "next_obs": [0.0, 0.0, 1.0]}).coverage.states == 2  # one zero, not two
