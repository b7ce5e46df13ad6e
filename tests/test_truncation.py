"""The three words for an end, on a truncated MDP small enough to enumerate, in Fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import pbim
from pbim.errors import InputError
from pbim.truncation import check_truncation, ends

GAMMA = Fraction(9, 10)
CELLS, GOAL, LIMIT = 5, 4, 3
STEPS = (-1, 0, 1)  # left, stay, right
VALUE = [GAMMA ** (GOAL - cell - 1) for cell in range(GOAL)] + [Fraction(0)]
"""The task's optimal value of every cell: reaching the goal pays 1."""


def corridor():
    """The same corridor as arrays, for pbim.verify."""
    transition = np.full((CELLS, 3, CELLS), Fraction(0), dtype=object)
    reward = np.full((CELLS, 3, CELLS), Fraction(0), dtype=object)
    for cell, (action, step) in product(range(CELLS), enumerate(STEPS)):
        arrived = min(max(cell + step, 0), GOAL)
        transition[cell, action, arrived] = Fraction(1)
        reward[cell, action, arrived] = Fraction(int(arrived == GOAL and cell != GOAL))
    start = np.array([Fraction(int(cell == 1)) for cell in range(CELLS)], dtype=object)
    return pbim.FiniteMDP(
        transition=transition, reward=reward, initial=start, terminal=np.arange(CELLS) == GOAL, gamma=GAMMA
    )


def course(actions):
    """Return (reward, arrived, terminated, truncated) of every step, up to the goal or the time limit."""
    cell, steps = 1, []
    for number, action in enumerate(actions, start=1):
        cell = min(max(cell + STEPS[action], 0), GOAL)
        steps.append((Fraction(int(cell == GOAL)), cell, cell == GOAL, number == LIMIT))
        if cell == GOAL:
            break
    return steps


def targets(actions, truncation, shaping):
    """Return the task's and the shaped return that a learner bootstraps as ``truncation`` says, both exact."""
    count, history = pbim.EpisodicCount(alpha=Fraction(1, 2)), (1,)
    state = shaping.init(1, like=np.array([Fraction(0)], dtype=object))
    task = total = Fraction(0)
    for number, ((reward, arrived, *flags), action) in enumerate(zip(course(actions), actions, strict=False)):
        history = (*history, action, arrived)
        end = ends(truncation, *(np.array([flag]) for flag in flags))
        bonus = np.array([count.of_history(history)], dtype=object)
        state, shaped = shaping.step(state, bonus, end.settled)
        task, total = task + GAMMA**number * reward, total + GAMMA**number * (reward + shaped[0])
        if end.over[0] and not end.stops[0]:  # the learner adds its value; V' = V - L after any history
            task += GAMMA ** (number + 1) * VALUE[arrived]
            total += GAMMA ** (number + 1) * (VALUE[arrived] - state.ledger[0])
    return task, total


CONVERSIONS = (
    pbim.PBIM(gamma=GAMMA, normalize=False),
    pbim.GRM(gamma=GAMMA, delay=1, normalize=False),
    pbim.Geometric(gamma=GAMMA, rate=Fraction(1, 2), normalize=False),
)
SEQUENCES = list(product(range(3), repeat=LIMIT))


@pytest.mark.parametrize("shaping", CONVERSIONS, ids=lambda shaping: shaping.kind)
@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
def test_no_sequence_of_actions_gains_or_loses(truncation, shaping):
    for actions in SEQUENCES:
        task, total = targets(actions, truncation, shaping)
        assert total == task, actions


def charged_twice(actions):
    """The target of a learner that settles at the time limit and bootstraps with the shaped value as well."""
    shaping = CONVERSIONS[0]
    opened = targets(actions, "bootstrap", shaping)[1]
    if course(actions)[-1][2]:
        return opened
    owed = ledger_after(actions, shaping)
    return opened - GAMMA**LIMIT * owed


def ledger_after(actions, shaping):
    count, history = pbim.EpisodicCount(alpha=Fraction(1, 2)), (1,)
    state = shaping.init(1, like=np.array([Fraction(0)], dtype=object))
    for (_, arrived, *_), action in zip(course(actions), actions, strict=False):
        history = (*history, action, arrived)
        state, _ = shaping.step(state, np.array([count.of_history(history)], dtype=object), np.array([False]))
    return state.ledger[0]


def test_settling_and_bootstrapping_charges_twice_and_turns_a_ranking():
    pairs = product(SEQUENCES, repeat=2)
    task = {actions: targets(actions, "bootstrap", CONVERSIONS[0])[0] for actions in SEQUENCES}
    wrong = {actions: charged_twice(actions) for actions in SEQUENCES}
    assert any(task[one] > task[other] and wrong[one] < wrong[other] for one, other in pairs)


def test_the_verifier_agrees_on_the_truncated_mdp():
    counts = pbim.EpisodicCount(alpha=Fraction(1, 2))
    for shaping in CONVERSIONS:
        assert pbim.verify(corridor(), intrinsic=counts, shaping=shaping, horizon=LIMIT).preserved
    assert not pbim.verify(corridor(), intrinsic=counts, shaping=pbim.Raw(), horizon=LIMIT).preserved


def test_a_window_edge_is_no_end():
    flag = np.array([True])
    end = ends("continue", ~flag, flag)
    assert not any(part[0] for part in end)


def test_other_words_are_refused():
    with pytest.raises(InputError, match="truncation must be one of settle, bootstrap, continue, received 'settel'"):
        check_truncation("settel")
