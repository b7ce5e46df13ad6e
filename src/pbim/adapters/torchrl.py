"""TorchRL: ``ShapingTransform(intrinsic, shaping)``, a transform that adds the converted bonus to the reward.

The ledger is an entry of the tensordict, as ``step_count`` is: whoever steps on from a tensordict steps on with its
ledger, in collectors, batched environments with resets of single ones, and rollouts that go on.
"""

# ruff: noqa: E402 one sentence for a missing extra comes before the import that needs it
from pbim._extras import require

require("pbim.adapters.torchrl", "torchrl", "gymnasium")

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torchrl.data.tensor_specs import Composite, MultiOneHot, OneHot, Unbounded
from torchrl.envs.transforms import Transform

from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import REWARDS, RewardPath, StepRewards
from pbim.adapters._evidence import Mask, TrainingReport
from pbim.adapters._torch import Key, TensorInfo, as_bonus, batch_of, packed, space_of, to_numpy, unpacked
from pbim.adapters._torchrl_lanes import ROOT, Lanes, key_of, merge
from pbim.adapters._torchrl_place import later_changer, refuse_native_autoreset
from pbim.errors import InputError
from pbim.intrinsic.protocol import Bonus, Transition
from pbim.shaping import Shaping
from pbim.truncation import Truncation

__all__ = ["ShapingTransform", "TrainingReport"]


