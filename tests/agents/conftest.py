"""One compilation of each program for all tests of the learners."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Keep compiled programs for the length of the session: configurations that are equal compile once."""
    wanted = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.5,
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    for settings in (wanted, before):
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        if settings is wanted:
            yield
