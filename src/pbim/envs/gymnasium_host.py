"""Any Gymnasium environment with discrete actions, for a learner that steps it on the host."""

import zlib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from pbim.config import Component
from pbim.envs.gymnasium_spaces import plain
from pbim.errors import InputError

COUNTERS = 2**16
"""How many states the counting bonuses tell apart: observations share a counter where their hashes agree."""


class Description(NamedTuple):
    """What a learner must know of a Gymnasium environment, read from one that was made and closed again."""

    num_actions: int
    obs_shape: tuple[int, ...]
    obs_dtype: np.dtype[Any]
    num_states: int
    max_steps: int


@dataclass(frozen=True, kw_only=True)
class HostEnv(Component):
    """A Gymnasium environment by its id; made once to read its spaces when they are first needed.

    >>> from pbim.envs import HostEnv
    >>> env = HostEnv(id="CartPole-v1")
    >>> env.num_actions, env.obs_shape, env.max_steps
    (2, (4,), 500)
    """

    kind: ClassVar[str] = "gymnasium"

    id: str

    @property
    def description(self) -> Description:
        """The environment's spaces and time limit.

        Raises:
            InputError: If there is no such environment, or none that PPO can learn from.

        """
        return _describe(self.id)

    @property
    def num_actions(self) -> int:
        """Number of discrete actions."""
        return self.description.num_actions

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation, made plain."""
        return self.description.obs_shape

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of an observation, made plain."""
        return self.description.obs_dtype

    @property
    def num_states(self) -> int:
        """Observations are below it where they are indices; else 0."""
        return self.description.num_states

    @property
    def max_steps(self) -> int:
        """The time limit; 0 where neither the registration nor the environment names one."""
        return self.description.max_steps

    @property
    def num_count_keys(self) -> int:
        """Number of values of :meth:`count_keys`."""
        return COUNTERS

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Return one environment with observations that are plain arrays."""
        register_minigrid(self.id)
        return plain(gymnasium.make(self.id, render_mode=render_mode))

    def make_vector(self, num_envs: int) -> VectorEnv[Any, Any, Any]:
        """Return a batch of them that restarts episodes in the step that ends them."""
        return SyncVectorEnv([self.make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    def count_keys(self, obs: NDArray[Any], info: Any) -> NDArray[np.int64]:
        """Return what counting bonuses count, (num_envs,): ``info["count_key"]`` if there is one, else observations.

        Real numbers are rounded to one decimal.
        """
        if "count_key" in info:
            return np.asarray(info["count_key"], np.int64) % COUNTERS
        if self.obs_shape == ():
            return obs.astype(np.int64) % COUNTERS
        rows = np.round(obs, 1) + 0.0 if obs.dtype.kind == "f" else obs  # adding 0 makes -0 the same number as 0
        return np.array([zlib.crc32(row.tobytes()) % COUNTERS for row in rows])


@cache
def _describe(name: str) -> Description:
    try:
        env = HostEnv(id=name).make()
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        near = get_close_matches(name, gymnasium.registry, n=1)
        way_out = f"did you mean {near[0]!r}?" if near else "gymnasium.pprint_registry() lists them"
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"env gymnasium:{name} cannot be made by Gymnasium ({reason}): {way_out}") from None
    space: Any = env.observation_space
    actions: Any = env.action_space
    limit = (env.spec.max_episode_steps if env.spec else None) or getattr(env.unwrapped, "max_steps", None) or 0
    env.close()
    return Description(
        num_actions=int(actions.n),
        obs_shape=tuple(space.shape),
        obs_dtype=np.dtype(np.int32) if space.shape == () else space.dtype,
        num_states=int(getattr(space, "n", 0)),
        max_steps=int(limit),
    )


def register_minigrid(name: str) -> None:
    """Let MiniGrid register its environments, if ``name`` is of one and the package is installed."""
    if name.startswith(("MiniGrid-", "BabyAI-")) and find_spec("minigrid") is not None:
        import_module("minigrid")
