"""One file of arrays next to a learner's own checkpoint: written whole or not at all, never pickle."""

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbim.errors import InputError


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to ``path`` (.npz), replacing it only once they are all on disk."""
    objects = sorted(name for name, array in arrays.items() if np.asarray(array).dtype == object)
    if objects:
        raise InputError(
            f"state must hold plain arrays to be saved without pickle, {objects} hold Python objects: let the bonus's "
            "state_dict return numbers or strings"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            np.savez(file, allow_pickle=False, **dict(arrays))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``write_arrays`` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"path must name a saved state, received {str(path)!r}: there is no such file") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"path must name a saved state, received {str(path)!r}, which cannot be read ({error}): use an earlier one"
        ) from None
