"""DoorKey by hand and by statistics: layouts, ends, count keys."""

from collections import Counter
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pbim.envs import DoorKey, DoorKeyState, autoreset_batch, autoreset_step

SAMPLES = 100_000


def state_of(size: int = 8, **cells: int) -> DoorKeyState:
    fields = {"agent": 9, "heading": 0, "key": 10, "door": 4 + size, "door_state": 2, "step": 0} | cells
    return DoorKeyState(**{name: jnp.int32(value) for name, value in fields.items()})


def minigrid_outcomes(size: int) -> dict[tuple[int, int, int, int, int], float]:
    """Every layout MiniGrid can draw (split, door row, heading, agent, key), with its probability, from its rules."""
    outcomes = {}
    for split in range(2, size - 2):
        room = [y * size + x for y in range(1, size - 1) for x in range(1, split)]
        for door_row in range(1, size - 2):
            for heading in range(4):
                for agent in room:
                    for key in room:
                        if key != agent:
                            p = 1 / (size - 4) / (size - 3) / 4 / len(room) / (len(room) - 1)
                            outcomes[split, door_row, heading, agent, key] = p
    return outcomes


@cache
def draws(size: int) -> np.ndarray:
    states = jax.jit(jax.vmap(DoorKey(size=size).reset))(jax.random.split(jax.random.key(size), SAMPLES))[0]
    assert (np.asarray(states.door_state) == 2).all()
    assert (np.asarray(states.step) == 0).all()
    return np.stack([states.door % size, states.door // size, states.heading, states.agent, states.key], axis=1)


@pytest.mark.parametrize("size", [5, 6])
def test_whole_layouts_have_minigrids_distribution(size: int) -> None:
    expected = minigrid_outcomes(size)
    assert sum(expected.values()) == pytest.approx(1)
    counts = Counter(map(tuple, draws(size).tolist()))
    assert set(counts) <= set(expected)
    observed = [counts[outcome] for outcome in expected]
    assert stats.chisquare(observed, [SAMPLES * p for p in expected.values()]).pvalue > 1e-3


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("parts", [(0,), (1,), (2,), (0, 1), (0, 2), (0, 3), (0, 4)], ids=str)
def test_parts_of_layouts_have_minigrids_distribution(size: int, parts: tuple[int, ...]) -> None:
    expected: Counter[tuple[int, ...]] = Counter()
    for split in range(2, size - 2):
        room = [y * size + x for y in range(1, size - 1) for x in range(1, split)]
        choices = [[split], range(1, size - 2), range(4), room, room]
        chosen = [choices[part] for part in parts]
        number = np.prod([len(options) for options in chosen])
        for index in np.ndindex(*(len(options) for options in chosen)):
            expected[tuple(options[i] for options, i in zip(chosen, index, strict=True))] += 1 / (size - 4) / number
    counts = Counter(map(tuple, draws(size)[:, parts].tolist()))
    assert set(counts) <= set(expected)
    observed = [counts[outcome] for outcome in expected]
    assert stats.chisquare(observed, [SAMPLES * p for p in expected.values()]).pvalue > 1e-3


@pytest.mark.parametrize("size", [8, 16])
def test_key_is_anywhere_but_under_the_agent(size: int) -> None:
    split, _, _, agent, key = draws(size).T
    assert (agent != key).all()
    narrow = split == 2
    column = size - 2
    rank = (key[narrow] // size - 1) - (key[narrow] > agent[narrow])  # place among the cells without the agent
    assert stats.chisquare(np.bincount(rank, minlength=column - 1)).pvalue > 1e-3


@pytest.mark.parametrize("size", [5, 8])
def test_real_minigrid_draws_what_we_expect_of_it(size: int) -> None:
    envs = pytest.importorskip("minigrid.envs")
    from pbim.envs.foreign import doorkey_state

    env, seen = envs.DoorKeyEnv(size=size), Counter()
    possible = minigrid_outcomes(size)
    for seed in range(400):
        env.reset(seed=seed)
        state = jax.tree.map(int, doorkey_state(env))
        assert (state.door % size, state.door // size, state.heading, state.agent, state.key) in possible
        seen[state.door] += 1
    assert stats.chisquare([seen[y * size + x] for x in range(2, size - 2) for y in range(1, size - 2)]).pvalue > 1e-3


def test_goal_on_the_last_step_both_terminates_and_truncates() -> None:
    env = DoorKey(size=8, reward="minigrid", max_steps=100)
    before_goal = state_of(agent=6 * 8 + 5, key=0, step=99)
    timestep = env.step(jax.random.key(0), before_goal, 2)
    assert bool(timestep.terminated)
    assert bool(timestep.truncated)
    assert float(timestep.reward) == pytest.approx(0.1)


def test_done_does_nothing_but_take_time() -> None:
    state = state_of()
    timestep = DoorKey().step(jax.random.key(0), state, 6)
    assert timestep.state._replace(step=state.step) == state
    assert int(timestep.state.step) == 1


def test_count_key_tells_place_and_key_apart() -> None:
    env = DoorKey(size=5)
    keys = {int(env.count_key(state_of(5, agent=a, key=k))) for a in range(25) for k in (0, 7)}
    assert keys == set(range(env.num_count_keys))
    assert env.count_key(state_of(5, agent=7, key=8)) == env.count_key(state_of(5, agent=7, key=9, heading=3))


@pytest.mark.parametrize(
    ("bad", "named"), [({"size": 7}, "size"), ({"reward": "sparse"}, "reward"), ({"max_steps": -1}, "max_steps")]
)
def test_bad_configs_name_the_argument(bad: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DoorKey(**bad)


def test_both_autoresets_keep_the_final_observation_and_start_afresh() -> None:
    env = DoorKey(size=5, max_steps=3)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 4))
    states = states._replace(step=jnp.array([0, 2, 0, 2], jnp.int32))
    actions = jnp.array([0, 1, 2, 0])
    keys = jax.random.split(jax.random.key(1), 4)
    truth = jax.jit(jax.vmap(env.step))(keys, states, actions)
    single = jax.jit(jax.vmap(partial(autoreset_step, env)))(keys, states, actions)
    batch = jax.jit(partial(autoreset_batch, env))(jax.random.key(1), states, actions)
    for out in (single, batch):
        np.testing.assert_array_equal(out.timestep.obs, truth.obs)
        assert out.timestep.truncated.tolist() == [False, True, False, True]
        assert out.state.step.tolist() == [1, 0, 1, 0]
        np.testing.assert_array_equal(out.obs, jax.vmap(env.observe)(out.state))
        np.testing.assert_array_equal(out.obs[0], truth.obs[0])


def test_batches_without_an_end_are_untouched_and_with_ends_get_different_layouts() -> None:
    env = DoorKey(size=8)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 64))
    ends = states._replace(step=jnp.full(64, env.max_steps - 1, jnp.int32))
    batch = jax.jit(partial(autoreset_batch, env))
    out = batch(jax.random.key(1), ends, jnp.zeros(64, jnp.int32))
    assert len(set(zip(out.state.agent.tolist(), out.state.key.tolist(), strict=True))) > 32
    out = batch(jax.random.key(1), states, jnp.full(64, 6))
    np.testing.assert_array_equal(out.state.agent, states.agent)
