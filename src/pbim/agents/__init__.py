"""The paper's two learners, compiled end to end: recurrent PPO and tabular Q-learning."""

from pbim._extras import require
from pbim._lazy import attach

require("pbim.agents", "jax", "optax")
__getattr__, __dir__, __all__ = attach(__name__, __file__)
