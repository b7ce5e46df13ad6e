"""The verifier against the theorem, and against brute force over all history-dependent policies."""

import itertools
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import pbim
from pbim.shaping import LookBack
from pbim.verification import Fold, verify
from pbim.verification.fold import as_fold
from pbim.verification.induction import original_values, shaped_values
from pbim.verification.mdp import FiniteMDP
from pbim.verification.mistakes import FlippedPBIM, UnsettledPBRS
from pbim.verification.tree import Growing

GAMMAS = st.sampled_from([Fraction(1), Fraction(9, 10), Fraction(1, 2), Fraction(2, 3)])
SMALL = st.fractions(-2, 2, max_denominator=4)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def mdps(draw, most_states=4, most_actions=3):
    states, actions = draw(st.integers(2, most_states)), draw(st.integers(2, most_actions))
    terminal = [False] + [draw(st.booleans()) for _ in range(states - 1)]
    transition = np.zeros((states, actions, states), dtype=object)
    reward = np.zeros((states, actions, states), dtype=object)
    for state, action in itertools.product(range(states), range(actions)):
        first, second = draw(st.integers(0, states - 1)), draw(st.integers(0, states - 1))
        chance = draw(st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 3)]))
        transition[state, action, first] += chance
        transition[state, action, second] += 1 - chance
        for target in {first, second}:
            reward[state, action, target] = Fraction(draw(st.integers(-2, 2)))
    start = [Fraction(1), *[Fraction(0)] * (states - 1)]
    return FiniteMDP(transition=transition, reward=reward, initial=start, terminal=terminal, gamma=draw(GAMMAS))


def reaching(mdp, horizon):
    """Return a horizon within which the task can pay something, if it ever does."""
    return max(horizon, mdp.steps_to_reward() or 1)


@st.composite
def bonuses(draw):
    """Any function of the history: a table too large to write down."""
    salt, size = draw(st.integers(0, 10**6)), draw(st.integers(1, 9))

    def bonus(history):
        return Fraction(zlib.crc32(repr((salt, history)).encode()) % (2 * size + 1) - size, 3)

    return bonus


@st.composite
def repayments(draw):
    """A causal repayment with a memory: what was earned the step before, and how many steps ago the episode began."""
    share, again, square, aged = (draw(SMALL) for _ in range(4))

    def repay(memory, ledger, earned):
        before, age = memory
        return (earned, age + 1), share * ledger + again * before + square * earned * earned + aged * age

    return repay, lambda zeros: (zeros, zeros)


@st.composite
def exact_conversions(draw, gamma):
    repay, recall = draw(repayments())
    centred = draw(st.booleans())
    return draw(
        st.sampled_from(
            [
                pbim.PBIM(gamma=gamma),
                pbim.PBIM(gamma=gamma, normalize=False),
                pbim.GRM(gamma=gamma, delay=draw(st.integers(1, 4)), normalize=centred),
                pbim.Geometric(
                    gamma=gamma, rate=draw(st.sampled_from([Fraction(1), Fraction(1, 3)])), normalize=centred
                ),
                pbim.Bounded(gamma=gamma, limit=draw(st.sampled_from([0, Fraction(1, 5), 1])), normalize=centred),
                pbim.Mixture(
                    members=(
                        pbim.GRM(gamma=gamma, delay=2, normalize=centred),
                        pbim.Bounded(gamma=gamma, limit=Fraction(1, 3), rate=Fraction(1, 4), normalize=centred),
                    )
                ),
                pbim.Custom(gamma=gamma, repay=repay, recall=recall, normalize=centred),
                pbim.PBRS(gamma=gamma),
                LookBack(gamma=gamma),
                pbim.NoBonus(),
            ]
        )
    )


