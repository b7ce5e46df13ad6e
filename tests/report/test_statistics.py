"""Statistics over seeds: against scipy, by enumeration, by hand, and by laws."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from pbim.report import statistics

values = st.floats(-1e3, 1e3, width=32)
samples = arrays(np.float64, st.integers(2, 12), elements=values)
pvalues = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(samples)
def test_intervals_contain_what_they_are_about_and_stay_within_the_data(sample):
    for statistic in (statistics.mean, statistics.iqm):
        low, high = statistics.interval(sample, seed=1, statistic=statistic)
        assert low <= statistic(sample) <= high
        slack = 1e-9 * (1 + np.abs(sample).max())
        assert sample.min() - slack <= low <= high <= sample.max() + slack


@given(samples, st.floats(-100, 100))
def test_an_interval_moves_with_the_data(sample, shift):
    low, high = statistics.interval(sample, seed=1)
    moved = statistics.interval(sample + shift, seed=1)
    np.testing.assert_allclose(moved, (low + shift, high + shift), atol=1e-8)


def test_intervals_of_ten_seeds_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    hits = sum(statistics.interval(rng.normal(size=10), seed=i).contains(0) for i in range(300))
    assert 0.91 <= hits / 300 <= 0.985  # plain percentiles would cover about 0.90


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    sample = np.random.default_rng(0).normal(size=10)
    assert statistics.interval(sample, seed=1) == statistics.interval(sample, seed=1)
    assert statistics.interval(sample, seed=1) != statistics.interval(sample, seed=2)


@given(samples)
def test_iqm_is_the_trimmed_mean(sample):
    cut = int(0.25 * len(sample))
    middle = np.sort(sample)[cut : len(sample) - cut]
    assert float(statistics.iqm(sample)) == pytest.approx(middle.mean(), abs=1e-9)


def test_welch_is_scipys():
    rng = np.random.default_rng(3)
    for n, m in ((2, 3), (10, 10), (5, 30)):
        x, y = rng.normal(0, 1, n), rng.normal(0.7, 3, m)
        assert statistics.welch(x, y) == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)


def test_nothing_varies_so_nothing_is_left_to_chance():
    one, two = np.full(3, 0.1), np.full(4, 0.2)
    assert statistics.welch(one, two) == 0
    assert statistics.welch(one, one) == 1
    assert statistics.difference_interval(two, one, seed=0) == pytest.approx((0.1, 0.1))
    assert statistics.permutation(one, one, seed=0) == 1
    assert statistics.variance(one) == 0


whole = st.lists(st.integers(-9, 9), min_size=7, max_size=7)


@given(whole)
def test_the_permutation_test_of_few_seeds_is_the_share_of_splits(pooled):
    sums = np.array([sum(chosen) for chosen in combinations(pooled, 3)])  # orders the splits as their means do
    seen = sum(pooled[:3])
    expected = min(1, 2 * min((sums >= seen).mean(), (sums <= seen).mean()))
    x, y = np.array(pooled[:3], float), np.array(pooled[3:], float)
    assert statistics.permutation(x, y, seed=0) == pytest.approx(expected)


@given(samples, samples)
def test_improvement_is_the_rank_statistic_and_its_two_sides_sum_to_one(x, y):
    assert statistics.improvement(x, y) + statistics.improvement(y, x) == pytest.approx(1)
    expected = stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y)) if np.ptp([*x, *y]) else 0.5
    assert statistics.improvement(x, y) == pytest.approx(expected)


@given(pvalues)
def test_holm_keeps_the_order_never_helps_and_never_passes_one(ps):
    corrected = statistics.holm(ps)
    for p, c in zip(ps, corrected, strict=True):
        assert p <= c <= 1
        assert c <= min(1, len(ps) * p)
    for i, j in combinations(range(len(ps)), 2):
        if ps[i] <= ps[j]:
            assert corrected[i] <= corrected[j]


def test_holm_by_hand_counts_tests_without_a_result():
    assert statistics.holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    first, second = statistics.holm([0.01, math.nan])
    assert first == pytest.approx(0.02)
    assert math.isnan(second)
    assert statistics.holm([]) == []


@given(st.integers(0, 40), st.integers(1, 40))
def test_wilson_inverts_the_score_test(hits, trials):
    hits = min(hits, trials)
    low, high = statistics.wilson(hits, trials)
    z, p = stats.norm.ppf(0.975), hits / trials
    assert 0 <= low <= p + 1e-12
    assert p - 1e-12 <= high <= 1
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(p - end) == pytest.approx(z * math.sqrt(end * (1 - end) / trials), abs=1e-6)


def test_the_number_of_seeds_that_would_tell_is_the_textbooks():
    assert statistics.seeds_to_tell(2.0, 0.5) == math.ceil((1.959964 + 0.841621) ** 2 * 2 / 0.25)
    assert statistics.seeds_to_tell(2.0, 0.0) is None
    assert statistics.seeds_to_tell(math.nan, 1.0) is None
    assert statistics.seeds_to_tell(0.0, 1.0) == 3


def test_one_seed_tells_no_spread():
    empty = np.zeros(0)
    assert all(map(math.isnan, statistics.interval(empty, seed=0)))
    assert all(map(math.isnan, statistics.interval(np.ones(1), seed=0)))
    assert all(map(math.isnan, statistics.difference_interval(empty, np.ones(3), seed=0)))
    assert math.isnan(statistics.welch(np.ones(1), np.ones(3)))
    assert math.isnan(statistics.permutation(np.ones(1), np.ones(3), seed=0))
    assert math.isnan(statistics.improvement(empty, np.ones(1)))
    assert statistics.wilson(0, 0) == (0, 1)
