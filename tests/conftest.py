"""Hypothesis without deadlines: machines are noisy, and laws are not about time. Programs go with their file."""

import gc
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", parent=settings.get_profile("laws"), derandomize=False, max_examples=2000)
settings.load_profile("laws")


@pytest.fixture(autouse=True, scope="module")
def no_old_programs():
    """Let go of a file's compiled programs: thousands in one process crash JAX when it compiles one more."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
