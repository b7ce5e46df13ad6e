"""Intrinsic motivation that provably keeps your task.

The public names stand in ``__init__.pyi``; each is loaded on first use, so ``import pbim`` stays light.
"""

from pbim._lazy import attach

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attach(__name__, __file__)
