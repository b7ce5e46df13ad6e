"""Our own studies: does one rule, (guidance, lambda), hold on settings and tasks on which it was not chosen?

``guidance-transfer`` trains PPO: the paper's two other settings, DoorKey-16x16, and RND instead of counts.
``guidance-tabular`` trains Q-learning: one-step TD, for which the rule says the shortest delay, and Q(lambda), for
which it says the delay of PPO. The rule stands in ``RULE`` alone, and until the study ``guidance`` has decided it is
what its prototypes suggest.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from pbim.agents import QLearning
from pbim.intrinsic import RND
from pbim.results import Claim, Group
from pbim.shaping import GRM, Geometric, NoBonus, Shaping
from pbim.studies.cliff import NONE as CLIFF, RETURN, SCHEMES as CLIFF_SCHEMES
from pbim.studies.cliff_long import lengthened
from pbim.studies.doorkey import GAMMA, LENGTH, cell
from pbim.studies.doorkey_16 import ENV as LARGE
from pbim.studies.doorkey_conversions import MAIN
from pbim.studies.held_out import MARGINS, TASKS
from pbim.studies.study import Cell, Study


class Rule(NamedTuple):
    """How much of a bonus a learner is to feel, and the lambda to train with."""

    guidance: float
    gae_lambda: float


RULE = Rule(guidance=0.8, gae_lambda=0.9)
OLD_LAMBDA = 0.95
FRAMES, LARGE_FRAMES = 2_000_000, 8_000_000
RND_SCALE = 0.1
"""RND with its defaults pays about .2 a step at first, so that a step is worth about .02: as a first visit is."""
_SOURCE = "pbim's own question: does the rule chosen on DoorKey-8x8 hold here?"

SCHEMES: dict[str, tuple[str, Shaping[Any], float]] = {
    "rule": ("By the rule", GRM.for_learner(gamma=GAMMA, **RULE._asdict()), RULE.gae_lambda),
    "none": ("No bonus", NoBonus(), RULE.gae_lambda),
    "geometric-0.02": ("Geometric, 0.02, lambda .95", Geometric(gamma=GAMMA, rate=0.02), OLD_LAMBDA),
    "none-0.95": ("No bonus, lambda .95", NoBonus(), OLD_LAMBDA),
}
PLACES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "005-99": ("alpha .005, gamma .99", "005-99", {"total_frames": FRAMES}),
    "02-995": ("alpha .02, gamma .995", "02-995", {"total_frames": FRAMES}),
    "large": ("DoorKey-16x16", MAIN, {"total_frames": LARGE_FRAMES, "env": LARGE, "seeds": 10}),
    "rnd": ("RND instead of counts", MAIN, {"total_frames": FRAMES}),
}


def _cell(scheme: str, place: str) -> Cell:
    label, shaping, gae_lambda = SCHEMES[scheme]
    _, setting, changes = PLACES[place]
    base = cell(scheme, label, shaping, setting, gae_lambda=gae_lambda, **changes)
    learner = base.learner
    if place == "rnd" and learner.intrinsic is not None:
        learner = replace(learner, intrinsic=RND(), intrinsic_scale=RND_SCALE)
    return replace(base, name=f"{scheme}-{place}", group=place, learner=learner)


def _shorter(place: str, other: str) -> Claim:
    return Claim(
        id=f"guidance-transfer-rule-shorter-{other}-{place}",
        statement=f"{PLACES[place][0]}: the rule ends with shorter episodes than {SCHEMES[other][0].lower()}",
        source=_SOURCE,
        kind="less",
        cell=f"rule-{place}",
        other=f"{other}-{place}",
        **LENGTH,
    )


def _learns(place: str) -> Claim:
    return Claim(
        id=f"guidance-transfer-rule-solves-{place}",
        statement=f"{PLACES[place][0]}: the rule solves the task within the frames given",
        source=_SOURCE,
        kind="reaches",
        cell=f"rule-{place}",
        statistic="frames_to_solve",
    )


GUIDANCE_TRANSFER = Study(
    name="guidance-transfer",
    title="DoorKey: does the rule transfer?",
    summary="One (guidance, lambda) on the paper's other settings, DoorKey-16x16 and RND: nothing was tuned there.",
    cells=tuple(_cell(scheme, place) for place in PLACES for scheme in SCHEMES),
    seeds=5,
    claims=(
        *(_learns(place) for place in PLACES),
        *(_shorter(place, other) for place in PLACES for other in SCHEMES if other != "rule"),
    ),
    groups=tuple(Group(name=place, label=label) for place, (label, *_) in PLACES.items()),
)

TABULAR_TASKS: dict[str, tuple[str, QLearning]] = {
    **TASKS,
    "walk": ("Cliff walk, 4x12", CLIFF_SCHEMES["rnd"][1]),
    "walk-long": ("Cliff walk, 4x50", lengthened(CLIFF_SCHEMES["rnd"][1])),
}
TABULAR: dict[str, tuple[str, Shaping[Any], float]] = {
    "rule": ("Shortest delay", GRM.for_learner(gamma=CLIFF.gamma, gae_lambda=0, guidance=RULE.guidance), 0.0),
    "geometric-0.02": ("Geometric, 0.02", Geometric(gamma=CLIFF.gamma, rate=0.02), 0.0),
    "none": ("No bonus", NoBonus(), 0.0),
    "rule-traces": ("By the rule, Q(lambda)", GRM.for_learner(gamma=CLIFF.gamma, **RULE._asdict()), RULE.gae_lambda),
    "shortest-traces": ("Shortest delay, Q(lambda)", GRM(gamma=CLIFF.gamma, delay=1), RULE.gae_lambda),
    "none-traces": ("No bonus, Q(lambda)", NoBonus(), RULE.gae_lambda),
}
"""Label, conversion and lambda of the schemes."""


def _tabular_cell(scheme: str, task: str) -> Cell:
    label, shaping, trace_lambda = TABULAR[scheme]
    learner = replace(TABULAR_TASKS[task][1], shaping=shaping, trace_lambda=trace_lambda)
    if isinstance(shaping, NoBonus):
        learner = replace(learner, intrinsic=None, intrinsic_scale=1.0)
    return Cell(
        name=f"{scheme}-{task}",
        label=label,
        scheme=scheme,
        group=task,
        learner=learner,
        params={"scheme": scheme, "task": task, "lambda": trace_lambda},
    )


def _harmless(scheme: str, other: str, task: str) -> Claim:
    words = TABULAR[scheme][0][0].lower() + TABULAR[scheme][0][1:]
    return Claim(
        id=f"guidance-tabular-{scheme}-no-less-{other}-{task}",
        statement=f"{TABULAR_TASKS[task][0]}: {words}, ends with no lower return than {TABULAR[other][0]}",
        source=_SOURCE,
        kind="no-less",
        cell=f"{scheme}-{task}",
        other=f"{other}-{task}",
        **RETURN | MARGINS.get(task, {}),
    )


GUIDANCE_TABULAR = Study(
    name="guidance-tabular",
    title="Q-learning: does the rule transfer?",
    summary="For one-step TD the rule says the shortest delay, for Q(lambda) a longer one: does either do harm?",
    cells=tuple(_tabular_cell(scheme, task) for task in TABULAR_TASKS for scheme in TABULAR),
    seeds=10,
    claims=(
        *(_harmless("rule", "none", task) for task in TABULAR_TASKS),
        *(_harmless("rule", "geometric-0.02", task) for task in TABULAR_TASKS),
        *(_harmless("rule-traces", "none-traces", task) for task in TABULAR_TASKS),
        *(_harmless("rule-traces", "shortest-traces", task) for task in TABULAR_TASKS),
    ),
    groups=tuple(Group(name=task, label=label) for task, (label, _) in TABULAR_TASKS.items()),
)
