"""Tasks on which nothing was tuned: two with long episodes, and one that never ends.

Gymnasium's own CliffWalking (a fall sets the agent back and ends nothing) and Taxi are capped at 10,000 steps only:
at gamma .99 what PBIM owes grows up to 4e43 times and overflows float32. RiverSwim (Strehl & Littman 2008) goes on for
ever: a row is a window of 500 steps which nothing but the record takes notice of. Without a last step nothing is ever
settled, so there PBIM is the raw bonus, centred, and promises nothing; the conversions that repay along the way keep
their promise, because what they owe stays bounded and is discounted.

All but the number of episodes was fixed before anything ran (1,000, halved to save time after a smoke test of 60 on two
of the tasks). Sizes of the bonus, from the rewards: a first visit in an episode is worth the step that it costs (alpha
1, CliffWalking and Taxi); RiverSwim's is beta / sqrt(n) over the lifetime, as in the paper that it comes from, with
beta the largest reward, 1. Q-learning: learning rate .1, epsilon .1 throughout, values from 0.
"""

from dataclasses import replace
from typing import Any

from pbim.agents import QLearning
from pbim.envs import RiverSwim, ToyText
from pbim.intrinsic import EpisodicCount, LifetimeCount
from pbim.results import Claim, Group
from pbim.results.records import ClaimKind
from pbim.shaping import NoBonus, Raw, Shaping
from pbim.studies.doorkey_conversions import CONVERSIONS
from pbim.studies.doorkey_default import CENTRED
from pbim.studies.study import Cell, Study

LONG = 10_000
_CLIFF = QLearning(
    env=ToyText(id="CliffWalking-v1", max_steps=LONG),
    intrinsic=EpisodicCount(alpha=1.0),
    episodes=500,
    gamma=0.99,
    learning_rate=0.1,
    epsilon_start=0.1,
    epsilon_decay=0.0,
)
TASKS: dict[str, tuple[str, QLearning]] = {
    "cliff": ("CliffWalking, up to 10,000 steps", _CLIFF),
    "taxi": ("Taxi, up to 10,000 steps", replace(_CLIFF, env=ToyText(id="Taxi-v4", max_steps=LONG))),
    "river": (
        "RiverSwim, endless",
        replace(_CLIFF, env=RiverSwim(max_steps=500), intrinsic=LifetimeCount(beta=1.0), truncation="continue"),
    ),
}
REPAYING = ("geometric-0.02", "geometric-0.1", "grm-32", "bounded-0.3", "bounded-1")
SCHEMES: dict[str, tuple[str, Shaping[Any]]] = {
    "none": ("No bonus", NoBonus()),
    "raw": ("Raw bonus", Raw()),
    **{name: {**CONVERSIONS, **CENTRED}[name] for name in ("pbim", *REPAYING)},
}
MARGINS: dict[str, dict[str, Any]] = {
    "cliff": {"margin": 10.0, "reason": "a fall costs 100, so 10 is one more fall in ten episodes"},
    "taxi": {"margin": 2.0, "reason": "two more steps of the 13 that a ride takes"},
    "river": {"margin": 2.5, "reason": "what a window at the left bank earns; at the right bank it is 33"},
}


def _cell(scheme: str, task: str) -> Cell:
    label, shaping = SCHEMES[scheme]
    learner = replace(TASKS[task][1], shaping=shaping.with_gamma(0.99))
    return Cell(
        name=f"{scheme}-{task}",
        label=label,
        scheme=scheme,
        group=task,
        learner=replace(learner, intrinsic=None) if scheme == "none" else learner,
        params={"scheme": scheme, "task": task},
    )


def _claim(scheme: str, task: str, kind: ClaimKind, words: str, other: str = "none") -> Claim:
    return Claim(
        id=f"held-out-{scheme}-{kind}-{other}-{task}",
        statement=f"{TASKS[task][0]}: {SCHEMES[scheme][0]} {words} {SCHEMES[other][0].lower()}",
        source="pbim's own question: does what was chosen on DoorKey-8x8 hold here?",
        kind=kind,
        cell=f"{scheme}-{task}",
        other=f"{other}-{task}",
        statistic="final_return",
        **MARGINS[task],
    )


HARMLESS, WORSE, BETTER = "ends with the return of", "ends with a lower return than", "ends with a higher return than"

HELD_OUT = Study(
    name="held-out",
    title="Held-out tasks: long episodes and none at all",
    summary="CliffWalking and Taxi with up to 10,000 steps an episode, and RiverSwim, which never ends.",
    cells=tuple(_cell(scheme, task) for task in TASKS for scheme in SCHEMES),
    seeds=10,
    claims=(
        *(_claim(scheme, task, "equal", HARMLESS) for task in ("cliff", "taxi") for scheme in REPAYING),
        *(_claim(scheme, task, "less", WORSE) for task in ("cliff", "taxi") for scheme in ("raw", "pbim")),
        *(_claim(scheme, "river", "greater", BETTER) for scheme in ("raw", *REPAYING)),
        _claim("pbim", "river", "equal", HARMLESS, other="raw"),
    ),
    groups=tuple(Group(name=task, label=label) for task, (label, _) in TASKS.items()),
)
