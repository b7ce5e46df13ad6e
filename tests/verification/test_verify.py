"""What ``pbim.verify`` says, refuses and reports."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

import pbim
from pbim import shaping as sh
from pbim.errors import InputError, InputTypeError
from pbim.shaping import Guarantee, Level, Shaping
from pbim.verification import FiniteMDP, Fold, verify
from pbim.verification.bonuses import alive, closeness, count
from pbim.verification.gallery import corridor, grid, noisy_tv
from pbim.verification.mistakes import FlippedPBIM, UnsettledPBRS

GAMMA, ALPHA = Fraction(19, 20), Fraction(1, 5)
LEFT, RIGHT, WAIT = 0, 1, 2


@pytest.fixture
def hall():
    return corridor(GAMMA)


def counting(history):
    """A function of the history: a count in which the start is a visit too (the library's counts arrivals)."""
    return ALPHA / history[::2].count(history[-1])


def test_a_raw_count_makes_the_agent_stall_before_the_goal(hall):
    report = verify(hall, intrinsic=counting, shaping=pbim.Raw(), horizon=8)
    found = report.counterexample
    assert not report.preserved
    assert report.exact
    assert found.history == (0, RIGHT, 1, RIGHT, 2)
    assert found.step == 2
    assert found.original_actions == (RIGHT,)
    assert found.shaped_actions == (WAIT,)
    assert found.original_values == (Fraction(361, 400), 1, Fraction(19, 20))
    assert found.shaped_values[RIGHT] == 1 + ALPHA  # the goal's own first visit
    assert len(found.shaped_course.history) > len(found.original_course.history)
    assert found.original_course.total == found.shaped_values[RIGHT]
    assert found.shaped_course.total == found.shaped_values[WAIT]
    assert found.shaped_course.task < found.original_course.task
    assert report.costly == found
    assert "wait is best instead" in found.why
    assert "costs 0.05 of the task's return" in found.why


@pytest.mark.parametrize(
    "shaping",
    [
        pbim.PBIM(gamma=GAMMA),
        pbim.PBIM(gamma=GAMMA, normalize=False),
        pbim.GRM(gamma=GAMMA, delay=1),
        pbim.GRM(gamma=GAMMA, delay=3),
        pbim.Geometric(gamma=GAMMA, rate=Fraction(1, 10)),
        pbim.Bounded(gamma=GAMMA, limit=0.5),
        pbim.Mixture(members=(pbim.PBIM(gamma=GAMMA), pbim.Bounded(gamma=GAMMA, limit=0.5)), weights=(0.25, 0.75)),
        pbim.Custom(gamma=GAMMA, repay=lambda memory, ledger, earned: (memory, ledger * earned)),
        pbim.NoBonus(),
    ],
    ids=lambda shaping: type(shaping).__name__,
)
def test_exact_conversions_are_proven_on_the_same_problem(hall, shaping):
    report = verify(hall, intrinsic=counting, shaping=shaping, horizon=8, mean=Fraction(1, 7))
    assert report.preserved
    assert report.exact
    assert report.tolerance == 0
    assert report.histories == hall.count_histories(8)
    assert "PRESERVED" in str(report)


@pytest.mark.parametrize("discount", ["start", "end", "none"])
def test_the_inexact_readings_of_the_last_step_are_refuted_on_the_same_problem(hall, discount):
    shaping = pbim.shaping.InexactPBIM(gamma=GAMMA, discount=discount, normalize=False)
    report = verify(hall, intrinsic=counting, shaping=shaping, horizon=8)
    assert not report.preserved
    assert report.exact
    assert report.counterexample is not None
    assert "NOT PRESERVED" in str(report)


def test_potentials_must_be_settled():
    two = grid(["gS.G"], gamma=GAMMA, endings={"g": 1, "G": 1}, actions=("left", "right"))
    bonus = closeness(two, 2)
    assert verify(two, intrinsic=bonus, shaping=pbim.PBRS(gamma=GAMMA), horizon=4).preserved
    far = Fold(start=lambda _: (), step=lambda _memory, _action, state: ((), state), name="far right")
    report = verify(two, intrinsic=far, shaping=UnsettledPBRS(gamma=GAMMA), horizon=4)
    assert report.counterexample.history == (1,)
    assert report.counterexample.original_actions == (0,)
    assert report.counterexample.shaped_actions == (1,)
    assert report.costly is not None


def test_a_settlement_of_the_wrong_sign_is_caught(hall):
    report = verify(hall, intrinsic=counting, shaping=FlippedPBIM(gamma=GAMMA), horizon=6)
    assert not report.preserved
    assert report.costly is not None


@pytest.mark.parametrize("other", [Fraction(1, 2), Fraction(99, 100)])
def test_a_conversion_with_another_gamma_is_judged_and_named(hall, other):
    report = verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=other), horizon=8)
    assert not report.preserved
    assert any("gamma" in note and str(other) in note for note in report.notes)
    assert not verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=GAMMA), horizon=4).notes


