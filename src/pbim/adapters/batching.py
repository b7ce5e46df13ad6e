"""Observations, actions and infos with a leading (num_envs,) axis, whatever form a framework has them in."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
"""Arrays by dotted name: what a state is saved as."""

_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def copy_batch(batch: Any) -> Any:
    """Return a batch that stays as it is when an environment writes into the arrays it handed out."""
    if isinstance(batch, np.ndarray):
        return batch.copy()
    if isinstance(batch, dict):
        return {name: copy_batch(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        if batch and type(batch[0]) is str:  # texts, which nobody can write into
            return batch
        parts = tuple(map(copy_batch, batch))
        return type(batch)(*parts) if hasattr(batch, "_fields") else parts  # a graph is a named tuple
    return batch


def batch_of_one(space: spaces.Space[Any], value: Any) -> Any:
    """Return one value of ``space`` as a batch of 1; what is not an array becomes a tuple, as in Gymnasium."""
    if isinstance(space, _ARRAYS):
        return np.array(value)[None]
    if isinstance(space, spaces.Dict):
        return {name: batch_of_one(part, value[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of_one(part, value[index]) for index, part in enumerate(space.spaces))
    return (value,)


def as_batch(space: spaces.Space[Any], batch: Any) -> Any:
    """Return a list of single values of ``space`` as an array where the space has arrays; anything else as it is."""
    return np.array(batch) if isinstance(batch, list | tuple) and isinstance(space, _ARRAYS) else batch


def stack(space: spaces.Space[Any], values: Sequence[Any]) -> Any:
    """Return single values of ``space`` as one batch, a copy; what is not an array becomes a tuple, as in Gymnasium."""
    if isinstance(space, _ARRAYS):  # asked first: the other two have abstract bases, which are slow to ask
        return np.array(values)
    if isinstance(space, spaces.Dict):
        return {name: stack(part, [value[name] for value in values]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack(part, [value[place] for value in values]) for place, part in enumerate(space.spaces))
    return tuple(values)


def concatenate(space: spaces.Space[Any], batches: Sequence[Any]) -> Any:
    """Return batches of single values of ``space`` as one batch, one after the other."""
    if isinstance(space, spaces.Dict):
        return {name: concatenate(part, [batch[name] for batch in batches]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(concatenate(part, [batch[place] for batch in batches]) for place, part in parts)
    return np.concatenate(batches) if isinstance(space, _ARRAYS) else tuple(chain.from_iterable(batches))


def with_rows(space: spaces.Space[Any], batch: Any, rows: Mapping[int, Any]) -> Any:
    """Return ``batch`` with single values of ``space`` in place of the numbered rows; the batch itself stays."""
    if isinstance(space, _ARRAYS):
        batch = np.array(batch)
        for index, value in rows.items():
            batch[index] = value
        return batch
    if isinstance(space, spaces.Dict):
        return {
            name: with_rows(part, batch[name], {index: value[name] for index, value in rows.items()})
            for name, part in space.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            with_rows(part, batch[place], {index: value[place] for index, value in rows.items()})
            for place, part in enumerate(space.spaces)
        )
    return tuple(rows.get(index, value) for index, value in enumerate(batch))


def with_batch(batch: Any, rows: NDArray[np.integer[Any]], values: Any) -> Any:
    """Return ``batch`` with a smaller batch in place of the numbered rows; the batch itself stays."""
    if isinstance(batch, dict):
        return {name: with_batch(part, rows, values[name]) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(with_batch(part, rows, value) for part, value in zip(batch, values, strict=True))
    batch = np.array(batch)
    batch[rows] = values
    return batch


def to_arrays(space: spaces.Space[Any], batch: Any, name: str) -> Arrays:
    """Return a batch as arrays by dotted name; empty if any part of it fits no plain array."""
    if isinstance(space, spaces.Dict):
        parts = [to_arrays(part, batch[key], f"{name}.{key}") for key, part in space.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [to_arrays(part, batch[place], f"{name}.{place}") for place, part in enumerate(space.spaces)]
    elif isinstance(space, (*_ARRAYS, spaces.Text)):
        parts = [{name: np.array(batch)}]
    else:
        parts = [{}]
    return {} if not all(parts) else {key: array for part in parts for key, array in part.items()}


def from_arrays(space: spaces.Space[Any], arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """Return the batch that ``to_arrays`` took apart, None if it was not kept."""
    if isinstance(space, spaces.Dict):
        parts = {key: from_arrays(part, arrays, f"{name}.{key}") for key, part in space.items()}
        return None if any(part is None for part in parts.values()) else parts
    if isinstance(space, spaces.Tuple):
        places = tuple(from_arrays(part, arrays, f"{name}.{place}") for place, part in enumerate(space.spaces))
        return None if any(part is None for part in places) else places
    array = arrays.get(name)
    if array is None or isinstance(space, _ARRAYS):
        return None if array is None else array.copy()
    return tuple(array.tolist())


class OneInfo(Mapping[str, Any]):
    """The info of one environment as a batch of 1, converted when an entry is read."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._info = info

    def __getitem__(self, name: str) -> Any:
        return _stack([self._info[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._info)

    def __len__(self) -> int:
        return len(self._info)


class FinalInfo(Mapping[str, Any]):
    """Batched infos in which environments that ended show the info of their last step, not of the reset after it.

    ``infos`` and ``final`` follow Gymnasium's layout: one array per name, and the mask ``_name`` of who reported it.
    """

    def __init__(self, infos: Mapping[str, Any], final: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
        skip = ("final_obs", "_final_obs", "final_info", "_final_info")
        self._infos = {name: value for name, value in infos.items() if name not in skip}
        self._final, self._ended = final, ended

    def __getitem__(self, name: str) -> Any:
        if name not in self._final:
            value = self._infos[name]
            return value & ~self._ended if name.startswith("_") and value.dtype == np.bool_ else value
        final = self._final[name]
        if isinstance(final, dict):
            return FinalInfo(self._infos.get(name, {}), final, self._ended)
        value = np.zeros_like(final)
        if name in self._infos:
            reported = np.asarray(self._infos[name])
            value = reported.astype(np.result_type(reported, final))
        value[self._ended] = final[self._ended]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._infos, *self._final)))

    def __len__(self) -> int:
        return len({*self._infos, *self._final})


class ListedInfo(Mapping[str, Any]):
    """A list of infos, one per environment, in Gymnasium's layout; an entry is stacked when it is read."""

    def __init__(self, infos: list[dict[str, Any]]) -> None:
        self._infos = infos

    def __getitem__(self, name: str) -> Any:
        mask = np.array([name in info for info in self._infos])
        if mask.any():
            first = next(info[name] for info in self._infos if name in info)
            return _stack([info.get(name, _blank(first)) for info in self._infos])
        mask = np.array([name[1:] in info for info in self._infos])
        if name.startswith("_") and mask.any():
            return mask
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name for info in self._infos for name in info)
        return iter([*names, *(f"_{name}" for name in names)])

    def __len__(self) -> int:
        return 2 * len({name for info in self._infos for name in info})


def _stack(values: list[Any]) -> NDArray[Any]:
    """Return values as one array with a leading axis; objects where they are not numbers or arrays of one shape."""
    if all(isinstance(value, int | float | np.generic | np.ndarray) for value in values):
        shapes = {np.shape(value) for value in values}
        if len(shapes) == 1:
            return np.array(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _blank(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, int | float | np.generic | np.ndarray) else None
