"""A study of your own. Change what you like, then:  pbim reproduce my_study.py

A cell is one configuration; it is run once per seed. A claim is a statement with the test that decides it: write the
claims down before you run. The same command continues what was interrupted, and ends with a page that decides.
"""

from dataclasses import replace

from pbim.agents import PPO
from pbim.envs import DoorKey
from pbim.intrinsic import EpisodicCount
from pbim.results import Claim
from pbim.shaping import Geometric, NoBonus, Raw
from pbim.studies import Cell, Study

GAMMA = 0.99

RAW = PPO(
    env=DoorKey(size=5),  # or pbim.envs.HostEnv(id="CartPole-v1"), or a class of your own
    total_frames=200_000,
    gamma=GAMMA,
    intrinsic=EpisodicCount(alpha=0.025, key="count_key"),
    shaping=Raw(),
)

CELLS = (
    Cell(name="none", label="no bonus", learner=replace(RAW, intrinsic=None, shaping=NoBonus())),
    Cell(name="raw", label="raw bonus", learner=RAW),
    Cell(name="geometric", learner=replace(RAW, shaping=Geometric(gamma=GAMMA, rate=0.02))),
)


def shorter(cell: str, other: str) -> Claim:
    """Return the claim that one cell ends with shorter episodes than another."""
    return Claim(
        id=f"{cell}-shorter-{other}",
        statement=f"{cell} ends with shorter episodes than {other}",
        source="my question",
        paper=None,  # nothing to reproduce: the claim is supported or not
        kind="less",  # or greater, equal, reaches, never, ...
        cell=cell,
        other=other,
        statistic="final_length",  # or final_return, mean_return, frames_to_solve, ...
        margin=1.0,
        reason="a step",
    )


STUDY = Study(
    name="my-study",
    title="DoorKey-5x5 with a count bonus",
    summary="Does the converted bonus shorten the episodes?",
    cells=CELLS,
    seeds=5,
    claims=(shorter("geometric", "none"), shorter("geometric", "raw")),
)