@pytest.mark.parametrize("exact", [True, False])
def test_the_mean_is_what_is_subtracted(hall, exact):
    mismatched = pbim.PBIM(gamma=1)  # takes back too little, so that what is paid shows
    centred = verify(hall, intrinsic=alive(hall, 1), shaping=mismatched, horizon=6, mean=1, exact=exact)
    assert centred.preserved
    assert not verify(hall, intrinsic=alive(hall, 1), shaping=mismatched, horizon=6, mean=0, exact=exact).preserved
    uncentred = pbim.PBIM(gamma=1, normalize=False)
    assert not verify(hall, intrinsic=alive(hall, 1), shaping=uncentred, horizon=6, mean=1, exact=exact).preserved


def test_a_float_gamma_matches_the_fraction_it_rounds(hall):
    report = verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=0.95), horizon=4)
    assert report.preserved
    assert not report.exact
    assert [note for note in report.notes if "0.95" in note and "floats were used" in note] == list(report.notes)


def test_ties_are_compared_as_sets():
    ring = grid(["G.S.G"], gamma=GAMMA, endings={"G": 1}, actions=("left", "right"))
    lean = Fold(start=lambda _: (), step=lambda _memory, _action, state: ((), Fraction(state, 10**9)), name="lean")
    report = verify(ring, intrinsic=lean, shaping=pbim.Raw(), horizon=4)
    assert report.counterexample.history == (2,)
    assert report.counterexample.original_actions == (0, 1)
    assert report.counterexample.shaped_actions == (1,)
    assert "A tie of the task is broken" in report.counterexample.why


def test_only_ties_change_is_said_when_nothing_is_lost():
    ring = grid(["G.S.G"], gamma=GAMMA, endings={"G": 1}, actions=("left", "right"))
    lean = Fold(start=lambda _: (), step=lambda _memory, _action, state: ((), Fraction(state, 10**9)), name="lean")
    report = verify(ring, intrinsic=lean, shaping=pbim.Raw(), horizon=3)
    assert not report.preserved
    assert report.costly is None
    assert "Only ties change" in str(report)


@pytest.mark.parametrize("exact", [True, False])
def test_a_wrong_action_made_level_is_costly(exact):
    fork = grid(["gSG"], gamma=GAMMA, endings={"g": Fraction(1, 2), "G": 1}, actions=("left", "right"))
    report = verify(
        fork, intrinsic=lambda history: Fraction(history[-1] == 0) / 2, shaping=pbim.Raw(), horizon=3, exact=exact
    )
    assert report.exact is exact
    assert report.counterexample.original_actions == (1,)
    assert report.counterexample.shaped_actions == (0, 1)
    assert report.costly == report.counterexample
    assert "may do the wrong thing" in report.counterexample.why


