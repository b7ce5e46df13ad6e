"""Intrinsic motivation that provably keeps your task.

The names below are the public interface; each is loaded on first use, so ``import pbim`` stays light.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(
        ("PBIM", "GRM", "Geometric", "Custom", "Raw", "NoBonus", "PIES", "PBRS", "LookAhead", "LookBack"),
        "pbim.shaping",
    ),
    **dict.fromkeys(("Certificate", "residuals"), "pbim.verification"),
    **dict.fromkeys(("InputError", "InputTypeError", "RepaymentWarning"), "pbim.errors"),
}
_MODULES = ("shaping", "verification", "errors")

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pbim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pbim' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
