"""``jax.jit`` that keeps the types of what it compiles."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def jit(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that compiles a function with the options of ``jax.jit``, and looks like the function."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        compiled: Callable[P, R] = jax.jit(function, **options)
        return compiled

    return decorate