@QUICK
@given(st.data(), mdps(), bonuses(), SMALL, st.integers(1, 4))
def test_exact_conversions_keep_the_optimal_actions_of_every_history(data, mdp, bonus, mean, horizon):
    shaping = data.draw(exact_conversions(mdp.gamma))
    horizon = reaching(mdp, horizon)
    report = verify(mdp, intrinsic=bonus, shaping=shaping, horizon=horizon, mean=mean)
    assert report.preserved, str(report)
    assert report.exact
    assert report.counterexample is None


@QUICK
@given(st.data(), mdps(), bonuses(), st.integers(1, 4))
def test_shaped_values_differ_from_the_original_by_a_number_of_the_past(data, mdp, bonus, horizon):
    shaping = data.draw(exact_conversions(mdp.gamma)).frozen(0)
    links = mdp.links_as(exact=True)
    tree = Growing(
        mdp=mdp, links=links, bonus=as_fold(bonus), shaping=shaping, horizon=horizon, exact=True, merging=False,
        limit=10**6, advance=lambda _: None,
    ).grow()  # fmt: skip
    original = original_values(links, mdp.num_actions, horizon, mdp.gamma)
    for depth, (level, values) in enumerate(
        zip(tree.levels, shaped_values(tree, mdp.num_actions, mdp.gamma), strict=True)
    ):
        shift = values.actions - original[depth].actions[level.state]
        assert (shift == shift[:, :1]).all()
        if depth == 0 and not isinstance(shaping, pbim.PBRS):
            assert (shift == 0).all()  # L_0 = 0


def whole_episode(kind, gamma, rewards):
    """Return F' of a whole episode from its bonuses, written from the papers' sums and not with a ledger."""
    last = len(rewards) - 1
    repaid = sum((gamma ** (n - last) * rewards[n] for n in range(last)), Fraction(0))
    if kind == "raw":
        return list(rewards)
    if kind == "pbim":  # Eq. 30
        return [*rewards[:last], -repaid]
    if kind == "flipped":
        return [*rewards[:last], repaid]
    potentials = [Fraction(0), *rewards]
    return [gamma * after - before for before, after in itertools.pairwise(potentials)]  # no zero at the end


