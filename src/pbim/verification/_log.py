"""A log of transitions, checked once: states as numbers, pays as floats, ends as flags."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim._arrays import on_host
from pbim.errors import InputError, InputTypeError

Key = Callable[[Any], Hashable]
RECURRING, FEW = 0.8, 16
"""Float observations are continuous when more than this share of at least so many rows are states of their own."""
EXACT = 2.0**53
"""Floats from here on do not hold every whole number."""
LARGEST = 1e100
"""Larger numbers overflow when they are squared and summed."""


@dataclass(frozen=True)
class States:
    """The states of a log: the number of each row's state and successor, (N,) each, and what people call them."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    count: int
    label: Callable[[int], Hashable]


@dataclass(frozen=True)
class Columns:
    """The columns of a log besides its observations, (N,) each; None where they were not given."""

    term: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_] | None
    extrinsic: NDArray[np.float64] | None
    episode: NDArray[np.int64] | None
    rounding: float
    """The relative rounding of the term: that of single precision where its numbers are single precision."""

    @property
    def scale(self) -> float:
        """Return the largest pay."""
        return float(np.abs(self.term).max())


def read(
    *, obs: Any, next_obs: Any, term: Any, terminated: Any, truncated: Any, extrinsic: Any, episode: Any
) -> tuple[Any, Any, Columns]:
    """Return the observations, their successors and the other columns, all of one length, or refuse them."""
    given = {"obs": obs, "next_obs": next_obs, "term": term, "terminated": terminated}
    for name, value in given.items():
        if value is None:
            raise InputError(f"{name} must be given, received None: pass one entry per transition")
    given |= {"truncated": truncated, "extrinsic": extrinsic, "episode": episode}
    columns = {name: _column(name, value) for name, value in given.items() if value is not None}
    sizes = {name: _length(column) for name, column in columns.items()}
    rows = sizes["term"]
    if not rows:
        raise InputError("term must hold at least one transition, received an empty log: record some episodes")
    for name, size in sizes.items():
        if size != rows:
            raise InputError(
                f"{name} must have one entry per transition, {rows:,} like term, received {size:,}: "
                "cut all columns to one length"
            )
    _check_alike(columns["obs"], columns["next_obs"])
    labels = columns.get("episode")
    log = Columns(
        term=_numbers("term", columns["term"]),
        terminated=_flags("terminated", columns["terminated"]),
        truncated=None if truncated is None else _flags("truncated", columns["truncated"]),
        extrinsic=None if extrinsic is None else _numbers("extrinsic", columns["extrinsic"]),
        episode=None if labels is None else _numbered(_keys("episode", labels))[0],
        rounding=_rounding(term, columns["term"]),
    )
    return columns["obs"], columns["next_obs"], log


def keyed(name: str, values: Any, key: Key) -> list[Hashable]:
    """Return the key of every observation; of an array the function is asked once per distinct row."""
    if not callable(key):
        raise InputTypeError(
            f"key must be a function of one observation, received {type(key).__name__}: return what tells states apart"
        )

    def of(row: Any) -> Hashable:
        return _hashable("key", key(row), "return an integer, a text or a tuple of them")

    column = _column(name, values)
    if isinstance(column, dict):
        return [of(dict(zip(column, row, strict=True))) for row in zip(*column.values(), strict=True)]
    if isinstance(values, list | tuple) or not isinstance(column, np.ndarray):
        return [of(row) for row in values]
    numbers, labels = _numbered(_keys(name, column))
    keys = [of(row) for row in (labels.rows if isinstance(labels, _Rows) else labels)]
    return [keys[number] for number in numbers.tolist()]


def number_states(obs: Any, next_obs: Any) -> States:
    """Return the states of a log as numbers 0, 1, ...; equal observations are one state."""
    rows = _length(obs)
    numbers, labels = _numbered(_joined(obs, next_obs))
    return States(numbers[:rows], numbers[rows:], len(labels), labels.__getitem__)


def number_rows(values: Any, name: str) -> NDArray[np.int64]:
    """Return rows of anything hashable as numbers, equal rows the same."""
    return _numbered(_keys(name, _column(name, values)))[0]


