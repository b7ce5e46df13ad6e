"""DoorKey-8x8: the paper's table at full length, under the readings of what is settled that do not grow it.

``doorkey-readings`` trains them for 3 M frames and says which shows the paper's pattern: centred PBIM converges at all
three settings, un-centred PBIM at (.005, .99) alone. Here each is a study of its own: that of the paper with another
PBIM, and the same claims. None of them is exact; Eq. 30 and 34 as printed are the study ``doorkey``.
"""

from dataclasses import replace

from pbim.studies.doorkey import DOORKEY
from pbim.studies.doorkey_readings import READINGS
from pbim.studies.study import Cell, Study, large_repayments


def _under(reading: str) -> Study:
    """Return the paper's study with PBIM read in another way; the baselines are the same runs."""
    words, shaping, changes = READINGS[reading]
    name = f"doorkey-{reading}"

    def read(cell: Cell) -> Cell:
        printed = cell.learner.shaping
        if "pbim" not in cell.scheme:
            return cell
        conversion = replace(shaping, gamma=printed.gamma, normalize=printed.normalize)
        with large_repayments():
            return replace(cell, learner=replace(cell.learner, shaping=conversion, **changes))

    return replace(
        DOORKEY,
        name=name,
        title=f"DoorKey-8x8: the paper's table, the settlement {words}",
        summary=f"The paper's table and its claims if what PBIM takes back is {words}, which is not exact.",
        cells=tuple(map(read, DOORKEY.cells)),
        claims=tuple(replace(claim, id=claim.id.replace(DOORKEY.name, name, 1)) for claim in DOORKEY.claims),
    )


DOORKEY_START = _under("start")
DOORKEY_END = _under("end")
DOORKEY_UNDISCOUNTED = _under("undiscounted")
DOORKEY_ROLLOUT = _under("rollout")
