"""What the paper leaves open about its cliff walk, varied: does the conclusion PBIM = no bonus depend on it?"""

from typing import Any

from pbim.studies.cliff import BASE, NONE, PBIM, RAW, RETURN_MARGIN, RETURN_REASON, RND, grid
from pbim.studies.study import Cell, Claim, Study

RATES = (0.05, 0.1, 0.2, 0.5)
CAPS = (25, 50, 100)
ENCODINGS = ("one-hot", "coordinates")
SIZES = {"32": [32], "64-64": [64, 64], "128-128": [128, 128]}
OPTIMIZERS = ("adam", "sgd")
CENTRINGS = {"running": "mean of the run so far", "moving": "moving average", "previous": "mean of the block before"}
_SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {"none": ("No IM", NONE), "rnd": ("RND", RAW), "pbim": ("PBIM", PBIM)}


def _learner_cells() -> list[Cell]:
    return [
        Cell(
            name=f"{scheme}-rate{rate}-cap{cap}",
            label=f"{label}, rate {rate}, cap {cap}",
            scheme=scheme,
            group="learner",
            config={**BASE, **parts, "learning_rate": rate, "env": {**BASE["env"], "max_steps": cap}},
            params={"scheme": scheme, "learning_rate": rate, "max_steps": cap},
            exact=scheme != "rnd",
        )
        for scheme, (label, parts) in _SCHEMES.items()
        for rate in RATES
        for cap in CAPS
    ]


def _network_cells() -> list[Cell]:
    return [
        Cell(
            name=f"{scheme}-{encoding}-{size}-{optimizer}",
            label=f"{label}, {encoding}, {size}, {optimizer}",
            scheme=scheme,
            group="network",
            config={**BASE, **parts, "intrinsic": {**RND, **_network(encoding, size, optimizer)}},
            params={"scheme": scheme, "encoding": encoding, "size": size, "optimizer": optimizer},
            exact=scheme != "rnd",
        )
        for scheme, (label, parts) in _SCHEMES.items()
        if scheme != "none"
        for encoding in ENCODINGS
        for size in SIZES
        for optimizer in OPTIMIZERS
    ]


def _network(encoding: str, size: str, optimizer: str) -> dict[str, Any]:
    return {"encoding": encoding, "hidden": SIZES[size], "optimizer": optimizer}


def _centring_cells() -> list[Cell]:
    return [
        Cell(
            name=f"pbim-{centring}-{encoding}",
            label=f"PBIM, {words}, {encoding}",
            scheme="pbim",
            group="centring",
            config={
                **BASE,
                **PBIM,
                "intrinsic": {**RND, "encoding": encoding},
                "shaping": {"kind": "pbim", "centring": centring},
            },
            params={"scheme": "pbim", "centring": centring, "encoding": encoding},
        )
        for centring, words in CENTRINGS.items()
        for encoding in ENCODINGS
    ]


def _claim(cell: Cell, other: str) -> Claim:
    return Claim(
        id=f"cliff-sensitivity-{cell.name}",
        statement=f"{cell.label}: ends with the return of no bonus",
        source="Section 4.2, discussion, under another choice of what the paper leaves open",
        paper="the same average return",
        kind="equal",
        cell=cell.name,
        other=other,
        statistic="final_return",
        margin=RETURN_MARGIN,
        reason=RETURN_REASON,
    )


def _control(cell: Cell) -> str:
    """Return the cell without a bonus that learns like this one."""
    rate, cap = cell.params.get("learning_rate", 0.1), cell.params.get("max_steps", 50)
    return f"none-rate{rate}-cap{cap}"


def _heat(title: str, x: str, y: str, cells: list[Cell]) -> dict[str, Any]:
    return {"title": title, "x": x, "y": y, "statistic": "final_return", "cells": [cell.name for cell in cells]}


_LEARNER, _NETWORK, _CENTRING = _learner_cells(), _network_cells(), _centring_cells()
_CELLS = [*_LEARNER, *_NETWORK, *_CENTRING]

CLIFF_SENSITIVITY = Study(
    name="cliff-sensitivity",
    title="Cliff walking: what the paper leaves open",
    summary="Q learning rate, step cap, RND's input, size and optimiser, the readings of F-bar.",
    learner="q_learning",
    cells=tuple(_CELLS),
    seeds=10,
    claims=tuple(_claim(cell, _control(cell)) for cell in _CELLS if cell.scheme == "pbim"),
    groups=(
        ("learner", "Q learning rate and step cap"),
        ("network", "RND's network"),
        ("centring", "Reading of F-bar"),
    ),
    grid=grid(12),
    heat=(
        *(
            _heat(
                f"{scheme}: final return",
                "learning_rate",
                "max_steps",
                [cell for cell in _LEARNER if cell.scheme == scheme],
            )
            for scheme in ("none", "rnd", "pbim")
        ),
        *(
            _heat(
                f"{scheme}, {optimizer}: final return",
                "encoding",
                "size",
                [cell for cell in _NETWORK if (cell.scheme, cell.params["optimizer"]) == (scheme, optimizer)],
            )
            for scheme in ("rnd", "pbim")
            for optimizer in OPTIMIZERS
        ),
        _heat("pbim: final return", "centring", "encoding", _CENTRING),
    ),
)
