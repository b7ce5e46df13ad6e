"""One framework a file: put a bonus and its conversion around an environment, in one line.

``wrap`` is the one for Gymnasium; ``sb3`` is loaded when it is first named, so that neither is needed for the other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbim.adapters.gymnasium import wrap as wrap

_MODULES = ("gymnasium", "sb3")

__all__ = ["gymnasium", "sb3", "wrap"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pbim.adapters.{name}")
    if name != "wrap":
        raise AttributeError(f"module 'pbim.adapters' has no attribute {name!r}")
    return import_module("pbim.adapters.gymnasium").wrap


def __dir__() -> list[str]:
    return __all__
