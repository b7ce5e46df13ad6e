"""Conformance suites to run on your own bonuses and conversions: each failure is one sentence."""

from pbim.testing.errors import ConformanceError
from pbim.testing.intrinsic import check_causal, check_intrinsic, random_transitions
from pbim.testing.shaping import check_shaping

__all__ = ["ConformanceError", "check_causal", "check_intrinsic", "check_shaping", "random_transitions"]
