"""What the paper leaves open about its cliff walk, varied: does the conclusion PBIM = no bonus depend on it?

The groups ``learner``, ``network`` and ``centring`` vary our first reading, orthogonal weights and Adam. ``reading``
crosses initialisation, optimiser and how often the predictor trains with its size and input; ``base`` crosses the base
reading with the Q learning rate and the step cap. The control of every cell is no bonus at its rate and cap.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import optax  # type: ignore[import-untyped]

from pbim.agents import QLearning
from pbim.intrinsic import coordinates, one_hot
from pbim.results import Claim, Group, HeatPlan
from pbim.shaping import PBIM, ExponentialMean, PreviousRollout
from pbim.studies.cliff import ENV, FIRST_SCHEMES, NONE, RETURN, SCHEMES, Schemes, grid
from pbim.studies.study import Cell, Study

RATES = (0.05, 0.1, 0.2, 0.5)
CAPS = (25, 50, 100)
ENCODINGS: dict[str, Callable[[Any], Any]] = {"one-hot": one_hot(48), "coordinates": coordinates(12)}
SIZES: dict[str, tuple[int, ...]] = {"32": (32,), "64-64": (64, 64), "128-128": (128, 128)}
OPTIMIZERS = {"adam": optax.adam, "sgd": optax.sgd}
READINGS: list[tuple[Literal["orthogonal", "torch"], str, Literal["step", "episode", "never"]]] = [
    ("torch", "sgd", "step"),
    ("torch", "adam", "step"),
    ("torch", "sgd", "episode"),
    ("torch", "adam", "episode"),
    ("torch", "sgd", "never"),
    ("orthogonal", "sgd", "episode"),
    ("orthogonal", "adam", "episode"),
    ("orthogonal", "sgd", "never"),
]
"""Initialisation, optimiser and when the predictor trains; the group ``network`` has orthogonal ones of every step."""
BLOCK = 128
"""Steps of F-bar's block: a rollout of PPO, and as many steps of Q-learning."""
CENTRINGS: dict[str, tuple[str, Any]] = {
    "running": ("mean of the run so far", True),
    "moving": ("moving average", ExponentialMean(rate=0.01)),
    "previous": ("mean of the block before", PreviousRollout(steps=BLOCK)),
}


def _learner_cells(group: str, schemes: Schemes, name: str, words: str) -> list[Cell]:
    """Return a group that varies the Q learning rate and the step cap."""
    return [
        Cell(
            name=f"{scheme}-{name}rate{rate}-cap{cap}",
            label=f"{label}, {words}rate {rate}, cap {cap}",
            scheme=scheme,
            group=group,
            learner=replace(learner, learning_rate=rate, env=replace(ENV, max_steps=cap)),
            params={"scheme": scheme, "learning_rate": rate, "max_steps": cap},
        )
        for scheme, (label, learner) in schemes.items()
        for rate in RATES
        for cap in CAPS
    ]


def with_bonus(learner: QLearning, **changes: Any) -> QLearning:
    """Return a learner whose RND has other settings."""
    return replace(learner, intrinsic=replace(learner.intrinsic, **changes))


def _network_cells() -> list[Cell]:
    return [
        Cell(
            name=f"{scheme}-{encoding}-{size}-{optimizer}",
            label=f"{SCHEMES[scheme][0]}, {encoding}, {size}, {optimizer}",
            scheme=scheme,
            group="network",
            learner=with_bonus(
                FIRST_SCHEMES[scheme][1],
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
    pbim = FIRST_SCHEMES["pbim"][1]
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


def _reading_cells() -> list[Cell]:
    cells = []
    for init, optimizer, learns in READINGS:
        for encoding, size in product(ENCODINGS, SIZES):
            for scheme in ("rnd", "pbim") if (encoding, size) == ("one-hot", "64-64") else ("pbim",):
                words = f"{init}, {'frozen' if learns == 'never' else f'{optimizer} every {learns}'}"
                bonus = {"init_scheme": init, "optimizer": OPTIMIZERS[optimizer], "hidden": SIZES[size]}
                learner = with_bonus(SCHEMES[scheme][1], encode=ENCODINGS[encoding], **bonus)
                cell = Cell(
                    name=f"{scheme}-{init}-{optimizer}-{learns}-{encoding}-{size}",
                    label=f"{SCHEMES[scheme][0]}, {words}, {encoding}, {size}",
                    scheme=scheme,
                    group="reading",
                    learner=replace(learner, bonus_learns=learns),
                    params={"scheme": scheme, "reading": words, "encoding": encoding, "size": size},
                )
                cells.append(cell)
    return cells


def _claim(cell: Cell, other: str) -> Claim:
    return Claim(
        id=f"cliff-sensitivity-{cell.name}",
        statement=f"{cell.label}: ends with the return of no bonus",
        source="Section 4.2, discussion, under another choice of what the paper leaves open",
        paper="the same average return",
        kind="equal",
        cell=cell.name,
        other=other,
        **RETURN,
    )


def _control(cell: Cell) -> str:
    """Return the cell without a bonus that learns like this one."""
    rate, cap = cell.params.get("learning_rate", 0.1), cell.params.get("max_steps", 50)
    return f"none-rate{rate}-cap{cap}"


def _heat(title: str, x: str, y: str, cells: list[Cell], **chosen: str) -> HeatPlan:
    """Return the map of those cells whose parameters are the chosen ones."""
    names = tuple(cell.name for cell in cells if chosen.items() <= cell.params.items())
    return HeatPlan(title=f"{title}: final return", x=x, y=y, statistic="final_return", cells=names)


_LEARNER = _learner_cells("learner", {name: FIRST_SCHEMES[name] for name in ("none", "rnd", "pbim")}, "", "")
_NETWORK, _CENTRING, _READING = _network_cells(), _centring_cells(), _reading_cells()
_BASE = [
    cell
    for cell in _learner_cells("base", {name: SCHEMES[name] for name in ("rnd", "pbim")}, "base-", "base reading, ")
    if (cell.learner.learning_rate, cell.learner.env) != (NONE.learning_rate, ENV)  # which is of the group above
]
_CELLS = [*_LEARNER, *_NETWORK, *_CENTRING, *_READING, *_BASE]

CLIFF_SENSITIVITY = Study(
    name="cliff-sensitivity",
    title="Cliff walking: what the paper leaves open",
    summary="Q learning rate, step cap, RND's input, size, first weights, optimiser and training, readings of F-bar.",
    cells=tuple(_CELLS),
    seeds=10,
    claims=tuple(_claim(cell, _control(cell)) for cell in _CELLS if cell.scheme == "pbim"),
    groups=(
        Group(name="learner", label="Q learning rate and step cap"),
        Group(name="network", label="RND's network"),
        Group(name="centring", label="Reading of F-bar"),
        Group(name="reading", label="RND's initialisation, optimiser and training"),
        Group(name="base", label="Base reading: Q learning rate and step cap"),
    ),
    grid=grid(ENV),
    heat=(
        *(_heat(scheme, "learning_rate", "max_steps", _LEARNER, scheme=scheme) for scheme in ("none", "rnd", "pbim")),
        *(
            _heat(f"{scheme}, {optimizer}", "encoding", "size", _NETWORK, scheme=scheme, optimizer=optimizer)
            for scheme in ("rnd", "pbim")
            for optimizer in OPTIMIZERS
        ),
        _heat("pbim", "centring", "encoding", _CENTRING),
        *(
            _heat(f"pbim, {encoding}", "size", "reading", _READING, scheme="pbim", encoding=encoding)
            for encoding in ENCODINGS
        ),
    ),
)
