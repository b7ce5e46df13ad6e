"""Stable-Baselines3: a VecEnv whose rewards are extrinsic + shaping."""

import inspect
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import REWARDS, RewardPath, StepRewards
from pbim.adapters._evidence import Mask
from pbim.adapters._outside import reward_changer
from pbim.adapters._shaped import Shaped
from pbim.adapters.batching import ListedInfo, copy_batch, with_rows
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import NoBonus, Shaping
from pbim.truncation import Truncation


class ShapedVecEnv(Shaped, VecEnvWrapper):
    """A Stable-Baselines3 ``VecEnv`` whose rewards are extrinsic + shaping; made by :func:`pbim.adapters.sb3.wrap`."""

    def __init__(
        self,
        venv: VecEnv,
        intrinsic: Bonus,
        shaping: Shaping[Any],
        truncation: Truncation | None = None,
        *,
        update_every: int = 1,
        max_episode_steps: int | None = None,
    ) -> None:
        if not isinstance(venv, VecEnv):
            raise InputTypeError(
                f"venv must be a Stable-Baselines3 VecEnv, received {type(venv).__name__}: make one with "
                "make_vec_env(...), or use pbim.wrap for a Gymnasium environment"
            )
        inside = layers(venv)
        if any(isinstance(layer, ShapedVecEnv) for layer in inside):
            raise InputError(
                "venv is wrapped by pbim already, and a second bonus on top would not be repaid with the first: wrap "
                "it once, with pbim.intrinsic.Sum for several bonuses"
            )
        if truncation == "continue":
            raise InputError(
                "truncation='continue' needs environments that go on after a truncation, received a VecEnv, which "
                "resets them itself: choose 'settle' or 'bootstrap', or use pbim.wrap around a Gymnasium environment"
            )
        VecEnvWrapper.__init__(self, venv)
        limit = max_episode_steps if max_episode_steps is not None else _limit(inside[-1])
        self.rewards = RewardPath(
            intrinsic,
            shaping,
            venv.num_envs,
            Spaces(venv.observation_space, venv.action_space),
            truncation="settle" if truncation is None else truncation,
            update_every=update_every,
            max_episode_steps=limit,
            dtype=np.float32,
        )
        self._actions: Any = None
        # whoever wraps with NoBonus knows: it is the way out
        self._choice_is_open = truncation is None and not isinstance(shaping, NoBonus)
        if limit is not None:
            self._say_what_settle_does(stacklevel=4)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "class_attributes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # SB3 keeps the members of the class in each wrapper, and some cannot be copied
        vars(self).update(state, class_attributes=dict(inspect.getmembers(type(self))))

    def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of the environments; one that computes rewards anew, without F', is refused."""
        if method_name == "compute_reward":
            raise InputError(
                "a replay buffer that computes the rewards of other goals itself (HerReplayBuffer) leaves F' out, so "
                "that a stored episode no longer cancels: use the default replay buffer, or train without the wrapper"
            )
        return self.venv.env_method(method_name, *args, **kwargs)

    def reset(self) -> VecEnvObs:
        """Reset all environments; episodes that were running are abandoned."""
        self.rewards.changed_outside(reward_changer(self))
        obs = self.venv.reset()
        self.rewards.restart()
        self.rewards.obs = copy_batch(obs)
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step; the actions are kept for the bonus."""
        self._actions = np.array(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish the step and add F' to the rewards."""
        obs, extrinsic, dones, infos = self.venv.step_wait()
        before = self.rewards.last_obs()
        if "shaping_reward" in infos[0]:
            raise InputError(
                'info has a "shaping_reward" already, so an environment inside is wrapped by pbim too: wrap either '
                "each environment or the VecEnv, not both"
            )
        self.rewards.obs = next_obs = copy_batch(obs)
        ended = np.asarray(dones, np.bool_)
        truncated = np.zeros_like(ended)
        if np.count_nonzero(ended):
            next_obs = self._final_obs(infos, ended)
            truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos]) & ended
        terminated = ended & ~truncated
        transition = Transition(before, self._actions, next_obs, terminated, truncated, ListedInfo(infos))
        rewards = self.rewards.step(transition, np.asarray(extrinsic, np.float32))
        return obs, rewards.total, dones, self._with_rewards(infos, rewards, truncated)

    def _final_obs(self, infos: list[dict[str, Any]], ended: Mask) -> Any:
        rows = {int(index): infos[index].get("terminal_observation") for index in np.flatnonzero(ended)}
        missing = [index for index, value in rows.items() if value is None]
        if missing:
            raise InputError(
                f'info must carry "terminal_observation" where an episode ended, it is missing in environments '
                f"{missing}: let every wrapper inside keep it"
            )
        return with_rows(self.observation_space, self.rewards.obs, rows)

    def _with_rewards(self, infos: list[dict[str, Any]], rewards: StepRewards, truncated: Mask) -> list[dict[str, Any]]:
        columns = (part.tolist() for part in rewards[:3])
        added = [dict(zip(REWARDS, row, strict=True)) for row in zip(*columns, strict=True)]
        if self.rewards.truncation == "settle":
            for index in np.flatnonzero(truncated):
                added[index] |= {"TimeLimit.truncated": False, "truncated": True}
                self._say_what_settle_does(stacklevel=5)
        return [{**info, **extra} for info, extra in zip(infos, added, strict=True)]

    def _say_what_settle_does(self, stacklevel: int) -> None:
        """Warn once that a learner on this VecEnv stops at time limits, unless somebody chose so."""
        if self._choice_is_open:
            self._choice_is_open = False
            warnings.warn(
                "sb3.wrap makes the learner stop at time limits (truncation='settle'), where on an unwrapped VecEnv it "
                "bootstraps: to compare with a baseline, wrap the baseline too, with shaping=pbim.NoBonus(), and pass "
                "truncation='settle', or 'bootstrap' to keep the bootstrap, to say that you chose",
                stacklevel=stacklevel,
            )


def layers(venv: VecEnv) -> list[VecEnv]:
    """Return a VecEnv and everything it wraps, outermost first."""
    found = [venv]
    while isinstance(found[-1], VecEnvWrapper):
        found.append(found[-1].venv)
    return found


def _limit(venv: VecEnv) -> int | None:
    """Return the longest time limit that the environments know of, those in other processes too."""
    name = "_max_episode_steps"  # of gymnasium.wrappers.TimeLimit; a number, where a spec may hold what cannot be sent
    known = isinstance(venv, VecEnv) and venv.has_attr(name)  # SuperSuit's innermost vector is none of SB3
    limits = venv.get_attr(name) if known else []
    return max((limit for limit in limits if isinstance(limit, int)), default=None)
