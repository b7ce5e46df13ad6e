"""How strongly a conversion guides and what it owes: the closed forms against the conversion itself."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pbim
from pbim import shaping as sh
from pbim.errors import GuidanceWarning, InputError

LAMBDAS = (0.0, 0.3, 0.7, 0.95, 0.98, 1.0)
GAMMA = 0.9


def grm(delay=3, gamma=GAMMA):
    return pbim.GRM(gamma=gamma, delay=delay, normalize=False)


def geometric(rate=0.3, gamma=GAMMA):
    return pbim.Geometric(gamma=gamma, rate=rate, normalize=False)


def half_each(one, other):
    return pbim.Mixture(members=(one, other))


def half(memory, ledger, earned):
    return memory, 0.5 * ledger


LINEAR = [
    *(grm(delay) for delay in (1, 2, 7)),
    *(geometric(rate) for rate in (1, 0.5, 0.2)),
    pbim.PBIM(gamma=GAMMA, normalize=False),
    half_each(grm(2), geometric(0.2)),
    half_each(grm(1), pbim.PBIM(gamma=GAMMA, normalize=False)),
    pbim.Bounded(gamma=GAMMA, limit=0, normalize=False),
    pbim.Bounded(gamma=GAMMA, limit=math.inf, rate=0.3, normalize=False),
    pbim.LookBack(gamma=GAMMA),
    pbim.Raw(),
    pbim.NoBonus(),
    pbim.PIES(decay_steps=10**6),
]
"""Conversions whose repayment of a bonus does not depend on what else is owed."""
EXACT = [
    *LINEAR[:-3],
    pbim.Bounded(gamma=GAMMA, limit=0.5, normalize=False),
    pbim.Custom(gamma=GAMMA, repay=half, normalize=False),
]


def label(conversion):
    return conversion.label


def credited(conversion, bonus, gae_lambda, gamma=GAMMA):
    """Return GAE's advantages (T,) of the shaping reward in one whole episode, under a critic that says 0."""
    ended = np.arange(len(bonus)) == len(bonus) - 1
    _, shaped = conversion.rollout(conversion.init(1), np.asarray(bonus, float)[:, None], ended[:, None])
    found, following = np.zeros(len(bonus)), 0.0
    for step in reversed(range(len(bonus))):
        found[step] = following = shaped[step, 0] + gamma * gae_lambda * following
    return found


def impulse(steps_before_the_end, at=0):
    bonus = np.zeros(at + steps_before_the_end + 1)
    bonus[at] = 1.0
    return bonus


@pytest.mark.parametrize("gae_lambda", LAMBDAS)
@pytest.mark.parametrize("conversion", LINEAR, ids=label)
def test_guidance_is_what_gae_credits_the_step_that_earned_the_bonus_with(conversion, gae_lambda):
    for end in (1, 2, 5, 40):
        for at in (0, 3):
            felt = credited(conversion, impulse(end, at), gae_lambda)[at]
            assert conversion.guidance(gae_lambda, steps=end) == pytest.approx(felt, abs=1e-5)  # PIES has begun to fade
    far = credited(conversion, impulse(120), min(gae_lambda, 0.98))[0]
    if gae_lambda < 0.95:
        assert conversion.guidance(gae_lambda) == pytest.approx(far, abs=1e-3)


@pytest.mark.parametrize("gae_lambda", LAMBDAS)
@pytest.mark.parametrize("conversion", LINEAR, ids=label)
def test_a_rollout_cuts_off_what_is_taken_back_after_it(conversion, gae_lambda):
    """The mean over the places of the bonus in a rollout whose end is bootstrapped by a critic that says 0."""
    for rollout, end in ((1, 30), (5, 30), (12, 30), (12, 4)):
        felt = []
        for left in range(rollout):  # steps left in the rollout after the bonus
            bonus = impulse(end)
            ended = np.arange(len(bonus)) == end
            _, shaped = conversion.rollout(conversion.init(1), bonus[:, None], ended[:, None])
            weights = (GAMMA * gae_lambda) ** np.arange(left + 1)
            felt.append(sum(weight * reward for weight, reward in zip(weights, shaped[:, 0], strict=False)))
        share = conversion.guidance(gae_lambda, steps=end, rollout=rollout)
        assert share == pytest.approx(np.mean(felt), abs=1e-5)
    if gae_lambda < 1:
        long = conversion.guidance(gae_lambda, rollout=10**6)
        assert long == pytest.approx(conversion.guidance(gae_lambda), abs=1e-4)


