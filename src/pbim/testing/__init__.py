"""Conformance suites to run on your own bonuses: each failure is one sentence that begins with the check's name."""

from pbim.testing.errors import ConformanceError
from pbim.testing.intrinsic import check_causal, check_intrinsic, random_transitions

__all__ = ["ConformanceError", "check_causal", "check_intrinsic", "random_transitions"]
