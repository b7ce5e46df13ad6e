"""Checkpoints: one file with every array of a run and a JSON header; atomic, versioned, without pickle.

The layout is that of safetensors: eight bytes of header length, the header, the arrays. Random keys are stored as their
bits, so a run continues bit for bit.
"""

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pbim._files import replacing
from pbim.errors import InputError

VERSION = 1
_FORMAT = "pbim-checkpoint"
_LONGEST_HEADER = 1 << 24


def save(path: str | os.PathLike[str], state: Any, *, config: str, about: dict[str, Any] | None = None) -> None:
    """Write the pytree ``state`` to ``path``, whole or not at all; ``config`` says which run it is of."""
    arrays = {name: _stored(leaf) for name, leaf in _leaves(state)}
    entries, offset = {}, 0
    for name, array in arrays.items():
        entries[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "offset": offset}
        offset += array.nbytes
    header = {
        "format": _FORMAT,
        "version": VERSION,
        "config": config,
        "about": about or {},
        "bytes": offset,
        "sha256": digest(state),
        "arrays": entries,
    }
    _write(Path(path), json.dumps(header).encode(), [array.tobytes() for array in arrays.values()])


def load(path: str | os.PathLike[str], like: Any, *, config: str) -> Any:
    """Read a state of the form of ``like`` (arrays or shapes) written by a run of the same ``config``."""
    header, body = _read(Path(path))
    if header["config"] != config:
        differing = _difference(header["config"], config)
        raise InputError(
            f"the checkpoint {os.fspath(path)!r} is of another configuration ({differing}): "
            "resume with the settings it was started with, or start a run elsewhere"
        )
    leaves = []
    for name, leaf in _leaves(like):
        entry = header["arrays"].get(name)
        shape = np.shape(_stored_shape(leaf))
        if entry is None or tuple(entry["shape"]) != shape:
            found = "nothing" if entry is None else tuple(entry["shape"])
            raise InputError(f"the checkpoint {os.fspath(path)!r} has {found} for {name}, not {shape}: use another")
        dtype = np.dtype(entry["dtype"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(body[entry["offset"] : entry["offset"] + size], dtype).reshape(shape)
        leaves.append(_restored(array, leaf))
    state = jax.tree.unflatten(jax.tree.structure(like), leaves)
    if digest(state) != header["sha256"]:
        raise InputError(f"the checkpoint {os.fspath(path)!r} is damaged (its checksum differs): use an earlier one")
    return state


def about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a checkpoint, without its arrays."""
    header, _ = _read(Path(path))
    return {name: value for name, value in header.items() if name != "arrays"}


def digest(state: Any) -> str:
    """Return a fingerprint of every array of a pytree; equal for bit-identical states only."""
    total = hashlib.sha256()
    for name, leaf in _leaves(state):
        array = _stored(leaf)
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _write(path: Path, header: bytes, blocks: list[bytes]) -> None:
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(header)))
        file.write(header)
        file.writelines(blocks)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"path must name a checkpoint, received {str(path)!r}: {error.strerror}") from None
    try:
        (length,) = struct.unpack("<Q", content[:8])
        if length > min(_LONGEST_HEADER, len(content)):
            raise ValueError("no header")
        header = json.loads(content[8 : 8 + length])
        if header["format"] != _FORMAT:
            raise ValueError("not a checkpoint")
    except (struct.error, ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise InputError(f"{str(path)!r} is not a pbim checkpoint, or its beginning is lost: use another") from None
    if header["version"] != VERSION:
        raise InputError(
            f"{str(path)!r} has checkpoint version {header['version']}, this pbim reads {VERSION}: "
            "use the pbim that wrote it"
        )
    body = content[8 + length :]
    if len(body) != header["bytes"]:
        raise InputError(
            f"{str(path)!r} is truncated ({len(body)} of {header['bytes']} bytes of arrays): use an earlier checkpoint"
        )
    return header, body


def _leaves(state: Any) -> list[tuple[str, Any]]:
    found, _ = jax.tree_util.tree_flatten_with_path(state)
    return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in found]


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _stored(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _stored_shape(leaf: Any) -> Any:
    return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf


def _restored(array: np.ndarray[Any, Any], leaf: Any) -> Any:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jax.numpy.asarray(array))
    return jax.numpy.asarray(array, dtype=leaf.dtype)


def _difference(saved: str, wanted: str) -> str:
    """Name the first settings that differ, for configurations stored as JSON objects."""
    try:
        one, two = json.loads(saved), json.loads(wanted)
        differing = [
            f"{k}: {one.get(k)!r} there, {two.get(k)!r} here" for k in {**one, **two} if one.get(k) != two.get(k)
        ]
    except (ValueError, AttributeError):
        return "its settings differ"
    return "; ".join(differing[:3]) or "its settings differ"
