"""Gymnasium: ``wrap(env, intrinsic, shaping)`` for an Env or a VectorEnv in any of the three autoreset modes.

The reward returned is extrinsic + shaping; ``info`` carries "extrinsic_reward", "intrinsic_reward" and
"shaping_reward". ``RecordEpisodeStatistics`` inside the wrapper records extrinsic returns, outside it the learner's.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.gymnasium", "gymnasium")

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import numpy as np
from gymnasium import Env, Wrapper, make_vec
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.wrappers import Autoreset
from numpy.typing import NDArray

from pbim.adapters._bonus import Spaces, as_recipe, is_recipe
from pbim.adapters._engine import REWARDS, RewardPath, StepRewards
from pbim.adapters._evidence import Mask, TrainingReport
from pbim.adapters._outside import reward_changer
from pbim.adapters._shaped import Shaped
from pbim.adapters._vectors import as_gymnasium, limit_of, vector_limit
from pbim.adapters.batching import FinalInfo, OneInfo, as_batch, batch_of_one, copy_batch, with_rows
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping
from pbim.truncation import Truncation

__all__ = ["ShapedEnv", "ShapedVectorEnv", "TrainingReport", "wrap"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
VectorWrapperBase: TypeAlias = "VectorWrapper[Any, Any, Any, Any, NDArray[Any]]"
if not TYPE_CHECKING:
    VectorWrapperBase = VectorWrapper  # Gymnasium before 1.4 has a class without parameters


@overload
def wrap(
    env: Env[ObsType, ActType],
    intrinsic: Bonus,
    shaping: Shaping[Any],
    truncation: Truncation = ...,
    *,
    update_every: int = ...,
    max_episode_steps: int | None = ...,
) -> "ShapedEnv[ObsType, ActType]": ...


@overload
def wrap(
    env: VectorEnv[ObsType, ActType, Any],
    intrinsic: Bonus,
    shaping: Shaping[Any],
    truncation: Truncation = ...,
    *,
    update_every: int = ...,
    max_episode_steps: int | None = ...,
) -> "ShapedVectorEnv": ...


def wrap(
    env: Env[ObsType, ActType] | VectorEnv[ObsType, ActType, Any],
    intrinsic: Bonus,
    shaping: Shaping[Any],
    truncation: Truncation = "settle",
    *,
    update_every: int = 1,
    max_episode_steps: int | None = None,
) -> "ShapedEnv[ObsType, ActType] | ShapedVectorEnv":
    """Return ``env`` with the converted bonus added to its reward.

    A ``reset`` in the middle of an episode abandons it: its ledger is discarded, ``certificate().abandoned`` counts it,
    and a bonus with a method ``restart(where)`` gets the mask (num_envs,) of the abandoned environments.
    In SAME_STEP mode a bonus that reads the environments themselves, not the transition, finds the next episode's
    start there. ``env.spec`` builds the environment again, wrapped alike, with a bonus that has learned nothing.

    Args:
        env: A Gymnasium environment, or a vector of them in any autoreset mode.
        intrinsic: Any callable ``transition -> array (num_envs,)``, or an object with ``reward(transition)`` and
            ``update(transition)``; a single Env is a batch of 1.
        shaping: The conversion, with the learner's gamma.
        truncation: What the learner does where an episode is truncated, see :mod:`pbim.truncation`. ``"continue"``
            needs an environment that may be stepped on after a truncation and does not reset itself.
        update_every: The bonus learns once from this many vector steps, as one batch of update_every * num_envs rows
            without info. A bonus with ``stepwise = True`` (counts, memories of an episode) still learns every step.
        max_episode_steps: The longest episode, read from ``env.spec`` unless given; a conversion that would have to
            repay too much in that time warns.

    Returns:
        A Gymnasium wrapper with ``certificate()``, ``training``, ``state_dict()`` and ``load_state_dict(arrays)``.

    Raises:
        InputError: If an argument breaks a rule, or ``env`` is wrapped by pbim already.

    >>> import gymnasium, pbim
    >>> env = gymnasium.make("CliffWalking-v1", max_episode_steps=20)
    >>> env = pbim.wrap(env, lambda step: 1.0 * (step.next_obs > 30), pbim.Geometric(gamma=0.99, rate=0.02))
    >>> observation, info = env.reset(seed=0)
    >>> for _ in range(20):
    ...     observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> env.certificate().ok
    True

    """
    shaped: Any = ShapedVectorEnv if isinstance(env, VectorEnv) else ShapedEnv if isinstance(env, Env) else None
    if shaped is None:
        raise InputTypeError(
            f"env must be a gymnasium.Env or gymnasium.vector.VectorEnv, received {type(env).__name__}: for a "
            "Stable-Baselines3 VecEnv use pbim.adapters.sb3.wrap"
        )
    wrapped: ShapedEnv[ObsType, ActType] | ShapedVectorEnv = shaped(
        env, intrinsic, shaping, truncation, update_every=update_every, max_episode_steps=max_episode_steps
    )
    return wrapped


class ShapedEnv(Shaped, Wrapper[ObsType, ActType, ObsType, ActType], RecordConstructorArgs):
    """A ``gymnasium.Env`` whose reward is extrinsic + shaping; made by :func:`wrap`, which explains the arguments."""

    def __init__(
        self,
        env: Env[ObsType, ActType],
        intrinsic: Bonus,
        shaping: Shaping[Any],
        truncation: Truncation = "settle",
        *,
        update_every: int = 1,
        max_episode_steps: int | None = None,
    ) -> None:
        layers = _layers(env)
        _refuse_wrapped(layers)
        settings: dict[str, Any] = {"truncation": truncation, "update_every": update_every}
        intrinsic, shaping, recipes = _with_recipes(intrinsic, shaping)
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps, **recipes, **settings)
        Wrapper.__init__(self, env)
        self._resets_itself = any(isinstance(layer, Autoreset) for layer in layers)
        if self._resets_itself:
            _refuse_continue(truncation, "Autoreset")
        limit = max_episode_steps if max_episode_steps is not None else limit_of(env.spec)
        spaces = Spaces(self.observation_space, self.action_space)
        self.rewards = RewardPath(intrinsic, shaping, 1, spaces, max_episode_steps=limit, **settings)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the environment; an episode that was running is abandoned."""
        self.rewards.changed_outside(reward_changer(self))
        obs, info = self.env.reset(seed=seed, options=options)
        self.rewards.restart()
        self.rewards.obs, self.rewards.over = batch_of_one(self.observation_space, obs), np.array([False])
        return obs, info

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Step the environment and add F' to its reward; the three rewards are scalars in ``info``."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        before, waits = self.rewards.last_obs(), self.rewards.over
        _refuse_shaped(info)
        self.rewards.obs = batch_of_one(self.observation_space, obs)
        transition = Transition(
            obs=before,
            action=batch_of_one(self.action_space, action),
            next_obs=self.rewards.obs,
            terminated=np.array([bool(terminated)]),
            truncated=np.array([bool(truncated)]),
            info=OneInfo(info),
            valid=np.array([False]) if waits[0] else None,
        )
        rewards = self.rewards.step(transition, np.array([float(reward)]))
        self.rewards.over = rewards.over if self._resets_itself else rewards.over | waits
        info = {**info, **{name: float(part[0]) for name, part in zip(REWARDS, rewards, strict=False)}}
        return obs, float(rewards.total[0]), terminated, truncated, info


