from . import batching as batching, gymnasium as gymnasium, sb3 as sb3
from .gymnasium import wrap as wrap
