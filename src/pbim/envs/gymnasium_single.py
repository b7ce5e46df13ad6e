"""One environment as a ``gymnasium.Env``: a thin shell of state and random key around the compiled pure functions."""

from dataclasses import replace
from typing import Any

import gymnasium
import jax
import numpy as np

from pbim._jit import jit
from pbim.envs.catalogue import ENVIRONMENTS
from pbim.envs.protocol import Environment, Timestep
from pbim.envs.render import frame
from pbim.errors import InputError


class JaxEnv(gymnasium.Env[Any, Any]):
    """A compiled environment for Gymnasium; ``info["count_key"]`` says what a count bonus counts, if it has one.

    The same seed gives the same episodes as in :class:`~pbim.envs.gymnasium_vector.JaxVectorEnv`.

    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.gymnasium_single import JaxEnv
    >>> env = JaxEnv(DoorKey(size=5), render_mode="rgb_array")
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, env.render().shape
    ((7, 7, 3), (160, 160, 3))
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as declared by Env

    def __init__(self, env: Environment[Any], *, render_mode: str | None = None) -> None:
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
        self._key, self._state, obs, info = _reset(self.env, self._key)
        return self._host(obs), _as_integers(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        if self._state is None or self._key is None:
            raise gymnasium.error.ResetNeeded("JaxEnv: call reset() before step()")
        if not 0 <= int(action) < self.env.num_actions:
            raise InputError(f"action must be in [0, {self.env.num_actions}), received {action}: choose one of these")
        self._key, timestep, info = _step(self.env, self._key, self._state, np.int32(action))
        self._state, obs = timestep.state, self._host(timestep.obs)
        ends = bool(timestep.terminated), bool(timestep.truncated)
        return obs, float(timestep.reward), *ends, _as_integers(info)

    def render(self) -> Any:
        """Draw the current state (height, width, 3) uint8, or nothing without a render mode."""
        if self.render_mode is None or self._state is None:
            return None
        return frame(self.env, self._state)

    def _host(self, obs: jax.Array) -> Any:
        return np.asarray(obs) if self.env.obs_shape else int(obs)


def make(name: str, *, render_mode: str | None = None, **fields: Any) -> JaxEnv:
    """Build one of ``ENVIRONMENTS``, with some of its fields changed."""
    return JaxEnv(with_fields(name, fields), render_mode=render_mode)


def with_fields(name: str, fields: dict[str, Any]) -> Environment[Any]:
    """Return one of ``ENVIRONMENTS``, with some of its fields changed."""
    env: Any = ENVIRONMENTS[name]
    changed: Environment[Any] = replace(env, **fields)
    return changed


def observation_space(env: Environment[Any]) -> gymnasium.Space[Any]:
    """Return the Gymnasium space of one observation: an index, bytes or real numbers."""
    if env.obs_shape == ():
        return gymnasium.spaces.Discrete(env.num_states)  # type: ignore[attr-defined]
    dtype: Any = np.dtype(env.obs_dtype)
    low, high = (0, np.iinfo(dtype).max) if dtype.kind == "u" else (-np.inf, np.inf)
    return gymnasium.spaces.Box(low, high, env.obs_shape, dtype)


def count_key(env: Environment[Any], state: Any) -> dict[str, jax.Array]:
    """Return what a count bonus counts in a state, if the environment says."""
    return {"count_key": env.count_key(state)} if hasattr(env, "count_key") else {}


def check_render_mode(render_mode: str | None) -> None:
    """Refuse what cannot be drawn."""
    if render_mode not in (None, "rgb_array"):
        raise InputError(f"render_mode must be None or 'rgb_array', received {render_mode!r}: choose one of these")


def _as_integers(info: dict[str, jax.Array]) -> dict[str, int]:
    return {name: int(value) for name, value in info.items()}


def keys_of(seeds: Any) -> jax.Array:
    """Turn Gymnasium seeds (n,), which may be long, into JAX keys (n,)."""
    return jax.vmap(jax.random.key)(np.array([int(seed) % 2**32 for seed in seeds], np.uint32))


@jit(static_argnums=0)
def _reset(env: Environment[Any], key: jax.Array) -> tuple[jax.Array, Any, jax.Array, dict[str, jax.Array]]:
    key, use = jax.random.split(key)
    state, obs = env.reset(use)
    return key, state, obs, count_key(env, state)


@jit(static_argnums=0)
def _step(
    env: Environment[Any], key: jax.Array, state: Any, action: Any
) -> tuple[jax.Array, Timestep[Any], dict[str, jax.Array]]:
    key, use = jax.random.split(key)
    timestep = env.step(use, state, action)
    return key, timestep, count_key(env, timestep.state)
