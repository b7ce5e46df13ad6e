"""Batches of observations and infos: what goes in comes out again, environment by environment."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from pbim.adapters.batching import ListedInfo, stack, with_batch

SPACE = spaces.Dict(
    place=spaces.Discrete(5), view=spaces.Tuple((spaces.Box(-1, 1, (2, 3)), spaces.MultiBinary(4))), word=spaces.Text(3)
)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


def values(count, seed=0):
    SPACE.seed(seed)
    return [SPACE.sample() for _ in range(count)]


def test_a_stack_of_single_values_iterates_to_these_values():
    single = values(4)
    again = list(iterate(batch_space(SPACE, 4), stack(SPACE, single)))
    assert all(map(same, single, again))


def test_rows_that_are_put_into_a_batch_replace_these_rows_alone():
    space = spaces.Dict(place=SPACE["place"], view=SPACE["view"])  # text is no array
    single, new = ([{name: each[name] for name in space} for each in values(4, seed)] for seed in (0, 1))
    batch = stack(space, single)
    changed = with_batch(batch, np.array([1, 3]), stack(space, [new[1], new[3]]))
    again = list(iterate(batch_space(space, 4), changed))
    assert all(map(same, [single[0], new[1], single[2], new[3]], again))
    assert all(map(same, single, iterate(batch_space(space, 4), batch)))  # the batch itself stays


def test_listed_infos_read_as_those_of_gymnasium_do():
    info = ListedInfo([{"dense": 1.0}, {}, {"dense": 3.0, "word": "goal"}])
    assert set(info) == {"dense", "_dense", "word", "_word"}
    assert len(info) == len(list(info))
    np.testing.assert_array_equal(info["dense"], [1.0, 0.0, 3.0])
    np.testing.assert_array_equal(info["_dense"], [True, False, True])
    assert info["word"][2] == "goal"
    with pytest.raises(KeyError, match="missing"):
        info["missing"]
