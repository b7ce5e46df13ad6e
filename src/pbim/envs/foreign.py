"""Environments of other JAX libraries behind our protocol, and MiniGrid layouts as our states.

Each is named by its id; its library makes it when it is first needed. Foreign environments reset themselves inside
``step``; we call what lies beneath, so that the true last observation and the two kinds of ends stay visible.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pbim.config import Component
from pbim.envs._layout import CARRIED, CLOSED, LOCKED, OPEN, DoorKeyState
from pbim.envs.protocol import Environment, Timestep
from pbim.errors import InputError


class ForeignState(NamedTuple):
    """The other library's state, whatever it is, with the observation it came with."""

    inner: Any
    obs: jax.Array


@dataclass(frozen=True, kw_only=True)
class Foreign(Component, ABC):
    """What bridges to other libraries share; ``kind`` is the library's name.

    Attributes:
        id: What the library calls the environment.
        limit: The step that truncates an episode; the library's own if left out.

    """

    id: str
    limit: int | None = None

    @abstractmethod
    def _make(self, module: Any) -> Any:
        """Let the library make what ``_made`` returns."""

    @property
    def _made(self) -> Any:
        return _make(self)

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""

    def observe(self, state: ForeignState) -> jax.Array:
        """Return the observation that came with the state."""
        return state.obs

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(_observation(self).shape)

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of an observation."""
        dtype: np.dtype[Any] = _observation(self).dtype
        return dtype


@cache
def _observation(env: Foreign) -> jax.ShapeDtypeStruct:
    obs: jax.ShapeDtypeStruct = jax.eval_shape(env.reset, jax.random.key(0))[1]
    return obs


@cache
def _make(env: Foreign) -> Any:
    """Let a library make its environment, once for each name and limit.

    The first need may come while JAX traces a program, which the arrays of a library must not become a part of.
    """
    library, name = env.kind, f"{env.kind}:{env.id}"
    try:
        with jax.ensure_compile_time_eval():
            return env._make(import_module(library))
    except ImportError:
        raise InputError(f"env {name} needs {library}, which is not installed: pip install {library}") from None
    except (KeyError, ValueError, NotImplementedError) as error:
        raise InputError(f"env {name} cannot be made by {library} ({error}): use another of its names") from None


@dataclass(frozen=True, kw_only=True)
class Gymnax(Foreign):
    """A gymnax environment with discrete actions: ``Gymnax(id="CartPole-v1")``.

    Environments of gymnax's style that say only that an episode is over, as gymnax did before 1.0, have their two kinds
    of ends told apart by asking again without a time limit.
    """

    kind: ClassVar[str] = "gymnax"

    def _make(self, module: Any) -> Any:
        env, params = module.make(self.id)
        return env, _limited(params, self.limit)

    @property
    def num_actions(self) -> int:
        """Number of discrete actions."""
        env, params = self._made
        return int(env.action_space(params).n)

    @property
    def max_steps(self) -> int:
        """The step limit in the environment's parameters."""
        params = self._made[1]
        return int(getattr(params, _limit_name(params)))

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        env, params = self._made
        obs, inner = env.reset_env(key, params)
        return ForeignState(inner, obs), obs

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array | int) -> Timestep[ForeignState]:
        """Step without gymnax's own reset."""
        env, params = self._made
        obs, inner, reward, done, _ = env.step_env(key, state.inner, action, params)
        if hasattr(env, "is_truncated"):
            terminated, truncated = done, env.is_truncated(inner, params)
        else:  # done is either end; with a limit out of reach, the task's own is left
            terminated = env.is_terminal(inner, _limited(params, np.iinfo(np.int32).max))
            truncated = done & ~terminated
        return Timestep(ForeignState(inner, obs), obs, reward, terminated, truncated)


def _limit_name(params: Any) -> str:
    """Return what an environment of gymnax's style calls its time limit."""
    return "max_timesteps" if hasattr(params, "max_timesteps") else "max_steps_in_episode"


