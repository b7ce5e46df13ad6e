"""Environments of other JAX libraries behind our protocol, and MiniGrid layouts as our states.

Foreign environments reset themselves inside ``step``; the adapters call what lies beneath, so that the true last
observation and the two kinds of ends stay visible. No library is imported: each adapter takes an environment made by
its own library.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pbim.envs._layout import CARRIED, CLOSED, LOCKED, OPEN, DoorKeyState
from pbim.envs.protocol import Timestep


class ForeignState(NamedTuple):
    """The other library's state, whatever it is, with the observation it came with."""

    inner: Any
    obs: jax.Array


class _Foreign:
    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        raise NotImplementedError

    def observe(self, state: ForeignState) -> jax.Array:
        """Return the observation that came with the state."""
        return state.obs

    @cached_property
    def _obs(self) -> jax.ShapeDtypeStruct:
        obs: jax.ShapeDtypeStruct = jax.eval_shape(self.reset, jax.random.key(0))[1]
        return obs

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self._obs.shape)

    @property
    def obs_dtype(self) -> Any:
        """NumPy dtype of an observation."""
        return self._obs.dtype


@dataclass(frozen=True, kw_only=True, eq=False)
class Gymnax(_Foreign):
    """A gymnax (>= 1.0) environment with discrete actions, as made by ``gymnax.make``.

    ``Gymnax(env=env, params=params)`` with ``env, params = gymnax.make("CartPole-v1")``.
    """

    env: Any
    params: Any

    @property
    def num_actions(self) -> int:
        """Number of discrete actions."""
        return int(self.env.action_space(self.params).n)

    @property
    def max_steps(self) -> int:
        """The step limit in the environment's parameters."""
        return int(self.params.max_steps_in_episode)

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        obs, inner = self.env.reset_env(key, self.params)
        return ForeignState(inner, obs), obs

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array) -> Timestep[ForeignState]:
        """Step without gymnax's own reset."""
        obs, inner, reward, terminated, _ = self.env.step_env(key, state.inner, action, self.params)
        truncated = self.env.is_truncated(inner, self.params)
        return Timestep(ForeignState(inner, obs), obs, reward, terminated, truncated)


@dataclass(frozen=True, kw_only=True, eq=False)
class Navix(_Foreign):
    """A navix (>= 0.7) environment, as made by ``navix.make``; for a partial view ask navix for a first-person one.

    ``Navix(env=navix.make("Navix-DoorKey-8x8-v0", observation_fn=navix.observations.symbolic_first_person))``.
    """

    env: Any

    @property
    def num_actions(self) -> int:
        """Size of navix's action set."""
        return len(self.env.action_set)

    @property
    def max_steps(self) -> int:
        """The environment's step limit."""
        return int(self.env.max_steps)

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        inner = self.env.reset(key)
        return ForeignState(inner, inner.observation), inner.observation

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array) -> Timestep[ForeignState]:  # noqa: ARG002
        """Step without navix's own reset; navix keeps its random key in its state."""
        inner = self.env._step(state.inner, action)  # the public step would compute a reset each time
        truncated = inner.t >= self.env.max_steps  # navix reports a termination on the last step as that alone
        state = ForeignState(inner, inner.observation)
        return Timestep(state, state.obs, inner.reward, inner.is_termination(), truncated)


@dataclass(frozen=True, kw_only=True, eq=False)
class XMiniGrid(_Foreign):
    """An xminigrid (>= 0.9) environment, as made by ``xminigrid.make`` and not wrapped for automatic resets.

    ``XMiniGrid(env=env, params=params)`` with ``env, params = xminigrid.make("MiniGrid-DoorKey-8x8")``.
    """

    env: Any
    params: Any

    @property
    def num_actions(self) -> int:
        """XLand-MiniGrid has six actions: MiniGrid's without ``done``."""
        return int(self.env.num_actions(self.params))

    @property
    def max_steps(self) -> int:
        """The step limit in the environment's parameters."""
        return int(self.params.max_steps)

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        inner = self.env.reset(self.params, key)
        return ForeignState(inner, inner.observation), inner.observation

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array) -> Timestep[ForeignState]:  # noqa: ARG002
        """Step; xminigrid keeps its random key in its state."""
        inner = self.env.step(self.params, state.inner, action)
        truncated = inner.state.step_num >= self.params.max_steps
        state = ForeignState(inner, inner.observation)
        return Timestep(state, state.obs, inner.reward, inner.discount == 0, truncated)


@dataclass(frozen=True, kw_only=True, eq=False)
class Flattened:
    """An environment whose observations, of any shape, are vectors of floats: for views too small to convolve."""

    env: Any

    @property
    def num_actions(self) -> int:
        """The environment's own."""
        return int(self.env.num_actions)

    @property
    def max_steps(self) -> int:
        """The environment's own."""
        return int(self.env.max_steps)

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """All entries of an observation, side by side."""
        return (math.prod(self.env.obs_shape),)

    @property
    def obs_dtype(self) -> Any:
        """Floats, whatever they were."""
        return jnp.dtype(jnp.float32)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Start an episode."""
        state, obs = self.env.reset(key)
        return state, _flat(obs)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Timestep[Any]:
        """Step the environment."""
        timestep: Timestep[Any] = self.env.step(key, state, action)
        return timestep._replace(obs=_flat(timestep.obs))

    def observe(self, state: Any) -> jax.Array:
        """Return the observation of a state."""
        return _flat(self.env.observe(state))


def _flat(obs: jax.Array) -> jax.Array:
    return obs.reshape(-1).astype(jnp.float32)


def doorkey_state(env: Any) -> DoorKeyState:
    """Read the state of a (possibly wrapped) ``minigrid`` DoorKey environment, at any moment of an episode.

    >>> import gymnasium, minigrid
    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.foreign import doorkey_state
    >>> theirs = gymnasium.make("MiniGrid-DoorKey-8x8-v0")
    >>> obs, _ = theirs.reset(seed=0)
    >>> bool((DoorKey(size=8).observe(doorkey_state(theirs)) == obs["image"]).all())
    True
    """
    env = env.unwrapped
    size = env.width
    cells = {kind: index for index, cell in enumerate(env.grid.grid) if cell and (kind := cell.type) in ("key", "door")}
    door = env.grid.grid[cells["door"]]
    x, y = env.agent_pos
    return DoorKeyState(
        agent=jnp.int32(int(y) * size + int(x)),
        heading=jnp.int32(int(env.agent_dir)),
        key=jnp.int32(CARRIED if env.carrying else cells["key"]),
        door=jnp.int32(cells["door"]),
        door_state=jnp.int32(OPEN if door.is_open else LOCKED if door.is_locked else CLOSED),
        step=jnp.int32(env.step_count),
    )