def test_a2c_of_five_steps_feels_what_is_taken_back_later_even_at_lambda_1():
    assert grm(32).guidance(1, rollout=5) == 1
    assert grm(32).guidance(1) == 0
    assert not said(grm(32), 1.0, rollout=5)[1]


@given(
    gae_lambda=st.floats(0, 0.999),
    delay=st.integers(1, 300),
    rate=st.floats(0.001, 1),
    gamma=st.floats(0.5, 1),
)
def test_the_closed_forms_of_the_three_members(gae_lambda, delay, rate, gamma):
    """g = 1 - lambda^D; 1 - k lambda / (1 - (1 - k) lambda); 1. The discount has no part in it."""
    assert grm(delay, gamma).guidance(gae_lambda) == pytest.approx(1 - gae_lambda**delay)
    expected = 1 - rate * gae_lambda / (1 - (1 - rate) * gae_lambda)
    assert geometric(rate, gamma).guidance(gae_lambda) == pytest.approx(expected, abs=1e-12)
    assert pbim.PBIM(gamma=gamma).guidance(gae_lambda) == pytest.approx(1)


@pytest.mark.parametrize("conversion", EXACT, ids=label)
def test_with_lambda_0_a_step_is_credited_with_its_whole_bonus(conversion):
    for at in (0, 4):
        bonus = impulse(6, at)
        assert credited(conversion, bonus, 0.0)[at] == 1
    if conversion.kind != "custom":  # which may repay at the same step
        assert conversion.guidance(0) == 1


@pytest.mark.parametrize("conversion", [*EXACT, pbim.PBRS(gamma=GAMMA), pbim.LookAhead(gamma=GAMMA)], ids=label)
def test_with_lambda_1_every_exact_conversion_is_inert(conversion):
    assert conversion.guidance(1) == conversion.guidance(1, steps=3) == 0


def test_what_is_not_one_number_is_nan():
    for conversion in (EXACT[-1], EXACT[-2], pbim.PBRS(gamma=GAMMA), pbim.LookAhead(gamma=GAMMA)):
        assert math.isnan(conversion.guidance(0.5))
    assert math.isnan(half_each(grm(), EXACT[-2]).guidance(0.5))
    inexact = sh.InexactPBIM(gamma=GAMMA, discount="none")
    assert math.isnan(inexact.guidance(1)), "it does not cancel, so it is not inert either"
    assert sh.ExpressedAdvice(gamma=GAMMA, num_cells=2).guidance(0.5) != 0


@given(
    gae_lambda=st.floats(0.01, 0.999),
    aim=st.floats(0.01, 0.99),
    gamma=st.floats(0.5, 1),
)
@settings(max_examples=300)
def test_for_learner_reaches_the_guidance_and_owes_no_more_than_it_must(gae_lambda, aim, gamma):
    delayed = pbim.GRM.for_learner(gamma=gamma, gae_lambda=gae_lambda, guidance=aim)
    assert delayed.guidance(gae_lambda) >= aim * (1 - 1e-6)
    assert delayed.delay == 1 or grm(delayed.delay - 1).guidance(gae_lambda) < aim
    rated = pbim.Geometric.for_learner(gamma=gamma, gae_lambda=gae_lambda, guidance=aim)
    if rated.rate == 1:
        assert 1 - gae_lambda >= aim * (1 - 1e-9)
    else:
        assert rated.guidance(gae_lambda) == pytest.approx(aim)


@given(gae_lambda=st.floats(0.3, 0.999), delay=st.integers(1, 64))
def test_for_learner_finds_the_delay_that_has_a_guidance(gae_lambda, delay):
    aim = grm(delay).guidance(gae_lambda)
    if aim < 1 - 1e-6:  # above that, delays round to the same guidance
        assert pbim.GRM.for_learner(gamma=0.99, gae_lambda=gae_lambda, guidance=aim).delay == delay


def test_for_learner_passes_on_the_other_settings_and_exact_numbers():
    made = pbim.GRM.for_learner(gamma=0.99, gae_lambda=0.9, guidance=0.5, normalize=False, max_steps=100)
    assert made == pbim.GRM(gamma=0.99, delay=7, normalize=False, max_steps=100)
    exact = pbim.Geometric.for_learner(
        gamma=Fraction(99, 100), gae_lambda=Fraction(19, 20), guidance=Fraction(4, 5), normalize=False
    )
    assert exact == pbim.Geometric(gamma=Fraction(99, 100), rate=Fraction(1, 76), normalize=False)


