"""Stable-Baselines3: refuse what breaks the cancellation, log returns and scales, save with the model."""

import glob
import io
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her import HerReplayBuffer

from pbim._files import arrays_in, first_line, put_arrays, read_arrays, replacing
from pbim.adapters._engine import REWARDS, RewardPath
from pbim.adapters._returns import EpisodeReturns, scalars
from pbim.adapters._sb3_vec_env import ShapedVecEnv, layers
from pbim.errors import InputError
from pbim.shaping import NoBonus

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)
_STATE, _TIMESTEPS = "pbim.npz", "model.num_timesteps"
_LARGE = 10
"""How many times the task's largest return the bonus may add up to before the callback warns."""


class PBIMCallback(BaseCallback):
    """Check the learner against the conversion, log to SB3's logger, and save with the model.

    Refuses a learner whose gamma differs from the conversion's, ``VecNormalize`` that scales rewards outside the
    wrapper, and replay buffers that would lose the shaping reward. Says at the start how strongly the conversion guides
    a learner with this lambda, and warns where it hardly does. Logs under ``pbim/``: the mean returns of the last
    ``window`` episodes (``extrinsic_return``, ``intrinsic_return`` and ``shaping_return_undiscounted`` are sums;
    ``shaping_return_discounted`` is what an exact conversion makes zero), and the certificate, once an episode has been
    certified. When the first episodes have ended it says what the bonus and the task add up to, and how to scale the
    bonus: in SB3's log, or as a warning if the bonus is more than ten times the task (than 1, if there was nothing). It
    warns, too, if the last steps of the first episodes take back more than the task pays.
    With ``save_path`` the model and the wrapper's state are saved together (see :func:`save`) every ``save_every``
    steps of the VecEnv and at the end.

    Args:
        save_path: Where to save, with or without ".zip"; None saves nothing.
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
        self._window, self._says_scale = window, True

    def _init_callback(self) -> None:
        self._wrapper, outside, inside = _find_wrapper(self.training_env)
        self._check_learner()
        self._check_normalisation(outside, inside)
        self._check_buffer(self._wrapper.rewards)
        gamma = float(getattr(self.model, "gamma", None) or self._wrapper.rewards.gamma or 1.0)
        self._returns = EpisodeReturns(self.training_env.num_envs, gamma, self._window)

    def _on_step(self) -> bool:
        infos, dones = self.locals["infos"], self.locals["dones"]
        rewards = np.array([[info[name] for info in infos] for name in REWARDS])
        self._returns.add(rewards, dones)
        if self.save_every is not None and self.n_calls % self.save_every == 0:
            self._save()
        return True

    def _on_rollout_end(self) -> None:
        for name, number in scalars(self._returns, self._wrapper.certificate()).items():
            self.logger.record(f"pbim/{name}", number)
        if self._returns.latest:
            self._say_scale()

    def _on_training_end(self) -> None:
        if self.save_path is not None:
            self._save()
        if self.verbose:
            print(self._wrapper.certificate())

    def _check_learner(self) -> None:
        """Refuse another discount, and say how strongly the conversion guides this learner."""
        if isinstance(self.model, OffPolicyAlgorithm):  # one-step TD; of n-step returns we know no guidance
            gae_lambda, rollout = (0.0 if getattr(self.model, "n_steps", 1) == 1 else None), None
        else:
            gae_lambda, rollout = getattr(self.model, "gae_lambda", None), getattr(self.model, "n_steps", None)
        gamma, name = getattr(self.model, "gamma", None), type(self.model).__name__
        self._wrapper.rewards.check_learner(gamma, name, gae_lambda=gae_lambda, rollout=rollout, say=self.logger.info)

    def _say_scale(self) -> None:
        """Say once what the bonus and the task add up to in an episode; louder if the bonus drowns the task."""
        if not self._says_scale or isinstance(self._wrapper.rewards.shaping, NoBonus):
            return
        self._says_scale = False
        extrinsic, intrinsic = np.abs(self._returns.latest).T[:2]
        task, bonus = float(extrinsic.max()), float(intrinsic.mean())
        size = task or 1.0  # nothing yet: a goal is worth 1, as a rule
        scale = size / bonus if bonus else 1
        line = (
            f"in the first {len(intrinsic)} episodes the bonus adds up to {bonus:.3g} on average and the task's "
            f"rewards to {task:.3g} at most: pbim.intrinsic.Scaled(bonus, {scale:.2g}) makes that {size:.3g}"
        )
        self.logger.info(f"pbim: {line}")
        if bonus > _LARGE * size:
            warnings.warn(line, stacklevel=2)

    def _save(self) -> None:
        assert self.save_path is not None
        save(self.save_path, self.model)

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

    def _check_buffer(self, rewards: RewardPath) -> None:
        buffer = getattr(self.model, "replay_buffer", None)
        if isinstance(buffer, HerReplayBuffer):
            raise InputError(
                f"{type(buffer).__name__} computes the rewards of other goals itself, without F', so a stored episode "
                "no longer cancels: use the default replay buffer, or train without the pbim wrapper"
            )
        if rewards.truncation == "bootstrap" and not getattr(buffer, "handle_timeout_termination", True):
            raise InputError(
                "handle_timeout_termination=False makes the learner stop at time limits, where truncation='bootstrap' "
                "leaves the ledger open: wrap with truncation='settle'"
            )


def save(path: str | os.PathLike[str], model: BaseAlgorithm) -> None:
    """Save a model and the state of its pbim wrapper in one file, ``path``.zip, whole or not at all.

    A save that fails or is killed leaves the previous one as it was. SB3 reads the file, too: ``PPO.load(path)``.

    Args:
        path: Where to save, with or without ".zip".
        model: A model whose VecEnv is wrapped by pbim.

    Raises:
        InputError: If the model has no VecEnv, or one without the wrapper; or if the file cannot be written.

    """
    env = model.get_env()
    if env is None:
        raise InputError(
            "model must have its wrapped VecEnv to be saved with it, it has none: call model.set_env(venv)"
        )
    wrapper, _, _ = _find_wrapper(env)
    state, content = io.BytesIO(), io.BytesIO()
    put_arrays(state, {**wrapper.state_dict(), _TIMESTEPS: np.array(model.num_timesteps)})
    model.save(content)
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(_STATE, state.getvalue())
    zipped, _ = _files(path)
    try:
        with replacing(zipped) as file:
            file.write(content.getbuffer())
        for torn in zipped.parent.glob(f"{glob.escape(zipped.name)}.*.part"):
            torn.unlink(missing_ok=True)  # what killed saves left
    except OSError as error:
        raise InputError(
            f"path must be in a folder that can be written to, received {str(zipped)!r} ({first_line(error)}): make "
            "room or choose another; an earlier save there is still whole"
        ) from error


def load(path: str | os.PathLike[str], algorithm: type[Algorithm], venv: VecEnv, **kwargs: Any) -> Algorithm:
    """Return a model saved by :func:`save`, and put the wrapper's state back into ``venv``.

    SB3 resets the environments when training goes on, so the episodes that ran at the time count as abandoned.

    Args:
        path: What :func:`save` was given.
        algorithm: The class of the model, such as ``stable_baselines3.PPO``.
        venv: Environments wrapped as those of the saved model were.
        kwargs: What ``algorithm.load`` takes besides, such as ``device``.

    Raises:
        InputError: If the file is missing, damaged, or of another conversion or bonus.

    """
    wrapper, _, _ = _find_wrapper(venv)
    zipped, _ = _files(path)
    arrays = _saved_state(path)
    model = algorithm.load(zipped, env=venv, **kwargs)
    saved = int(arrays.pop(_TIMESTEPS, np.array(-1)))
    if saved != model.num_timesteps:
        raise InputError(
            f"the model and its pbim state must be of one moment, received {model.num_timesteps} and {saved} "
            f"timesteps in {zipped.name!r}: use what pbim.adapters.sb3.save wrote"
        )
    wrapper.load_state_dict(arrays)
    return model


def _saved_state(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the wrapper's state from a file of ``save``, or from beside it, where it used to be."""
    zipped, beside = _files(path)
    if not zipped.exists():
        raise InputError(f"path must name a saved model, received {str(zipped)!r}: there is no such file")
    try:
        with zipfile.ZipFile(zipped) as archive:
            names = archive.namelist()
            if "data" not in names or archive.testzip():  # half a file still ends like an archive: weights are one, too
                raise ValueError("it is damaged")
            if _STATE in names:
                return arrays_in(archive.read(_STATE))
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InputError(
            f"path must name a saved model, received {str(zipped)!r}, which cannot be read ({first_line(error)}): use "
            "an earlier one"
        ) from None
    if not beside.exists():
        raise InputError(
            f"path must name a model saved with its pbim state, received {str(zipped)!r}, which has none: save with "
            "pbim.adapters.sb3.save(path, model) or PBIMCallback(save_path=path)"
        )
    return read_arrays(beside)


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
