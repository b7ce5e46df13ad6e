"""Stable-Baselines3: ``wrap(venv, intrinsic, shaping)``, and a callback that checks, logs and saves.

Works for PPO, A2C, DQN and the other algorithms of Stable-Baselines3, RecurrentPPO and MaskablePPO. Off-policy
algorithms replay the shaping reward of the time a step was collected: the ledger, F-bar and the bonus move on, stored
rewards do not, and each stored episode cancels by itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from pbim.adapters._batching import ListedInfo, flat, held, unflat, with_rows
from pbim.adapters._engine import REWARDS, Arrays, EpisodeReport, Mask, RewardPath, Rewards, Truncation
from pbim.adapters._sb3_callback import PBIMCallback as PBIMCallback, load as load, save as save
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping

__all__ = ["PBIMCallback", "ShapedVecEnv", "load", "save", "wrap"]


def wrap(
    venv: VecEnv,
    intrinsic: Bonus,
    shaping: Shaping,
    truncation: Truncation = "settle",
    *,
    max_episode_steps: int | None = None,
) -> "ShapedVecEnv":
    """Return ``venv`` with the converted bonus added to its reward; each info carries the three rewards.

    ``truncation="settle"``, the default of every adapter, settles the ledger at a time limit and takes
    ``TimeLimit.truncated`` back (the info says ``truncated`` instead), so that the algorithm stops there too: the time
    limit is part of the task, as in the paper, and every episode is certified. ``"bootstrap"`` leaves
    ``TimeLimit.truncated`` as it is: the algorithms of Stable-Baselines3 then add gamma * V(terminal observation) to
    the target, and the open ledger is left to V. Choose it where a time limit is only a convenience of training.

    Train with :class:`PBIMCallback`, which refuses what would break the cancellation. ``VecNormalize`` with
    ``norm_reward=False`` may stand outside the wrapper, and for on-policy algorithms inside.

    >>> import numpy as np, pbim
    >>> from stable_baselines3 import PPO
    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> venv = wrap(make_vec_env("CliffWalking-v1", n_envs=2), lambda step: step.next_obs / 47, pbim.PBIM(gamma=0.9))
    >>> model = PPO("MlpPolicy", venv, gamma=0.9, n_steps=16, batch_size=32, n_epochs=1, device="cpu")
    >>> model.learn(32, callback=PBIMCallback()).num_timesteps
    32
    """
    return ShapedVecEnv(venv, intrinsic, shaping, truncation, max_episode_steps=max_episode_steps)


class ShapedVecEnv(VecEnvWrapper):
    """A Stable-Baselines3 ``VecEnv`` whose rewards are extrinsic + shaping; made by :func:`wrap`."""

    def __init__(
        self,
        venv: VecEnv,
        intrinsic: Bonus,
        shaping: Shaping,
        truncation: Truncation = "settle",
        *,
        max_episode_steps: int | None = None,
    ) -> None:
        if not isinstance(venv, VecEnv):
            raise InputTypeError(
                f"venv must be a Stable-Baselines3 VecEnv, received {type(venv).__name__}: make one with "
                "make_vec_env(...), or use pbim.wrap for a Gymnasium environment"
            )
        layers = _layers(venv)
        if any(isinstance(layer, ShapedVecEnv) for layer in layers):
            raise InputError(
                "venv is wrapped by pbim already, and a second bonus on top would not be repaid with the first: wrap "
                "it once, with pbim.intrinsic.Sum for several bonuses"
            )
        super().__init__(venv)
        limit = max_episode_steps if max_episode_steps is not None else _limit(layers[-1])
        self.rewards = RewardPath(
            intrinsic, shaping, venv.num_envs, truncation=truncation, dtype=np.float32, max_episode_steps=limit
        )
        self._obs: Any = None
        self._actions: Any = None

    def reset(self) -> VecEnvObs:
        """Reset all environments; episodes that were running are abandoned."""
        obs = self.venv.reset()
        self.rewards.restart()
        self._obs = held(obs)
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step; the actions are kept for the bonus."""
        self._actions = np.array(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish the step and add F' to the rewards."""
        obs, extrinsic, dones, infos = self.venv.step_wait()
        before = self._obs
        if before is None:
            raise InputError("step needs the observation it starts from, there is none yet: call reset() first")
        if "shaping_reward" in infos[0]:
            raise InputError(
                'info has a "shaping_reward" already, so an environment inside is wrapped by pbim too: wrap either '
                "each environment or the VecEnv, not both"
            )
        self._obs = held(obs)
        over = np.asarray(dones, np.bool_)
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos]) & over
        transition = Transition(
            obs=before,
            action=self._actions,
            next_obs=self._final_obs(infos, over) if over.any() else self._obs,
            terminated=over & ~truncated,
            truncated=truncated,
            info=ListedInfo(infos),
        )
        rewards = self.rewards.step(transition, np.asarray(extrinsic, np.float32))
        return obs, rewards.total, dones, self._with_rewards(infos, rewards, truncated)

    def certificate(self) -> EpisodeReport:
        """Return whether F' cancelled in every episode finished so far."""
        return self.rewards.report()

    def state_dict(self) -> Arrays:
        """Return the wrapper's state (not the environments') as flat arrays."""
        seen = {} if self._obs is None else flat(self.observation_space, self._obs, "obs")
        return {**self.rewards.state_dict(), **seen}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned, in environments in the state they were in then, or reset them."""
        self.rewards.load_state_dict(arrays)
        self._obs = unflat(self.observation_space, arrays, "obs")

    def _final_obs(self, infos: list[dict[str, Any]], over: Mask) -> Any:
        rows = {int(index): infos[index].get("terminal_observation") for index in np.flatnonzero(over)}
        missing = [index for index, value in rows.items() if value is None]
        if missing:
            raise InputError(
                f'info must carry "terminal_observation" where an episode ended, it is missing in environments '
                f"{missing}: let every wrapper inside keep it"
            )
        return with_rows(self.observation_space, self._obs, rows)

    def _with_rewards(self, infos: list[dict[str, Any]], rewards: Rewards, truncated: Mask) -> list[dict[str, Any]]:
        columns = (part.tolist() for part in rewards[:3])
        added = [dict(zip(REWARDS, row, strict=True)) for row in zip(*columns, strict=True)]
        if self.rewards.truncation == "settle":
            for index in np.flatnonzero(truncated):
                added[index] |= {"TimeLimit.truncated": False, "truncated": True}
        return [{**info, **extra} for info, extra in zip(infos, added, strict=True)]


def _layers(venv: Any) -> list[Any]:
    layers = [venv]
    while isinstance(layers[-1], VecEnvWrapper):
        layers.append(layers[-1].venv)
    return layers


def _limit(venv: VecEnv) -> int | None:
    """Return the longest time limit that the specs of environments in this process know of."""
    specs = [getattr(env, "spec", None) for env in getattr(venv, "envs", ())]
    limits = [spec.max_episode_steps for spec in specs if spec is not None and spec.max_episode_steps is not None]
    return max(limits) if limits else None
