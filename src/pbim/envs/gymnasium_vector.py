"""Many environments as one ``gymnasium.vector.VectorEnv``: one compiled call per step, all three autoreset modes."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pbim._jit import jit
from pbim.envs.gymnasium_single import JaxEnv, check_render_mode, count_key, keys_of, observation_space, with_fields
from pbim.envs.protocol import Environment, Timestep, pick
from pbim.envs.render import frame
from pbim.errors import InputError

Counted = dict[str, jax.Array]
"""What a count bonus counts, (num_envs,), by its name in ``info``; empty if the environment does not say."""


class JaxVectorEnv(VectorEnv[Any, Any, Any]):
    """A batch of a compiled environment for Gymnasium, equal to a ``SyncVectorEnv`` of the single ones, only faster.

    ``autoreset_mode`` is one of Gymnasium's three: the step after an end resets and ignores the action (NEXT_STEP),
    the ending step resets at once and puts the true last observation into ``info["final_obs"]`` (SAME_STEP), or the
    caller resets with ``options={"reset_mask": ...}`` (DISABLED).

    >>> from pbim.envs import DoorKey
    >>> from pbim.envs.gymnasium_vector import JaxVectorEnv
    >>> envs = JaxVectorEnv(DoorKey(size=5), num_envs=3, autoreset_mode="SameStep")
    >>> envs.reset(seed=0)[0].shape
    (3, 7, 7, 3)
    """

    def __init__(
        self,
        env: Environment[Any],
        *,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"num_envs must be at least 1, received {num_envs}: raise it")
        check_render_mode(render_mode)
        self.env = env
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**JaxEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.single_observation_space = observation_space(env)
        self.single_action_space = Discrete(env.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._keys: Any = None
        self._states: Any = None
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start all episodes, or those of ``options["reset_mask"]`` (num_envs,) bool; seeds start random keys anew."""
        mask = self._reset_mask(options)
        self._seed(seed, mask)
        if self._states is None:
            self._keys, self._states, obs, counted = _reset(self.env, self._keys)
        else:
            self._keys, self._states, obs, counted = _reset_where(self.env, self._keys, self._states, mask)
        self._ended = self._ended & ~mask
        return self._host(obs), _info(counted, mask)

    def step(self, actions: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take one action in every environment; actions (num_envs,)."""
        actions = self._checked(actions)
        mode = self.autoreset_mode
        dummy = self._ended if mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        self._keys, timestep, counted = _step_or_reset(self.env, self._keys, self._states, actions, dummy)
        self._states = timestep.state
        terminated, truncated = np.array(timestep.terminated), np.array(timestep.truncated)
        self._ended = terminated | truncated
        obs, info = timestep.obs, {}
        if mode is AutoresetMode.SAME_STEP and self._ended.any():
            info = self._final_info(timestep.obs, counted)
            self._keys, self._states, obs, counted = _reset_where(self.env, self._keys, self._states, self._ended)
        info |= _info(counted, np.ones(self.num_envs, bool))
        return self._host(obs), np.array(timestep.reward, np.float64), terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """Draw every state, (height, width, 3) uint8 each, or nothing without a render mode."""
        if self.render_mode is None or self._states is None:
            return None
        states = jax.device_get(self._states)
        return tuple(frame(self.env, jax.tree.map(lambda x: x[i], states)) for i in range(self.num_envs))  # noqa: B023

    def _final_info(self, obs: jax.Array, counted: Counted) -> dict[str, Any]:
        final_obs, final_counted = self._host(obs), {name: np.asarray(keys) for name, keys in counted.items()}
        info: dict[str, Any] = {}
        for i in np.flatnonzero(self._ended):
            final_info = {name: int(keys[i]) for name, keys in final_counted.items()}
            final = {"final_obs": final_obs[i], "final_info": final_info}
            info = self._add_info(info, final, int(i))
        return info

    def _reset_mask(self, options: dict[str, Any] | None) -> NDArray[Any]:
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, bool)
        mask = options["reset_mask"]
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != (self.num_envs,)
            or not mask.any()
        ):
            raise InputError(
                f"options['reset_mask'] must be a boolean NumPy array of shape ({self.num_envs},) "
                f"with at least one True, received {mask!r}: mark the environments to reset"
            )
        if self._states is None:
            raise gymnasium.error.ResetNeeded("JaxVectorEnv: reset all environments before resetting some of them")
        return mask

    def _seed(self, seed: int | Sequence[int | None] | None, mask: NDArray[Any]) -> None:
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        super().reset(seed=seed if isinstance(seed, int) else None)
        if self._keys is None:
            self._keys = keys_of(self.np_random.integers(2**32, size=self.num_envs))
        if seeds is None:
            return
        if len(seeds) != self.num_envs:
            raise InputError(f"seeds must be {self.num_envs}, one per environment, received {len(seeds)}: add some")
        given = mask & np.array([one is not None for one in seeds])
        self._keys = pick(given, keys_of(np.array([one or 0 for one in seeds], object)), self._keys)

    def _checked(self, actions: Any) -> NDArray[Any]:
        if self._states is None:
            raise gymnasium.error.ResetNeeded("JaxVectorEnv: call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise gymnasium.error.ResetNeeded(
                f"JaxVectorEnv: episodes {np.flatnonzero(self._ended).tolist()} have ended and autoreset is disabled: "
                "call reset(options={'reset_mask': ended}) first"
            )
        array = np.asarray(actions, np.int32)
        if array.shape != (self.num_envs,) or array.min() < 0 or array.max() >= self.env.num_actions:
            raise InputError(
                f"actions must have shape ({self.num_envs},) and lie in [0, {self.env.num_actions}), "
                f"received {actions!r}: pass one action per environment"
            )
        return array

    def _host(self, obs: jax.Array) -> NDArray[Any]:
        return np.array(obs, self.observation_space.dtype)


def make(
    name: str,
    *,
    num_envs: int,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    render_mode: str | None = None,
    **fields: Any,
) -> JaxVectorEnv:
    """Build a batch of one of ``ENVIRONMENTS``, with some of its fields changed."""
    env = with_fields(name, fields)
    return JaxVectorEnv(env, num_envs=num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode)


def _info(counted: Counted, mask: NDArray[Any]) -> dict[str, Any]:
    info: dict[str, Any] = {name: np.where(mask, np.asarray(keys, np.int64), 0) for name, keys in counted.items()}
    return info | {f"_{name}": mask.copy() for name in counted}


def _count(env: Environment[Any], states: Any) -> Counted:
    return jax.vmap(lambda state: count_key(env, state))(states)


def _split(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


@jit(static_argnums=0)
def _reset(env: Environment[Any], keys: jax.Array) -> tuple[jax.Array, Any, jax.Array, Counted]:
    keys, use = _split(keys)
    states, obs = jax.vmap(env.reset)(use)
    return keys, states, obs, _count(env, states)


@jit(static_argnums=0)
def _reset_where(
    env: Environment[Any], keys: jax.Array, states: Any, mask: Any
) -> tuple[jax.Array, Any, jax.Array, Counted]:
    new_keys, fresh, _, _ = _reset(env, keys)
    keys, states = pick(mask, new_keys, keys), pick(mask, fresh, states)
    return keys, states, jax.vmap(env.observe)(states), _count(env, states)


@jit(static_argnums=0)
def _step_or_reset(
    env: Environment[Any], keys: jax.Array, states: Any, actions: Any, dummy: Any
) -> tuple[jax.Array, Timestep[Any], Counted]:
    """Step, except where ``dummy``: there the step only resets, which earns nothing and ends nothing."""
    keys, use = _split(keys)
    timestep = jax.vmap(env.step)(use, states, actions)
    states = pick(dummy, jax.vmap(env.reset)(use)[0], timestep.state)
    timestep = Timestep(
        states,
        jax.vmap(env.observe)(states),
        timestep.reward * ~dummy,
        timestep.terminated & ~dummy,
        timestep.truncated & ~dummy,
    )
    return keys, timestep, _count(env, states)