class ShapedVectorEnv(Shaped, VectorWrapperBase):
    """A ``gymnasium.vector.VectorEnv`` whose rewards are extrinsic + shaping; made by :func:`wrap`."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        intrinsic: Bonus,
        shaping: Shaping[Any],
        truncation: Truncation = "settle",
        *,
        update_every: int = 1,
        max_episode_steps: int | None = None,
    ) -> None:
        layers = _layers(env)
        _refuse_wrapped([*layers, *(part for one in getattr(layers[-1], "envs", ()) for part in _layers(one))])
        env = as_gymnasium(env)
        VectorWrapper.__init__(self, env)
        self.mode = _autoreset_mode(env)
        if self.mode != AutoresetMode.DISABLED:
            _refuse_continue(truncation, f"AutoresetMode.{self.mode.name}")
        settings: dict[str, Any] = {"truncation": truncation, "update_every": update_every}
        intrinsic, shaping, recipes = _with_recipes(intrinsic, shaping)
        wrapper = {"max_episode_steps": max_episode_steps, **recipes, **settings}
        spec = env.spec  # EnvPool's is of another kind, which make_vec cannot build
        self._spec = _vector_spec(spec, self.num_envs, wrapper) if isinstance(spec, EnvSpec) else None
        limit = max_episode_steps if max_episode_steps is not None else vector_limit(env)
        spaces = Spaces(self.single_observation_space, self.single_action_space)
        self.rewards = RewardPath(intrinsic, shaping, self.num_envs, spaces, max_episode_steps=limit, **settings)

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # as Gymnasium's own vector wrappers do
        """How ``gymnasium.make_vec`` builds the environments again, wrapped alike; None if it did not build them."""
        return self._spec

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``; running episodes are abandoned there."""
        self.rewards.changed_outside(reward_changer(self))
        where = None if options is None else options.get("reset_mask")
        obs, infos = self.env.reset(seed=seed, options=None if options is None else dict(options))
        self.rewards.restart(where)
        self.rewards.over = np.zeros(self.num_envs, np.bool_) if where is None else self.rewards.over & ~where
        self.rewards.obs = copy_batch(obs)
        return obs, infos

    def step(self, actions: Any) -> tuple[Any, NDArray[np.floating], Mask, Mask, dict[str, Any]]:
        """Step the environments and add F'; the three rewards are arrays (num_envs,) in ``infos``, with masks."""
        obs, extrinsic, terminated, truncated, infos = self.env.step(actions)
        before, waits = self.rewards.last_obs(), self.rewards.over
        _refuse_shaped(infos)
        self.rewards.obs = next_obs = copy_batch(obs)
        terminated, truncated = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
        info: Mapping[str, Any] = infos
        valid = None
        if self.mode == AutoresetMode.SAME_STEP:
            ended = terminated | truncated
            if np.count_nonzero(ended):
                next_obs = self._final_obs(infos, ended)
                info = FinalInfo(infos, infos.get("final_info", {}), ended)
        elif np.count_nonzero(waits):
            valid = ~waits  # NEXT_STEP: the dummy step; DISABLED: an environment that waits for its reset
        taken = actions if isinstance(actions, np.ndarray) else as_batch(self.single_action_space, actions)
        transition = Transition(before, taken, next_obs, terminated, truncated, info, valid)
        rewards = self.rewards.step(transition, np.asarray(extrinsic, np.float64))
        self.rewards.over = rewards.over
        if valid is not None:
            self.rewards.over = rewards.over & valid if self.mode == AutoresetMode.NEXT_STEP else rewards.over | waits
        return obs, rewards.total, terminated, truncated, _with_rewards(infos, rewards, valid)

    def _final_obs(self, infos: dict[str, Any], ended: Mask) -> Any:
        if "final_obs" not in infos:
            raise InputError(
                'infos must carry "final_obs" where an episode ended in SAME_STEP mode, received '
                f"{sorted(infos)}: correct the environment's metadata['autoreset_mode'] or let it report them"
            )
        rows = {int(index): infos["final_obs"][index] for index in np.flatnonzero(ended)}
        return with_rows(self.single_observation_space, self.rewards.obs, rows)