@pytest.mark.parametrize("cls", [pbim.GRM, pbim.Geometric])
def test_lambda_0_takes_all_back_at_the_next_step_and_lambda_1_is_refused(cls):
    made = cls.for_learner(gamma=0.99, gae_lambda=0.0)
    assert (made.guidance(0), made.debt(steps=100).worst) == (1, 1 / 0.99)
    with pytest.raises(InputError, match=r"gae_lambda must be below 1 .* received 1.*inert; train with 0.95"):
        cls.for_learner(gamma=0.99, gae_lambda=1)


def test_a_rate_that_lets_debts_grow_is_warned_of_with_the_way_out():
    with pytest.warns(pbim.RepaymentWarning, match=r"owes ever more; consider pbim.Geometric\(gamma=0.9, rate=0.2\)"):
        made = pbim.Geometric.for_learner(gamma=0.9, gae_lambda=0.95)
    assert made.guidance(0.95) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grm().guidance(1.5), r"gae_lambda must be in \[0, 1\], received 1.5: .*0 for one-step TD"),
        (lambda: grm().guidance(math.nan), "gae_lambda must be in"),
        (lambda: grm().guidance(None), "gae_lambda must be in"),
        (lambda: grm().guidance(0.9, steps=0), "steps must be a whole number of at least 1, received 0"),
        (lambda: grm().debt(bonus=-1), "bonus must be a number of at least 0, received -1"),
        (lambda: grm().debt(bonus=math.inf), "bonus must be a number"),
        (lambda: grm().debt(steps=2.5), "steps must be a whole number"),
        (lambda: pbim.GRM.for_learner(gamma=0.9, gae_lambda=0.9, guidance=1), r"guidance must be in \(0, 1\)"),
        (lambda: pbim.Geometric.for_learner(gamma=0.9, gae_lambda=0.9, guidance=0), r"guidance must be in \(0, 1\)"),
        (lambda: pbim.GRM.for_learner(gamma=2, gae_lambda=0.9), r"gamma must be in \(0, 1\]"),
        (lambda: sh.recommended(0.9, gae_lambda=1), "gae_lambda must be below 1"),
        (lambda: sh.recommended(0.9, kind="grn"), "did you mean 'grm'"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


# What is owed


LEDGERS = [conversion for conversion in EXACT if conversion.kind not in ("custom", "look-back")]
BOUNDED = pbim.Bounded(gamma=GAMMA, limit=0.5, rate=0.1, normalize=False)


def settled(conversion, bonus):
    """Return what the last step of an episode takes back, (num_envs,), given bonuses (T, num_envs)."""
    ended = np.zeros(bonus.shape, bool)
    ended[-1] = True
    return conversion.rollout(conversion.init(bonus.shape[1]), bonus, ended)[1][-1]


@pytest.mark.parametrize("conversion", [*LEDGERS, BOUNDED, pbim.LookBack(gamma=GAMMA)], ids=label)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 60), size=st.floats(0.01, 10))
@settings(max_examples=20)
def test_no_bonuses_make_the_last_step_settle_more_than_the_worst_and_equal_ones_make_it_so(
    conversion, seed, steps, size
):
    worst = conversion.debt(bonus=size, steps=steps).worst
    drawn = np.random.default_rng(seed).uniform(-size, size, (steps, 50))
    assert np.abs(settled(conversion, drawn)).max() <= worst * (1 + 1e-9)
    assert -settled(conversion, np.full((steps, 1), size))[0] == pytest.approx(worst)


@pytest.mark.parametrize("conversion", LINEAR[:-4], ids=label)
def test_the_expected_debt_is_the_root_mean_square_of_what_is_settled(conversion):
    for steps in (1, 2, 25):
        drawn = np.random.default_rng(0).normal(0, 0.3, (steps, 40_000))
        measured = np.sqrt(np.mean(settled(conversion, drawn) ** 2))
        assert conversion.debt(bonus=0.3, steps=steps).expected == pytest.approx(measured, rel=0.02)


