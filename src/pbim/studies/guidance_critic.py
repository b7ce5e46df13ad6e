"""Our own study: a critic that sees the ledger knows what will be taken back. Does the bonus still guide?

The law says no (docs/guidance.md): such a critic predicts V - L_t, and GAE of R + F' is GAE of R. The ledger is an
extra input of the critic, times a weight that starts at 0 and is learned. Written before anything of it ran.
"""

from dataclasses import replace

from pbim.results import Group
from pbim.studies.guidance import CELLS, compared, grm, guided
from pbim.studies.study import Study

NONE, BLIND = CELLS["none-0.95"], CELLS["grm-32-0.95"]
_SEES = guided("sees-ledger", "GRM, delay 32, the critic sees the ledger", grm(32), 0.95, delay=32)
SEES = replace(_SEES, learner=replace(_SEES.learner, critic_input="ledger"))

GUIDANCE_CRITIC = Study(
    name="guidance-critic",
    title="DoorKey-8x8: a critic that sees the ledger",
    summary="A critic that sees what is owed predicts what is taken back. Is the bonus inert then, as the law says?",
    cells=(NONE, BLIND, SEES),
    seeds=5,
    claims=(
        compared("5", "equal", "frames_to_solve", SEES, NONE, "solves as soon as"),
        compared("5", "less", "frames_to_solve", BLIND, SEES, "solves sooner than"),
    ),
    groups=(Group(name="lambda-0.95", label="lambda 0.95"),),
)
