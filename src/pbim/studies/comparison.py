"""A study made of one learner: the same environment and bonus under several conversions, over seeds.

The claims are fixed by the list of conversions alone: each is compared with the raw bonus and with no bonus, by the
task's own return at the end and over the whole training.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pbim.results import comparisons
from pbim.studies.study import Cell, Study, large_repayments


def comparison(learner: Any, conversions: Mapping[str, Mapping[str, Any]], *, name: str, title: str) -> Study:
    """Return the study that compares conversions of a learner's bonus.

    Args:
        learner: The learner, with its bonus.
        conversions: What changes in the learner, by the name of a cell; ``none`` and ``raw`` are the baselines.
        name: The study's name.
        title: Its name in words.

    >>> import pbim
    >>> from pbim.agents import PPO
    >>> from pbim.envs import DoorKey
    >>> learner = PPO(env=DoorKey(size=5), intrinsic=pbim.EpisodicCount(key="count_key"), shaping=pbim.Raw())
    >>> shapings = {"raw": pbim.Raw(), "geometric": pbim.Geometric(gamma=0.99)}
    >>> cells = {kind: {"shaping": shaping} for kind, shaping in shapings.items()}
    >>> [claim.id for claim in comparison(learner, cells, name="mine", title="Mine").claims]
    ['geometric-final_return-raw', 'geometric-mean_return-raw']

    """
    with large_repayments():
        cells = tuple(
            Cell(name=cell, learner=replace(learner, **changes), params={"conversion": cell})
            for cell, changes in conversions.items()
        )
    labels = [cell.label for cell in cells]
    cells = tuple(replace(cell, label=cell.name) if labels.count(cell.label) > 1 else cell for cell in cells)
    return Study(
        name=name,
        title=title,
        summary="The same learner and bonus under each conversion: who learns faster, who ends better?",
        cells=cells,
        seeds=5,
        claims=comparisons({cell.name: cell.label for cell in cells}),
    )
