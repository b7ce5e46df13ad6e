"""The first episodes of a training: what their last steps take back, against what the task pays."""

import warnings
from typing import Any

import numpy as np
import pytest

import pbim
from pbim.adapters._bonus import Spaces
from pbim.adapters._engine import RewardPath
from pbim.errors import GuidanceWarning
from pbim.intrinsic import Transition

GAMMA = 0.5
OWES = pbim.PBIM(gamma=GAMMA, normalize=False)  # two steps with a bonus of 1 each owe 2 at the second


def path(num_envs: int = 1, *, learner: bool = True) -> RewardPath:
    nothing: Any = None
    made = RewardPath(lambda _: np.ones(num_envs), OWES, num_envs, Spaces(nothing, nothing))
    if learner:
        made.check_learner(GAMMA, "a learner", gae_lambda=0.5, say=lambda _: None)
    return made


def step(made: RewardPath, task: Any, ended: Any, valid: Any = None) -> list[str]:
    terminated = np.array(ended, bool)
    mask = None if valid is None else np.array(valid, bool)
    transition = Transition(None, None, None, terminated, np.zeros_like(terminated), {}, mask)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GuidanceWarning)
        made.step(transition, np.array(task, float))
    return [str(each.message) for each in caught]


def test_a_debt_above_what_the_task_pays_is_warned_of_once() -> None:
    made = path()
    assert not step(made, [0.5], [False])
    (message,) = step(made, [1.0], [True])
    assert "owes 2, the task pays 1.5" in message
    assert not any(step(made, [0.0], [end]) for _ in range(30) for end in (False, True))


def test_a_task_that_pays_enough_or_nothing_yet_is_not_warned_of() -> None:
    made = path()
    for _ in range(30):
        assert not step(made, [0.0], [False])
        assert not step(made, [0.0], [True])  # who knows what the goal pays
    assert not step(made, [0.0], [False])
    assert not step(made, [-2.5], [True])  # a cost counts by its size
    assert made.debt is None  # and nobody watches any more


def test_only_a_known_learner_is_warned() -> None:
    made = path(learner=False)
    assert not step(made, [0.5], [False])
    assert not step(made, [0.5], [True])


def test_dummy_steps_and_abandoned_episodes_pay_nothing() -> None:
    made = path(2)
    assert not step(made, [100.0, 0.25], [False, False])
    made.restart(np.array([True, False]))
    assert not step(made, [100.0, 0.25], [True, False], valid=[False, True])
    (message,) = step(made, [100.0, 0.25], [True, True], valid=[False, True])
    assert "the task pays 0.75" in message


@pytest.mark.parametrize("truncation", ["settle", "bootstrap"])
def test_an_end_that_is_left_to_the_learner_takes_nothing_back(truncation: Any) -> None:
    nothing: Any = None
    made = RewardPath(lambda _: np.ones(1), OWES, 1, Spaces(nothing, nothing), truncation=truncation)
    made.check_learner(GAMMA, "a learner", gae_lambda=0.5, say=lambda _: None)
    found = []
    for cut in (False, True):
        flags = np.array([False]), np.array([cut])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", GuidanceWarning)
            made.step(Transition(None, None, None, *flags, {}), np.array([0.5]))
        found += caught
    assert len(found) == (truncation == "settle")
