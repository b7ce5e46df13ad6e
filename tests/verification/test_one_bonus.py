"""One definition of a bonus: ``wrap``, the compiled core and ``verify`` pay the same for the same episode."""

from fractions import Fraction

import gymnasium
import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pbim
from pbim.errors import InputError, InputTypeError
from pbim.intrinsic import ActionRecency, EpisodicCount, Scaled, Spec, Sum, Transition
from pbim.verification import FiniteMDP, verify
from pbim.verification.bonuses import count
from pbim.verification.fold import readable
from pbim.verification.gallery import corridor

STATES, ACTIONS, LONGEST = 4, 3, 12
GAMMA, ALPHA = Fraction(19, 20), Fraction(1, 5)
LEFT, RIGHT, WAIT = 0, 1, 2

episodes = st.tuples(
    st.integers(0, STATES - 1),
    st.lists(st.tuples(st.integers(0, ACTIONS - 1), st.integers(0, STATES - 1)), min_size=LONGEST, max_size=LONGEST),
)


def half(step):
    return step.next_obs // 2


def moved(step):
    return [(int(a), int(b)) for a, b in zip(step.obs, step.next_obs, strict=True)]


CASES = {
    "count": EpisodicCount(alpha=Fraction(3, 10)),
    "count of floats": EpisodicCount(alpha=0.3),
    "count by key": EpisodicCount(alpha=Fraction(3, 10), key=half),
    "recency": ActionRecency(kappa=0.1),
    "sum": Sum(Scaled(EpisodicCount(), Fraction(1, 2)), ActionRecency(), EpisodicCount(key=half)),
}


def histories(start, steps):
    history = (start,)
    for action, state in steps:
        history = (*history, action, state)
        yield history


def transitions(start, steps):
    no, states = np.zeros(1, bool), [start, *(state for _, state in steps)]
    for t, (action, after) in enumerate(steps):
        yield Transition(np.array([states[t]]), np.array([action]), np.array([after]), no, no, {})


def at_the_edge(bonus, start, steps):
    fresh, paid = pbim.config.decode(pbim.config.encode(bonus)), []
    for step in transitions(start, steps):
        paid.append(fresh.reward(step)[0])
        fresh.update(step)
    return paid


def in_the_core(bonus, start, steps):
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *transitions(start, steps))
    spec = Spec(example=jax.tree.map(lambda leaf: leaf[0], stacked), num_actions=ACTIONS, num_keys=STATES)
    state = bonus.init(jax.random.key(0), spec)
    return jax.lax.scan(lambda s, t: (bonus.update_fn(s, t), bonus.reward_fn(s, t)), state, stacked)[1][:, 0]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25)
@given(episode=episodes)
def test_edge_core_and_history_pay_the_same(name, episode):
    bonus = CASES[name]
    paid = at_the_edge(bonus, *episode)
    np.testing.assert_allclose(in_the_core(bonus, *episode), paid, rtol=1e-5)
    np.testing.assert_allclose([float(bonus.of_history(history)) for history in histories(*episode)], paid, rtol=1e-12)
    assert [readable(bonus)(history) for history in histories(*episode)] == [
        bonus.of_history(history) for history in histories(*episode)
    ]


def test_the_first_return_to_the_start_pays_alpha_everywhere():
    bonus, steps = EpisodicCount(alpha=Fraction(1)), [(0, 2), (1, 0), (0, 2), (1, 0)]
    assert at_the_edge(bonus, 0, steps) == [1, 1, 1 / 2, 1 / 2]
    assert list(in_the_core(bonus, 0, steps)) == [1, 1, 1 / 2, 1 / 2]
    assert [bonus.of_history(history) for history in histories(0, steps)] == [1, 1, Fraction(1, 2), Fraction(1, 2)]


def test_a_wrapped_environment_pays_what_the_history_says():
    env = pbim.wrap(gymnasium.make("FrozenLake-v1"), EpisodicCount(alpha=0.3), pbim.Raw())
    bonus, rng = EpisodicCount(alpha=0.3), np.random.default_rng(0)
    returns = 0
    for seed in range(30):
        history, over = (int(env.reset(seed=seed)[0]),), False
        while not over:
            action = int(rng.integers(4))
            obs, _, terminated, truncated, info = env.step(action)
            history, over = (*history, action, int(obs)), terminated or truncated
            returns += int(obs) == history[0]
            assert info["intrinsic_reward"] == pytest.approx(bonus.of_history(history), rel=1e-12)
    assert returns > 5


