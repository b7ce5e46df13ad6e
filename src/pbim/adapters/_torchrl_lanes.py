"""TorchRL: what a conversion remembers of each episode, as entries of a tensordict."""

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torchrl.data.tensor_specs import Composite, Unbounded

from pbim.adapters._evidence import Mask
from pbim.adapters._torch import to_numpy
from pbim.adapters.batching import Arrays
from pbim.errors import InputError
from pbim.shaping import Shaping, state_arrays

ROOT = "pbim"
"""The entry under which they are, in float64: scalars of shape (*batch, 1), others with their own axes last."""


class Lanes:
    """Between the state of a conversion, whose arrays end in num_envs, and the entries of a tensordict.

    Attributes:
        statistics: What all environments share, by the names of the state, before the first step.

    """

    def __init__(self, shaping: Shaping[Any]) -> None:
        self._shaping = shaping
        one, two = (state_arrays(shaping.init(number)) for number in (1, 2))
        self.statistics = {name: array for name, array in one.items() if array.shape == two[name].shape}
        self._axes = {name: array.shape[:-1] for name, array in one.items() if name not in self.statistics}
        self._paths = [(ROOT, key_of(name)) for name in self._axes]
        self._latest: list[tuple[torch.Tensor, int]] = []

    def fresh(self, num_envs: int) -> Arrays:
        """Return the state at the start of an episode."""
        state = state_arrays(self._shaping.init(num_envs))
        return {name: state[name] for name in self._axes}

    def read(self, content: TensorDictBase, num_envs: int) -> Arrays:
        """Return the state that a tensordict holds.

        Raises:
            InputError: If it holds none.

        """
        if ROOT not in content:
            raise InputError(
                f"tensordict must carry the ledger under {ROOT!r} to be stepped, received "
                f"{sorted(map(str, content.keys()))}: start from env.reset(), and step on with what step_mdp returns"
            )
        entries = {name: to_numpy(content[ROOT, key_of(name)], content.batch_dims) for name in self._axes}
        return {name: np.moveaxis(entries[name], 0, -1).reshape(*axes, num_envs) for name, axes in self._axes.items()}

    def write(self, content: TensorDictBase, state: Arrays) -> list[torch.Tensor]:
        """Put the state into a tensordict, and return the entries."""
        entries = []
        for path, (name, axes) in zip(self._paths, self._axes.items(), strict=True):
            rows = torch.tensor(np.moveaxis(state[name], -1, 0) if axes else state[name], device=content.device)
            content.set(path, rows.reshape(*content.batch_size, *(axes or (1,))))
            entries.append(content.get(path))
        return entries

    def remember(self, tensors: list[torch.Tensor]) -> None:
        """Note that these entries and buffers say what the conversion's own state says."""
        self._latest = [(tensor, tensor._version) for tensor in tensors]

    def forget(self) -> None:
        """Note that the conversion's state may be another one."""
        self._latest = []

    def is_latest(self, content: TensorDictBase, shared: list[torch.Tensor]) -> bool:
        """Tell whether a tensordict holds the very tensors that were remembered, and nobody has written into them."""
        if not self._latest:
            return False
        entries = [content.get(path, None) for path in self._paths]
        pairs = zip(self._latest, [*entries, *shared], strict=True)
        return all(tensor is now and now._version == version for (tensor, version), now in pairs)

    def declare(self, spec: Composite) -> Composite:
        """Return a spec with the entries added."""
        shapes = {key_of(name): (*spec.shape, *(axes or (1,))) for name, axes in self._axes.items()}
        entries = {
            name: Unbounded(shape=shape, dtype=torch.float64, device=spec.device) for name, shape in shapes.items()
        }
        spec[ROOT] = Composite(entries, shape=spec.shape, device=spec.device)
        return spec


def key_of(name: str) -> str:
    """Return the name of a conversion's array as tensordicts and buffers have it: without dots."""
    return name.replace(".", "_")


def merge(where: Mask, new: Arrays, old: Arrays) -> Arrays:
    """Return ``new`` where true (num_envs,), ``old`` elsewhere."""
    return {name: np.where(where, array, old[name]) for name, array in new.items()}
