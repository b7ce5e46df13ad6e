"""Files that are written whole or not at all, and arrays in them that never need pickle."""

import io
import os
import secrets
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError

LOCK = ".lock"
"""The file that a process holds while it works on a folder."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to that takes the place of ``path`` once all of it is on disk; else nothing changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.parent / f"{path.name}.{secrets.token_hex(4)}.part", "xb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process at a time work on a folder, where the system has file locks.

    Raises:
        InputError: If another process works on it.

    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"out {str(folder)!r} is in use by another pbim: wait for it, or pass another --out"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write arrays to ``path`` (.npz), smaller but slower with ``compress``."""
    with replacing(path) as file:
        put_arrays(file, arrays, compress=compress)


def put_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write arrays to an open file, as .npz; ``arrays_in`` is the inverse."""
    objects = sorted(name for name, array in arrays.items() if np.asarray(array).dtype == object)
    if objects:
        raise InputError(
            f"state must hold plain arrays to be saved without pickle, received Python objects in {objects} (exact "
            "numbers cannot be saved): use numbers or strings"
        )
    contents: dict[str, Any] = dict(arrays)
    save = np.savez_compressed if compress else np.savez
    save(file, allow_pickle=False, **contents)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``write_arrays`` wrote."""
    try:
        return arrays_in(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"path must name a saved state, received {str(path)!r}: there is no such file") from None
    except (ValueError, OSError) as error:
        raise InputError(
            f"path must name a saved state, received {str(path)!r}, which cannot be read ({error}): "
            "use an earlier checkpoint"
        ) from None


def arrays_in(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays in the bytes of an .npz file.

    Raises:
        ValueError: If they are damaged, hold pickles or claim more than there is; nothing else is raised.

    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # zipfile, zlib and numpy raise more than a dozen kinds of errors on damaged bytes
        raise ValueError(first_line(error)) from None


def in_words(error: BaseException) -> str:
    """Return what somebody else's code raised and where: ``KeyError: 'x' in line 3 of my_terms.py``."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text} in line {frame.lineno} of {Path(frame.filename).name}"


def first_line(error: BaseException) -> str:
    """Return what an error says in one line, shortened; its kind if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
