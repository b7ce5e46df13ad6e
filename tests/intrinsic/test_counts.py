"""Counts are what a dictionary says they are, per environment and per episode."""

from collections import Counter
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pbim.intrinsic import ActionRecency, EpisodicCount, LifetimeCount, Scaled, Spec, Sum, Transition

NUM_ENVS, NUM_STATES, NUM_ACTIONS = 3, 4, 2

rows = st.tuples(
    st.integers(0, NUM_STATES - 1),
    st.integers(0, NUM_ACTIONS - 1),
    st.integers(0, NUM_STATES - 1),
    *[st.booleans()] * 3,
)
streams = st.lists(st.lists(rows, min_size=NUM_ENVS, max_size=NUM_ENVS), min_size=1, max_size=25)


def transitions(stream):
    for step in stream:
        obs, action, next_obs, terminated, truncated, valid = (np.array(column) for column in zip(*step, strict=True))
        info = {"key": np.stack([next_obs, next_obs + 1], axis=1)}
        yield Transition(obs, action, next_obs, terminated, truncated, info, valid)


def one(next_obs, *, terminated=False, truncated=False, obs=0, action=0):
    flags = np.array([terminated]), np.array([truncated])
    return Transition(np.array([obs]), np.array([action]), np.array([next_obs]), *flags, {})


@settings(deadline=None)
@given(streams)
def test_episodic_count_is_a_dictionary_per_environment_cleared_at_the_true_end(stream):
    bonuses = [
        EpisodicCount(alpha=0.3),
        EpisodicCount(alpha=0.3, key="key"),
        EpisodicCount(alpha=0.3, key=lambda t: t.next_obs),
    ]
    counts = [Counter() for _ in range(NUM_ENVS)]
    for step in transitions(stream):
        expected = [0.3 / (count[int(key)] + 1) for count, key in zip(counts, step.next_obs, strict=True)]
        for bonus in bonuses:
            np.testing.assert_allclose(bonus.reward(step), expected, rtol=1e-15)
            bonus.update(step)
        for env in np.flatnonzero(step.valid):
            counts[env][int(step.next_obs[env])] += 1
            if step.terminated[env] or step.truncated[env]:
                counts[env].clear()


@settings(deadline=None)
@given(streams)
def test_lifetime_count_is_one_dictionary_for_all(stream):
    bonus, count = LifetimeCount(beta=0.3), Counter()
    for step in transitions(stream):
        np.testing.assert_allclose(bonus.reward(step), [0.3 / np.sqrt(count[int(k)] + 1) for k in step.next_obs])
        bonus.update(step)
        count.update(step.next_obs[step.valid].tolist())


@settings(deadline=None)
@given(streams)
def test_action_recency_is_the_time_since_the_pair_was_tried(stream):
    bonus, tried, time = ActionRecency(kappa=0.3), {}, 1
    for step in transitions(stream):
        pairs = list(zip(step.obs.tolist(), step.action.tolist(), strict=True))
        np.testing.assert_allclose(bonus.reward(step), [0.3 * np.sqrt(time - tried.get(pair, 0)) for pair in pairs])
        bonus.update(step)
        tried |= {pair: time for pair, valid in zip(pairs, step.valid, strict=True) if valid}
        time += step.valid.any()


@settings(deadline=None, max_examples=15)
@given(streams)
@pytest.mark.parametrize("make", [EpisodicCount, LifetimeCount, ActionRecency])
def test_compiled_core_agrees_with_the_edge(make, stream):
    bonus, steps = make(), list(transitions(stream))
    paid = []
    for step in steps:
        paid.append(bonus.reward(step))
        bonus.update(step)
    padded = steps + [steps[-1]] * (25 - len(steps))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
    state = bonus.init(jax.random.key(0), Spec(example=steps[0], num_actions=NUM_ACTIONS, num_keys=NUM_STATES))
    np.testing.assert_allclose(scanned(make)(state, stacked)[: len(steps)], paid, rtol=1e-6)


@cache
def scanned(make):
    bonus = make()

    def advance(state, step):
        return bonus.update_fn(state, step), bonus.reward_fn(state, step)

    return jax.jit(lambda state, steps: jax.lax.scan(advance, state, steps)[1])


def test_first_visit_pays_alpha_then_a_half_then_a_third():
    bonus, paid = EpisodicCount(alpha=0.6), []
    for _ in range(3):
        paid.append(bonus.reward(one(7))[0])
        bonus.update(one(7))
    np.testing.assert_allclose(paid, [0.6, 0.3, 0.2])


def test_the_start_state_is_not_a_visit_until_a_step_leads_back_to_it():
    bonus = EpisodicCount(alpha=1.0)
    bonus.update(one(1, obs=0))
    assert bonus.reward(one(0, obs=1))[0] == 1.0


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_the_last_step_is_paid_from_its_own_episode(flag):
    bonus = EpisodicCount(alpha=1.0)
    bonus.update(one(7))
    last = one(7, **{flag: True})
    assert bonus.reward(last)[0] == 0.5
    bonus.update(last)
    assert bonus.reward(one(7))[0] == 1.0


def test_keys_of_every_saveable_kind_survive_saving():
    keys = [0, -3, "door", b"\x00\xff\x00", (1, "a", (2, b"")), True, None]
    step = Transition(None, None, None, np.zeros(len(keys), bool), np.zeros(len(keys), bool), {})
    bonus, restored = (EpisodicCount(key=lambda _: keys) for _ in range(2))
    bonus.update(step)
    restored.load_state_dict(bonus.state_dict())
    np.testing.assert_array_equal(restored.reward(step), np.full(len(keys), 0.5))


def test_counting_sixteen_images_costs_microseconds():
    import timeit

    bonus, image = EpisodicCount(), np.random.default_rng(0).integers(0, 9, (16, 7, 7, 3), dtype=np.uint8)
    step = Transition(image, np.zeros(16, int), image, np.zeros(16, bool), np.zeros(16, bool), {})

    def once():
        bonus.reward(step)
        bonus.update(step)

    per_env = min(timeit.repeat(once, number=200, repeat=5)) / 200 / 16
    assert per_env < 20e-6  # measured at 2e-6; the margin is for busy machines


@pytest.mark.parametrize("wrapped", [lambda bonus: bonus, lambda bonus: Scaled(Sum(bonus, bonus), 0.5)])
def test_an_abandoned_episode_is_forgotten_in_its_environment_only(wrapped):
    bonus, no = wrapped(EpisodicCount(alpha=1.0)), np.zeros(2, bool)
    step = Transition(np.array([0, 0]), np.array([0, 0]), np.array([5, 5]), no, no, {})
    bonus.update(step)
    before = bonus.reward(step)
    bonus.restart(np.array([True, False]))
    after = bonus.reward(step)
    assert after[0] > before[0]
    assert after[1] == before[1]
