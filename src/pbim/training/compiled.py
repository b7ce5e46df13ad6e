"""Compiled programs kept between runs, and one core each for those that run side by side."""

import os
from pathlib import Path
from typing import Any

ONE_THREAD = {
    "PJRT_NPROC": "1",  # threads of XLA's pools, which otherwise hand small work to each other
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
"""The environment of a process that computes on one core, and keeps every program it compiles."""


def keep_compiled() -> None:
    """Let JAX keep compiled programs between runs, in the user's cache folder unless JAX is told another."""
    import jax

    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        config.update("jax_compilation_cache_dir", str(Path(cache) / "pbim" / "compiled"))