class ShapingTransform(Transform):  # type: ignore[misc]
    """Add the converted bonus to the reward of a TorchRL environment.

    Append it last: after ``StepCounter`` and other transforms that end episodes or change rewards. Each step writes
    ``"extrinsic_reward"``, ``"intrinsic_reward"`` and ``"shaping_reward"`` beside the reward (shapes and dtype of the
    reward), and what the conversion remembers under ``"pbim"`` in float64: ``("pbim", "ledger")`` of shape (*batch, 1),
    for ``GRM`` ``("pbim", "memory_0")`` of shape (*batch, delay) and ``("pbim", "memory_1")`` of shape (*batch, 1). Do
    not feed ``"pbim"`` to a network: a critic that knows the ledger takes the bonus out again. F-bar is in buffers
    (``centre_count``, ``centre_mean``); ``state_dict()`` holds these and, as bytes, the bonus and the certificate.

    Called on a tensordict, as on a batch of a collector whose environments have no such transform, it does the same
    for every step, along the last dimension of the batch. Batches follow each other: the next goes on where the last
    one stopped, unless its first step carries ``"pbim"`` entries of its own.

    Args:
        intrinsic: The key of an entry that each step carries (what ``RNDTransform`` writes, a dense reward), any
            callable ``transition -> array (num_envs,)``, or an object with ``reward(transition)`` and
            ``update(transition)``. Transitions hold NumPy arrays with the dimensions of the batch as one; what TorchRL
            encodes one-hot is a number again, and ``info`` reads every entry of the step by its key.
        shaping: The conversion, with the learner's gamma (see :meth:`check_learner`).
        truncation: ``"settle"`` settles the ledger at a time limit, and says ``terminated`` there too (``truncated``
            stays), so that TorchRL's value estimators stop as the ledger does. ``"bootstrap"`` changes no flag: the
            estimators add gamma V, and the open ledger is left to V. ``"continue"`` is refused.
        update_every: The bonus learns once from this many steps of the batch; see :func:`pbim.wrap`.
        max_episode_steps: The longest episode, if known; a conversion that would have to repay too much in that time
            warns.
        observation_keys: What ``transition.obs`` and ``next_obs`` hold; by default ``"observation"``, or all
            observations of an environment that has none of that name. Several make a dictionary.
        reward_key: The reward to which F' is added.

    Raises:
        InputError: If an argument breaks a rule.

    >>> import pbim
    >>> from torchrl.envs import GymEnv, TransformedEnv
    >>> shaping = pbim.Geometric(gamma=0.99, rate=0.02)
    >>> transform = ShapingTransform(intrinsic=lambda step: abs(step.next_obs[:, 0]), shaping=shaping)
    >>> env = TransformedEnv(GymEnv("CartPole-v1"), transform)
    >>> steps = env.rollout(500, break_when_any_done=True)["next"]
    >>> bool((steps["reward"] == steps["extrinsic_reward"] + steps["shaping_reward"]).all())
    True
    >>> transform.certificate().ok
    True

    """

    def __init__(
        self,
        intrinsic: Bonus | Key,
        shaping: Shaping[Any],
        truncation: Truncation = "settle",
        *,
        update_every: int = 1,
        max_episode_steps: int | None = None,
        observation_keys: Key | list[Key] | None = None,
        reward_key: Key = "reward",
    ) -> None:
        super().__init__(in_keys=[reward_key], out_keys=[reward_key, *REWARDS])
        if truncation == "continue":
            raise InputError(
                "truncation='continue' needs an environment that goes on after a truncation, TorchRL resets there: "
                "choose 'settle' or 'bootstrap'"
            )
        self._intrinsic, self._shaping, self._truncation = as_bonus(intrinsic), shaping, truncation
        self._observation_keys = observation_keys
        self._obs_keys: list[Key] = (
            observation_keys if isinstance(observation_keys, list) else [observation_keys or "observation"]
        )
        self._action_keys: list[Key] = ["action"]
        self._one_hot: dict[Key, Any] = {}
        self._dtype: type[np.floating[Any]] = np.float32
        self._update_every, self._reward_key, self._frozen = update_every, reward_key, False
        self._path = self._new_path(1, max_episode_steps)
        self._has_path, self._saved = False, torch.zeros(0, dtype=torch.uint8)
        self._lanes = Lanes(shaping)
        for name, value in self._lanes.statistics.items():
            self.register_buffer(key_of(name), torch.tensor(value))

    @property
    def frozen(self) -> bool:
        """Whether nothing learns, counts or enters F-bar and the certificate; set it to True for an evaluation.

        TorchRL puts every transform of an environment into ``eval`` mode, so ``training`` says nothing here.
        """
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._path.training = not frozen
        self._frozen = frozen
        self._lanes.forget()

    def certificate(self) -> TrainingReport:
        """Return whether F' cancelled in every episode of training finished so far."""
        return self._path.report()

    def check_learner(self, learner: Any) -> str:
        """Refuse a learner whose discount is not the conversion's; print how strongly the conversion will guide it.

        Warns where it hardly will, and later if the first episodes take back more at their end than the task pays.

        Args:
            learner: A value estimator such as ``GAE``, or a loss module that has one.

        Returns:
            How strongly the conversion guides the learner, as it was printed; "" where its lambda is not known.

        Raises:
            InputError: If the discounts differ, or the learner has none.

        """
        estimator = getattr(learner, "value_estimator", learner)
        gamma = getattr(estimator, "gamma", None)
        if gamma is None:
            raise InputError(
                f"learner must be a value estimator or a loss module with a gamma, received {type(learner).__name__}: "
                "pass the GAE or the loss that you train with"
            )
        lam, mine = getattr(estimator, "lmbda", None), self._path.gamma
        known = None if lam is None else round(float(lam), 6)  # they keep both in float32
        same = mine is not None and np.float32(mine) == np.float32(float(gamma))
        return self._path.check_learner(mine if same else float(gamma), type(estimator).__name__, gae_lambda=known)

    def close(self) -> None:
        """Give the bonus free for another environment."""
        self._path.close()

    def clone(self) -> Self:
        """Return a transform of the same bonus and conversion without episodes; as in TorchRL, buffers are shared."""
        other: Self = super().clone()
        other._path, other._has_path, other._lanes = other._new_path(1), False, Lanes(self._shaping)
        return other

    def get_extra_state(self) -> torch.Tensor:
        """Return what is no buffer as bytes: certificate, bonus, and where the episodes of the last step stand."""
        return packed(self._path.state_dict()) if self._has_path else self._saved

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Continue from what ``get_extra_state`` returned, now or when the number of environments is known."""
        if not self._has_path:
            self._saved = state.clone()  # clones share it: the first of them that steps takes it
        elif len(state):
            self._path.load_state_dict(unpacked(state))
            self._lanes.forget()

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Convert the steps of a batch in order: time is its last dimension.

        Args:
            tensordict: Steps (*batch, T) as a collector or ``rollout`` returns them, without shaping rewards.

        Returns:
            The same tensordict with the rewards and the ``"pbim"`` entries that an environment would have written.

        Raises:
            InputError: If it holds no steps in order, or shaping rewards already.

        """
        if not tensordict.batch_dims or "next" not in tensordict:
            raise InputError(
                f"tensordict must hold steps (*batch, T) with a 'next', received batch size "
                f"{tuple(tensordict.batch_size)} and {sorted(map(str, tensordict.keys()))}: pass what a collector "
                "returns, or append the transform to the environment"
            )
        if "shaping_reward" in tensordict["next"]:
            raise InputError(
                "tensordict has a 'shaping_reward' already, and converting twice would pay twice: leave the transform "
                "out of the environment, or out of here"
            )
        goes_on, converted = ROOT not in tensordict, []
        for step in tensordict.unbind(-1):
            before, after = step.exclude("next"), step["next"].copy()
            path = self._path_for(after)
            if goes_on:
                self._lanes.write(before, merge(path.over, self._lanes.fresh(path.num_envs), path.conversion_state()))
            converted.append(before.set("next", self._step(before, after)))
            goes_on = True
        return tensordict.update(torch.stack(converted, -1))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the ``"pbim"`` entries."""
        return self._lanes.declare(observation_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Add the ``"pbim"`` entries: a step reads them."""
        return self._lanes.declare(state_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Add R, F and F'; no bounds hold of R + F'."""
        given = reward_spec[self._reward_key]
        for name in self.out_keys:
            reward_spec[name] = Unbounded(shape=given.shape, dtype=given.dtype, device=given.device)
        return reward_spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        path = self._path_for(tensordict_reset)
        path.changed_outside(later_changer(self, self._reward_key))
        where: Mask | None = None
        lanes = self._lanes.fresh(path.num_envs)
        reset = tensordict.get("_reset", None)
        if reset is not None:
            where = to_numpy(reset, tensordict_reset.batch_dims)[:, 0]
            if ROOT in tensordict:  # else TorchRL itself keeps the rows that are not reset
                lanes = merge(where, lanes, self._lanes.read(tensordict, path.num_envs))
        path.restart(where)
        path.over = np.zeros_like(path.over) if where is None else path.over & ~where
        self._lanes.write(tensordict_reset, lanes)
        self._lanes.forget()
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        path = self._path_for(next_tensordict)
        buffers = {name: getattr(self, key_of(name)) for name in self._lanes.statistics}
        shared = list(buffers.values())
        if not self._lanes.is_latest(tensordict, shared):
            arrays = {name: to_numpy(buffer, 0)[0] for name, buffer in buffers.items()}
            path.resume(self._lanes.read(tensordict, path.num_envs) | arrays)
        reward = next_tensordict[self._reward_key]
        transition = self._transition(tensordict, next_tensordict)
        rewards = path.step(transition, self._column(next_tensordict, self._reward_key, reward))
        path.over = rewards.over
        self._write(next_tensordict, rewards, reward)
        if self._truncation == "settle" and rewards.over.any():  # the learner stops where the ledger is settled
            terminated = next_tensordict["terminated"]
            settled = torch.tensor(rewards.over, device=terminated.device).reshape(terminated.shape)
            next_tensordict.set("terminated", terminated | settled)
        state = path.conversion_state()
        written = self._lanes.write(next_tensordict, state)
        for name, buffer in buffers.items():
            if name in state:  # those that are frozen are not
                buffer.copy_(torch.from_numpy(np.asarray(state[name])))
        self._lanes.remember([*written, *shared])
        return next_tensordict

    def _write(self, content: TensorDictBase, rewards: StepRewards, like: torch.Tensor) -> None:
        parts = zip((*REWARDS, self._reward_key), rewards[:4], strict=True)
        for name, part in parts:
            content.set(name, torch.as_tensor(part, dtype=like.dtype, device=like.device).reshape(like.shape))

    def _transition(self, before: TensorDictBase, after: TensorDictBase) -> Transition:
        dims, path = after.batch_dims, self._path
        terminated = self._column(after, "terminated", after["terminated"])
        limit = after.get("truncated", None)
        if limit is None:
            truncated = self._column(after, "done", after["done"]) & ~terminated
        else:
            truncated = self._column(after, "truncated", limit)
        obs, next_obs = (self._batch(part, self._obs_keys) for part in (before, after))
        action = self._batch(before, self._action_keys)
        valid = before.get("_step", None)
        if valid is not None:
            valid = to_numpy(valid, dims).reshape(path.num_envs)
        return Transition(obs, action, next_obs, terminated, truncated, TensorInfo(after, dims), valid)

    def _batch(self, content: TensorDictBase, keys: list[Key]) -> Any:
        """Return entries as a bonus reads them, with numbers in place of one-hot codes."""
        entries = {key: content[key] for key in keys}
        for key in keys:
            if key in self._one_hot:
                entries[key] = self._one_hot[key].to_categorical(entries[key], safe=False)
        return batch_of(entries, keys, content.batch_dims)

    def _path_for(self, content: TensorDictBase) -> RewardPath:
        """Return the path of the rewards, made anew for the environments that the first tensordict shows."""
        num_envs = max(1, content.batch_size.numel())
        if self._has_path:
            if num_envs != self._path.num_envs:
                raise InputError(
                    f"a tensordict must hold the {self._path.num_envs} environments of the ones before, received a "
                    f"batch of {num_envs}: use one transform for each batch size"
                )
            return self._path
        self._find_keys()
        debt = self._path.debt
        self._path = self._new_path(num_envs)
        self._path.debt, self._has_path = debt, True
        if len(self._saved):
            self._path.load_state_dict(unpacked(self._saved))
            self._saved.resize_(0)
        self.frozen = self._frozen  # and what is remembered is of another path
        return self._path

    def _find_keys(self) -> None:
        """Find out what the environment calls its observations and actions, and how it encodes them."""
        parent = self.parent
        if parent is None:
            return
        refuse_native_autoreset(self.container)
        if parent.full_reward_spec[self._reward_key].dtype == torch.float64:
            self._dtype = np.float64
        specs = parent.full_observation_spec, parent.full_action_spec
        if self._observation_keys is None and "observation" not in specs[0].keys(True, True):
            self._obs_keys = list(specs[0].keys(True, True))
        self._action_keys = list(parent.action_keys)
        for spec, keys in zip(specs, (self._obs_keys, self._action_keys), strict=True):
            self._one_hot |= {key: spec[key] for key in keys if isinstance(spec[key], OneHot | MultiOneHot)}

    def _new_path(self, num_envs: int, max_episode_steps: int | None = None) -> RewardPath:
        return RewardPath(
            self._intrinsic,
            self._shaping,
            num_envs,
            Spaces(space_of(self._obs_keys), space_of(self._action_keys)),
            truncation=self._truncation,
            update_every=self._update_every,
            max_episode_steps=max_episode_steps,
            dtype=self._dtype,
        )

    def _column(self, content: TensorDictBase, key: Key, entry: torch.Tensor) -> NDArray[Any]:
        """Return an entry of a tensordict, one number per environment."""
        num_envs = self._path.num_envs
        column = to_numpy(entry, content.batch_dims)
        if column.size != num_envs:
            raise InputError(
                f"{key!r} must hold one number per environment, received shape {tuple(entry.shape)} in a batch "
                f"of {num_envs}: several agents or objectives need a transform and a reward key each"
            )
        return column.reshape(num_envs)
