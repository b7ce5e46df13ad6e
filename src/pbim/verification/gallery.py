"""Small named worlds that teach what bonuses do: ``pbim verify --list`` shows them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pbim.errors import InputError
from pbim.verification.mdp import FiniteMDP
from pbim.verification.numbers import Number

MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1), "wait": (0, 0)}
TV_CHANNELS = 3


def grid(
    layout: Sequence[str],
    *,
    gamma: Number,
    endings: dict[str, Number],
    step_reward: Number = 0,
    actions: Sequence[str] = ("up", "right", "down", "left"),
) -> FiniteMDP:
    """Return a deterministic grid world drawn with characters.

    Moving into a wall or off the grid stays in place. Every cell but walls is a state, numbered in reading order.

    Args:
        layout: One string per row: S a start, # a wall, the letters of ``endings``, anything else a plain cell.
        gamma: The task's discount.
        endings: The letters that end an episode, with the reward for arriving there.
        step_reward: The reward of every other step.
        actions: Names of ``MOVES``.

    Raises:
        InputError: If there is no start.

    >>> mdp = grid(["S.G"], gamma=0.9, endings={"G": 1}, actions=("left", "right"))
    >>> mdp.num_states, mdp.starts.tolist(), mdp.terminal.tolist()
    (3, [0], [False, False, True])

    """
    cells = [(row, column) for row, line in enumerate(layout) for column, kind in enumerate(line) if kind != "#"]
    number = {cell: state for state, cell in enumerate(cells)}
    kinds = [layout[row][column] for row, column in cells]
    if "S" not in kinds:
        raise InputError(f"layout must have a start S, received {list(layout)}: mark where episodes begin")
    shape = (len(cells), len(actions), len(cells))
    transition, reward = np.zeros(shape, dtype=int), np.zeros(shape, dtype=object)
    for state, (row, column) in enumerate(cells):
        for index, action in enumerate(actions):
            down, right = MOVES[action]
            target = number.get((row + down, column + right), state)
            transition[state, index, target] = 1
            reward[state, index, target] = endings.get(kinds[target], step_reward)
    starts = np.array([Fraction(int(kind == "S"), kinds.count("S")) for kind in kinds])
    return FiniteMDP(
        transition=transition,
        reward=reward,
        initial=starts,
        terminal=np.array([kind in endings for kind in kinds]),
        gamma=gamma,
        states=_cell_names(layout, cells),
        actions=tuple(actions),
        cells=cells,
    )


def corridor(gamma: Number) -> FiniteMDP:
    """Return three cells and a goal: the only question is whether to go there at once."""
    return grid(["S..G"], gamma=gamma, endings={"G": 1}, actions=("left", "right", "wait"))


def two_goals(gamma: Number) -> FiniteMDP:
    """Return a small prize one step away, and the large one, worth the walk, three steps the other way."""
    return grid(["gS..G"], gamma=gamma, endings={"g": Fraction(1, 2), "G": 1}, actions=("left", "right"))


def cliff(gamma: Number) -> FiniteMDP:
    """Return the cliff walk in small: -1 per step, -100 over the edge, +100 at the goal."""
    return grid(["...", "SCG"], gamma=gamma, endings={"C": -100, "G": 100}, step_reward=-1)


def noisy_tv(gamma: Number) -> FiniteMDP:
    """Return a hall two steps from the goal, with a television that shows one of three channels at random."""
    names = ["the hall", "the door", *(f"channel {number + 1} of the TV" for number in range(TV_CHANNELS)), "the goal"]
    hall, door, goal = 0, 1, len(names) - 1
    channels = range(2, 2 + TV_CHANNELS)
    transition = np.zeros((len(names), 2, len(names)), dtype=object)
    reward = np.zeros(transition.shape, dtype=int)
    walk, watch = 0, 1
    for state in (hall, *channels):
        transition[state, walk, door] = 1
        for channel in channels:
            transition[state, watch, channel] = Fraction(1, TV_CHANNELS)
    transition[door, walk, goal] = transition[door, watch, door] = transition[goal, :, goal] = 1
    reward[door, walk, goal] = 1
    return FiniteMDP(
        transition=transition,
        reward=reward,
        initial=np.arange(len(names)) == hall,
        terminal=np.arange(len(names)) == goal,
        gamma=gamma,
        states=names,
        actions=("walk", "watch"),
    )


def _cell_names(layout: Sequence[str], cells: Sequence[tuple[int, int]]) -> list[str]:
    special = {"S": "the start cell", "G": "the goal", "g": "the small goal", "C": "the cliff"}
    kinds = [layout[row][column] for row, column in cells]
    plain = [f"cell {column}" if len(layout) == 1 else f"cell ({row}, {column})" for row, column in cells]
    return [
        special[kind] if kind in special and kinds.count(kind) == 1 else name
        for kind, name in zip(kinds, plain, strict=True)
    ]


@dataclass(frozen=True)
class NamedMDP:
    """A world of the gallery: how to make it for a discount, what it teaches, and settings that show it."""

    teaches: str
    make: Callable[[Number], FiniteMDP]
    gamma: Fraction
    horizon: int
    alpha: Fraction


MDPS: dict[str, NamedMDP] = {
    "corridor": NamedMDP(
        "staying and walking back on the way to a goal", corridor, Fraction(19, 20), 8, Fraction(1, 5)
    ),
    "noisy-tv": NamedMDP("watching noise instead of leaving", noisy_tv, Fraction(9, 10), 6, Fraction(1, 2)),
    "two-goals": NamedMDP("taking the wrong prize", two_goals, Fraction(9, 10), 8, Fraction(1, 5)),
    "cliff": NamedMDP("walking around the goal", cliff, Fraction(99, 100), 7, Fraction(20)),
}
"""The worlds of the gallery by name."""
