"""Hypothesis without deadlines: machines are noisy, and laws are not about time. Programs go with their file."""

import gc
import re
import sys
from importlib.util import find_spec

import gymnasium
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", parent=settings.get_profile("laws"), derandomize=False, max_examples=2000)
settings.load_profile("laws")

MISSING = [name for name in ("torch", "stable_baselines3") if find_spec(name) is None]
"""What is not installed in the environments of other Python releases (make matrix)."""

if "CliffWalking-v1" not in gymnasium.registry:  # Gymnasium 1.1 calls the same environment v0
    gymnasium.register("CliffWalking-v1", "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv")


def pytest_sessionfinish() -> None:
    """Write what coverage measured here: xdist kills a worker that takes ten seconds to exit."""
    running = sys.modules["coverage"].Coverage.current() if "coverage" in sys.modules else None
    if running is not None:
        running.save()


def pytest_report_header() -> str | None:
    return f"files that import {' or '.join(MISSING)} are left out: not installed" if MISSING else None


def pytest_ignore_collect(collection_path) -> bool | None:
    if not MISSING or collection_path.suffix != ".py":
        return None
    needs = rf"^(import|from) ({'|'.join(MISSING)}|sb3_contrib)\b"
    return True if re.search(needs, collection_path.read_text(), re.MULTILINE) else None


@pytest.fixture(autouse=True, scope="module")
def no_old_programs():
    """Let go of a file's compiled programs: thousands in one process crash JAX when it compiles one more."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