def test_progress_is_shown_on_demand(hall, capsys):
    report = verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=GAMMA), horizon=5, progress=True)
    assert report.preserved
    assert "histories" in capsys.readouterr().err


def test_horizon_one_has_nothing_to_convert():
    hall = grid(["S..G"], gamma=GAMMA, endings={"G": 1}, step_reward=-1, actions=("left", "right"))
    assert verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=GAMMA), horizon=1).preserved
    assert not verify(hall, intrinsic=lambda history: history[-1], shaping=pbim.Raw(), horizon=1).preserved


def test_the_horizon_may_be_left_out_when_episodes_end_by_themselves(hall):
    line = FiniteMDP(
        transition=[[[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
        reward=np.zeros((3, 2, 3), dtype=int),
        initial=[1, 0, 0],
        terminal=[False, False, True],
        gamma=1,
    )
    assert verify(line, intrinsic=lambda _: 1, shaping=pbim.PBIM(gamma=1)).horizon == 2
    with pytest.raises(InputError, match="horizon must be given"):
        verify(hall, intrinsic=counting, shaping=pbim.Raw())


def test_too_many_histories_are_refused_with_what_would_fit(hall):
    with pytest.raises(InputError, match="horizon=6 fits") as refusal:
        verify(hall, intrinsic=counting, shaping=pbim.Raw(), horizon=30, max_histories=1000)
    assert hall.count_histories(6) <= 1000 < hall.count_histories(7)
    assert "Fold" in str(refusal.value)
    assert verify(hall, intrinsic=counting, shaping=pbim.Raw(), horizon=6, max_histories=1000).histories <= 1000


def test_merging_reaches_horizons_that_enumeration_cannot(hall):
    report = verify(hall, intrinsic=alive(hall, 1), shaping=pbim.PBIM(gamma=GAMMA), horizon=60)
    assert report.preserved
    assert report.expanded < 1000 < 10**20 < report.histories


def test_merging_stops_at_the_limit_too(hall):
    with pytest.raises(InputError, match="after merging"):
        verify(hall, intrinsic=count(hall, ALPHA), shaping=pbim.PBIM(gamma=GAMMA), horizon=40, max_histories=500)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, 1j, np.ones(2)])
@pytest.mark.parametrize("exact", [True, False])
def test_bonuses_must_be_numbers(hall, value, exact):
    with pytest.raises(InputTypeError, match="intrinsic must return a finite number"):
        verify(hall, intrinsic=lambda _: value, shaping=pbim.Raw(), horizon=3, exact=exact)


def test_a_bonus_with_hidden_state_is_refused(hall):
    calls = iter(range(10**6))
    with pytest.raises(InputError, match="function of the history alone"):
        verify(hall, intrinsic=lambda _: next(calls), shaping=pbim.Raw(), horizon=3)


def test_a_fold_must_keep_a_hashable_memory(hall):
    fold = Fold(start=lambda state: [state], step=lambda memory, _action, state: ([*memory, state], 1))
    with pytest.raises(InputTypeError, match="hashable memory"):
        verify(hall, intrinsic=fold, shaping=pbim.Raw(), horizon=3)


def test_exact_arithmetic_can_be_insisted_on(hall):
    with pytest.raises(InputError, match=r"pays the float 0\.1"):
        verify(hall, intrinsic=lambda _: 0.1, shaping=pbim.Raw(), horizon=3, exact=True)
    with pytest.raises(InputError, match=r"Geometric.rate is the float 0.1"):
        verify(hall, intrinsic=counting, shaping=pbim.Geometric(gamma=GAMMA, rate=0.1), horizon=3, exact=True)
    mixture = pbim.Mixture(members=(pbim.PBIM(gamma=GAMMA), pbim.Bounded(gamma=GAMMA, limit=0.1)))
    with pytest.raises(InputError, match=r"Mixture.members\[1\].limit is the float 0.1"):
        verify(hall, intrinsic=counting, shaping=mixture, horizon=3, exact=True)
    with pytest.raises(InputError, match="mean is the float"):
        verify(hall, intrinsic=counting, shaping=pbim.PBIM(gamma=GAMMA), horizon=3, exact=True, mean=0.1)
    custom = pbim.Custom(gamma=GAMMA, repay=lambda memory, ledger, _: (memory, 0.3 * ledger))
    with pytest.raises(InputError, match="Custom pays the float"):
        verify(hall, intrinsic=counting, shaping=custom, horizon=4, exact=True)
    assert verify(hall, intrinsic=lambda _: 0.5, shaping=pbim.Raw(), horizon=3, exact=True).exact


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mdp": "corridor"}, "mdp must be a FiniteMDP"),
        ({"shaping": "raw"}, "shaping must be a Shaping"),
        ({"intrinsic": 3}, "intrinsic must be a function of the history"),
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"mean": math.nan}, "mean must be a finite number"),
        ({"tolerance": 0}, "tolerance must be in"),
        ({"max_histories": 0}, "max_histories must be a whole number"),
        ({"horizon": 2}, "horizon must be at least 3 to reach a reward of the task, received 2"),
        ({"horizon": 10**9}, "horizon must be at most 1,000"),
        ({"intrinsic": pbim.EpisodicCount}, r"received the class EpisodicCount: make one, as in EpisodicCount\("),
    ],
)
def test_bad_arguments_are_named(hall, wrong, message):
    arguments = {"mdp": hall, "intrinsic": counting, "shaping": pbim.Raw(), "horizon": 3, **wrong}
    with pytest.raises(InputError, match=message):
        verify(arguments.pop("mdp"), **arguments)


