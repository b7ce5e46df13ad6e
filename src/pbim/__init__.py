"""Intrinsic motivation that provably keeps your task.

The names below are the public interface; each is loaded on first use, so ``import pbim`` stays light.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "shaping": "PBIM GRM Geometric Bounded Mixture Custom Raw NoBonus PIES PBRS LookAhead LookBack",
    "verification": "Certificate FiniteMDP residuals verify",
    "intrinsic": "EpisodicCount LifetimeCount ActionRecency PseudoCount RND ICM RIDE NovelD E3B Disagreement "
    "Empowerment",
    "adapters": "wrap",
    "errors": "InputError InputTypeError RepaymentWarning",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("adapters", "agents", "envs", "errors", "intrinsic", "report", "shaping", "testing", "verification")

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pbim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pbim' has no attribute {name!r}")
    value = getattr(import_module(f"pbim.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
