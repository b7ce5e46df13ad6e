from . import (
    batching as batching,
    envpool as envpool,
    gymnasium as gymnasium,
    rsl_rl as rsl_rl,
    sb3 as sb3,
    torchrl as torchrl,
)
from .gymnasium import wrap as wrap