def brute_force(mdp, bonus, kind, gamma, horizon):
    """Return the optimal actions at every history by evaluating every deterministic history-dependent policy."""
    live, whole = [], []

    def expand(history):
        if len(history) // 2 == horizon or mdp.terminal[history[-1]]:
            whole.append(history)
            return
        live.append(history)
        for action in range(mdp.num_actions):
            for target in range(mdp.num_states):
                if mdp.transition[history[-1], action, target] != 0:
                    expand((*history, action, target))

    expand((0,))
    assume(mdp.num_actions ** len(live) <= 4096)

    def pays(history, shaped):
        steps = range(len(history) // 2)
        task = [mdp.reward[history[2 * n], history[2 * n + 1], history[2 * n + 2]] for n in steps]
        if not shaped:
            return task
        paid = whole_episode(kind, gamma, [bonus(history[: 2 * n + 3]) for n in steps])
        return [a + b for a, b in zip(task, paid, strict=True)]

    def chance(history, start, policy):
        likely = Fraction(1)
        for n in range(start, len(history) // 2):
            state, action, target = history[2 * n : 2 * n + 3]
            likely *= mdp.transition[state, action, target] if policy[history[: 2 * n + 1]] == action else 0
        return likely

    def best(shaped):
        streams = {history: pays(history, shaped) for history in whole}
        top, sets = {}, {}
        for choice in itertools.product(range(mdp.num_actions), repeat=len(live)):
            policy = dict(zip(live, choice, strict=True))
            for here in live:
                start = len(here) // 2
                value = sum(
                    chance(end, start, policy)
                    * sum(mdp.gamma ** (n - start) * x for n, x in enumerate(stream) if n >= start)
                    for end, stream in streams.items()
                    if end[: len(here)] == here
                )
                if here not in top or value > top[here]:
                    top[here], sets[here] = value, {policy[here]}
                elif value == top[here]:
                    sets[here].add(policy[here])
        return sets

    original, shaped = best(False), best(True)
    differing = [here for here in live if original[here] != shaped[here]]
    if not differing:
        return None
    first = min(differing, key=lambda here: (len(here), here))
    return first, tuple(sorted(original[first])), tuple(sorted(shaped[first]))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    mdps(most_states=3, most_actions=2),
    bonuses(),
    st.sampled_from(["raw", "pbim", "flipped", "unsettled"]),
    GAMMAS,
    st.integers(1, 3),
)
def test_the_verdict_is_that_of_brute_force_over_all_policies(mdp, bonus, kind, gamma, horizon):
    shaping = {
        "raw": pbim.Raw(),
        "pbim": pbim.PBIM(gamma=gamma, normalize=False),
        "flipped": FlippedPBIM(gamma=gamma),
        "unsettled": UnsettledPBRS(gamma=gamma),
    }[kind]
    horizon = reaching(mdp, horizon)
    expected = brute_force(mdp, bonus, kind, gamma, horizon)
    report = verify(mdp, intrinsic=bonus, shaping=shaping, horizon=horizon)
    found = report.counterexample
    assert report.preserved == (expected is None)
    assert expected == (None if found is None else (found.history, found.original_actions, found.shaped_actions))


@st.composite
def folds(draw):
    """A bonus with a small memory, so that many histories agree."""
    salt, size = draw(st.integers(0, 10**6)), draw(st.integers(1, 3))

    def step(memory, action, state):
        after = (memory + action + 2 * state + salt) % size
        return after, Fraction((after + state) % 3 - 1, 2)

    return Fold(start=lambda state: state % size, step=step, name="small")


@QUICK
@given(st.data(), mdps(), folds(), st.integers(1, 4))
def test_merging_histories_changes_no_verdict(data, mdp, fold, horizon):
    gamma = mdp.gamma
    shaping = data.draw(
        st.sampled_from(
            [pbim.Raw(), pbim.PBIM(gamma=gamma), FlippedPBIM(gamma=gamma), pbim.GRM(gamma=Fraction(3, 4), delay=2)]
        )
    )
    horizon = reaching(mdp, horizon)
    merged = verify(mdp, intrinsic=fold, shaping=shaping, horizon=horizon)
    plain = verify(mdp, intrinsic=lambda history: fold(history), shaping=shaping, horizon=horizon)
    assert merged.expanded <= plain.expanded == plain.histories == merged.histories
    assert merged.preserved == plain.preserved
    for a, b in ((merged.counterexample, plain.counterexample), (merged.costly, plain.costly)):
        assert (a is None) == (b is None)
        if a is not None:
            for field in ("history", "original_actions", "shaped_actions", "original_values", "shaped_values"):
                assert getattr(a, field) == getattr(b, field)


@QUICK
@given(st.data(), mdps(), bonuses(), st.integers(1, 4))
def test_floats_and_fractions_agree(data, mdp, bonus, horizon):
    gamma = data.draw(GAMMAS)
    shaping = data.draw(
        st.sampled_from([pbim.Raw(), pbim.PBIM(gamma=gamma), pbim.Geometric(gamma=gamma, rate=Fraction(1, 3))])
    )
    horizon = reaching(mdp, horizon)
    exact = verify(mdp, intrinsic=bonus, shaping=shaping, horizon=horizon, exact=True)
    rounded = verify(mdp, intrinsic=bonus, shaping=shaping, horizon=horizon, exact=False)
    assert exact.preserved == rounded.preserved
    assert (exact.costly is None) == (rounded.costly is None)
    assert not rounded.exact
    if not exact.preserved:
        assert exact.counterexample.history == rounded.counterexample.history
        assert exact.counterexample.shaped_actions == rounded.counterexample.shaped_actions
        assert [float(x) for x in exact.counterexample.shaped_values] == pytest.approx(
            rounded.counterexample.shaped_values
        )
