"""The longer cliff walk: 4x50, 10,000 episodes of at most 100 steps, epsilon falling by 5e-4 (section 4.3).

``cliff-long`` has the base reading of :mod:`pbim.studies.cliff` and its fresh seeds, ``cliff-long-orthogonal`` our
first reading.
"""

from dataclasses import replace

from pbim.agents import QLearning
from pbim.envs import CliffWalk
from pbim.intrinsic import one_hot
from pbim.results import Claim
from pbim.studies.cliff import FIRST_SCHEMES, FIRST_SEED, RETURN, SCHEMES, Schemes, cells, grid
from pbim.studies.study import LATE, Study

ENV = CliffWalk(width=50, max_steps=100)
CHOSEN = ("none", "rnd", "pbim")
LATE_RETURN = {**RETURN, "statistic": "late_return"}


def lengthened(learner: QLearning) -> QLearning:
    """Return a learner of the short grid on the long one."""
    bonus = learner.intrinsic and replace(learner.intrinsic, encode=one_hot(200))
    return replace(learner, env=ENV, intrinsic=bonus, episodes=10_000, epsilon_decay=5e-4)


def stuck(study: str, scheme: str, place: str = "", where: str = "within the training given") -> Claim:
    """Return the paper's claim that a scheme does not converge; ``place`` and ``where`` tell variants apart."""
    return Claim(
        id=f"{study}-{scheme}-unstable{place}",
        statement=f"{SCHEMES[scheme][0]}: the greedy path does not reach the goal {where}",
        source="Section 4.3 and Figure 6: none converges to a stable path",
        paper="none converges",
        kind="never",
        cell=f"{scheme}{place}",
        statistic="greedy_length",
    )


def above(study: str, place: str = "", where: str = "") -> Claim:
    """Return the paper's claim that PBIM is ahead of no bonus; ``place`` and ``where`` tell variants apart."""
    return Claim(
        id=f"{study}-pbim-above-none{place}",
        statement=f"PBIM has a higher return than no bonus after episode 3000{where}",
        source="Section 4.3 and Figure 5",
        paper="p < .05",
        kind="greater",
        cell=f"pbim{place}",
        other=f"none{place}",
        **LATE_RETURN,
    )


def _columns(study: str) -> list[Claim]:
    """Return how far along the grid the schemes get."""
    return [
        Claim(
            id=f"{study}-rnd-column",
            statement="RND gets no further than the 42nd column",
            source="Appendix, long cliff walking, and Figure 6",
            paper="column 42 (41 counted from 0)",
            kind="estimate",
            cell="rnd",
            statistic="best_column",
            value=41.0,
            margin=4.0,
            reason="how far one of ten runs strays is noisy; 4 columns are a twelfth of the way",
        ),
        Claim(
            id=f"{study}-rnd-less-far",
            statement="RND gets less far along the grid than PBIM",
            source="Appendix, long cliff walking, and Figure 6",
            paper="42 of 50 columns against all",
            kind="less",
            cell="rnd",
            other="pbim",
            statistic="best_column",
            margin=4.0,
            reason="4 columns are a twelfth of the way",
        ),
        Claim(
            id=f"{study}-pbim-finds-goal",
            statement="PBIM gets to the last column, from which the goal is entered",
            source=f"Appendix, long cliff walking: it has found the reward ({LATE})",
            paper="column 50 (49 counted from 0)",
            kind="estimate",
            cell="pbim",
            statistic="best_column",
            value=49.0,
            margin=0.5,
            reason="the goal has one column above it",
        ),
    ]


def _study(study: str, title: str, schemes: Schemes, first_seed: int) -> Study:
    return Study(
        name=study,
        title=title,
        summary="The paper's 4x50 grid, where the goal is hard to find: does PBIM speed learning up?",
        cells=cells({name: (schemes[name][0], lengthened(schemes[name][1])) for name in CHOSEN}, first_seed),
        seeds=10,
        claims=(
            above(study),
            replace(
                above(study),
                id=f"{study}-rnd-like-none",
                statement="RND has the return of no bonus after episode 3000: its gain is not significant",
                paper="not significant",
                kind="equal",
                cell="rnd",
            ),
            *(stuck(study, name) for name in CHOSEN),
            *_columns(study),
        ),
        grid=grid(ENV),
    )


CLIFF_LONG = _study("cliff-long", "Longer cliff walking with RND", SCHEMES, FIRST_SEED)
CLIFF_LONG_ORTHOGONAL = _study(
    "cliff-long-orthogonal", "Longer cliff walking with RND, first reading", FIRST_SCHEMES, 0
)
