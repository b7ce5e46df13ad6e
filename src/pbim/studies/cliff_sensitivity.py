"""What the paper leaves open about its cliff walk, varied: does the conclusion PBIM = no bonus depend on it?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import optax  # type: ignore[import-untyped]

from pbim.agents import QLearning
from pbim.intrinsic import coordinates, one_hot
from pbim.results import Claim, Group, HeatPlan
from pbim.shaping import PBIM, ExponentialMean, PreviousRollout
from pbim.studies.cliff import BONUS, ENV, RETURN_MARGIN, RETURN_REASON, SCHEMES, grid
from pbim.studies.study import Cell, Study

RATES = (0.05, 0.1, 0.2, 0.5)
CAPS = (25, 50, 100)
ENCODINGS: dict[str, Callable[[Any], Any]] = {"one-hot": one_hot(48), "coordinates": coordinates(12)}
SIZES: dict[str, tuple[int, ...]] = {"32": (32,), "64-64": (64, 64), "128-128": (128, 128)}
OPTIMIZERS = {"adam": optax.adam, "sgd": optax.sgd}
BLOCK = 128
"""Steps of F-bar's block: a rollout of PPO, and as many steps of Q-learning."""
CENTRINGS: dict[str, tuple[str, Any]] = {
    "running": ("mean of the run so far", True),
    "moving": ("moving average", ExponentialMean(rate=0.01)),
    "previous": ("mean of the block before", PreviousRollout(steps=BLOCK)),
}


def _learner_cells() -> list[Cell]:
    return [
        Cell(
            name=f"{scheme}-rate{rate}-cap{cap}",
            label=f"{SCHEMES[scheme][0]}, rate {rate}, cap {cap}",
            scheme=scheme,
            group="learner",
            learner=replace(SCHEMES[scheme][1], learning_rate=rate, env=replace(ENV, max_steps=cap)),
            params={"scheme": scheme, "learning_rate": rate, "max_steps": cap},
        )
        for scheme in ("none", "rnd", "pbim")
        for rate in RATES
        for cap in CAPS
    ]


def with_bonus(learner: QLearning, **changes: Any) -> QLearning:
    """Return a learner whose RND has other settings."""
    return replace(learner, intrinsic=replace(BONUS, **changes))


def _network_cells() -> list[Cell]:
    return [
        Cell(
            name=f"{scheme}-{encoding}-{size}-{optimizer}",
            label=f"{SCHEMES[scheme][0]}, {encoding}, {size}, {optimizer}",
            scheme=scheme,
            group="network",
            learner=with_bonus(
                SCHEMES[scheme][1],
                encode=ENCODINGS[encoding],
                hidden=SIZES[size],
                optimizer=OPTIMIZERS[optimizer],
            ),
            params={"scheme": scheme, "encoding": encoding, "size": size, "optimizer": optimizer},
        )
        for scheme in ("rnd", "pbim")
        for encoding in ENCODINGS
        for size in SIZES
        for optimizer in OPTIMIZERS
    ]


def _centring_cells() -> list[Cell]:
    pbim = SCHEMES["pbim"][1]
    return [
        Cell(
            name=f"pbim-{name}-{encoding}",
            label=f"PBIM, {words}, {encoding}",
            scheme="pbim",
            group="centring",
            learner=with_bonus(replace(pbim, shaping=PBIM(gamma=0.99, normalize=centring)), encode=ENCODINGS[encoding]),
            params={"scheme": "pbim", "centring": name, "encoding": encoding},
        )
        for name, (words, centring) in CENTRINGS.items()
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


def _heat(title: str, x: str, y: str, cells: list[Cell]) -> HeatPlan:
    return HeatPlan(title=title, x=x, y=y, statistic="final_return", cells=tuple(cell.name for cell in cells))


_LEARNER, _NETWORK, _CENTRING = _learner_cells(), _network_cells(), _centring_cells()
_CELLS = [*_LEARNER, *_NETWORK, *_CENTRING]

CLIFF_SENSITIVITY = Study(
    name="cliff-sensitivity",
    title="Cliff walking: what the paper leaves open",
    summary="Q learning rate, step cap, RND's input, size and optimiser, the readings of F-bar.",
    cells=tuple(_CELLS),
    seeds=10,
    claims=tuple(_claim(cell, _control(cell)) for cell in _CELLS if cell.scheme == "pbim"),
    groups=(
        Group(name="learner", label="Q learning rate and step cap"),
        Group(name="network", label="RND's network"),
        Group(name="centring", label="Reading of F-bar"),
    ),
    grid=grid(ENV),
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
