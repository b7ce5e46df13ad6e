"""Logs in files: parquet, npz and Minari datasets, as :func:`pbim.audit` takes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pbim._extras import require
from pbim._files import arrays_in, first_line
from pbim.errors import InputError, choose

NEEDED = ("obs", "next_obs", "term", "terminated")
OPTIONAL = ("truncated", "extrinsic", "episode", "action")
MINARI = "minari:"
"""What the name of a Minari dataset starts with."""


def is_log(source: str) -> bool:
    """Tell whether a name means a file or a Minari dataset, and not an environment."""
    return source.startswith(MINARI) or Path(source).suffix in (".parquet", ".npz") or Path(source).is_file()


def read_log(source: str | Path, columns: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the columns of a log by the names of :func:`pbim.audit`'s arguments.

    Args:
        source: A file that ends in ``.parquet`` or ``.npz``, or ``minari:`` and the name of a dataset.
        columns: What the file calls them, for those that have another name: ``{"term": "dense"}``. Several columns
            make one, separated by commas: ``{"obs": "x,y"}``. In a Minari dataset ``term`` is ``reward`` or
            ``info:name``.

    Returns:
        obs, next_obs, term, terminated, and truncated, extrinsic, episode and action where the file has them.

    Raises:
        InputError: If there is no such file or column, or the file is not what its name says.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.npz"
    >>> np.savez(path, obs=[0, 1], next_obs=[1, 2], dense=[0.5, 0.5], terminated=[False, True])
    >>> sorted(read_log(path, {"term": "dense"}))
    ['next_obs', 'obs', 'term', 'terminated']

    """
    given, name = dict(columns or {}), str(source)
    for argument in given:
        choose("columns", argument, (*NEEDED, *OPTIONAL))
    if name.startswith(MINARI):
        foreign = [argument for argument in given if argument != "term"]
        if foreign:
            raise InputError(
                f"--{foreign[0].replace('_', '-')} must go with a .parquet or .npz file, received it with {name!r}, "
                "which has its own names: leave it out"
            )
        return _minari(name.removeprefix(MINARI), given.get("term", "reward"))
    path = Path(source)
    if path.suffix not in (".parquet", ".npz"):
        raise InputError(f"a log must be a .parquet or .npz file, received {name!r}: convert it to one of these")
    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "there is no such file"
        raise InputError(f"a log must be a file, received {name!r}: {what}")
    table = _parquet(path) if path.suffix == ".parquet" else _npz(path)
    if not table:
        raise InputError(f"a log must have columns, received {name!r}, which has none: write {', '.join(NEEDED)}")
    found = {}
    for argument in (*NEEDED, *OPTIONAL):
        wanted = given.get(argument, argument).split(",")
        if argument in OPTIONAL and argument not in given and argument not in table:
            continue
        parts = [table[choose(f"--{argument.replace('_', '-')}", part, table)] for part in wanted]
        found[argument] = parts[0] if len(parts) == 1 else _beside(argument, wanted, parts)
    return found


def _beside(argument: str, names: Sequence[str], parts: Sequence[Any]) -> Any:
    sizes = {len(part) for part in parts}
    if len(sizes) > 1:
        raise InputError(
            f"{argument} must be made of columns of one length, received {', '.join(names)} of {sorted(sizes)}: "
            "cut them"
        )
    return (
        np.column_stack(parts)
        if all(isinstance(part, np.ndarray) for part in parts)
        else list(zip(*parts, strict=True))
    )


def _npz(path: Path) -> dict[str, Any]:
    try:
        return dict(arrays_in(path.read_bytes()))
    except ValueError as error:
        raise InputError(
            f"{str(path)!r} must be an .npz file of plain arrays, but cannot be read ({error}): write it again"
        ) from None


def _parquet(path: Path) -> dict[str, Any]:
    require("pbim audit", "polars")
    import polars

    try:
        frame = polars.read_parquet(path)
    except Exception as error:  # polars raises more than a dozen kinds of errors on what is no parquet
        raise InputError(
            f"{str(path)!r} must be a parquet file, but cannot be read ({first_line(error)}): write it again"
        ) from None
    return {name: _entries(frame[name]) for name in frame.columns}


def _entries(series: Any) -> Any:
    """Return a column of parquet as an array of numbers or rows, else as a list."""
    if series.dtype.is_numeric() or str(series.dtype) == "Boolean":
        return series.to_numpy()
    return series.to_list()


def _minari(name: str, term: str) -> dict[str, Any]:
    require("pbim audit", "minari")
    import minari  # type: ignore[import-not-found,unused-ignore]

    try:
        dataset = minari.load_dataset(name)
    except (FileNotFoundError, ValueError, OSError) as error:
        raise InputError(
            f"a Minari dataset must be on this machine, received {name!r} ({first_line(error)}): minari download {name}"
        ) from None
    return from_minari(dataset, term)


def from_minari(dataset: Any, term: str) -> dict[str, Any]:
    """Return the transitions of a Minari dataset; ``term`` is ``reward`` or ``info:name``."""
    columns: dict[str, list[Any]] = {name: [] for name in (*NEEDED, *OPTIONAL)}
    for episode in dataset.iterate_episodes():
        steps = len(episode.rewards)
        observations = _rows(episode.observations)
        columns["obs"] += observations[:steps]
        columns["next_obs"] += observations[1:]
        columns["action"] += _rows(episode.actions)
        columns["term"] += list(_term(episode, term))
        columns["terminated"] += list(episode.terminations)
        columns["truncated"] += list(episode.truncations)
        columns["extrinsic"] += list(episode.rewards)
        columns["episode"] += [int(episode.id)] * steps
    if term == "reward":
        del columns["extrinsic"]  # the term itself: nothing is left to rank episodes by
    return dict(columns)


def _term(episode: Any, term: str) -> Any:
    if term == "reward":
        return episode.rewards
    kind, _, entry = term.partition(":")
    if kind != "info" or not entry:
        raise InputError(f"--term must be reward or info:NAME for a Minari dataset, received {term!r}: correct it")
    infos = episode.infos or {}
    return np.asarray(infos[choose("--term", entry, infos)])[-len(episode.rewards) :]  # a first entry is of the reset


def _rows(tree: Any) -> list[Any]:
    """Return a batch, or a dict or tuple of batches, as a list of single values."""
    if isinstance(tree, dict):
        parts = {name: _rows(part) for name, part in tree.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    if isinstance(tree, tuple):
        return list(zip(*map(_rows, tree), strict=True))
    return list(tree)
