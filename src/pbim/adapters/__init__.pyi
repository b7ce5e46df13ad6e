from . import (
    batching as batching,
    envpool as envpool,
    gymnasium as gymnasium,
    rllib as rllib,
    rsl_rl as rsl_rl,
    sb3 as sb3,
    torchrl as torchrl,
)
from .gymnasium import wrap as wrap
