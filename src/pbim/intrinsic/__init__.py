"""Intrinsic rewards: transition -> F. Each name is loaded on first use; counting needs no JAX, learning does.

The public names stand in ``__init__.pyi``.
"""

from pbim._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
