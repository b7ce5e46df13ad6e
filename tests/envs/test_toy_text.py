"""Tables of outcomes behave as Gymnasium's environments do, and can be learned."""

import gymnasium
import jax
import numpy as np
import pytest

from pbim.agents.q_learning import QLearning, train
from pbim.envs import RiverSwim, ToyText
from pbim.errors import InputError


def test_deterministic_steps_equal_gymnasiums():
    env, theirs = ToyText(id="CliffWalking-v1", max_steps=480), gymnasium.make("CliffWalking-v1")
    cell, _ = theirs.reset(seed=0)
    state, first = env.reset(jax.random.key(0))
    assert int(first) == cell
    step = jax.jit(env.step)
    for action in np.random.default_rng(0).integers(4, size=60):
        arrived, reward, terminated, _, _ = theirs.step(int(action))
        out = step(jax.random.key(0), state, action)
        assert (int(out.obs), float(out.reward), bool(out.terminated)) == (arrived, reward, terminated)
        state = out.state


def test_slippery_outcomes_have_gymnasiums_frequencies():
    env, theirs = ToyText(id="FrozenLake-v1", max_steps=100), gymnasium.make("FrozenLake-v1").unwrapped
    state, _ = env.reset(jax.random.key(0))
    out = jax.vmap(lambda key: env.step(key, state, 2).obs)(jax.random.split(jax.random.key(1), 6000))
    expected = np.zeros(env.num_states)
    for chance, arrived, _, _ in theirs.P[0][2]:
        expected[arrived] += chance
    np.testing.assert_allclose(np.bincount(out, minlength=env.num_states) / 6000, expected, atol=0.03)


def test_frozen_lake_is_learned():
    name = "pbim-tests/FirmLake-v0"
    if name not in gymnasium.registry:
        entry_point = gymnasium.spec("FrozenLake-v1").entry_point
        gymnasium.register(name, entry_point, kwargs={"map_name": "4x4", "is_slippery": False})
    config = QLearning(env=ToyText(id=name, max_steps=100), episodes=800, epsilon_decay=2e-3)
    result = train(config, jax.random.split(jax.random.key(0), 4))
    assert result.returns[:, -100:].mean() > 0.3


@pytest.mark.parametrize(("name", "message"), [("CartPole-v1", "toy-text"), ("NoSuch-v0", "registered")])
def test_other_environments_are_refused_when_their_table_is_needed(name, message):
    env = ToyText(id=name, max_steps=9)
    with pytest.raises(InputError, match=message) as caught:
        _ = env.num_states
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="max_steps must be at least 1"):
        ToyText(id=name, max_steps=0)


def test_equal_tables_are_read_once():
    one, two = ToyText(id="FrozenLake-v1", max_steps=9), ToyText(id="FrozenLake-v1", max_steps=8)
    assert one.table is two.table
    assert one == ToyText(id="FrozenLake-v1", max_steps=9) != two


def test_river_swim_is_strehl_and_littmans():
    """Swimming right for ever spends 1, 3, 9, 27, 81 and 81 * 3/7 parts of the time in the six states."""
    table = RiverSwim(max_steps=500).table
    chance = np.diff(table.chance, axis=-1, prepend=0)
    np.testing.assert_allclose(chance.sum(axis=-1), 1)
    moves = np.zeros((6, 2, 6))
    for state in range(6):
        for action in range(2):
            np.add.at(moves[state, action], table.successor[state, action], chance[state, action])
    assert moves[:, 0].argmax(axis=1).tolist() == [0, 0, 1, 2, 3, 4]
    parts = np.array([1, 3, 9, 27, 81, 81 * 3 / 7])
    np.testing.assert_allclose(parts @ moves[:, 1], parts, rtol=1e-12)
    expected = (chance * table.reward).sum(axis=-1)
    np.testing.assert_allclose(expected, [[0.005, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0.3]])
    assert not table.terminal.any()


def test_every_window_of_an_endless_task_is_marked():
    env = RiverSwim(max_steps=3)
    state, first = env.reset(jax.random.key(0))
    assert int(first) in (1, 2)
    marks = []
    for index in range(7):
        out = env.step(jax.random.key(index), state, 1)
        state, marks = out.state, [*marks, bool(out.truncated)]
    assert marks == [False, False, True, False, False, True, False]
