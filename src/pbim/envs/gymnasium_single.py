"""One environment as a ``gymnasium.Env``: a thin shell of state and random key around the compiled pure functions."""

from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np

from pbim.envs.cliff_walk import CliffWalk
from pbim.envs.doorkey import DoorKey
from pbim.envs.protocol import Timestep
from pbim.envs.render import frame
from pbim.errors import InputError

Countable = CliffWalk | DoorKey


class JaxEnv(gymnasium.Env[Any, Any]):
    """CliffWalk or DoorKey for Gymnasium; ``info["count_key"]`` says what the paper's count bonus counts.

    The same seed gives the same episodes as in :class:`~pbim.envs.gymnasium_vector.JaxVectorEnv`.

    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.gymnasium_single import JaxEnv
    >>> env = JaxEnv(DoorKey(size=5), render_mode="rgb_array")
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, env.render().shape
    ((7, 7, 3), (160, 160, 3))
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as declared by Env

    def __init__(self, env: Countable, *, render_mode: str | None = None) -> None:
        check_render_mode(render_mode)
        self.env, self.max_steps = env, env.max_steps
        self.render_mode = render_mode
        self.observation_space = observation_space(env)
        self.action_space = gymnasium.spaces.Discrete(env.num_actions)
        self._key: jax.Array | None = None
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; with a seed, also start the random numbers anew."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._key = keys_of([seed])[0]
        elif self._key is None:
            self._key = keys_of(self.np_random.integers(2**32, size=1))[0]
        self._key, self._state, obs, count_key = _reset(self.env, self._key)
        return self._host(obs), {"count_key": int(count_key)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        if self._state is None or self._key is None:
            raise gymnasium.error.ResetNeeded("JaxEnv: call reset() before step()")
        if not 0 <= int(action) < self.env.num_actions:
            raise InputError(f"JaxEnv: action must be in [0, {self.env.num_actions}), got {action}")
        self._key, timestep, count_key = _step(self.env, self._key, self._state, np.int32(action))
        self._state = timestep.state
        obs, info = self._host(timestep.obs), {"count_key": int(count_key)}
        return obs, float(timestep.reward), bool(timestep.terminated), bool(timestep.truncated), info

    def render(self) -> Any:
        """Draw the current state (height, width, 3) uint8, or nothing without a render mode."""
        if self.render_mode is None or self._state is None:
            return None
        return frame(self.env, self._state)

    def _host(self, obs: jax.Array) -> Any:
        return np.asarray(obs) if self.env.obs_shape else int(obs)


def make_cliff_walk(*, render_mode: str | None = None, **config: Any) -> JaxEnv:
    """Build a CliffWalk from its config."""
    return JaxEnv(CliffWalk(**config), render_mode=render_mode)


def make_doorkey(*, render_mode: str | None = None, **config: Any) -> JaxEnv:
    """Build a DoorKey from its config."""
    return JaxEnv(DoorKey(**config), render_mode=render_mode)


def observation_space(env: Countable) -> gymnasium.Space[Any]:
    """Return the Gymnasium space of one observation."""
    if isinstance(env, CliffWalk):
        return gymnasium.spaces.Discrete(env.num_states)
    return gymnasium.spaces.Box(0, 255, env.obs_shape, env.obs_dtype)


def check_render_mode(render_mode: str | None) -> None:
    """Refuse what cannot be drawn."""
    if render_mode not in (None, *JaxEnv.metadata["render_modes"]):
        raise InputError(f"render_mode must be None or one of {JaxEnv.metadata['render_modes']}, got {render_mode!r}")


def keys_of(seeds: Any) -> jax.Array:
    """Turn Gymnasium seeds (n,), which may be long, into JAX keys (n,)."""
    return jax.vmap(jax.random.key)(np.array([int(seed) % 2**32 for seed in seeds], np.uint32))


@partial(jax.jit, static_argnums=0)
def _reset(env: Any, key: jax.Array) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
    key, use = jax.random.split(key)
    state, obs = env.reset(use)
    return key, state, obs, env.count_key(state)


@partial(jax.jit, static_argnums=0)
def _step(env: Any, key: jax.Array, state: Any, action: jax.Array) -> tuple[jax.Array, Timestep[Any], jax.Array]:
    key, use = jax.random.split(key)
    timestep = env.step(use, state, action)
    return key, timestep, env.count_key(timestep.state)
