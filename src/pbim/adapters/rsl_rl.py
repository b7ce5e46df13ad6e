"""RSL-RL: ``ShapedPPO``, its PPO with a converted bonus, chosen by ``class_name`` in a configuration.

That learner adds gamma V to the reward where ``extras["time_outs"]`` says so: there the ledger is left open to V and
forgotten (``"bootstrap"`` in :mod:`pbim.truncation`). Every other end is settled and certified.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.rsl_rl", "rsl_rl", "gymnasium")

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from rsl_rl.algorithms import PPO

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import RewardPath
from pbim.adapters._evidence import TrainingReport
from pbim.adapters._returns import EpisodeReturns, scalars
from pbim.adapters._torch import TensorInfo, Term, as_bonus, batch_of, packed, rows_where, space_of, to_numpy, unpacked
from pbim.adapters.batching import Arrays
from pbim.config import Family, find
from pbim.errors import InputError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping, recommended

__all__ = ["ShapedPPO", "TrainingReport"]

_RND = "intrinsic_reward"
_STATE, _LENGTHS = "pbim_state", "pbim_episode_lengths"
_LOG = "pbim/"


class ShapedPPO(PPO):  # type: ignore[misc]
    """RSL-RL's PPO, with a bonus that is converted before it is stored.

    In the configuration of a runner, ``"algorithm": {"class_name": "pbim.adapters.rsl_rl:ShapedPPO", ...}`` takes the
    settings of PPO and those below. With ``rnd_cfg`` and no ``intrinsic`` RSL-RL's own RND is converted. RSL-RL copies
    its configuration: what the bonus has learned is in ``runner.alg.rewards.intrinsic``. Observations of ends are reset
    ones in most environments: unless ``extras["final_obs"]`` holds the true ones, a bonus finds the observation before
    the last step in their place. The log shows returns and certificate under ``pbim/``.

    Args:
        actor: As of PPO.
        critic: As of PPO.
        storage: As of PPO.
        intrinsic: The name of an entry of ``extras``, shape (num_envs,), that is no part of the reward; or any callable
            ``transition -> array (num_envs,)``; or an object with ``reward(transition)`` and ``update(transition)``; or
            the settings of one of ours, as in ``{"kind": "lifetime-count", "beta": 0.1}``. Transitions hold NumPy
            arrays, and ``info`` reads ``extras``.
        shaping: The conversion, with PPO's gamma; or its settings without gamma, as in ``{"kind": "geometric", "rate":
            0.02}``; by default what ``pbim.shaping.recommended`` returns for PPO's gamma.
        update_every: The bonus learns once from this many steps of the environments; see :func:`pbim.wrap`.
        observations: The observation groups that ``transition.obs`` holds, by default the actor's; several make a
            dictionary.
        settings: All others of PPO.

    Raises:
        InputError: If an argument breaks a rule.

    Attributes:
        rewards: The way from a transition to its reward; ``rewards.intrinsic`` is the bonus.

    """

    rnd: Any

    def __init__(
        self,
        actor: Any,
        critic: Any,
        storage: Any,
        *,
        intrinsic: Bonus | str | Mapping[str, Any] | None = None,
        shaping: Shaping[Any] | Mapping[str, Any] | None = None,
        update_every: int = 1,
        observations: Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(actor, critic, storage, **settings)
        if (intrinsic is None) != (self.rnd is not None):
            both = "both" if self.rnd is not None else "neither"
            raise InputError(
                f"one of intrinsic and rnd_cfg must say what the bonus is, received {both}: pass rnd_cfg alone for "
                "RSL-RL's own RND, or intrinsic alone"
            )
        bonus = _made("intrinsic", _RND if intrinsic is None else intrinsic)
        conversion = (
            recommended(self.gamma, self.lam) if shaping is None else _made("shaping", shaping, gamma=self.gamma)
        )
        self._groups = list(actor.obs_groups if observations is None else observations)
        spaces = Spaces(space_of(self._groups), space_of(["action"]))
        self.rewards = RewardPath(
            as_bonus(bonus),
            conversion,
            storage.num_envs,
            spaces,
            truncation="bootstrap",
            update_every=update_every,
            dtype=np.float32,
        )
        self.rewards.check_learner(self.gamma, "PPO", gae_lambda=self.lam, rollout=storage.num_transitions_per_env)
        self._reads_obs = not isinstance(as_bonus(bonus), Term)
        self._returns = EpisodeReturns(storage.num_envs, self.gamma)
        self._env: Any = None

    @staticmethod
    def construct_algorithm(obs: Any, env: Any, cfg: dict[str, Any], device: str) -> "ShapedPPO":
        """Construct the algorithm for an environment, as the runner does."""
        algorithm: ShapedPPO = PPO.construct_algorithm(obs, env, cfg, device)
        algorithm._env = env
        algorithm.rewards.shaping.check_horizon(int(torch.as_tensor(env.max_episode_length).max()))
        return algorithm

    def certificate(self) -> TrainingReport:
        """Return whether F' cancelled in every episode that terminated so far."""
        return self.rewards.report()

    def process_env_step(self, obs: Any, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, Any]) -> None:
        """Record one step of the environments with F' in its rewards."""
        over = (dones > 0).to(rewards.device)
        time_outs = extras.get("time_outs")
        truncated = torch.zeros_like(over) if time_outs is None else over & (time_outs.to(over.device) > 0)
        info, before = dict(extras), self.transition.observations
        if self.rnd is not None:
            states = self._successors(self.rnd.obs_groups["rnd_state"], before, obs, over, extras)
            info[_RND] = self.intrinsic_rewards = self.rnd.get_intrinsic_reward(states)
        start = successor = None
        if self._reads_obs:
            start = batch_of(before, self._groups, 1)
            successor = batch_of(self._successors(self._groups, before, obs, over, extras), self._groups, 1)
        transition = Transition(
            obs=start,
            action=to_numpy(self.transition.actions, 1),
            next_obs=successor,
            terminated=to_numpy(over & ~truncated, 1),
            truncated=to_numpy(truncated, 1),
            info=TensorInfo(info, 1),
        )
        step = self.rewards.step(transition, to_numpy(rewards, 1))
        self._returns.add(np.stack(step[:3]), step.over)
        self._log(extras)
        shaped = torch.tensor(step.shaping, dtype=rewards.dtype, device=rewards.device)
        rnd, self.rnd = self.rnd, None  # or PPO would add the raw bonus as well
        try:
            super().process_env_step(obs, rewards + shaped, dones, extras)
        finally:
            self.rnd = rnd

    def save(self) -> dict[str, Any]:
        """Return what PPO saves, and ledger, F-bar, certificate and bonus as bytes."""
        saved: dict[str, Any] = super().save()
        saved[_STATE] = packed(self.rewards.state_dict())
        if self._env is not None:
            saved[_LENGTHS] = self._env.episode_length_buf.clone()
        return saved

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> bool:
        """Load what ``save`` returned; ``load_cfg["pbim"]`` asks for our part where not all is loaded.

        Only episodes that the environment goes on with (its ``episode_length_buf`` is as it was) keep their ledger.
        With another number of environments, F-bar, what the bonus has learned and the verdict so far are kept.
        """
        iteration: bool = super().load(loaded_dict, load_cfg, strict)
        if (load_cfg is None or load_cfg.get("pbim")) and _STATE in loaded_dict:
            arrays = unpacked(loaded_dict[_STATE])
            fits = arrays["running"].shape == (self.rewards.num_envs,)
            self.rewards.load_state_dict(arrays if fits else self._resized(arrays))
            lengths = loaded_dict.get(_LENGTHS)
            if fits and self._env is not None and lengths is not None:
                now = self._env.episode_length_buf
                self.rewards.restart(to_numpy(now != lengths.to(now.device), 1))
        return iteration

    def _resized(self, arrays: Arrays) -> Arrays:
        """Return a saved state with our own number of environments, all at the start of an episode."""
        fresh = self.rewards.state_dict()
        own = {
            name: array
            for name, array in fresh.items()
            if not name.startswith("intrinsic.") and (name not in arrays or arrays[name].shape != array.shape)
        }
        remembers = getattr(self.rewards.intrinsic, "episodic", False)
        bonus = {name: array for name, array in fresh.items() if remembers and name.startswith("intrinsic.")}
        return {**{name: array for name, array in arrays.items() if not name.startswith("pending.")}, **own, **bonus}

    def _successors(self, groups: Sequence[str], before: Any, obs: Any, over: torch.Tensor, extras: Any) -> Any:
        """Return the observations after a step; no group of an episode that is over shows the next one."""
        final = extras.get("final_obs", before)
        return {name: rows_where(over, final[name].to(over.device), obs[name]) for name in groups}

    def _log(self, extras: dict[str, Any]) -> None:
        """Put numbers into what RSL-RL logs, in the last step of a rollout; environments keep extras between steps."""
        name = "episode" if "episode" in extras else "log"
        others = {key: value for key, value in extras.get(name, {}).items() if not key.startswith(_LOG)}
        if self.storage.step == self.storage.num_transitions_per_env - 1:
            numbers = scalars(self._returns, self.certificate())
            extras[name] = {**others, **{f"{_LOG}{key}": number for key, number in numbers.items()}}
        elif self.storage.step == 0 and name in extras:
            extras[name] = others


def _made(family: Family, given: Any, **learner: Any) -> Any:
    """Return a component from its settings, with those of the learner that it takes; anything else as it is."""
    if not isinstance(given, Mapping):
        return given
    cls = find(family, str(given.get("kind")))
    options = {name: value for name, value in given.items() if name != "kind"}
    taken = {name: value for name, value in learner.items() if name in {field.name for field in fields(cls)}}
    try:
        return cls(**taken | options)
    except TypeError as error:
        raise InputError(
            f"{family} must be settings of {cls.__name__}, received {dict(given)} ({error}): pass its options by name"
        ) from None
