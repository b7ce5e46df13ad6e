"""The paper's experiments and ours: a grid of cells, seeds, and claims; and the engines that run them.

A study is a :class:`Study` whose cells hold learners. ``STUDIES`` loads each on first use.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pbim._extras import require

require("pbim.studies", "jax", "polars")

from pbim._files import first_line  # noqa: E402 - a missing extra is said first
from pbim.errors import InputError, MissingExtraError, choose  # noqa: E402 - a missing extra is said first
from pbim.studies.study import Cell as Cell, Study as Study, large_repayments  # noqa: E402

_HOMES = {
    "cliff": "cliff:CLIFF",
    "cliff-long": "cliff_long:CLIFF_LONG",
    "cliff-orthogonal": "cliff:CLIFF_ORTHOGONAL",
    "cliff-long-orthogonal": "cliff_long:CLIFF_LONG_ORTHOGONAL",
    "cliff-sensitivity": "cliff_sensitivity:CLIFF_SENSITIVITY",
    "cliff-long-sensitivity": "cliff_long_sensitivity:CLIFF_LONG_SENSITIVITY",
    "cliff-conversions": "cliff_conversions:CLIFF_CONVERSIONS",
    "doorkey": "doorkey:DOORKEY",
    "doorkey-readings": "doorkey_readings:DOORKEY_READINGS",
    "doorkey-start": "doorkey_settled:DOORKEY_START",
    "doorkey-end": "doorkey_settled:DOORKEY_END",
    "doorkey-undiscounted": "doorkey_settled:DOORKEY_UNDISCOUNTED",
    "doorkey-rollout": "doorkey_settled:DOORKEY_ROLLOUT",
    "doorkey-baselines": "doorkey_baselines:DOORKEY_BASELINES",
    "doorkey-sensitivity": "doorkey_sensitivity:DOORKEY_SENSITIVITY",
    "doorkey-conversions": "doorkey_conversions:DOORKEY_CONVERSIONS",
    "doorkey-default": "doorkey_default:DOORKEY_DEFAULT",
    "doorkey-16": "doorkey_16:DOORKEY_16",
    "held-out": "held_out:HELD_OUT",
    "guidance": "guidance:GUIDANCE",
    "guidance-alpha": "guidance_alpha:GUIDANCE_ALPHA",
    "guidance-critic": "guidance_critic:GUIDANCE_CRITIC",
    "guidance-transfer": "guidance_transfer:GUIDANCE_TRANSFER",
    "guidance-tabular": "guidance_transfer:GUIDANCE_TABULAR",
    "alternatives": "alternatives:ALTERNATIVES",
}


class _Studies(Mapping[str, Study]):
    """Every study by its name, loaded when it is asked for."""

    def __getitem__(self, name: str) -> Study:
        return _load(f"pbim.studies.{_HOMES[name]}")

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


STUDIES: Mapping[str, Study] = _Studies()
"""Every study by its name."""


def find(name: str) -> Study:
    """Return the study of that name, of a file ``my_study.py``, or of an import path ``package.module:STUDY``.

    Raises:
        InputError: If there is none, with the nearest name.

    """
    if name.endswith(".py"):
        return _load(f"{_importable(Path(name))}:STUDY")
    if ":" in name:
        return _load(name)
    return STUDIES[choose("study", name, [*STUDIES, "my_study.py", "package.module:STUDY"])]


def _importable(file: Path) -> str:
    """Let this process and those that it starts import a file, and return the module's name."""
    if not file.is_file():
        raise InputError(
            f"study must be a Python file, received {str(file)!r}, which is not there: "
            "pbim reproduce --template > my_study.py makes one"
        )
    if not file.stem.isidentifier():
        raise InputError(
            f"study must be a file that Python can import, received {str(file)!r}: rename it with letters, digits and "
            "underscores, such as my_study.py"
        )
    other = getattr(sys.modules.get(file.stem), "__file__", None)
    if file.stem in sys.modules and other != str(file.resolve()):
        raise InputError(f"study must have a name that no other module has, received {str(file)!r}: rename the file")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, paths)])
    return file.stem


def _load(path: str) -> Study:
    module, _, name = path.partition(":")
    try:
        with large_repayments():
            study: Any = getattr(import_module(module), name)
    except MissingExtraError:
        raise
    except Exception as error:  # the module may be the user's, and raise anything
        raise InputError(
            f"study must be a name, a file or an import path package.module:STUDY, received {path!r} "
            f"({type(error).__name__}: {first_line(error)}): correct it"
        ) from None
    if not isinstance(study, Study):
        raise InputError(f"study must name a pbim.studies.Study, received {path!r}, a {type(study).__name__}: make one")
    return study
