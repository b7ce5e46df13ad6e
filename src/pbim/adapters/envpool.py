"""EnvPool in its asynchronous mode: ``wrap(env, intrinsic, shaping)``, then ``send`` and ``recv`` by ``env_id``.

A synchronous EnvPool (``batch_size`` left out) is a Gymnasium vector: use ``pbim.wrap`` there.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.envpool", "gymnasium")

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import REWARDS, RewardPath
from pbim.adapters._evidence import Mask, TrainingReport as TrainingReport
from pbim.adapters._shaped import Shaped
from pbim.adapters._vectors import limit_of
from pbim.adapters.batching import with_batch
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping
from pbim.truncation import Truncation

__all__ = ["ShapedEnvPool", "TrainingReport", "wrap"]


def wrap(
    env: Any,
    intrinsic: Bonus,
    shaping: Shaping[Any],
    truncation: Truncation = "settle",
    *,
    update_every: int = 1,
    max_episode_steps: int | None = None,
) -> "ShapedEnvPool":
    """Return an EnvPool whose ``recv`` adds the converted bonus to the rewards.

    Each environment keeps its own ledger and its own memory in the bonus, whatever the order in which they answer. The
    bonus always sees all ``num_envs`` rows, with ``transition.valid`` true for those that took a step.

    Args:
        env: What ``envpool.make(..., env_type="gymnasium", num_envs=n, batch_size=m)`` returned.
        intrinsic: Any callable ``transition -> array (num_envs,)``, or an object with ``reward(transition)`` and
            ``update(transition)``.
        shaping: The conversion, with the learner's gamma.
        truncation: What the learner does where an episode is truncated: ``"settle"`` or ``"bootstrap"``.
        update_every: The bonus learns once from this many ``recv``, as one batch.
        max_episode_steps: The longest episode, read from EnvPool's configuration unless given.

    Returns:
        An object with ``async_reset``, ``recv``, ``send``, ``certificate()``, ``training``, ``state_dict()`` and
        ``load_state_dict(arrays)``.

    Raises:
        InputTypeError: If ``env`` is no EnvPool of ``env_type="gymnasium"``.
        InputError: If an argument breaks a rule.

    """
    return ShapedEnvPool(
        env, intrinsic, shaping, truncation, update_every=update_every, max_episode_steps=max_episode_steps
    )


class ShapedEnvPool(Shaped):
    """An asynchronous EnvPool whose rewards are extrinsic + shaping; made by :func:`wrap`."""

    def __init__(
        self,
        env: Any,
        intrinsic: Bonus,
        shaping: Shaping[Any],
        truncation: Truncation = "settle",
        *,
        update_every: int = 1,
        max_episode_steps: int | None = None,
    ) -> None:
        asynchronous = all(hasattr(env, name) for name in ("async_reset", "recv", "send"))
        if not (asynchronous and issubclass(type(env), VectorEnv)):
            raise InputTypeError(
                f"env must be an EnvPool that tells terminated and truncated apart, received {type(env).__name__}: "
                'make it with envpool.make(..., env_type="gymnasium"), and use pbim.wrap for other environments'
            )
        if getattr(env.spec.config, "max_num_players", 1) > 1:
            raise InputError(
                f"env must have one player per environment, received max_num_players={env.spec.config.max_num_players}:"
                " call shaping.step in your own loop"
            )
        if truncation == "continue":
            raise InputError(
                "truncation='continue' needs environments that go on after a truncation, received an EnvPool, which "
                "resets them itself: choose 'settle' or 'bootstrap'"
            )
        self.env, self.num_envs = env, env.num_envs
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        limit = max_episode_steps if max_episode_steps is not None else limit_of(env.spec)
        self.rewards = RewardPath(
            intrinsic,
            shaping,
            self.num_envs,
            Spaces(self.single_observation_space, self.single_action_space),
            truncation=truncation,
            update_every=update_every,
            max_episode_steps=limit,
        )
        self._actions = create_empty_array(self.single_action_space, self.num_envs)

    def async_reset(self) -> None:
        """Reset all environments; running episodes are abandoned."""
        self.rewards.restart()
        self.rewards.obs = create_empty_array(self.single_observation_space, self.num_envs)
        self.rewards.over = np.ones(self.num_envs, np.bool_)  # the first answer of each is the start of an episode
        self.env.async_reset()

    def send(self, action: Any, env_id: NDArray[np.integer[Any]] | None = None) -> None:
        """Send actions to the environments ``env_id``, all of them by default."""
        ids = np.arange(self.num_envs) if env_id is None else np.asarray(env_id)
        self._actions = with_batch(self._actions, ids, action)
        self.env.send(action, ids)

    def recv(self) -> tuple[Any, NDArray[np.floating], Mask, Mask, dict[str, Any]]:
        """Return what ``batch_size`` environments answered; ``info["env_id"]`` says which.

        The rewards are extrinsic + shaping; ``info`` has the three rewards and masks of the rows that are steps: the
        first answer of an episode is its start, and no step.
        """
        obs, extrinsic, terminated, truncated, info = self.env.recv()
        ids, n = np.asarray(info["env_id"]), self.num_envs
        before, stepped = self.rewards.last_obs(), ~self.rewards.over[ids]
        self.rewards.obs = with_batch(before, ids, obs)
        no = np.zeros(n, np.bool_)
        transition = Transition(
            before,
            self._actions,
            self.rewards.obs,
            with_batch(no, ids, terminated),
            with_batch(no, ids, truncated),
            _ScatteredInfo(info, ids, n),
            valid=with_batch(no, ids, stepped),
        )
        rewards = self.rewards.step(transition, with_batch(np.zeros(n), ids, extrinsic))
        self.rewards.over = with_batch(self.rewards.over, ids, rewards.over[ids] & stepped)
        parts = {name: part[ids] for name, part in zip(REWARDS, rewards, strict=False)}
        masks = {f"_{name}": stepped for name in REWARDS}
        return obs, rewards.total[ids], terminated, truncated, {**info, **parts, **masks}

    def close(self, **kwargs: Any) -> Any:
        """Close the environments; the bonus is free for others."""
        self.rewards.close()
        return self.env.close(**kwargs)


class _ScatteredInfo(Mapping[str, Any]):
    """The info of some environments as that of all; rows that did not answer are zero."""

    def __init__(self, info: Mapping[str, Any], ids: NDArray[np.integer[Any]], num_envs: int) -> None:
        self._info, self._ids, self._num_envs = info, ids, num_envs

    def __getitem__(self, name: str) -> Any:
        part = self._info[name]
        if isinstance(part, dict):
            return _ScatteredInfo(part, self._ids, self._num_envs)
        rows = np.asarray(part)
        return with_batch(np.zeros((self._num_envs, *rows.shape[1:]), rows.dtype), self._ids, rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._info)

    def __len__(self) -> int:
        return len(self._info)