def is_continuous(obs: Any, states: Callable[[], States]) -> bool:
    """Tell whether observations are real numbers that hardly ever recur."""
    if not isinstance(obs, np.ndarray) or obs.dtype.kind != "f" or len(obs) < FEW:
        return False
    if not np.mod(obs[np.isfinite(obs)], 1).any():
        return False
    return states().count > RECURRING * len(obs)


class _Rows(Sequence[Any]):
    """Distinct rows of an array, as Python numbers and tuples when somebody asks."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return _plain(self.rows[index])


def _plain(value: Any) -> Any:
    """Return one row of an array as a Python number, text or tuple; a row of one number as that number."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    return value.item() if value.size == 1 else tuple(np.ravel(value).tolist())


def _numbered(values: Any) -> tuple[NDArray[np.int64], Sequence[Any]]:
    """Return each row's number, and one row of each number."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        if values.ndim == 1:
            found, numbers = np.unique(values, return_inverse=True)
            return numbers.astype(np.int64), _Rows(found)
        flat = np.ascontiguousarray(values.reshape(len(values), -1))
        flat = flat + 0 if flat.dtype.kind == "f" else flat  # one zero, not two
        hashable = flat.view(f"V{flat[:1].nbytes}").ravel().tolist()
        numbers, first = _first_rows(hashable)
        return numbers, _Rows(values[first])
    values = list(values)
    numbers, first = _first_rows(values)
    return numbers, [values[row] for row in first]


def _first_rows(values: list[Any]) -> tuple[NDArray[np.int64], list[int]]:
    """Return each value's number in order of appearance, and the first row of each."""
    known: dict[Any, int] = {}
    numbers = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int64, len(values))
    first = np.full(len(known), len(values), dtype=np.int64)
    np.minimum.at(first, numbers, np.arange(len(values)))
    return numbers, first.tolist()


