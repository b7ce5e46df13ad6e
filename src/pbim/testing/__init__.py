"""Conformance suites to run on your own bonuses and conversions: each failure is one sentence."""

from typing import TYPE_CHECKING, Any

from pbim.testing.errors import ConformanceError
from pbim.testing.intrinsic import check_causal, check_intrinsic, random_transitions

if TYPE_CHECKING:
    from pbim.testing.shaping import check_shaping

__all__ = ["ConformanceError", "check_causal", "check_intrinsic", "check_shaping", "random_transitions"]


def __getattr__(name: str) -> Any:
    if name != "check_shaping":
        raise AttributeError(f"module 'pbim.testing' has no attribute {name!r}")
    from pbim.testing.shaping import check_shaping

    return check_shaping
