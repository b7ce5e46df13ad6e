"""The paper's experiments and ours as data: a grid of cells, seeds, and claims; and the engines that run them."""

from pbim.studies.cliff import CLIFF
from pbim.studies.cliff_conversions import CLIFF_CONVERSIONS
from pbim.studies.cliff_long import CLIFF_LONG
from pbim.studies.cliff_sensitivity import CLIFF_SENSITIVITY
from pbim.studies.doorkey import DOORKEY
from pbim.studies.doorkey_16 import DOORKEY_16
from pbim.studies.doorkey_conversions import DOORKEY_CONVERSIONS
from pbim.studies.doorkey_default import DOORKEY_DEFAULT
from pbim.studies.doorkey_sensitivity import DOORKEY_SENSITIVITY
from pbim.studies.held_out import HELD_OUT
from pbim.studies.study import Cell as Cell, Claim as Claim, Study as Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        CLIFF,
        CLIFF_LONG,
        CLIFF_SENSITIVITY,
        CLIFF_CONVERSIONS,
        DOORKEY,
        DOORKEY_SENSITIVITY,
        DOORKEY_CONVERSIONS,
        DOORKEY_DEFAULT,
        DOORKEY_16,
        HELD_OUT,
    )
}
"""Every study by its name."""
