"""Cliff walking with RND: the paper's small grid (section "Cliff Walking", appendix) and what its cells share.

The paper gives 4000 episodes, gamma .99, epsilon 1 -> .1 by 4e-4 per episode, RND's learning rate 1e-6 and its factor
1000. It leaves open the Q learning rate (here .1), the step cap (50: below the long grid's 100, to which it was
raised), RND's input (one-hot), size (64-64, 64 features) and optimiser (Adam): ``cliff-sensitivity`` varies them.
"""

from dataclasses import replace

from pbim.agents import QLearning
from pbim.envs import CliffWalk
from pbim.intrinsic import RND, one_hot
from pbim.results import Claim, GridMap
from pbim.shaping import PBIM, Raw
from pbim.studies.study import Cell, Study

ENV = CliffWalk(max_steps=50)
BONUS = RND(encode=one_hot(48), hidden=(64, 64), features=64, learning_rate=1e-6, normalize=False)
NONE = QLearning(env=ENV, episodes=4000, gamma=0.99, learning_rate=0.1, epsilon_decay=4e-4)
RAW = replace(NONE, intrinsic=BONUS, intrinsic_scale=1000.0, shaping=Raw())

SCHEMES: dict[str, tuple[str, QLearning]] = {
    "none": ("No IM", NONE),
    "rnd": ("RND", RAW),
    "pbim": ("PBIM", replace(RAW, shaping=PBIM(gamma=0.99))),
    "pbim-no-norm": ("PBIM, no norm", replace(RAW, shaping=PBIM(gamma=0.99, normalize=False))),
}

RETURN_MARGIN = 10.0
RETURN_REASON = "a fall instead of the goal costs 200, so 10 is one more fall in twenty episodes"
LENGTH_MARGIN = 1.0
LENGTH_REASON = "one step, of the 13 of the shortest path"


def grid(env: CliffWalk) -> GridMap:
    """Return the grid for policy maps."""
    start, goal = env.width * (env.height - 1), env.width * env.height - 1
    return GridMap(
        width=env.width,
        height=env.height,
        start=start,
        goal=goal,
        cliff=tuple(range(start + 1, goal)),
        actions=("up", "right", "down", "left"),
        shortest=env.width + 1,
    )


def _worse(scheme: str, words: str) -> Claim:
    return Claim(
        id=f"cliff-{scheme}-return",
        statement=f"{words} ends with a lower return than no bonus",
        source="Figure 3 (returns) and its caption",
        paper="p < .05",
        kind="less",
        cell=scheme,
        other="none",
        statistic="final_return",
        margin=RETURN_MARGIN,
        reason=RETURN_REASON,
    )


def _longer(scheme: str, other: str) -> Claim:
    return Claim(
        id=f"cliff-{scheme}-length-{other}",
        statement=f"{SCHEMES[scheme][0]} ends with longer episodes than {SCHEMES[other][0]}",
        source="Figure 3 (lengths) and its caption",
        paper="different, p < .05",
        kind="greater",
        cell=scheme,
        other=other,
        statistic="final_length",
        margin=LENGTH_MARGIN,
        reason=LENGTH_REASON,
    )


def _fails(scheme: str) -> Claim:
    return Claim(
        id=f"cliff-{scheme}-fails",
        statement=f"{SCHEMES[scheme][0]}: the greedy path does not reach the goal",
        source="Section 4.2, discussion, and Figure 4",
        paper="does not reach the goal",
        kind="never",
        cell=scheme,
        statistic="greedy_length",
    )


def _shortest(scheme: str) -> Claim:
    return Claim(
        id=f"cliff-{scheme}-shortest",
        statement=f"{SCHEMES[scheme][0]}: the greedy path is a shortest path",
        source="Section 4.2, discussion, and Figure 4",
        paper="13 steps along the cliff",
        kind="share",
        cell=scheme,
        statistic="greedy_length",
        value=13.0,
    )


EQUAL = Claim(
    id="cliff-pbim-equals-none",
    statement="PBIM ends with the return of no bonus",
    source="Section 4.2, discussion",
    paper="the same average return",
    kind="equal",
    cell="pbim",
    other="none",
    statistic="final_return",
    margin=RETURN_MARGIN,
    reason=RETURN_REASON,
)

CLIFF = Study(
    name="cliff",
    title="Cliff walking with RND",
    summary="The paper's 4x12 grid: does PBIM keep the task that RND spoils?",
    cells=tuple(
        Cell(name=scheme, label=label, learner=learner, params={"scheme": scheme})
        for scheme, (label, learner) in SCHEMES.items()
    ),
    seeds=10,
    claims=(
        EQUAL,
        _worse("rnd", "RND"),
        _worse("pbim-no-norm", "Un-normalised PBIM"),
        *(_longer(scheme, other) for scheme in ("rnd", "pbim-no-norm") for other in ("none", "pbim")),
        _fails("rnd"),
        _fails("pbim-no-norm"),
        _shortest("pbim"),
        _shortest("none"),
    ),
    grid=grid(ENV),
)
