"""Optimal path lengths against brute force over every state of a layout and every action, drops and all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.envs import DoorKey, DoorKeyState
from pbim.envs.optimal import optimal_steps


def brute_force(env: DoorKey, door: int) -> np.ndarray:
    """Steps to the goal from all (agent, heading, key, door state) of grids with this door, by all seven actions."""
    cells = env.size**2
    shape = (cells, 4, cells, 3)
    agent, heading, key, door_state = (jnp.asarray(axis.ravel(), jnp.int32) for axis in np.indices(shape))
    constant = jnp.full(agent.shape, door, jnp.int32)
    states = DoorKeyState(agent, heading, key, constant, door_state, jnp.zeros_like(agent))
    moves = jax.jit(jax.vmap(jax.vmap(env.step, in_axes=(None, None, 0)), in_axes=(None, 0, None)))
    out = moves(jax.random.key(0), states, jnp.arange(7))
    to = np.ravel_multi_index(
        tuple(np.asarray(x) for x in (out.state.agent, out.state.heading, out.state.key, out.state.door_state)),
        shape,
        mode="clip",
    )
    steps = np.where(np.asarray(agent) == env.goal, 0, -1)
    ends = np.asarray(out.terminated)
    steps[(steps < 0) & ends.any(axis=1)] = 1
    for step in range(2, 400):
        near = (steps[to] == step - 1).any(axis=1) & (steps < 0)
        if not near.any():
            break
        steps[near] = step
    return steps.reshape(shape)


def reachable_places(env: DoorKey, door: int) -> DoorKeyState:
    """Every state of these grids that play can lead to: nobody in a wall, the key not under agent, goal or door."""
    size = env.size
    rooms = [y * size + x for y in range(1, size - 1) for x in range(1, size - 1) if x != door % size]
    inner = [cell for cell in rooms if cell != env.goal]
    left = [cell for cell in inner if cell % size < door % size]
    places = []
    for door_state in range(3):
        agents = left if door_state == 2 else inner + [door] * (door_state == 0)
        for key in [0, *(left if door_state == 2 else inner)]:
            places += [(a, h, key, door, door_state, 0) for a in agents if a != key for h in range(4)]
    return DoorKeyState(*(np.array(field, np.int32) for field in zip(*places, strict=True)))


@pytest.mark.parametrize(("size", "door"), [(5, 7), (5, 12), (6, 8), (6, 21), (8, 10), (8, 37)])
def test_search_equals_brute_force_from_everywhere(size: int, door: int) -> None:
    env = DoorKey(size=size)
    truth = brute_force(env, door)
    states = reachable_places(env, door)
    expected = truth[states.agent, states.heading, states.key, states.door_state]
    assert (expected > 0).all()
    np.testing.assert_array_equal(optimal_steps(env, states), expected)


def test_a_layout_worked_by_hand() -> None:
    env = DoorKey(size=5)
    # Column 1 is the left room; agent at its bottom looks up, the key above it, the door at (2, 1), the goal at (3, 3):
    # pick up, forward, forward, right, toggle, forward, forward, right, forward, forward.
    state = DoorKeyState(*(jnp.int32(v) for v in (3 * 5 + 1, 3, 2 * 5 + 1, 1 * 5 + 2, 2, 0)))
    assert optimal_steps(env, state).item() == 10


def test_shapes_are_kept_and_time_does_not_matter() -> None:
    env = DoorKey(size=6)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 6))
    square = jax.tree.map(lambda x: x.reshape(2, 3), states)
    flat = optimal_steps(env, states)
    np.testing.assert_array_equal(optimal_steps(env, square), flat.reshape(2, 3))
    np.testing.assert_array_equal(optimal_steps(env, states._replace(step=states.step + 5)), flat)
    assert optimal_steps(env, jax.tree.map(lambda x: x[:0], states)).shape == (0,)


def test_a_locked_door_without_a_key_on_this_side_is_hopeless() -> None:
    env = DoorKey(size=5)
    state = DoorKeyState(*(jnp.int32(v) for v in (6, 0, 8, 7, 2, 0)))  # the key lies beyond the door
    assert optimal_steps(env, state).item() == -1


@pytest.mark.parametrize("size", [5, 8, 16])
def test_every_layout_can_be_solved_within_the_limit(size: int) -> None:
    env = DoorKey(size=size)
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 300))
    steps = optimal_steps(env, states)
    assert steps.min() >= 4
    assert steps.max() < env.max_steps / 5


def every_layout(size: int) -> DoorKeyState:
    """Every layout that ``reset`` can draw."""
    rows = []
    for wall in range(2, size - 2):
        room = [y * size + x for y in range(1, size - 1) for x in range(1, wall)]
        objects = [(agent, heading, key) for agent in room for heading in range(4) for key in room if key != agent]
        rows += [(*one, y * size + wall, 2, 0) for y in range(1, size - 2) for one in objects]
    return DoorKeyState(*(np.array(field, np.int32) for field in zip(*rows, strict=True)))


@pytest.mark.parametrize("size", [5, 6, 8, 16])
def test_the_closed_form_equals_the_search_on_every_layout(size: int) -> None:
    env = DoorKey(size=size)
    states = every_layout(size) if size < 16 else jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2000))[0]
    np.testing.assert_array_equal(jax.jit(jax.vmap(env.optimal_length))(states), optimal_steps(env, states))
