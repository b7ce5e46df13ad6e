"""Cliff walking with RND: the paper's small grid (section "Cliff Walking", appendix) and what its cells share.

The paper gives 4000 episodes, gamma .99, epsilon 1 -> .1 by 4e-4 an episode, RND's learning rate 1e-6 and its factor
1000. It leaves open the Q learning rate (here .1), the step cap (50: below the long grid's 100, to which it was
raised), RND's input (one-hot), size (64-64, 64 features) and optimiser (Adam): ``cliff-sensitivity`` varies them.
"""

from typing import Any

from pbim.studies.study import Cell, Claim, Study

LANES = 5
"""Seeds a program learns side by side; part of the configuration, because it is part of the arithmetic."""

RND = {
    "kind": "rnd",
    "encoding": "one-hot",
    "hidden": [64, 64],
    "features": 64,
    "optimizer": "adam",
    "learning_rate": 1e-6,
    "scale": 1000.0,
}

BASE: dict[str, Any] = {
    "lanes": LANES,
    "env": {
        "width": 12,
        "height": 4,
        "max_steps": 50,
        "step_reward": -1.0,
        "cliff_reward": -100.0,
        "goal_reward": 100.0,
        "slip": 0.0,
    },
    "episodes": 4000,
    "gamma": 0.99,
    "learning_rate": 0.1,
    "epsilon_start": 1.0,
    "epsilon_min": 0.1,
    "epsilon_decay": 4e-4,
    "initial_value": 0.0,
    "truncation": "end",
}

NONE = {"intrinsic": None, "shaping": {"kind": "none"}}
RAW = {"intrinsic": RND, "shaping": {"kind": "raw"}}
PBIM = {"intrinsic": RND, "shaping": {"kind": "pbim", "centring": "running"}}
NO_NORM = {"intrinsic": RND, "shaping": {"kind": "pbim", "centring": "none"}}

SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("No IM", NONE),
    "rnd": ("RND", RAW),
    "pbim": ("PBIM", PBIM),
    "pbim-no-norm": ("PBIM, no norm", NO_NORM),
}

RETURN_MARGIN = 10.0
RETURN_REASON = "a fall instead of the goal costs 200, so 10 is one more fall in twenty episodes"
LENGTH_MARGIN = 1.0
LENGTH_REASON = "one step, of the 13 of the shortest path"


def cell(scheme: str, base: dict[str, Any] = BASE) -> Cell:
    """Return the cell of one scheme with its usual name."""
    label, parts = SCHEMES[scheme]
    return Cell(
        name=scheme,
        label=label,
        scheme=scheme,
        config={**base, **parts},
        params={"scheme": scheme},
        exact=parts["shaping"]["kind"] != "raw",
    )


def grid(width: int, height: int = 4) -> dict[str, Any]:
    """Return the grid for policy maps; states are row-major."""
    start, goal = width * (height - 1), width * height - 1
    return {
        "width": width,
        "height": height,
        "start": start,
        "goal": goal,
        "cliff": list(range(start + 1, goal)),
        "actions": ["up", "right", "down", "left"],
        "shortest": width + 1,
    }


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
    learner="q_learning",
    cells=tuple(map(cell, SCHEMES)),
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
    grid=grid(12),
)
