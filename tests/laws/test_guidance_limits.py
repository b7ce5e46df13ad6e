"""The two limits of the guidance law and the critic that sees the ledger, in exact arithmetic over a whole tree.

Three steps with two or three actions each, every history with rewards, bonuses and probabilities of its own, some
episodes shorter than others: nothing here is Markov, and nothing is sampled.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import pbim

GAMMA = Fraction(9, 10)
ACTIONS = 3


def half(memory, ledger, earned):
    return memory, ledger / 2


CONVERSIONS = [
    pbim.PBIM(gamma=GAMMA, normalize=False),
    pbim.GRM(gamma=GAMMA, delay=1, normalize=False),
    pbim.GRM(gamma=GAMMA, delay=2, normalize=False),
    pbim.Geometric(gamma=GAMMA, rate=Fraction(1, 3), normalize=False),
    pbim.Geometric(gamma=GAMMA, rate=Fraction(1), normalize=False),
    pbim.Bounded(gamma=GAMMA, limit=Fraction(1, 2), normalize=False),
    pbim.Custom(gamma=GAMMA, repay=half, normalize=False),
    pbim.Mixture(
        members=(pbim.GRM(gamma=GAMMA, delay=1, normalize=False), pbim.PBIM(gamma=GAMMA, normalize=False)),
        weights=(Fraction(1, 4), Fraction(3, 4)),
    ),
    pbim.LookBack(gamma=GAMMA),
    pbim.NoBonus(),
]
by_conversion = pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda each: each.label)


def draw(history, salt, among=97):
    """Return a number below ``among`` that belongs to a history, the same in every run of the test."""
    number = salt
    for action in history:
        number = (31 * number + 7 * action + 11) % 1009
    return number % among


def ends(history):
    """Tell whether the episode is over: at depth 3, and earlier after some second actions."""
    return len(history) == 3 or (len(history) == 2 and history[-1] == 2)


def episodes():
    for actions in product(range(ACTIONS), repeat=3):
        for length in (2, 3):
            if ends(actions[:length]):
                if actions[length:] == (0,) * (3 - length):
                    yield actions[:length]
                break


def policy(history):
    """Return the probabilities of the actions after a history."""
    weights = [1 + draw((*history, action), 5) for action in range(ACTIONS)]
    return [Fraction(weight, sum(weights)) for weight in weights]


def rewards(episode, salt):
    return [Fraction(draw(episode[: step + 1], salt), 40) for step in range(len(episode))]


def shaped(conversion, episode):
    """Return F' of an episode and the ledger before every step."""
    bonus = np.array(rewards(episode, 17), dtype=object)[:, None]
    ended = (np.arange(len(episode)) == len(episode) - 1)[:, None]
    _, paid = conversion.rollout(conversion.init(1, like=bonus), bonus, ended)
    ledger = [Fraction(0)]
    for reward in paid[:, 0]:
        ledger.append((ledger[-1] + reward) / GAMMA)
    return list(paid[:, 0]), ledger[:-1]


def gradient(conversion, estimate):
    """Return the exact expected policy gradient, by (history, action): the logits of a softmax at every history.

    ``estimate`` says what a step's log-probability is weighed by, from the rewards and the step.
    """
    found = {}
    for episode in episodes():
        paid, _ = shaped(conversion, episode)
        total = [task + extra for task, extra in zip(rewards(episode, 3), paid, strict=True)]
        chance = Fraction(1)
        for step, action in enumerate(episode):
            chance *= policy(episode[:step])[action]
        for step, action in enumerate(episode):
            weight = chance * GAMMA**step * estimate(total, step)
            for other, probability in enumerate(policy(episode[:step])):
                place = (episode[:step], other)
                found[place] = found.get(place, 0) + weight * ((other == action) - probability)
    return found


def gae(gae_lambda):
    """Return GAE(lambda) with a critic that says 0, from a step on."""
    return lambda total, step: sum(
        (GAMMA * gae_lambda) ** (later - step) * total[later] for later in range(step, len(total))
    )


def test_the_tree_is_a_distribution():
    chances = [
        np.prod([policy(episode[:step])[action] for step, action in enumerate(episode)]) for episode in episodes()
    ]
    assert sum(chances) == 1
    assert {len(episode) for episode in episodes()} == {2, 3}


@by_conversion
def test_with_lambda_1_the_policy_gradient_is_that_of_the_task(conversion):
    """Every exact conversion adds the baseline -L_t to a Monte-Carlo return: REINFORCE and GRPO feel nothing of it."""
    assert gradient(conversion, gae(Fraction(1))) == gradient(pbim.NoBonus(), gae(Fraction(1)))


def test_with_lambda_1_the_raw_bonus_changes_the_policy_gradient():
    assert gradient(pbim.Raw(), gae(Fraction(1))) != gradient(pbim.NoBonus(), gae(Fraction(1)))


@by_conversion
def test_with_lambda_below_1_a_conversion_is_felt(conversion):
    felt = gradient(conversion, gae(Fraction(1, 2))) != gradient(pbim.NoBonus(), gae(Fraction(1, 2)))
    assert felt == (conversion.kind != "none")


def one_step(conversion):
    """Return what every step but the last is credited with by one-step TD under a critic that says 0."""
    return {
        (episode, step): reward
        for episode in episodes()
        for step, reward in enumerate(shaped(conversion, episode)[0][:-1])
    }


@by_conversion
def test_with_lambda_0_a_step_is_credited_with_its_whole_bonus_less_what_the_past_owes(conversion):
    """F'_t - f_t does not depend on what step t earned, so between actions the whole bonus decides, for any delay."""
    before = {}
    for (episode, step), reward in one_step(conversion).items():
        earned = 0 if conversion.kind == "none" else rewards(episode, 17)[step]
        before.setdefault(episode[:step], set()).add(reward - earned)
    assert all(len(owed) == 1 for owed in before.values())


@by_conversion
@pytest.mark.parametrize("gae_lambda", [Fraction(0), Fraction(1, 2), Fraction(19, 20), Fraction(1)])
def test_a_critic_that_sees_the_ledger_gets_no_guidance(conversion, gae_lambda):
    """With V(history) - L_t for V, the advantages of the shaped rewards are those of the task alone."""

    def advantages(total, values):
        error = [
            reward + GAMMA * following - value
            for reward, value, following in zip(total, values, [*values[1:], 0], strict=True)
        ]
        return [gae(gae_lambda)(error, step) for step in range(len(error))]

    for episode in episodes():
        paid, ledger = shaped(conversion, episode)
        task = rewards(episode, 3)
        value = [Fraction(draw(episode[:step], 29), 13) for step in range(len(episode))]  # any critic, good or bad
        sees = [here - owed for here, owed in zip(value, ledger, strict=True)]
        total = [reward + extra for reward, extra in zip(task, paid, strict=True)]
        assert advantages(total, sees) == advantages(task, value)