def _limited(params: Any, limit: int | None) -> Any:
    return params if limit is None else replace(params, **{_limit_name(params): limit})


@dataclass(frozen=True, kw_only=True)
class Craftax(Gymnax):
    """A Craftax (>= 1.4) environment: ``Craftax(id="Craftax-Classic-Symbolic-v1")``."""

    kind: ClassVar[str] = "craftax"

    def _make(self, module: Any) -> Any:
        del module
        env = import_module("craftax.craftax_env").make_craftax_env_from_name(self.id, auto_reset=False)
        return env, _limited(env.default_params, self.limit)


@dataclass(frozen=True, kw_only=True)
class Navix(Foreign):
    """A navix (>= 0.7) environment with a first-person view: ``Navix(id="Navix-DoorKey-8x8-v0")``."""

    kind: ClassVar[str] = "navix"

    def _make(self, module: Any) -> Any:
        changed = {} if self.limit is None else {"max_steps": self.limit}
        return module.make(self.id, observation_fn=module.observations.symbolic_first_person, **changed)

    @property
    def num_actions(self) -> int:
        """Size of navix's action set."""
        return len(self._made.action_set)

    @property
    def max_steps(self) -> int:
        """The environment's step limit."""
        return int(self._made.max_steps)

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        inner = self._made.reset(key)
        return ForeignState(inner, inner.observation), inner.observation

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array | int) -> Timestep[ForeignState]:
        """Step without navix's own reset; navix keeps its random key in its state."""
        del key
        inner = self._made._step(state.inner, action)  # the public step would compute a reset each time
        truncated = inner.t >= self.max_steps  # navix reports a termination on the last step as that alone
        state = ForeignState(inner, inner.observation)
        return Timestep(state, state.obs, inner.reward, inner.is_termination(), truncated)


@dataclass(frozen=True, kw_only=True)
class XMiniGrid(Foreign):
    """An xminigrid (>= 0.9) environment: ``XMiniGrid(id="MiniGrid-DoorKey-8x8")``."""

    kind: ClassVar[str] = "xminigrid"

    def _make(self, module: Any) -> Any:
        env, params = module.make(self.id)
        return env, params if self.limit is None else params.replace(max_steps=self.limit)

    @property
    def num_actions(self) -> int:
        """XLand-MiniGrid has six actions: MiniGrid's without ``done``."""
        env, params = self._made
        return int(env.num_actions(params))

    @property
    def max_steps(self) -> int:
        """The step limit in the environment's parameters."""
        return int(self._made[1].max_steps)

    def reset(self, key: jax.Array) -> tuple[ForeignState, jax.Array]:
        """Start an episode."""
        env, params = self._made
        inner = env.reset(params, key)
        return ForeignState(inner, inner.observation), inner.observation

    def step(self, key: jax.Array, state: ForeignState, action: jax.Array | int) -> Timestep[ForeignState]:
        """Step; xminigrid keeps its random key in its state."""
        del key
        env, params = self._made
        inner = env.step(params, state.inner, action)
        truncated = inner.state.step_num >= params.max_steps
        state = ForeignState(inner, inner.observation)
        return Timestep(state, state.obs, inner.reward, inner.discount == 0, truncated)


@dataclass(frozen=True, kw_only=True)
class Flattened(Component):
    """An environment whose observations, of any shape, are vectors of floats: for views too small to convolve."""

    kind: ClassVar[str] = "flattened"
    obs_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)
    """Floats, whatever they were."""

    env: Environment[Any]

    @property
    def num_actions(self) -> int:
        """The environment's own."""
        return self.env.num_actions

    @property
    def max_steps(self) -> int:
        """The environment's own."""
        return self.env.max_steps

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """All entries of an observation, side by side."""
        return (math.prod(self.env.obs_shape),)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Start an episode."""
        state, obs = self.env.reset(key)
        return state, _flat(obs)

    def step(self, key: jax.Array, state: Any, action: jax.Array | int) -> Timestep[Any]:
        """Step the environment."""
        timestep = self.env.step(key, state, action)
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
