"""Bonuses that look ahead are caught by name: Assumption 1."""

from fractions import Fraction

import pytest

import pbim
from pbim.verification import verify
from pbim.verification.bonuses import BONUSES, HindsightCount, SampledEmpowerment
from pbim.verification.gallery import MDPS, corridor

GAMMA = Fraction(19, 20)


class Delayed:
    """Given whole episodes, but what it pays for a step was known then."""

    causal = False
    name = "delayed"

    def __call__(self, episode, step):
        return Fraction(episode[2 * step + 2], 3)


@pytest.mark.parametrize("shaping", [pbim.PBIM(gamma=GAMMA), pbim.GRM(gamma=GAMMA, delay=2), pbim.Raw()])
@pytest.mark.parametrize("name", ["hindsight-count", "empowerment"])
def test_looking_ahead_breaks_assumption_1_and_the_optimal_actions(name, shaping):
    hall = corridor(GAMMA)
    bonus = BONUSES[name].make(hall, Fraction(1, 5))
    report = verify(hall, intrinsic=bonus, shaping=shaping, horizon=5)
    finding = report.assumption1
    assert not finding.holds
    assert not report.preserved
    assert name in finding.reason
    assert "Assumption 1 is BROKEN" in str(report)
    first, second = finding.episodes
    shared = 2 * finding.step + 3
    assert first[:shared] == second[:shared]
    assert first != second
    assert (bonus(first, finding.step), bonus(second, finding.step)) == finding.bonuses
    assert finding.bonuses[0] != finding.bonuses[1]


def test_the_pair_is_the_shortest():
    finding = verify(
        corridor(GAMMA), intrinsic=HindsightCount(1), shaping=pbim.PBIM(gamma=GAMMA), horizon=6
    ).assumption1
    assert finding.step == 0
    assert finding.episodes == ((0, 1, 1, 1, 2, 1, 3), (0, 1, 1, 2, 1, 1, 2, 1, 3))


def test_a_late_bonus_that_pays_floats_is_judged_in_floats():
    class Float(Delayed):
        def __call__(self, episode, step):
            return float(super().__call__(episode, step))

    exact, rounded = (
        verify(corridor(GAMMA), intrinsic=bonus, shaping=pbim.Raw(), horizon=5) for bonus in (Delayed(), Float())
    )
    assert (exact.exact, rounded.exact) == (True, False)
    assert exact.preserved == rounded.preserved


def test_a_causal_bonus_in_the_whole_episode_form_gets_the_causal_verdict():
    hall = corridor(GAMMA)
    for shaping in (pbim.PBIM(gamma=GAMMA), pbim.Raw(), pbim.PBIM(gamma=Fraction(1, 2))):
        late = verify(hall, intrinsic=Delayed(), shaping=shaping, horizon=5)
        direct = verify(hall, intrinsic=lambda history: Fraction(history[-1], 3), shaping=shaping, horizon=5)
        assert late.assumption1.holds
        assert late.preserved == direct.preserved
        if not direct.preserved:
            for field in ("history", "original_values", "shaped_values", "original_course", "shaped_course"):
                assert getattr(late.counterexample, field) == getattr(direct.counterexample, field)


def test_dropping_the_bonus_keeps_the_task_even_then():
    report = verify(corridor(GAMMA), intrinsic=HindsightCount(1), shaping=pbim.NoBonus(), horizon=4)
    assert report.preserved
    assert not report.assumption1.holds


def test_floats_catch_it_too():
    hall = MDPS["cliff"].make(0.99)
    bonus = SampledEmpowerment(hall, 0.3)
    report = verify(hall, intrinsic=bonus, shaping=pbim.PBIM(gamma=0.99), horizon=4, exact=False)
    assert not report.exact
    assert not report.assumption1.holds


def test_empowerment_pays_for_how_much_the_next_action_decides():
    hall = corridor(GAMMA)
    bonus = SampledEmpowerment(hall, Fraction(1))
    assert bonus((0, 1, 1, 1, 2), 0) == 3  # one of three actions leads on to cell 2
    assert bonus((0, 0, 0, 0, 0), 0) == Fraction(3, 2)  # left and wait both stay
    assert bonus((0, 1, 1, 1, 2), 1) == 0  # nothing left to choose
