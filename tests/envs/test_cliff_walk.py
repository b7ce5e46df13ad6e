"""CliffWalk: cases worked by hand, and its arrays against its steps."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.envs import ENVIRONMENTS, CliffWalk, CliffWalkState

UP, RIGHT, DOWN, LEFT = range(4)
KEY = jax.random.key(0)

CLIFF_WALK, CLIFF_WALK_LONG = ENVIRONMENTS["CliffWalk"], ENVIRONMENTS["CliffWalkLong"]


def walk(env: CliffWalk, actions: list[int]) -> tuple[list[int], list[float], bool, bool]:
    state, obs = env.reset(KEY)
    cells, rewards = [int(obs)], []
    terminated = truncated = False
    for action in actions:
        assert not terminated
        assert not truncated
        state, obs, reward, terminated, truncated = env.step(KEY, state, action)
        cells.append(int(obs))
        rewards.append(float(reward))
    return cells, rewards, bool(terminated), bool(truncated)


def test_the_shortest_way_earns_88() -> None:
    cells, rewards, terminated, truncated = walk(CLIFF_WALK, [UP] + [RIGHT] * 11 + [DOWN])
    assert cells == [36, *range(24, 36), 47]
    assert rewards == [-1.0] * 12 + [100.0]
    assert terminated
    assert not truncated


def test_the_cliff_costs_100_and_ends() -> None:
    assert walk(CLIFF_WALK, [RIGHT]) == ([36, 37], [-100.0], True, False)
    assert walk(CLIFF_WALK, [UP, RIGHT, DOWN]) == ([36, 24, 25, 37], [-1.0, -1.0, -100.0], True, False)


def test_borders_hold() -> None:
    assert walk(CLIFF_WALK, [LEFT, DOWN, UP, UP, UP, UP, LEFT])[0] == [36, 36, 36, 24, 12, 0, 0, 0]


def test_the_long_grid_truncates_at_100_and_is_solvable() -> None:
    assert (CLIFF_WALK_LONG.width, CLIFF_WALK_LONG.height, CLIFF_WALK_LONG.max_steps) == (50, 4, 100)
    _, rewards, terminated, truncated = walk(CLIFF_WALK_LONG, [UP, DOWN] * 50)
    assert (terminated, truncated, len(rewards)) == (False, True, 100)
    assert walk(CLIFF_WALK_LONG, [UP] + [RIGHT] * 49 + [DOWN])[1:] == ([-1.0] * 50 + [100.0], True, False)


def test_goal_on_the_last_step_is_both_ends() -> None:
    env = CliffWalk(max_steps=13)
    assert walk(env, [UP] + [RIGHT] * 11 + [DOWN])[2:] == (True, True)


@pytest.mark.parametrize("slip", [0.0, 0.3, 2 / 3])
def test_arrays_are_what_steps_do(slip: float) -> None:
    env = CliffWalk(width=5, height=3, slip=slip, step_reward=-2.0, cliff_reward=-7.0, goal_reward=9.0)
    transition, reward, initial, terminal = env.arrays()
    np.testing.assert_allclose(transition.sum(-1), 1)
    assert initial.argmax() == env.start
    assert terminal.nonzero()[0].tolist() == [11, 12, 13, 14]
    keys = jax.random.split(KEY, 4000)

    @jax.jit
    def outcomes(cell: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        out = jax.vmap(lambda key: env.step(key, CliffWalkState(cell, jnp.int32(0)), action))(keys)
        return out.state.cell, out.reward, out.terminated

    for cell in np.flatnonzero(~terminal):
        for action in range(4):
            to, paid, ended = map(np.asarray, outcomes(jnp.int32(cell), jnp.int32(action)))
            share = np.bincount(to, minlength=env.num_states) / len(keys)
            np.testing.assert_allclose(share, transition[cell, action], atol=0.04)
            np.testing.assert_array_equal(paid, reward[cell, action, to])
            np.testing.assert_array_equal(ended, terminal[to])


@pytest.mark.parametrize("is_slippery", [False, True])
def test_moves_are_gymnasiums(is_slippery: bool) -> None:
    cliffwalking = pytest.importorskip("gymnasium.envs.toy_text.cliffwalking")
    theirs = cliffwalking.CliffWalkingEnv(is_slippery=is_slippery).P
    transition, _, _, terminal = CliffWalk(slip=2 / 3 if is_slippery else 0).arrays()
    for cell in np.flatnonzero(~terminal):
        for action in range(4):
            expected = np.zeros(48)
            for probability, to, paid, _ in theirs[cell][action]:
                expected[to if paid == -1 else 37] += probability  # theirs climb back to the start, ours end
            ours = transition[cell, action].copy()
            ours[37], ours[38:47] = ours[37:47].sum(), 0
            np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_exact_arrays_are_fractions_with_the_same_values() -> None:
    env = CliffWalk(slip=Fraction(1, 3))
    exact, floats = env.arrays(exact=True), env.arrays()
    assert exact.transition[0, UP, 0] == Fraction(5, 6)  # straight or slipped left; slipping right leaves the corner
    assert all(isinstance(value, Fraction) for value in exact.reward.flat)
    np.testing.assert_allclose(exact.transition.astype(float), floats.transition)
    np.testing.assert_array_equal(exact.reward.astype(float), floats.reward)


def test_terminal_cells_keep_to_themselves_unpaid() -> None:
    transition, reward, _, terminal = CLIFF_WALK.arrays()
    for cell in np.flatnonzero(terminal):
        assert (transition[cell, :, cell] == 1).all()
        assert not reward[cell].any()


@pytest.mark.parametrize(
    ("bad", "named"),
    [({"width": 2}, "width"), ({"height": 1}, "height"), ({"slip": 1.5}, "slip"), ({"max_steps": 0}, "max_steps")],
)
def test_bad_configs_name_the_argument(bad: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        CliffWalk(**bad)
