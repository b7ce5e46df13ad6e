"""Environments of gymnax, navix and xminigrid through our protocol, against what their own step says."""

import sys
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.envs import Craftax, Gymnax, Navix, XMiniGrid, autoreset_batch
from pbim.errors import InputError


def gymnax() -> Any:
    pytest.importorskip("gymnax")
    return Gymnax(id="CartPole-v1", limit=12)


def navix() -> Any:
    pytest.importorskip("navix")
    return Navix(id="Navix-DoorKey-5x5-v0", limit=12)


def xminigrid() -> Any:
    pytest.importorskip("xminigrid")
    return XMiniGrid(id="MiniGrid-DoorKey-5x5", limit=12)


def craftax() -> Any:
    pytest.importorskip("craftax")
    return Craftax(id="Craftax-Classic-Symbolic-v1", limit=12)


@dataclass(frozen=True)
class Limits:
    max_steps_in_episode: int = 99


class Countdown:
    """An environment as gymnax had them before 1.0: ``done`` says that an episode is over, and not why."""

    def reset_env(self, *_: Any) -> Any:
        return jnp.zeros(1), (jnp.int32(0), jnp.int32(0))

    def step_env(self, _: Any, state: Any, goal: Any, params: Any) -> Any:
        state = (state[0] + 1, goal)
        return jnp.zeros(1), state, 0.0, self.is_terminal(state, params), {}

    def is_terminal(self, state: Any, params: Any) -> Any:
        time, goal = state
        return (time >= goal) | (time >= params.max_steps_in_episode)


def test_ends_of_one_flag_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnax", SimpleNamespace(make=lambda _: (Countdown(), Limits())))
    env = Gymnax(id="Countdown-v0", limit=5)
    assert env.max_steps == 5
    for goal in (1, 4, 5, 6):
        state, _ = env.reset(jax.random.key(0))
        for step in range(1, min(goal, 5) + 1):
            state, _, _, terminated, truncated = env.step(jax.random.key(0), state, goal)
            assert (bool(terminated), bool(truncated)) == (step == goal, step == 5 < goal)


@pytest.mark.parametrize("make", [gymnax, craftax, navix, xminigrid])
def test_episodes_end_by_truncation_with_their_final_observation_and_go_on(make: Any) -> None:
    env, num_envs = make(), 5
    states, obs = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), num_envs))
    assert obs.shape == (num_envs, *env.obs_shape)
    assert obs.dtype == env.obs_dtype
    step, plain = jax.jit(partial(autoreset_batch, env)), jax.jit(jax.vmap(env.step))
    lengths, length = [], np.zeros(num_envs, int)
    rng = np.random.default_rng(0)
    for t in range(40):
        actions = jnp.asarray(rng.integers(env.num_actions, size=num_envs))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(t), 0), num_envs)
        truth = plain(keys, states, actions)
        out = step(jax.random.key(t), states, actions)
        np.testing.assert_array_equal(out.timestep.obs, truth.obs)
        length += 1
        ended = np.asarray(out.timestep.terminated | out.timestep.truncated)
        np.testing.assert_array_equal(np.asarray(out.timestep.truncated), length == env.max_steps)
        np.testing.assert_array_equal(np.asarray(out.obs)[~ended], np.asarray(truth.obs)[~ended])
        lengths += length[ended].tolist()
        length[ended] = 0
        states = out.state
    assert len(lengths) >= 3 * num_envs
    assert max(lengths) == env.max_steps


def test_gymnax_poles_that_fall_terminate_and_are_not_truncated() -> None:
    env = gymnax()
    state, _ = env.reset(jax.random.key(0))
    for t in range(11):
        state, _, _, terminated, truncated = env.step(jax.random.key(t), state, 1)  # always push right
        if terminated:
            break
    assert bool(terminated)
    assert not bool(truncated)


def test_navix_goal_on_the_last_step_is_both_ends() -> None:
    env = navix()
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    goal = state.inner.state.entities["goal"].position[0]
    player = state.inner.state.entities["player"]
    beside = player.replace(position=(goal - jnp.array([1, 0]))[None], direction=jnp.array([1]))  # above, facing down
    entities = {**state.inner.state.entities, "player": beside}
    inner = state.inner.replace(state=state.inner.state.replace(entities=entities), t=jnp.asarray(11))
    timestep = jax.jit(env.step)(jax.random.key(0), state._replace(inner=inner), 2)
    assert bool(timestep.terminated)
    assert bool(timestep.truncated)


def test_xminigrid_goal_terminates() -> None:
    env = xminigrid()
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    agent = state.inner.state.agent.replace(position=jnp.array([2, 3]), direction=jnp.asarray(2))  # above the goal
    inner = state.inner.replace(state=state.inner.state.replace(agent=agent))
    timestep = jax.jit(env.step)(jax.random.key(0), state._replace(inner=inner), 0)  # forward is xminigrid's action 0
    assert bool(timestep.terminated)
    assert not bool(timestep.truncated)
    assert float(timestep.reward) == pytest.approx(1 - 0.9 / 12)


@pytest.mark.parametrize("kind", [Gymnax, Craftax, Navix, XMiniGrid])
def test_a_library_that_is_not_installed_is_named_when_it_is_needed(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = kind.kind
    monkeypatch.setitem(sys.modules, library, None)
    env = kind(id="Absent-v0")
    with pytest.raises(InputError, match=f"which is not installed: pip install {library}"):
        _ = env.num_actions