def _joined(obs: Any, next_obs: Any) -> Any:
    """Return observations and successors in one column, in which equal ones are equal."""
    one, other = _keys("obs", obs), _keys("next_obs", next_obs)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return [*_listed(one), *_listed(other)]
    kinds = {one.dtype.kind, other.dtype.kind}
    if kinds == {"f"}:
        coarser = min(one.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
        return np.concatenate([one.astype(coarser), other.astype(coarser)])
    if len(kinds) > 1 and kinds <= set("iuf"):  # NumPy would make floats of them, in which large whole numbers meet
        return [*_listed(one), *_listed(other)]
    return np.concatenate([one, other])


def _check_alike(obs: Any, next_obs: Any) -> None:
    """Refuse successors of another form than the observations; lists of the user's own objects have any form."""
    if isinstance(obs, list) or isinstance(next_obs, list):
        return
    one, other = (sorted(column) if isinstance(column, dict) else column.shape[1:] for column in (obs, next_obs))
    if one != other:
        raise InputError(
            f"next_obs must have rows of the shape of obs, {one}, received {other}: pass the successor of each "
            "observation"
        )
    for part in obs if isinstance(obs, dict) else ():
        _check_alike(obs[part], next_obs[part])


def _listed(values: Any) -> list[Any]:
    return [_plain(row) for row in values] if isinstance(values, np.ndarray) else list(values)


def _keys(name: str, column: Any) -> Any:
    """Return a column whose rows can be told apart: an array of plain numbers or texts, or a list of hashables."""
    if isinstance(column, dict):
        parts = [_listed(_keys(f"{name}[{part!r}]", column[part])) for part in sorted(column)]
        return list(zip(*parts, strict=True))
    if isinstance(column, np.ndarray):
        if not column.size:
            raise InputError(f"{name} must have rows that tell states apart, received shape {column.shape}: fill it")
        there = np.equal(column, column) if column.dtype.kind in "fcmM" else np.ones(1, dtype=bool)  # NaN, and NaT
        if not there.all():
            raise InputError(f"{name} must hold no NaN, received one in row {_first_bad(there)}: drop it")
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufUS":
        return column
    return [_hashable(name, row, "pass key=, a function that returns what tells states apart") for row in column]


def _hashable(name: str, value: Any, way_out: str) -> Hashable:
    if isinstance(value, np.ndarray | np.generic):
        value = _plain(value)
    if isinstance(value, dict):
        return tuple((part, _hashable(name, value[part], way_out)) for part in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return tuple(_hashable(name, part, way_out) for part in value)
    if isinstance(value, float) and isnan(value):
        raise InputError(f"{name} must hold no NaN, received one, which equals no other state: drop its row")
    try:
        hash(value)
    except TypeError:
        raise InputTypeError(f"{name} must be hashable, received {type(value).__name__} {value!r}: {way_out}") from None
    return value  # type: ignore[no-any-return]


def _column(name: str, value: Any) -> Any:
    """Return a column as a NumPy array where it is one of numbers or texts, else as it is."""
    if isinstance(value, dict):
        parts = {part: _column(f"{name}[{part!r}]", entry) for part, entry in value.items()}
        if len(set(map(_length, parts.values()))) > 1:
            sizes = ", ".join(f"{part!r} of {_length(entry):,}" for part, entry in parts.items())
            raise InputError(f"{name} must have parts of one length, received {sizes}: cut all parts to one length")
        return parts
    if isinstance(value, str | bytes | set | frozenset) or not hasattr(value, "__len__"):
        raise InputTypeError(
            f"{name} must be an array or a list with one entry per transition, received {type(value).__name__}: "
            "pass a column"
        )
    if np.ma.is_masked(value):
        raise InputError(f"{name} must hold no masked entries, received some: drop their rows from every column")
    try:
        array = np.asarray(on_host(value))
    except (ValueError, TypeError):  # rows of different shapes: hashable things of the user's own
        return list(value)
    if str(array.dtype) == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind == "O" or (isinstance(value, list | tuple) and _merges(array)):
        return list(value)
    if array.ndim == 0:
        raise InputTypeError(f"{name} must have one entry per transition, received a single value: pass a column")
    return array


def _merges(array: NDArray[Any]) -> bool:
    """Tell whether an array may hold entries of a list as equal that are not: 1 and "1", texts that end in zeros."""
    return array.dtype.kind in "US" or (array.dtype.kind == "f" and bool((np.abs(array) >= EXACT).any()))


def _length(column: Any) -> int:
    return min(map(_length, column.values()), default=0) if isinstance(column, dict) else len(column)


def _numbers(name: str, column: Any) -> NDArray[np.float64]:
    column = np.asarray(column)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{name} must have one number per transition, received shape {column.shape}: pass it flat, one row per step"
        )
    unreal = f"{name} must hold real numbers, received {column.dtype}: convert it to floats"
    if column.dtype.kind not in "biufO":
        raise InputTypeError(unreal)
    try:
        values: NDArray[np.float64] = column.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(unreal) from None
    if not np.isfinite(values).all():
        row = _first_bad(np.isfinite(values))
        raise InputError(
            f"{name} must be finite, received {values[row]} in row {row}: look for a division by zero in what "
            "computes it"
        )
    if (np.abs(values) > LARGEST).any():
        row = _first_bad(np.abs(values) <= LARGEST)
        raise InputError(
            f"{name} must be between -{LARGEST:g} and {LARGEST:g}, received {values[row]:g} in row {row}: use "
            "other units"
        )
    return values


def _flags(name: str, column: Any) -> NDArray[np.bool_]:
    column = np.asarray(column)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1 or column.dtype.kind not in "biuf" or not np.isin(column, (0, 1)).all():
        raise InputTypeError(
            f"{name} must hold one boolean (or 0 and 1) per transition, received {column.dtype} of shape "
            f"{column.shape}: pass a mask such as {name} > 0"
        )
    return np.asarray(column, dtype=bool)


def _rounding(given: Any, column: Any) -> float:
    """Return the rounding of the numbers in a column, also of single precision that somebody kept in double."""
    if str(getattr(given, "dtype", "")).endswith("bfloat16"):  # a dtype that NumPy does not have
        return 2.0**-7
    values = np.asarray(column)
    if values.dtype.kind == "f" and values.itemsize < 8:
        return float(np.finfo(values.dtype).eps)
    values = values.astype(np.float64)
    short = (np.mod(values * 1024, 1) == 0).all()  # whole numbers, halves, ...: sums of these are exact
    with np.errstate(over="ignore"):
        single = not short and bool((values.astype(np.float32) == values).all())
    return float(np.finfo(np.float32 if single else np.float64).eps)


def _first_bad(fine: NDArray[np.bool_]) -> int:
    return int(np.argwhere(~fine)[0][0])
