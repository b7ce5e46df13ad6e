"""Vector environments with conventions of their own, as Gymnasium has them: SuperSuit, EnvPool."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from pbim.adapters.batching import ListedInfo
from pbim.errors import InputError

_TIME_LIMIT = "_max_episode_steps"  # of gymnasium.wrappers.TimeLimit
_FINAL = "terminal_observation"


def as_gymnasium(env: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    """Return a vector that keeps Gymnasium's conventions; most do already.

    Raises:
        InputError: If only some environments answer a step.

    """
    config: Any = getattr(env.spec, "config", None)
    if getattr(config, "batch_size", env.num_envs) != env.num_envs:
        raise InputError(
            f"env must answer for all its environments in each step, received an EnvPool with batch_size="
            f"{config.batch_size} and num_envs={env.num_envs}: use pbim.adapters.envpool.wrap, with send and recv"
        )
    return SuperSuitVector(env) if type(env).__module__.partition(".")[0] == "supersuit" else env


def limit_of(spec: Any) -> int | None:
    """Return the time limit of a Gymnasium spec, or of EnvPool's; None without one."""
    found = getattr(spec, "max_episode_steps", None)
    found = getattr(getattr(spec, "config", None), "max_episode_steps", None) if found is None else found
    return found if isinstance(found, int) and found < np.iinfo(np.int32).max else None  # EnvPool's word for no limit


def vector_limit(env: VectorEnv[Any, Any, Any]) -> int | None:
    """Return the longest time limit that the environments know of, those in other processes too."""
    inner, spec = env.unwrapped, env.spec
    if spec is not None:
        return limit_of(spec)
    limits: Sequence[int | None]
    if isinstance(inner, AsyncVectorEnv):  # asked for a number, not for specs: those may hold what cannot be sent
        limits = inner.get_attr(_TIME_LIMIT) if all(inner.call("has_wrapper_attr", _TIME_LIMIT)) else ()
    else:
        limits = tuple(limit_of(one.spec) for one in getattr(inner, "envs", ()))
    return max((limit for limit in limits if isinstance(limit, int)), default=None)


class SuperSuitVector(VectorWrapper):
    """A vector of SuperSuit, one row per agent of a PettingZoo environment, in Gymnasium's SAME_STEP mode.

    SuperSuit gives infos as a list, its spaces are those of one agent, and no metadata say that it resets within the
    step. At an end it reports the info of the last step with that of the reset on top of it.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.observation_space = batch_space(env.observation_space, env.num_envs)
        self.action_space = batch_space(env.action_space, env.num_envs)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments."""
        env: Any = self.env
        obs, listed = env.reset(seed=seed, options=options)
        return obs, dict(ListedInfo(listed))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and give infos and final observations as Gymnasium does."""
        env: Any = self.env
        obs, rewards, terminated, truncated, listed = env.step(actions)
        infos = dict(ListedInfo([{name: part for name, part in info.items() if name != _FINAL} for info in listed]))
        ended = np.array([_FINAL in info for info in listed])
        if ended.any():
            final = np.empty(len(listed), object)
            for row, info in enumerate(listed):  # one by one: NumPy would spread arrays of one shape over the rows
                final[row] = info.get(_FINAL)
            infos |= {"final_info": dict(infos), "_final_info": ended, "final_obs": final, "_final_obs": ended}
        return obs, rewards, np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_), infos
