"""What adapters of PyTorch's frameworks share: tensors in, the NumPy batches that every bonus reads, and back."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from pbim._arrays import on_host
from pbim._files import arrays_in, put_arrays
from pbim.adapters.batching import Arrays
from pbim.errors import InputError
from pbim.intrinsic.protocol import Transition

Key = str | tuple[str, ...]
"""The name of an entry, or the path to a nested one."""


def to_numpy(tensor: torch.Tensor, batch_dims: int) -> NDArray[Any]:
    """Return a copy of a tensor on the host, its first ``batch_dims`` axes as one (num_envs,)."""
    array: NDArray[Any] = on_host(tensor).numpy().copy()
    return array.reshape(-1, *array.shape[batch_dims:])


def batch_of(content: Any, keys: Sequence[Key], batch_dims: int) -> Any:
    """Return one entry of a tensordict as an array, several as a dictionary by name."""
    if len(keys) == 1:
        return to_numpy(content[keys[0]], batch_dims)
    return {name_of(key): to_numpy(content[key], batch_dims) for key in keys}


def space_of(keys: Sequence[Key]) -> spaces.Space[Any]:
    """Return a space of the form that ``batch_of`` gives; its bounds say nothing."""
    one = spaces.Box(-np.inf, np.inf, (1,))
    return one if len(keys) == 1 else spaces.Dict({name_of(key): one for key in keys})


def name_of(key: Key) -> str:
    """Return a key as a name: nested ones with dots."""
    return key if isinstance(key, str) else ".".join(key)


class TensorInfo(Mapping[str, Any]):
    """Entries of a tensordict or a dictionary of tensors as an info, converted when one is read.

    A column (num_envs, 1), the form of rewards in TorchRL, is read as (num_envs,). What is no tensor is as it is.
    """

    def __init__(self, content: Any, batch_dims: int) -> None:
        self._content, self._batch_dims = content, batch_dims

    def __getitem__(self, name: Key) -> Any:
        value = self._content[name]
        if isinstance(value, torch.Tensor):
            array = to_numpy(value, self._batch_dims)
            return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        return TensorInfo(value, self._batch_dims) if hasattr(value, "keys") else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._content.keys())

    def __len__(self) -> int:
        return len(self._content.keys())


class Term:
    """The bonus that an entry of the info holds already: a dense reward, or what the framework's own RND wrote."""

    def __init__(self, key: Key) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"Term({self.key!r})"

    def __call__(self, transition: Transition) -> Any:
        """Return the entry, (num_envs,)."""
        try:
            return transition.info[self.key]  # type: ignore[index]  # TensorInfo takes paths, too
        except KeyError:
            raise InputError(
                f"intrinsic={self.key!r} must name an entry that each step carries, it carries "
                f"{sorted(map(str, transition.info))}: let the environment report it, or pass a function of the "
                "transition"
            ) from None


def as_bonus(intrinsic: Any) -> Any:
    """Return a bonus: a name, or the path to a nested entry, means what is found there."""
    is_path = isinstance(intrinsic, tuple) and all(isinstance(part, str) for part in intrinsic)
    return Term(intrinsic) if isinstance(intrinsic, str) or is_path else intrinsic


def packed(arrays: Arrays) -> torch.Tensor:
    """Return arrays as one tensor of bytes, which every checkpoint of PyTorch can hold without pickle."""
    content = io.BytesIO()
    put_arrays(content, arrays)
    return torch.tensor(np.frombuffer(content.getbuffer(), np.uint8))


def unpacked(content: torch.Tensor) -> Arrays:
    """Return the arrays that ``packed`` made bytes of."""
    return arrays_in(content.cpu().numpy().tobytes())


def rows_where(mask: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return ``one`` in the rows where ``mask`` (num_envs,) is true, ``other`` elsewhere."""
    return torch.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)
