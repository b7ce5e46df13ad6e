"""Visits of this episode beside something learned: what RIDE and NovelD are made of."""

from typing import Any, NamedTuple

from jax import Array

from pbim.intrinsic._core import Compiled
from pbim.intrinsic._shell import Shell
from pbim.intrinsic._tables import EpisodicTable


class VisitedState(NamedTuple):
    """What was learned, and the visits (num_envs, num_keys) of the running episodes, in a compiled loop."""

    learned: Any
    counts: Array


def visits_shell(bonus: Any, functions: tuple[str, str, str]) -> Shell:
    """Return a shell that reads a table of visits on the host and three pure functions of the learned part."""
    return Shell(bonus, table=EpisodicTable(type(bonus).__name__, bonus.key), core=Compiled(bonus, functions))