class Seen(NamedTuple):
    lanes: np.ndarray
    total: np.ndarray


@dataclass(frozen=True)
class Leaking(Shaping):
    """A conversion whose environments share a running total that ``frozen`` forgets to fix."""

    guarantee = Guarantee(level=Level.NONE, assumption="none", reference="none")
    summary = "leaks"

    def _start(self, lanes):
        return Seen(lanes, lanes.sum())

    def _run(self, state, rows, extra):
        del extra
        return Seen(state.lanes, state.total + rows.values.sum()), rows.values - state.total


def test_histories_may_not_influence_each_other(hall):
    with pytest.raises(InputError, match="frozen"):
        verify(hall, intrinsic=counting, shaping=Leaking(), horizon=3)


def test_large_repayments_do_not_hide_small_differences_in_floats():
    hall = corridor(0.5)
    bonus = count(hall, 1000.0)
    assert verify(hall, intrinsic=bonus, shaping=pbim.PBIM(gamma=0.5), horizon=14, exact=False).preserved
    wrong = verify(hall, intrinsic=bonus, shaping=pbim.PBIM(gamma=0.501), horizon=14, exact=False)
    assert not wrong.preserved


def test_the_report_survives_json(hall):
    report = verify(hall, intrinsic=counting, shaping=pbim.Raw(), horizon=8)
    data = json.loads(report.to_json())
    assert data["preserved"] is False
    assert data["counterexample"]["history"] == [0, 1, 1, 1, 2]
    assert data["counterexample"]["original_values"]["exact"][0] == "361/400"
    assert data["assumption1"]["holds"] is True
    assert data["histories"] == report.histories


def test_every_horizon_that_reaches_a_reward_is_taken_and_no_shorter_one():
    for mdp in (corridor(GAMMA), noisy_tv(GAMMA)):
        reached = mdp.steps_to_reward()
        assert verify(mdp, intrinsic=counting, shaping=pbim.Raw(), horizon=reached).horizon == reached
        with pytest.raises(InputError, match=f"pass {reached} or more"):
            verify(mdp, intrinsic=counting, shaping=pbim.Raw(), horizon=reached - 1)