def test_verify_takes_the_count_bonus_itself_and_computes_exactly():
    hall = corridor(GAMMA)
    idle = FiniteMDP.from_arrays((hall.transition, 0 * hall.reward, hall.initial, hall.terminal), gamma=GAMMA)
    report = verify(idle, intrinsic=EpisodicCount(alpha=ALPHA), shaping=pbim.Raw(), horizon=2)
    found = report.counterexample
    assert report.exact
    assert report.bonus_name == "count"
    # nothing to win, one step to go: back at the start once, a second return pays half of what a new cell pays
    assert found.history == (0, LEFT, 0)
    assert found.original_actions == (LEFT, RIGHT, WAIT)
    assert found.shaped_values == (ALPHA / 2, ALPHA, ALPHA / 2)
    for shaping in (pbim.PBIM(gamma=GAMMA), pbim.GRM(gamma=GAMMA, delay=2), pbim.Geometric(gamma=GAMMA, rate=ALPHA)):
        assert verify(hall, intrinsic=EpisodicCount(alpha=ALPHA), shaping=shaping, horizon=8).preserved


def test_waiting_on_the_start_pays_alpha_once():
    """One step from the goal, start uncounted: wait k steps collects alpha (1 + gamma / 2 + ...), then the goal's."""
    start = FiniteMDP(
        transition=[[[0, 1], [1, 0]], [[0, 1], [0, 1]]],
        reward=[[[0, 1], [0, 0]], [[0, 0], [0, 0]]],
        initial=[1, 0],
        terminal=[False, True],
        gamma=GAMMA,
    )
    found = verify(start, intrinsic=EpisodicCount(alpha=ALPHA), shaping=pbim.Raw(), horizon=3).counterexample
    go = 1 + ALPHA
    wait_once = ALPHA + GAMMA * (1 + ALPHA)
    wait_twice = ALPHA + GAMMA * ALPHA / 2 + GAMMA**2 * (1 + ALPHA)
    assert found.history == (0,)
    assert found.shaped_values == (go, max(wait_once, wait_twice))


@pytest.mark.parametrize("bonus", [CASES["sum"], CASES["count by key"], CASES["recency"]])
def test_compositions_keys_and_roots_are_verified_too(bonus):
    hall = corridor(GAMMA)
    assert not verify(hall, intrinsic=bonus, shaping=pbim.Raw(), horizon=6).preserved
    report = verify(hall, intrinsic=bonus, shaping=pbim.PBIM(gamma=GAMMA), horizon=6)
    assert report.preserved
    assert report.exact is (bonus is CASES["count by key"])


def test_a_key_may_read_both_ends_of_a_step():
    bonus = EpisodicCount(alpha=Fraction(1), key=moved)
    assert bonus.of_history((0, 1, 1, 0, 0, 1, 1)) == Fraction(1, 2)
    assert bonus.of_history((0, 1, 1, 1, 1)) == 1


def test_merging_is_that_of_the_count_written_as_a_fold():
    """Histories that arrived at the same states equally often are one, with the library's bonus too."""
    hall = corridor(GAMMA)
    merged = verify(hall, intrinsic=count(hall, ALPHA), shaping=pbim.Raw(), horizon=8)
    plain = verify(hall, intrinsic=count(hall, ALPHA).of_history, shaping=pbim.Raw(), horizon=8)
    assert merged.expanded < 0.1 * plain.expanded
    assert merged.counterexample.shaped_values == plain.counterexample.shaped_values


@pytest.mark.parametrize(
    "bonus",
    [
        pbim.LifetimeCount(),
        pbim.RND(),
        pbim.PseudoCount(),
        pbim.RIDE(num_actions=3),
        Scaled(pbim.LifetimeCount(), 2.0),
        Sum(EpisodicCount(), pbim.RND()),
        pbim.intrinsic.WarmUp(EpisodicCount(), steps=2),
        pbim.intrinsic.RunningStdScaled(EpisodicCount(), gamma=0.9),
    ],
    ids=lambda bonus: bonus.kind,
)
def test_what_depends_on_training_is_refused_with_the_way_out(bonus):
    with pytest.raises(
        InputTypeError, match=r"depends on training: .*certify_episodes.* env\.certificate\(\)"
    ) as caught:
        verify(corridor(GAMMA), intrinsic=bonus, shaping=pbim.Raw(), horizon=3)
    assert type(bonus).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bonus", "sentence"),
    [
        (EpisodicCount(key="cell"), "key must be None or a function to be verified, received 'cell'"),
        (EpisodicCount(key=lambda step: step.info["cell"]), r"received a function that reads info\['cell'\]"),
        (pbim.Empowerment(transition=np.ones((1, 1, 1))), r"of \(episode, t\) if it sees the future, received Empow"),
    ],
)
def test_what_cannot_be_read_from_states_and_actions_is_refused(bonus, sentence):
    with pytest.raises(InputError, match=sentence):
        verify(corridor(GAMMA), intrinsic=bonus, shaping=pbim.Raw(), horizon=3)
