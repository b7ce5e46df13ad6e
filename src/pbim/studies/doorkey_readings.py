"""DoorKey-8x8: PBIM under every reading of "the total discounted rewards are subtracted" (section 3, below Eq. 30).

Only the first reading, Eq. 30 and 34 as printed, cancels. The others take back less than was paid, or less than the
whole episode; they are marked not exact, and ``discounted_shaping`` measures what they leave in the value of an
episode. Each is run with the paper's reward of 1 at the goal and with MiniGrid's, which falls with the steps taken.
"""

from dataclasses import replace
from typing import Any, Literal

from pbim.results import Claim, Group
from pbim.shaping import PBIM, InexactPBIM
from pbim.studies.doorkey import ENV, GAMMA, LENGTH, SETTINGS, cell, early_claims
from pbim.studies.study import Cell, Study

FRAMES = 3_000_000

READINGS: dict[str, tuple[str, PBIM | InexactPBIM, dict[str, Any]]] = {
    "printed": ("as printed", PBIM(gamma=GAMMA), {}),
    "start": ("discounted from the start", InexactPBIM(gamma=GAMMA, discount="start"), {}),
    "end": ("discounted towards the end", InexactPBIM(gamma=GAMMA, discount="end"), {}),
    "undiscounted": ("undiscounted", InexactPBIM(gamma=GAMMA, discount="none"), {}),
    "rollout": ("within the rollout", PBIM(gamma=GAMMA), {"settlement": "rollout"}),
}
"""What the last step takes back, by name: in words, the conversion, and what changes in the learner."""

CENTRINGS = {"pbim": ("PBIM", True), "pbim-no-norm": ("PBIM, no norm", False)}
"""The paper's two schemes: their names in its table, and whether they centre."""

REWARDS: dict[str, tuple[str, Literal["paper", "minigrid"]]] = {
    "": ("reward 1", "paper"),
    "-decayed": ("decayed reward", "minigrid"),
}


def reading_cell(reading: str, scheme: str, setting: str, reward: str) -> Cell:
    """Return the cell of one reading, scheme of the paper, setting and reward."""
    words, shaping, changes = READINGS[reading]
    label, normalize = CENTRINGS[scheme]
    found = cell(
        f"{reading}-{scheme}",
        f"{label}, {words}",
        replace(shaping, normalize=normalize),
        setting,
        params={"reading": reading, "reward": REWARDS[reward][0]},
        env=replace(ENV, reward=REWARDS[reward][1]),
        total_frames=FRAMES,
        **changes,
    )
    label = found.label if reward == "" else f"{found.label}, {REWARDS[reward][0]}"
    return replace(found, name=f"{found.name}{reward}", label=label, group=f"{setting}{reward}")


def _centred_shorter(reading: str, reward: str) -> Claim:
    group = "005-99"
    return Claim(
        id=f"doorkey-readings-{reading}-pbim-shorter-pbim-no-norm-{group}{reward}",
        statement=f"PBIM, {READINGS[reading][0]}, ends with shorter episodes than without centring at (alpha, gamma) = "
        f"{SETTINGS[group]}, {REWARDS[reward][0]}",
        source="Figure 2, caption",
        paper="T = 6.1, p < .01",
        kind="less",
        cell=f"{reading}-pbim-{group}{reward}",
        other=f"{reading}-pbim-no-norm-{group}{reward}",
        **LENGTH,
    )


def _place(variant: Cell) -> tuple[str, str]:
    """Return the paper's scheme and setting of a cell."""
    return variant.scheme.partition("-")[2], variant.group.removesuffix("-decayed")


_CELLS = tuple(
    reading_cell(reading, scheme, setting, reward)
    for reading in READINGS
    for reward in REWARDS
    for setting in SETTINGS
    for scheme in CENTRINGS
)

DOORKEY_READINGS = Study(
    name="doorkey-readings",
    title="DoorKey-8x8: what the last step takes back",
    summary="PBIM, centred and not, under five readings of what is subtracted at the last step, with both rewards.",
    cells=_CELLS,
    seeds=4,
    claims=(
        *(claim for variant in _CELLS for claim in early_claims("doorkey-readings", variant, *_place(variant), FRAMES)),
        *(_centred_shorter(reading, reward) for reading in READINGS for reward in REWARDS),
    ),
    groups=tuple(
        Group(name=f"{group}{reward}", label=f"alpha {alpha}, gamma {gamma}, {words}")
        for reward, (words, _) in REWARDS.items()
        for group, (alpha, gamma) in SETTINGS.items()
    ),
)
