"""Checkpoints: one safetensors file with every array of a run; written whole or not at all, and never pickle.

The file's metadata says what it is: format, version, configuration, a few words about the run, the fingerprint of its
arrays and one of all these words. Random keys are stored as their bits, so a run continues bit for bit.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from pbim._files import first_line, replacing
from pbim.config import JSON, strict
from pbim.errors import InputError

VERSION = 2
"""2: safetensors. 1 was a format of our own."""

T = TypeVar("T")
_FORMAT, _SEAL = "pbim-checkpoint", "metadata_sha256"
_WORDS = {"format", "version", "config", "about", "sha256"}
_DAMAGE = (SafetensorError, ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError)
"""What safetensors raises, too, on a header that names types and sizes which there are not."""


def save(path: str | os.PathLike[str], state: Any, *, config: str, about: dict[str, JSON] | None = None) -> None:
    """Write a pytree of arrays to a file, whole or not at all.

    Args:
        path: The file; what was there is replaced.
        state: Arrays and random keys in tuples, NamedTuples and mappings.
        config: Which run it is of; :func:`load` asks for the same text.
        about: Anything else to know of it, as JSON.

    """
    metadata = {
        "format": _FORMAT,
        "version": str(VERSION),
        "config": config,
        "about": json.dumps(strict(about or {}), allow_nan=False),
        "sha256": digest(state),
    }
    metadata[_SEAL] = _seal(metadata)
    content = to_bytes({name: _bits(leaf) for name, leaf in _leaves(state)}, metadata)
    with replacing(Path(path)) as file:
        file.write(content)


def load(path: str | os.PathLike[str], like: T, *, config: str) -> T:
    """Read the state that a run of the same configuration wrote.

    Args:
        path: The file.
        like: Arrays, or shapes, of the form to read.
        config: The text that :func:`save` stored.

    Raises:
        InputError: If the file is missing, damaged, not ours, of another version or of another run.

    """
    path = Path(path)
    with _opened(path) as (file, metadata):
        if metadata["config"] != config:
            differing = _difference(metadata["config"], config)
            raise InputError(
                f"the checkpoint {str(path)!r} is of another configuration ({differing}): "
                "resume with the settings it was started with, or start a run elsewhere"
            )
        wanted, names = _leaves(like), set(file.keys())
        surplus = sorted(names - {name for name, _ in wanted})
        if surplus:
            raise InputError(f"the checkpoint {str(path)!r} holds {surplus[0]}, which the run does not: use another")
        leaves = [_restore(_read(path, file, names, name, leaf), leaf) for name, leaf in wanted]
    state: T = jax.tree.unflatten(jax.tree.structure(like), leaves)
    if digest(state) != metadata["sha256"]:
        raise InputError(_damaged(path, "its checksum differs"))
    return state


def about(path: str | os.PathLike[str]) -> dict[str, JSON]:
    """Return what a checkpoint says of itself (format, version, config, about, sha256), without reading its arrays.

    Raises:
        InputError: If the file is missing, damaged, not ours or of another version.

    """
    with _opened(Path(path)) as (_, metadata):
        known = {name: text for name, text in metadata.items() if name != _SEAL}
        return {**known, "version": int(metadata["version"]), "about": _words(Path(path), metadata["about"])}


def digest(state: Any) -> str:
    """Return a fingerprint of every array of a pytree; equal for bit-identical states only."""
    total = hashlib.sha256()
    for name, leaf in _leaves(state):
        array = _bits(leaf)
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """Open a checkpoint of this version: safetensors checks that its header fits the file, and reads nothing else."""
    try:
        with path.open("rb") as raw:
            start = raw.read(256)
        file: Any = safe_open(path, framework="numpy")
    except OSError as error:
        raise InputError(f"path must name a checkpoint, received {str(path)!r}: {error.strerror or error}") from None
    except _DAMAGE as error:
        raise InputError(_unreadable(path, start, error)) from None
    with file:
        metadata: dict[str, str] = file.metadata() or {}
        if metadata.get("format") != _FORMAT or not metadata.keys() >= _WORDS:
            raise InputError(f"{str(path)!r} is not a pbim checkpoint: use another file")
        if metadata["version"] != str(VERSION):
            raise InputError(_other_version(path, metadata["version"]))
        whole = {*_WORDS, _SEAL} >= metadata.keys() and metadata.get(_SEAL, _seal(metadata)) == _seal(metadata)
        if not whole:  # the first checkpoints of version 2 have no seal
            raise InputError(_damaged(path, "its description of itself was changed"))
        yield file, metadata


def _seal(metadata: Mapping[str, str]) -> str:
    named = {name: text for name, text in metadata.items() if name != _SEAL}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def _words(path: Path, text: str) -> dict[str, JSON]:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise InputError(_damaged(path, "its description of the run cannot be read"))
    return words


def _damaged(path: Path, why: str) -> str:
    return f"the checkpoint {str(path)!r} is damaged ({why}): use an earlier one"


def _unreadable(path: Path, start: bytes, error: BaseException) -> str:
    if _FORMAT.encode() in start and b'"version": 1,' in start:
        return _other_version(path, "1")
    if "IncompleteBuffer" in str(error) or "not fully covered" in str(error):
        return f"the checkpoint {str(path)!r} is truncated ({error}): use an earlier one"
    return f"{str(path)!r} is not a pbim checkpoint, or its beginning is lost ({error}): use another file"


def _other_version(path: Path, version: str) -> str:
    return f"{str(path)!r} has checkpoint version {version}, this pbim reads {VERSION}: use the pbim that wrote it"


def _read(path: Path, file: Any, names: set[str], name: str, leaf: Any) -> NDArray[Any]:
    wanted = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    found = "nothing"
    if name in names:
        try:
            array: NDArray[Any] = file.get_tensor(name)
        except _DAMAGE as error:
            raise InputError(_damaged(path, f"{name}: {first_line(error)}")) from None
        if array.shape == wanted.shape and array.dtype == wanted.dtype:
            return array
        found = f"{array.dtype} {array.shape}"
    raise InputError(
        f"the checkpoint {str(path)!r} has {found} for {name}, not {wanted.dtype} {wanted.shape}: use another"
    )


def _leaves(state: Any) -> list[tuple[str, Any]]:
    found, _ = jax.tree_util.tree_flatten_with_path(state)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in found]


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _bits(leaf: Any) -> NDArray[Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")


def _restore(array: NDArray[Any], leaf: Any) -> Any:
    """Return an array of the library of ``leaf``: NumPy's keep types that JAX does not have."""
    if isinstance(leaf, np.ndarray):
        return array
    return jax.random.wrap_key_data(jax.numpy.asarray(array)) if _is_key(leaf) else jax.numpy.asarray(array)


def _difference(saved: str, wanted: str) -> str:
    """Name the settings that differ, for configurations stored as JSON objects."""
    try:
        one, two = (dict(_settings(json.loads(text), "")) for text in (saved, wanted))
    except (ValueError, RecursionError):
        return "its settings differ"
    differing = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    shown = [f"{name}: {one.get(name, 'nothing')} there, {two.get(name, 'nothing')} here" for name in differing[:5]]
    more = [f"{len(differing) - 5} more"] if len(differing) > 5 else []
    return "; ".join(shown + more) or "its settings differ"


def _settings(data: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    """Yield every number and text in nested settings, with its dotted path."""
    if not isinstance(data, dict | list):
        yield path, data
        return
    for name, part in data.items() if isinstance(data, dict) else enumerate(data):
        yield from _settings(part, f"{path}.{name}" if path else str(name))
