"""Stable-Baselines3: refuse what breaks the cancellation, log the three returns, save with the model."""

import math
import os
from collections import deque
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from pbim._files import read_arrays, write_arrays
from pbim.adapters._engine import REWARDS, RewardPath
from pbim.adapters._sb3_vec_env import ShapedVecEnv, layers
from pbim.errors import InputError

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)
_TIMESTEPS = "model.num_timesteps"


class PBIMCallback(BaseCallback):
    """Check the learner against the conversion, log to SB3's logger, and save with the model.

    Refuses a learner whose gamma differs from the conversion's, ``VecNormalize`` that scales rewards outside the
    wrapper, and replay buffers that would lose the shaping reward. Logs under ``pbim/``: the mean extrinsic, intrinsic
    and shaping return of the last ``window`` episodes, and the certificate. With ``save_path`` the model and the
    wrapper's state are saved together (see :func:`save`) every ``save_every`` steps of the VecEnv and at the end.

    Args:
        save_path: Where to save, without the ending; None saves nothing.
        save_every: Steps of the VecEnv between two saves; None saves at the end only.
        window: How many of the latest episodes the logged returns are averaged over.
        verbose: 1 prints the certificate at the end.

    Raises:
        InputError: If ``save_every`` has no path or is below 1; and in ``learn``, for what the callback refuses.

    >>> PBIMCallback(save_path="out/agent", save_every=1000).save_every
    1000

    """

    def __init__(
        self,
        save_path: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        window: int = 100,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if save_every is not None and (save_path is None or save_every < 1):
            raise InputError(
                f"save_every must be at least 1 and come with a save_path, received {save_every} and {save_path!r}: "
                "give both, or save_path alone to save at the end"
            )
        self.save_path, self.save_every = save_path, save_every
        self._returns: deque[NDArray[np.float64]] = deque(maxlen=window)
        self._sums = np.zeros((0, 0))

    def _init_callback(self) -> None:
        self._wrapper, outside, inside = _find_wrapper(self.training_env)
        self._check_gamma(self._wrapper.rewards)
        self._check_normalisation(outside, inside)
        self._check_timeouts(self._wrapper.rewards)
        self._sums = np.zeros((len(REWARDS), self.training_env.num_envs))

    def _on_step(self) -> bool:
        infos, dones = self.locals["infos"], self.locals["dones"]
        self._sums += [[info[name] for info in infos] for name in REWARDS]
        for index in np.flatnonzero(dones):
            self._returns.append(self._sums[:, index].copy())
            self._sums[:, index] = 0
        if self.save_every is not None and self.n_calls % self.save_every == 0:
            self._save()
        return True

    def _on_rollout_end(self) -> None:
        report = self._wrapper.certificate()
        if self._returns:
            for name, mean in zip(REWARDS, np.mean(self._returns, axis=0), strict=True):
                self.logger.record(f"pbim/{name.replace('_reward', '_return')}", float(mean))
        self.logger.record("pbim/certificate_ok", float(report.ok))
        self.logger.record("pbim/certificate_worst", report.worst)
        self.logger.record("pbim/episodes_certified", report.episodes)
        self.logger.record("pbim/episodes_bootstrapped", report.bootstrapped)
        self.logger.record("pbim/episodes_abandoned", report.abandoned)

    def _on_training_end(self) -> None:
        if self.save_path is not None:
            self._save()
        if self.verbose:
            print(self._wrapper.certificate())

    def _save(self) -> None:
        assert self.save_path is not None
        save(self.save_path, self.model)

    def _check_gamma(self, rewards: RewardPath) -> None:
        gamma = getattr(self.model, "gamma", None)
        if rewards.gamma is not None and gamma is not None and not math.isclose(gamma, rewards.gamma, rel_tol=1e-12):
            raise InputError(
                f"gamma must be the same in the learner and the conversion, received {gamma} in "
                f"{type(self.model).__name__} and {rewards.gamma} in {type(rewards.shaping).__name__}: "
                "what is repaid would not cancel what was paid"
            )

    def _check_normalisation(self, outside: list[VecEnv], inside: list[VecEnv]) -> None:
        if any(isinstance(layer, VecNormalize) and layer.norm_reward for layer in outside):
            raise InputError(
                "VecNormalize(norm_reward=True) outside the wrapper scales F' by a number that changes within an "
                "episode, so it no longer cancels: pass norm_reward=False, or scale the bonus before it is converted"
            )
        if isinstance(self.model, OffPolicyAlgorithm) and any(isinstance(layer, VecNormalize) for layer in inside):
            raise InputError(
                f"VecNormalize inside the wrapper makes {type(self.model).__name__} store the reward from before the "
                "wrapper, without F': put VecNormalize(norm_reward=False) outside"
            )

    def _check_timeouts(self, rewards: RewardPath) -> None:
        buffer = getattr(self.model, "replay_buffer", None)
        if rewards.truncation == "bootstrap" and not getattr(buffer, "handle_timeout_termination", True):
            raise InputError(
                "handle_timeout_termination=False makes the learner stop at time limits, where truncation='bootstrap' "
                "leaves the ledger open: wrap with truncation='settle'"
            )


def save(path: str | os.PathLike[str], model: BaseAlgorithm) -> None:
    """Save a model as ``path``.zip and the state of its pbim wrapper as ``path``.pbim.npz.

    Args:
        path: Where to save, with or without ".zip".
        model: A model whose VecEnv is wrapped by pbim.

    Raises:
        InputError: If the model has no VecEnv, or one without the wrapper.

    """
    env = model.get_env()
    if env is None:
        raise InputError(
            "model must have its wrapped VecEnv to be saved with it, it has none: call model.set_env(venv)"
        )
    wrapper, _, _ = _find_wrapper(env)
    zipped, arrays = _files(path)
    zipped.parent.mkdir(parents=True, exist_ok=True)
    model.save(zipped)
    write_arrays(arrays, {**wrapper.state_dict(), _TIMESTEPS: np.array(model.num_timesteps)})


def load(path: str | os.PathLike[str], algorithm: type[Algorithm], venv: VecEnv, **kwargs: Any) -> Algorithm:
    """Return a model saved by :func:`save`, and put the wrapper's state back into ``venv``.

    SB3 resets the environments when training goes on, so the episodes that ran at the time count as abandoned.

    Args:
        path: What :func:`save` was given.
        algorithm: The class of the model, such as ``stable_baselines3.PPO``.
        venv: Environments wrapped as those of the saved model were.
        kwargs: What ``algorithm.load`` takes besides, such as ``device``.

    Raises:
        InputError: If the files are missing, damaged, or of two different moments.

    """
    zipped, file = _files(path)
    arrays = read_arrays(file)
    model = algorithm.load(zipped, env=venv, **kwargs)
    saved = int(arrays.pop(_TIMESTEPS, np.array(-1)))
    if saved != model.num_timesteps:
        raise InputError(
            f"the model and its pbim state must be of one moment, received {model.num_timesteps} and {saved} "
            f"timesteps in {zipped.name!r} and {file.name!r}: use a pair that was saved together"
        )
    _find_wrapper(venv)[0].load_state_dict(arrays)
    return model


def _files(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    stem = os.fspath(path).removesuffix(".zip")
    return Path(f"{stem}.zip"), Path(f"{stem}.pbim.npz")


def _find_wrapper(venv: VecEnv) -> tuple[ShapedVecEnv, list[VecEnv], list[VecEnv]]:
    """Return the pbim wrapper among the layers of ``venv``, those outside it and those inside."""
    found = layers(venv)
    for index, layer in enumerate(found):
        if isinstance(layer, ShapedVecEnv):
            return layer, found[:index], found[index + 1 :]
    raise InputError(
        "PBIMCallback needs a learner whose VecEnv is wrapped by pbim, found "
        f"{' > '.join(type(layer).__name__ for layer in found)}: call pbim.adapters.sb3.wrap(venv, ...) first"
    )