def test_a_task_that_pays_nothing_or_the_same_everywhere_is_about_ties_alone():
    for paid in (0, 1):
        mdp = FiniteMDP(
            transition=[[[0, 1], [0, 1]], [[0, 1], [0, 1]]], reward=np.full((2, 2, 2), paid), initial=[1, 0],
            terminal=[False, True], gamma=1, actions=("left", "right"),
        )  # fmt: skip
        assert mdp.steps_to_reward() == (1 if paid else None)
        for exact in (True, False):
            report = verify(mdp, intrinsic=lambda history: history[1], shaping=pbim.Raw(), exact=exact)
            assert report.indifferent
            assert "about ties and nothing else" in str(report)
            assert report.to_dict()["indifferent"] is True
    assert not verify(corridor(GAMMA), intrinsic=counting, shaping=pbim.Raw(), horizon=4).indifferent


def small_gap(gap):
    """Two ways to the end, one worth ``gap`` more."""
    return FiniteMDP(
        transition=[[[0, 1], [0, 1]], [[0, 1], [0, 1]]], reward=[[[0, gap], [0, 0]], [[0, 0], [0, 0]]],
        initial=[1, 0], terminal=[False, True], gamma=1,
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 1e3, 1e6, 1e9, 1e12, 1e15])
def test_floats_never_say_preserved_where_fractions_say_it_is_not(size):
    """A bonus of ``size`` for both ways, and 0.3 more for the worse one: the tolerance must not hide that."""
    bonus = lambda history: size + 0.3 * history[1]  # noqa: E731
    rounded = verify(small_gap(0.2), intrinsic=bonus, shaping=pbim.Raw(), exact=False)
    exact = verify(
        small_gap(Fraction(1, 5)),
        intrinsic=lambda history: Fraction(size) + Fraction(3, 10) * history[1],
        shaping=pbim.Raw(),
    )
    assert not exact.preserved
    assert not rounded.preserved
    assert rounded.undecided == (rounded.counterexample is None) == (size >= 1e9)
    if rounded.undecided:
        assert "UNDECIDED in floats" in str(rounded)
        assert "Fractions" in str(rounded)
        assert rounded.to_dict()["undecided"] is True
    if size == 1e9:  # more than rounding: a smaller tolerance decides
        finer = verify(small_gap(0.2), intrinsic=bonus, shaping=pbim.Raw(), exact=False, tolerance=1e-12)
        assert finer.counterexample is not None


def one_step(*rewards):
    """One choice, which ends the episode and pays ``rewards``."""
    return FiniteMDP(
        transition=[[[0, 1], [0, 1]], [[0, 1], [0, 1]]], reward=[[[0, each] for each in rewards], [[0, 0], [0, 0]]],
        initial=[1, 0], terminal=[False, True], gamma=0.9,
    )  # fmt: skip


def test_a_gap_of_the_task_that_the_tolerance_hides_is_no_counterexample():
    bonus = lambda history: 1e9 * (history[-2] == 0) + 0.1  # noqa: E731
    report = verify(one_step(1.0, 0.7), intrinsic=bonus, shaping=pbim.Raw(), horizon=1)
    assert report.undecided
    assert report.counterexample is None
    assert verify(one_step(1.0, 0.7), intrinsic=bonus, shaping=pbim.Raw(), horizon=1, tolerance=1e-12).preserved


@pytest.mark.parametrize(
    ("reward", "paid"), [(1e4, 1e-11), (1e6, 1e-9), (1e9, 1e-6), (100, 1e-13), (1e9, 1e-12), (-1e6, -1e-9)]
)
@pytest.mark.parametrize("scale", [1, 1e-3])
def test_a_bonus_that_rounding_hides_is_undecided(reward, paid, scale):
    def later(episode, step):
        return paid * episode[1]

    later.sees_future = True
    mdp = one_step(reward, reward)
    for bonus in (lambda history: paid * history[1], later):
        report = verify(mdp, intrinsic=bonus, shaping=pbim.Raw(scale=scale), exact=False)
        assert report.undecided
        assert not report.preserved
        assert verify(mdp, intrinsic=bonus, shaping=pbim.NoBonus(), exact=False).preserved
    assert verify(mdp, intrinsic=lambda history: reward * history[1], shaping=pbim.Raw(), exact=False).counterexample