def test_debts_without_an_end():
    assert pbim.PBIM(gamma=0.99).debt().worst == math.inf
    assert geometric(0.05).debt().worst == geometric(0.05).debt().expected == math.inf
    assert geometric(0.3).debt(bonus=2).worst == pytest.approx(2 / (GAMMA - 1 + 0.3))
    assert math.isnan(BOUNDED.debt().expected)
    assert math.isnan(EXACT[-1].debt().worst)
    mixed = half_each(grm(), BOUNDED).debt(steps=9)
    assert mixed.worst == pytest.approx((grm().debt(steps=9).worst + BOUNDED.debt(steps=9).worst) / 2)
    assert math.isnan(mixed.expected)
    for free in (pbim.Raw(), pbim.NoBonus(), pbim.PIES(decay_steps=9)):
        assert free.debt() == sh.Debt(worst=0.0, expected=0.0)
    assert pbim.PBRS(gamma=0.5).debt(bonus=3).worst == 3, "a potential is owed as it is"
    assert grm().debt(steps=1).worst == 0


def test_equal_guidance_costs_geometric_more_debt_than_grm():
    for gae_lambda, gamma in ((0.9, 0.99), (0.95, 0.995), (0.95, 0.99)):
        made = [cls.for_learner(gamma=gamma, gae_lambda=gae_lambda) for cls in (pbim.GRM, pbim.Geometric)]
        assert made[0].debt().worst < made[1].debt().worst


# What is said to whoever trains


def said(*arguments, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sh.announce_guidance(*arguments, **settings)
    return line, [str(each.message) for each in caught if each.category is GuidanceWarning]


def test_a_line_says_guidance_and_debt():
    line, warned = said(pbim.Geometric(gamma=0.99, rate=0.02), 0.95, max_steps=640, bonus=0.1, task=100)
    assert "guidance 0.72 at lambda 0.95" in line
    assert line.endswith("debt up to 9.98 in 640 steps for bonuses of 0.1")
    assert not warned
    assert said(pbim.NoBonus(), 0.95) == ("", [])
    assert said(EXACT[-1], 0.95) == ("", [])
    assert said(pbim.PBIM(gamma=0.99), 0.95)[0].endswith("debt without bound")
    assert said(pbim.PBRS(gamma=0.99), 0.95)[0] == "debt up to 1 for bonuses of 1"


def test_a_conversion_that_hardly_guides_is_warned_of_with_one_that_does():
    _, (warned,) = said(pbim.GRM(gamma=0.99, delay=1), 0.95)
    assert warned.startswith("this conversion will hardly guide this learner: GRM, delay 1 passes on 5%")
    assert "pbim.shaping.recommended(gamma=0.99, gae_lambda=0.95, kind='grm') passes on 81%" in warned
    _, (warned,) = said(pbim.GRM(gamma=0.99, delay=64), 1.0)
    assert "every exact conversion is inert: train with 0.95 or less" in warned
    _, (warned,) = said(pbim.GRM(gamma=0.5, delay=2), 0.99)
    assert warned.endswith("a smaller lambda would pass on more")
    assert not said(pbim.GRM(gamma=0.99, delay=5), 0.95)[1], "0.23"


def test_a_debt_above_what_the_task_pays_is_warned_of():
    _, (warned,) = said(pbim.PBIM(gamma=0.99), 0.95, max_steps=640, bonus=0.01, task=1.0)
    assert "takes back more than the task pays: PBIM owes 614, the task pays 1;" in warned
    assert not said(pbim.PBIM(gamma=0.99), 0.95, max_steps=640, bonus=0.01, task=615)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sh.warn_of_debt(pbim.Raw(), 5.0, 1.0)  # it pays at the last step, and takes nothing back


# The rule


@pytest.mark.parametrize("gamma", [1.0, 0.995, 0.99, 0.9, 0.5])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.995])
@pytest.mark.parametrize("kind", ["geometric", "grm"])
def test_what_is_recommended_guides_by_0_8_unless_the_debt_forbids_it(gamma, gae_lambda, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = sh.recommended(gamma, gae_lambda, kind)
        made.check_horizon(10**6)
    largest = 2 * (1 - gamma) if kind == "geometric" else 1 / (1 - gamma + 1e-15)
    limited = made.rate == pytest.approx(min(1, largest)) if kind == "geometric" else made.delay == int(largest + 1e-6)
    assert made.guidance(gae_lambda) >= 0.7999 or limited
    assert made.debt(steps=10**5).worst < 1e4
    if gae_lambda == 0:
        assert made.debt(steps=10**5).worst == pytest.approx(1 / gamma)


def test_the_default_of_a_class_is_the_rule_at_lambda_95():
    for gamma in (1, 0.999, 0.995, 0.99, 0.9, Fraction(99, 100)):
        assert pbim.Geometric(gamma=gamma) == sh.recommended(gamma) == sh.recommended(gamma, 0.95)
        assert pbim.GRM(gamma=gamma) == sh.recommended(gamma, kind="grm")