def make_shaped_vector(num_envs: int, wrapped: EnvSpec | dict[str, Any], **wrapper: Any) -> ShapedVectorEnv:
    """Build what the ``spec`` of a :class:`ShapedVectorEnv` describes; ``gymnasium.make_vec`` calls it."""
    if isinstance(wrapped, dict):  # a spec that was JSON: Gymnasium reads the fields it writes itself
        derived = ("namespace", "name", "version")
        wrapped = EnvSpec.from_json(json.dumps({key: part for key, part in wrapped.items() if key not in derived}))
    return ShapedVectorEnv(make_vec(wrapped, num_envs=num_envs), **wrapper)


def _vector_spec(wrapped: EnvSpec, num_envs: int, wrapper: dict[str, Any]) -> EnvSpec:
    """Return a spec of the wrapped vector: Gymnasium's specs know no vector wrappers, but any function that builds."""
    return replace(
        wrapped,
        vector_entry_point=f"{__name__}:{make_shaped_vector.__name__}",
        kwargs={"num_envs": num_envs, "vectorization_mode": "vector_entry_point", "wrapped": wrapped, **wrapper},
        additional_wrappers=(),
    )


def _with_recipes(intrinsic: Any, shaping: Any) -> tuple[Bonus, Shaping[Any], dict[str, Any]]:
    """Return a bonus, a conversion, and how to make others; a spec holds the recipes in place of the two."""
    given = {"intrinsic": intrinsic, "shaping": shaping}
    recipes = {name: as_recipe(part) for name, part in given.items()}
    made = {name: recipes[name].make() if is_recipe(part) else part for name, part in given.items()}
    return made["intrinsic"], made["shaping"], recipes


