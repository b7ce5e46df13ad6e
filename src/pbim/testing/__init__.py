"""Conformance suites for your own bonuses, conversions, adapters and reward terms: each failure is one sentence."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbim._extras import require
from pbim.testing.errors import ConformanceError
from pbim.testing.intrinsic import check_causal, check_intrinsic, random_transitions

if TYPE_CHECKING:
    from pbim.testing.adapter import AdapterCase, check_adapter
    from pbim.testing.reward_term import check_reward_term
    from pbim.testing.shaping import check_shaping

__all__ = [
    "AdapterCase",
    "ConformanceError",
    "check_adapter",
    "check_causal",
    "check_intrinsic",
    "check_reward_term",
    "check_shaping",
    "random_transitions",
]

_HOMES = {
    "AdapterCase": "adapter",
    "check_adapter": "adapter",
    "check_reward_term": "reward_term",
    "check_shaping": "shaping",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pbim.testing' has no attribute {name!r}")
    if _HOMES[name] == "adapter":
        require(f"pbim.testing.{name}", "gymnasium")
    return getattr(import_module(f"pbim.testing.{_HOMES[name]}"), name)
