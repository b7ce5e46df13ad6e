"""Environments as pure JAX functions, and the protocol that agents see them through.

The public names stand in ``__init__.pyi``; each is loaded on first use. Importing the package registers ours with
Gymnasium, if it is installed.
"""

from importlib.util import find_spec

from pbim._extras import require
from pbim._lazy import attach

require("pbim.envs", "jax")
__getattr__, __dir__, __all__ = attach(__name__, __file__)

if find_spec("gymnasium") is not None:
    from pbim.envs.registration import register_environments

    register_environments()
    del register_environments
