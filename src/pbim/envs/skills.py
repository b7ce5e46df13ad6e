"""Episodes that each follow a skill, a number drawn at the start and shown in every observation."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pbim.config import Component
from pbim.envs.protocol import Environment, Timestep
from pbim.errors import InputError

_OF_STATES = ("count_key", "optimal_length")


class SkillState(NamedTuple):
    """The environment's own state, and the skill () of this episode."""

    inner: Any
    skill: jax.Array


@dataclass(frozen=True, kw_only=True)
class Skills(Component):
    """An environment whose episodes draw one of ``count`` skills, which every observation ends with, one-hot.

    The last ``count`` entries of an observation's last axis are the skill: a vector (n,) becomes (n + count,), an image
    (H, W, C) gets ``count`` constant channels, and the index of a state becomes a one-hot vector first. What the
    environment counts and knows of its shortest episodes stays as it was. ``pbim.DIAYN`` pays for skills that can be
    told apart.

    Eysenbach et al. 2018 (arXiv 1802.06070), Algorithm 1.

    Attributes:
        env: A compiled environment.
        count: How many skills there are, at least 2.

    >>> import jax
    >>> from pbim.envs import CliffWalk, Skills
    >>> env = Skills(env=CliffWalk(), count=8)
    >>> state, obs = env.reset(jax.random.key(0))
    >>> obs.shape, int(obs[48:].argmax()) == int(env.skill(state))
    ((56,), True)

    """

    kind: ClassVar[str] = "skills"

    env: Environment[Any]
    count: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 2:
            raise InputError(
                f"count must be a whole number of at least 2, received {self.count!r}: one skill tells nothing apart"
            )
        if isinstance(self.env, Skills | type) or not hasattr(self.env, "reset"):
            raise InputError(
                f"env must be a compiled environment without skills, received {self.env}: pass CliffWalk(), for example"
            )

    def __getattr__(self, name: str) -> Any:
        """Return what only some environments have: functions of states, and how many keys they count."""
        if name in _OF_STATES:
            function = getattr(self.env, name)
            return lambda state: function(state.inner)
        if name == "num_count_keys":
            return self.env.num_count_keys  # type: ignore[attr-defined]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

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
        """The environment's own, longer by ``count`` along the last axis."""
        *others, last = self.env.obs_shape or (self.env.num_states,)  # type: ignore[attr-defined]
        return (*others, last + self.count)

    @property
    def obs_dtype(self) -> np.dtype[Any]:
        """The environment's own; floats in place of the index of a state."""
        return self.env.obs_dtype if self.env.obs_shape else np.dtype(np.float32)

    def skill(self, state: SkillState) -> jax.Array:
        """Return the skill () of the episode, for ``info``."""
        return state.skill

    def start(self, key: jax.Array, skill: jax.Array | int) -> tuple[SkillState, jax.Array]:
        """Start an episode of a chosen skill ()."""
        inner, _ = self.env.reset(key)
        state = SkillState(inner, jnp.asarray(skill, jnp.int32))
        return state, self.observe(state)

    def reset(self, key: jax.Array) -> tuple[SkillState, jax.Array]:
        """Start an episode, its skill drawn uniformly."""
        env_key, skill_key = jax.random.split(key)
        return self.start(env_key, jax.random.randint(skill_key, (), 0, self.count))

    def step(self, key: jax.Array, state: SkillState, action: jax.Array | int) -> Timestep[SkillState]:
        """Step the environment; the skill stays."""
        timestep = self.env.step(key, state.inner, action)
        following = SkillState(timestep.state, state.skill)
        return Timestep(
            following, self._append(timestep.obs, state.skill), timestep.reward, timestep.terminated, timestep.truncated
        )

    def observe(self, state: SkillState) -> jax.Array:
        """Return the observation of a state, with the skill at its end."""
        return self._append(self.env.observe(state.inner), state.skill)

    def _append(self, obs: jax.Array, skill: jax.Array) -> jax.Array:
        if not self.env.obs_shape:
            obs = jax.nn.one_hot(obs, self.env.num_states)  # type: ignore[attr-defined]
        shown = jax.nn.one_hot(skill, self.count, dtype=obs.dtype)
        return jnp.concatenate([obs, jnp.broadcast_to(shown, (*obs.shape[:-1], self.count))], axis=-1)
