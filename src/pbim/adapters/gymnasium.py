"""Gymnasium: ``wrap(env, intrinsic, shaping)`` for an Env or a VectorEnv in any of the three autoreset modes.

The reward returned is extrinsic + shaping; ``info`` carries "extrinsic_reward", "intrinsic_reward" and
"shaping_reward". ``RecordEpisodeStatistics`` inside the wrapper records extrinsic returns, outside it the learner's.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import numpy as np
from gymnasium import Env, Wrapper
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.wrappers import Autoreset
from numpy.typing import NDArray

from pbim.adapters._batching import FinalInfo, OneInfo, batch_of_one, batched, flat, held, unflat, with_rows
from pbim.adapters._engine import REWARDS, Arrays, EpisodeReport, Mask, RewardPath, Rewards, Truncation
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping

__all__ = ["ShapedEnv", "ShapedVectorEnv", "wrap"]

_MASKS = tuple(f"_{name}" for name in REWARDS)
ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


@overload
def wrap(
    env: Env[ObsType, ActType],
    intrinsic: Bonus,
    shaping: Shaping,
    truncation: Truncation = ...,
    *,
    max_episode_steps: int | None = ...,
) -> "ShapedEnv[ObsType, ActType]": ...


@overload
def wrap(
    env: VectorEnv[ObsType, ActType, Any],
    intrinsic: Bonus,
    shaping: Shaping,
    truncation: Truncation = ...,
    *,
    max_episode_steps: int | None = ...,
) -> "ShapedVectorEnv": ...


def wrap(
    env: Any,
    intrinsic: Bonus,
    shaping: Shaping,
    truncation: Truncation = "settle",
    *,
    max_episode_steps: int | None = None,
) -> Any:
    """Return ``env`` with the converted bonus added to its reward.

    ``intrinsic`` is any callable ``transition -> array (num_envs,)`` or an object with ``reward(transition)`` and
    ``update(transition)``; a single Env is a batch of 1. ``truncation`` says what the learner does where an episode is
    truncated: ``"settle"`` for one that stops there, ``"bootstrap"`` for one that adds gamma * V(final observation);
    :mod:`pbim.adapters._engine` says what each guarantees. ``max_episode_steps`` is read from ``env.spec`` unless
    given, and a conversion that would have to repay too much in that time warns.

    A ``reset`` in the middle of an episode abandons it: its ledger is discarded, ``certificate().abandoned`` counts it,
    and a bonus that has a method ``restart(where)`` is told the mask (num_envs,) of the abandoned environments.
    In SAME_STEP mode a bonus that reads the environments themselves, not the transition, sees the next episode's start.

    >>> import gymnasium, numpy, pbim
    >>> env = gymnasium.make("CliffWalking-v1", max_episode_steps=20)
    >>> env = pbim.wrap(env, lambda step: 1.0 * (step.next_obs > 30), pbim.PBIM(gamma=0.9))
    >>> observation, info = env.reset(seed=0)
    >>> for _ in range(20):
    ...     observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> env.certificate().ok
    True
    """
    if isinstance(env, VectorEnv):
        return ShapedVectorEnv(env, intrinsic, shaping, truncation, max_episode_steps=max_episode_steps)
    if isinstance(env, Env):
        return ShapedEnv(env, intrinsic, shaping, truncation, max_episode_steps=max_episode_steps)
    raise InputTypeError(
        f"env must be a gymnasium.Env or gymnasium.vector.VectorEnv, received {type(env).__name__}: for a "
        "Stable-Baselines3 VecEnv use pbim.adapters.sb3.wrap"
    )


class ShapedEnv(Wrapper[ObsType, ActType, ObsType, ActType]):
    """A ``gymnasium.Env`` whose reward is extrinsic + shaping; made by :func:`wrap`."""

    def __init__(
        self,
        env: Env[ObsType, ActType],
        intrinsic: Bonus,
        shaping: Shaping,
        truncation: Truncation = "settle",
        *,
        max_episode_steps: int | None = None,
    ) -> None:
        layers = _layers(env)
        _refuse_wrapped(layers)
        super().__init__(env)
        limit = max_episode_steps if max_episode_steps is not None else _limit(env.spec)
        self.rewards = RewardPath(intrinsic, shaping, 1, truncation=truncation, max_episode_steps=limit)
        self._resets_itself = any(isinstance(layer, Autoreset) for layer in layers)
        self._obs: Any = None
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the environment; an episode that was running is abandoned."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.rewards.restart()
        self._obs, self._over = batch_of_one(self.observation_space, obs), False
        return obs, info

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Step the environment and add F' to its reward; the three rewards are scalars in ``info``."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        before = _running_obs(self._obs)
        _refuse_shaped(info)
        self._obs = batch_of_one(self.observation_space, obs)
        transition = Transition(
            obs=before,
            action=batch_of_one(self.action_space, action),
            next_obs=self._obs,
            terminated=np.array([bool(terminated)]),
            truncated=np.array([bool(truncated)]),
            info=OneInfo(info),
            valid=np.array([False]) if self._over else None,
        )
        rewards = self.rewards.step(transition, np.array([float(reward)]))
        self._over = bool(terminated or truncated) or (self._over and not self._resets_itself)
        info = {**info, **{name: float(part[0]) for name, part in zip(REWARDS, rewards, strict=False)}}
        return obs, float(rewards.total[0]), terminated, truncated, info

    def certificate(self) -> EpisodeReport:
        """Return whether F' cancelled in every episode finished so far."""
        return self.rewards.report()

    def state_dict(self) -> Arrays:
        """Return the wrapper's state (not the environment's) as flat arrays."""
        return _saved(self.rewards, self.observation_space, self._obs, np.array([self._over]))

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned, in an environment in the state it was in then, or reset it."""
        self.rewards.load_state_dict(arrays)
        self._obs, over = unflat(self.observation_space, arrays, "obs"), arrays["over"]
        self._over = bool(over[0])


class ShapedVectorEnv(VectorWrapper[Any, Any, Any, Any, Any]):
    """A ``gymnasium.vector.VectorEnv`` whose rewards are extrinsic + shaping; made by :func:`wrap`."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        intrinsic: Bonus,
        shaping: Shaping,
        truncation: Truncation = "settle",
        *,
        max_episode_steps: int | None = None,
    ) -> None:
        layers = _layers(env)
        _refuse_wrapped([*layers, *(part for one in getattr(layers[-1], "envs", ()) for part in _layers(one))])
        super().__init__(env)
        self.mode = _autoreset_mode(env)
        limit = max_episode_steps if max_episode_steps is not None else _vector_limit(env)
        self.rewards = RewardPath(intrinsic, shaping, self.num_envs, truncation=truncation, max_episode_steps=limit)
        self._obs: Any = None
        self._over: Mask = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``; running episodes are abandoned there."""
        where = None if options is None else options.get("reset_mask")
        obs, infos = self.env.reset(seed=seed, options=None if options is None else dict(options))
        self.rewards.restart(where)
        self._over = np.zeros(self.num_envs, np.bool_) if where is None else self._over & ~where
        self._obs = held(obs)
        return obs, infos

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step the environments and add F'; the three rewards are arrays (num_envs,) in ``infos``, with masks."""
        obs, extrinsic, terminated, truncated, infos = self.env.step(actions)
        before = _running_obs(self._obs)
        _refuse_shaped(infos)
        self._obs = held(obs)
        terminated, truncated = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
        over, valid, next_obs = terminated | truncated, None, self._obs
        info: Mapping[str, Any] = infos
        if self.mode == AutoresetMode.SAME_STEP:
            if np.count_nonzero(over):
                next_obs = self._final_obs(infos, over)
                info = FinalInfo(infos, infos.get("final_info", {}), over)
        elif np.count_nonzero(self._over):
            valid = ~self._over  # NEXT_STEP: the dummy step; DISABLED: an environment that waits for its reset
            over = over & valid if self.mode == AutoresetMode.NEXT_STEP else over | self._over
        taken = actions if isinstance(actions, np.ndarray) else batched(self.single_action_space, actions)
        transition = Transition(before, taken, next_obs, terminated, truncated, info, valid)
        rewards = self.rewards.step(transition, np.asarray(extrinsic, np.float64))
        self._over = over
        return obs, rewards.total, terminated, truncated, _with_rewards(infos, rewards, valid)

    def certificate(self) -> EpisodeReport:
        """Return whether F' cancelled in every episode finished so far."""
        return self.rewards.report()

    def state_dict(self) -> Arrays:
        """Return the wrapper's state (not the environments') as flat arrays."""
        return _saved(self.rewards, self.single_observation_space, self._obs, self._over)

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned, in environments in the state they were in then, or reset them."""
        self.rewards.load_state_dict(arrays)
        self._obs, self._over = unflat(self.single_observation_space, arrays, "obs"), arrays["over"].copy()

    def _final_obs(self, infos: dict[str, Any], over: Mask) -> Any:
        if "final_obs" not in infos:
            raise InputError(
                'infos must carry "final_obs" where an episode ended in SAME_STEP mode, received '
                f"{sorted(infos)}: correct the environment's metadata['autoreset_mode'] or let it report them"
            )
        rows = {int(index): infos["final_obs"][index] for index in np.flatnonzero(over)}
        return with_rows(self.single_observation_space, self._obs, rows)


def _with_rewards(infos: dict[str, Any], rewards: Rewards, valid: Mask | None) -> dict[str, Any]:
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


def _saved(rewards: RewardPath, space: Any, obs: Any, over: Mask) -> Arrays:
    seen = {} if obs is None else flat(space, obs, "obs")
    return {**rewards.state_dict(), **seen, "over": over.copy()}


def _layers(env: Any) -> list[Any]:
    """Return the environment and everything it wraps, outermost first."""
    layers = [env]
    while isinstance(layers[-1], Wrapper | VectorWrapper):
        layers.append(layers[-1].env)
    return layers


def _refuse_wrapped(layers: list[Any]) -> None:
    if any(isinstance(layer, ShapedEnv | ShapedVectorEnv) for layer in layers):
        raise InputError(
            "env is wrapped by pbim already, and a second bonus on top would not be repaid with the first: wrap the "
            "environment once, with pbim.intrinsic.Sum for several bonuses"
        )


def _refuse_shaped(info: Mapping[str, Any]) -> None:
    if "shaping_reward" in info:
        _refuse_wrapped_inside()


def _refuse_wrapped_inside() -> None:
    raise InputError(
        'info has a "shaping_reward" already, so an environment inside is wrapped by pbim too: wrap either each '
        "environment or the vector of them, not both"
    )


def _running_obs(obs: Any) -> Any:
    if obs is None:
        raise InputError("step needs the observation it starts from, there is none yet: call reset() first")
    return obs


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise InputError(
            f"env.metadata['autoreset_mode'] must say how the environments are reset, received {mode!r}: set it to a "
            "gymnasium.vector.AutoresetMode"
        ) from None


def _limit(spec: Any) -> int | None:
    return None if spec is None else spec.max_episode_steps


def _vector_limit(env: VectorEnv[Any, Any, Any]) -> int | None:
    """Return the longest time limit that the specs of the environments know of."""
    if env.spec is not None:
        return _limit(env.spec)
    limits = [_limit(one.spec) for one in getattr(env.unwrapped, "envs", ())]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known else None
