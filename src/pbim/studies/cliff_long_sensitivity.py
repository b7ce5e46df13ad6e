"""The longer cliff walk under other Q learning rates and start values: is there a reading where nobody converges?

In the paper no agent converges to a stable path, and PBIM has a higher return than no bonus. With the base reading no
bonus learns in every seed. The learning rate and the values that a table starts with are not given.
"""

from dataclasses import replace

from pbim.results import Claim, Group, HeatPlan
from pbim.studies.cliff import FIRST_SEED, SCHEMES, grid
from pbim.studies.cliff_long import CHOSEN, ENV, above, lengthened, stuck
from pbim.studies.study import Cell, Study

NAME = "cliff-long-sensitivity"
RATES = (0.01, 0.03, 0.1, 0.3)
STARTS = (-100.0, 0.0, 100.0)


def _cell(scheme: str, rate: float, start: float) -> Cell:
    label, learner = SCHEMES[scheme]
    return Cell(
        name=f"{scheme}-rate{rate}-start{start:g}",
        label=f"{label}, rate {rate}, start {start:g}",
        scheme=scheme,
        group=f"rate{rate}",
        learner=replace(lengthened(learner), learning_rate=rate, initial_value=start),
        params={"scheme": scheme, "learning_rate": rate, "initial_value": start},
        first_seed=FIRST_SEED,
    )


def _claims(rate: float, start: float) -> list[Claim]:
    place, where = f"-rate{rate}-start{start:g}", f"with Q learning rate {rate} and start values {start:g}"
    return [stuck(NAME, "none", place, where), above(NAME, place, f" {where}")]


CLIFF_LONG_SENSITIVITY = Study(
    name=NAME,
    title="Longer cliff walking: Q learning rate and start values",
    summary="Is there a learning rate and a start value at which nobody converges, and is PBIM ahead there?",
    cells=tuple(_cell(scheme, rate, start) for rate in RATES for start in STARTS for scheme in CHOSEN),
    seeds=10,
    claims=tuple(claim for rate in RATES for start in STARTS for claim in _claims(rate, start)),
    groups=tuple(Group(name=f"rate{rate}", label=f"Q learning rate {rate}") for rate in RATES),
    grid=grid(ENV),
    heat=tuple(
        HeatPlan(
            title=f"{scheme}: late return",
            x="learning_rate",
            y="initial_value",
            statistic="late_return",
            cells=tuple(_cell(scheme, rate, start).name for rate in RATES for start in STARTS),
        )
        for scheme in CHOSEN
    ),
)
