"""What the paper leaves open about its DoorKey experiments, varied one thing at a time.

Two variants are not exact and marked so: leaving truncated episodes unsettled, and settling only the part of an episode
that lies in the current rollout.
"""

from typing import Any

from pbim.studies.doorkey import SETTINGS, cell
from pbim.studies.study import Claim, Study

FRAMES = 2_000_000
_RUNNING = {"kind": "pbim", "centring": "running"}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "as-printed": ("Eq. 34 as printed", {}),
    "moving": ("F-bar: moving average", {"shaping": {"kind": "pbim", "centring": "moving"}}),
    "previous": ("F-bar: mean of the rollout before", {"shaping": {"kind": "pbim", "centring": "previous"}}),
    "recurrence-1": ("recurrence 1", {"recurrence": 1}),
    "recurrence-8": ("recurrence 8", {"recurrence": 8}),
    "recurrence-16": ("recurrence 16", {"recurrence": 16}),
    "values-unclipped": ("values not clipped", {"clip_values": False}),
    "advantages-normalised": ("advantages normalised", {"normalize_advantages": True}),
    "reward-scale-0.1": ("all rewards x 0.1", {"reward_scale": 0.1}),
    "unsettled": ("truncated episodes not settled (not exact)", {"settle_truncated": False, "exact": False}),
    "bootstrap": ("bootstrap at truncation", {"truncation": "bootstrap"}),
    "rollout": ("settled within the rollout (not exact)", {"settlement": "rollout", "exact": False}),
}
PLACES = ("005-99", "025-995")


def _claim(variant: str, group: str) -> Claim:
    return Claim(
        id=f"doorkey-sensitivity-{variant}-{group}",
        statement=f"PBIM, {VARIANTS[variant][0]}, solves DoorKey within {FRAMES:,} frames at "
        f"(alpha, gamma) = {SETTINGS[group]}",
        source="Table 1: T is 1.67e6 and 1.26e6 frames",
        paper="converges within 1.7e6 frames",
        kind="reaches",
        cell=f"{variant}-{group}",
        statistic="frames_to_solve",
    )


DOORKEY_SENSITIVITY = Study(
    name="doorkey-sensitivity",
    title="DoorKey-8x8: what the paper leaves open",
    summary="PBIM under the readings of F-bar, recurrence, values, scale, and what is settled when and where.",
    learner="ppo",
    cells=tuple(
        cell(
            variant,
            f"PBIM, {label}",
            group=group,
            **{"shaping": _RUNNING, "total_frames": FRAMES, "params": {"variant": variant}, **changes},
        )
        for group in PLACES
        for variant, (label, changes) in VARIANTS.items()
    ),
    seeds=4,
    claims=tuple(_claim(variant, group) for group in PLACES for variant in VARIANTS),
    groups=tuple(
        (name, f"alpha {alpha}, gamma {gamma}") for name, (alpha, gamma) in SETTINGS.items() if name in PLACES
    ),
    heat=(
        {
            "title": "PBIM: final length",
            "x": "alpha",
            "y": "variant",
            "statistic": "final_length",
            "cells": [f"{variant}-{group}" for group in PLACES for variant in VARIANTS],
        },
    ),
)