def random_question(seed, number):
    """A task of tenths, a bonus whose sizes lie anywhere from 1e-12 to 1e12, and a conversion, made of ``number``s."""
    rng = np.random.default_rng(seed)
    transition, reward = np.full((2, 4, 2, 4), Fraction(0))
    for state, action in np.ndindex(4, 2):
        first, second = rng.choice(4, size=2, replace=False)
        transition[state, action, [first, second]] = (share := Fraction(int(rng.choice([1, 3, 4])), 4)), 1 - share
        reward[state, action] = [Fraction(int(each), 10) for each in rng.integers(-3, 4, size=4)]
    as_numbers = np.vectorize(number, otypes=[object if number is Fraction else float])
    mdp = FiniteMDP(
        transition=as_numbers(transition), reward=as_numbers(reward), initial=[1, 0, 0, 0],
        terminal=[False, False, False, True], gamma=number(Fraction(9, 10)),
    )  # fmt: skip
    low, high = sorted(rng.integers(-12, 13, size=2)) if seed % 4 < 2 else [int(rng.integers(-12, 13))] * 2
    always = int(rng.integers(2)) * Fraction(10) ** int(rng.integers(low, min(low + 12, 12) + 1))
    halves, sizes = rng.integers(3, size=(4, 2, 4)), rng.integers(low, high + 1, size=(4, 2, 4))
    gamma, rate = number(Fraction(9, 10)), number(Fraction(1, 4))
    conversions = (
        pbim.Raw(),
        pbim.Raw(scale=number(Fraction(1, 10**15))),
        pbim.PBIM(gamma=number(Fraction(1, 2))),
        sh.InexactPBIM(gamma=gamma, discount="end"),
        pbim.PBIM(gamma=gamma),
        pbim.Geometric(gamma=gamma, rate=rate),
    )
    return {
        "mdp": mdp,
        "intrinsic": lambda history: number(
            always + Fraction(int(halves[history[-3:]]), 2) * Fraction(10) ** int(sizes[history[-3:]])
        ),
        "shaping": conversions[seed % len(conversions)],
        "horizon": int(rng.integers(1, 4)),
        "mean": number(Fraction(int(rng.integers(2)), 10)),
    }


def test_floats_never_contradict_fractions():
    """They may be undecided, and are seldom."""
    verdicts = Counter()
    for seed in range(400):
        questions = [random_question(seed, number) for number in (Fraction, float)]
        if questions[0]["mdp"].steps_to_reward() not in (None, 1):
            continue
        exact, rounded = (verify(**question, exact=not index) for index, question in enumerate(questions))
        verdicts[exact.preserved, rounded.undecided] += 1
        assert rounded.undecided or rounded.preserved == exact.preserved, seed
        assert (rounded.counterexample is not None) == (not rounded.undecided and not rounded.preserved)
    assert verdicts[True, False] > 200
    assert verdicts[False, False] > 40


def test_what_floats_can_tell_is_decided_although_the_bonus_is_large():
    for size in (1.0, 1e6, 1e9):
        bonus = lambda history, size=size: size * (1 + history[1])  # noqa: E731
        assert verify(small_gap(0.2), intrinsic=bonus, shaping=pbim.PBIM(gamma=1), exact=False).preserved


def test_a_bonus_that_fades_is_not_said_to_mislead_for_ever(hall):
    fading = verify(hall, intrinsic=counting, shaping=pbim.PIES(decay_steps=9), horizon=8)
    assert not fading.preserved
    assert "until the bonus has faded" in str(fading)
    assert "however long" not in str(fading)
    assert "judged as it starts" in str(fading)
    assert "however long it trains" in str(verify(hall, intrinsic=counting, shaping=pbim.Raw(), horizon=8))