def _with_rewards(infos: dict[str, Any], rewards: StepRewards, valid: Mask | None) -> dict[str, Any]:
    """Return the infos with the three rewards and Gymnasium's masks of the rows that are steps."""
    mask = ~np.zeros(len(rewards.total), np.bool_) if valid is None else valid
    extrinsic, intrinsic, shaping = REWARDS
    return {
        **infos,
        extrinsic: rewards.extrinsic,
        intrinsic: rewards.intrinsic,
        shaping: rewards.shaping,
        f"_{extrinsic}": mask,
        f"_{intrinsic}": mask,
        f"_{shaping}": mask,
    }


def _layers(env: Any) -> list[Any]:
    """Return the environment and everything it wraps, outermost first."""
    layers = [env]
    while isinstance(layers[-1], Wrapper | VectorWrapper):
        layers.append(layers[-1].env)
    return layers


def _refuse_wrapped(layers: list[Any]) -> None:
    if any(isinstance(layer, Shaped) for layer in layers):
        raise InputError(
            "env is wrapped by pbim already, and a second bonus on top would not be repaid with the first: wrap the "
            "environment once, with pbim.intrinsic.Sum for several bonuses"
        )


def _refuse_shaped(info: Mapping[str, Any]) -> None:
    if not isinstance(info, Mapping):
        raise InputTypeError(
            f"info must be a dictionary, received a {type(info).__name__}: put DictInfoToList outside, as in "
            "DictInfoToList(pbim.wrap(env, ...))"
        )
    if "shaping_reward" in info:
        raise InputError(
            'info has a "shaping_reward" already, so an environment inside is wrapped by pbim too: wrap either each '
            "environment or the vector of them, not both"
        )


def _refuse_continue(truncation: str, reset: str) -> None:
    if truncation == "continue":
        raise InputError(
            f"truncation='continue' needs an environment that goes on after a truncation, received one that resets "
            f"itself ({reset}): use a single Env or a VectorEnv of your own (SyncVectorEnv and AsyncVectorEnv cannot "
            "be stepped on before a reset), or choose 'settle' or 'bootstrap'"
        )


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise InputError(
            f"env.metadata['autoreset_mode'] must say how the environments are reset, received {mode!r}: set it to a "
            "gymnasium.vector.AutoresetMode"
        ) from None
