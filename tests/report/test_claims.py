"""Every rule on data whose truth is known, and on data that cannot decide."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pbim.errors import InputError
from pbim.report.answer import answer
from pbim.report.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Figures, decide
from pbim.report.verdict_table import needed, ours
from report.stores import claim


def figures(values, planned=None):
    return Figures(values=dict(enumerate(values)), planned=len(values) if planned is None else planned)


def verdict(made, rnd, none=None, *, planned=None):
    known = {"rnd": {"final_return": figures(rnd)}}
    if none is not None:
        known["none"] = {"final_return": figures(none, planned)}
    return decide([made], known, seed=0)[0]


def normal(mean, n=10, spread=1.0, seed=0):
    return np.random.default_rng([seed, round(10 * abs(mean))]).normal(mean, spread, n).tolist()


@pytest.mark.parametrize("kind", ["less", "greater"])
def test_a_clear_difference_is_decided_by_its_sign(kind):
    low, high = normal(0.0), normal(5.0)
    assert verdict(claim(kind), low, high).verdict == (REPRODUCED if kind == "less" else NOT_REPRODUCED)
    assert verdict(claim(kind), high, low).verdict == (NOT_REPRODUCED if kind == "less" else REPRODUCED)


def test_no_difference_is_not_reproduced_once_the_margin_is_excluded_and_undecided_before():
    same = verdict(claim("less", margin=5.0), normal(0.0), normal(0.0, seed=1))
    assert same.verdict == NOT_REPRODUCED
    assert "no effect of 5 left" in same.note
    close = verdict(claim("less", margin=0.1), normal(0.0), normal(0.0, seed=1))
    assert close.verdict == UNDECIDED
    assert close.seeds > 10


@pytest.mark.parametrize(
    ("kind", "words"), [("less", "excludes a reduction of 5"), ("greater", "excludes an increase of 5")]
)
def test_a_rule_speaks_of_a_margin_only_if_there_is_one(kind, words):
    assert words in claim(kind, margin=5.0).rule
    rule = claim(kind, margin=None).rule
    assert "excludes" not in rule
    assert rule.endswith("; else undecided.")


def test_the_seeds_that_would_decide_do_decide():
    made = claim("less", margin=None)
    few = verdict(made, normal(0.0, 5, seed=4), normal(0.9, 5, seed=4))
    assert few.verdict == UNDECIDED
    n = few.seeds
    gap, spread = few.figure, 1.0
    wins = sum(
        verdict(made, normal(0.0, n, spread, seed), normal(-gap, n, spread, seed + 1000)).verdict == REPRODUCED
        for seed in range(20)
    )
    assert wins >= 12


@pytest.mark.parametrize(
    ("other", "expected"), [(0.0, REPRODUCED), (9.0, NOT_REPRODUCED), (2.1, UNDECIDED)], ids=["same", "far", "edge"]
)
def test_equal_needs_the_whole_interval_within_the_margin(other, expected):
    found = verdict(claim("equal", margin=2.0), normal(0.0), normal(other, seed=1))
    assert found.verdict == expected
    assert (found.seeds is not None) == (expected == UNDECIDED)


@pytest.mark.parametrize(
    ("other", "expected"),
    [(0.0, REPRODUCED), (-9.0, REPRODUCED), (9.0, NOT_REPRODUCED), (2.1, UNDECIDED)],
    ids=["same", "far above", "far below", "edge"],
)
def test_no_less_needs_the_whole_interval_above_a_reduction_by_the_margin(other, expected):
    found = verdict(claim("no-less", margin=2.0), normal(0.0), normal(other, seed=1))
    assert found.verdict == expected
    assert (found.seeds is not None) == (expected == UNDECIDED)


@pytest.mark.parametrize(
    ("value", "margin", "expected"),
    [(0.1, 0.0, REPRODUCED), (1.5, 2.0, REPRODUCED), (5.0, 1.0, NOT_REPRODUCED), (1.5, 1.0, UNDECIDED)],
    ids=["in the interval", "within the margin", "far", "edge"],
)
def test_estimates_are_held_against_the_papers_value(value, margin, expected):
    centred = np.array(normal(0.0))
    sample = (centred - centred.mean()).tolist()
    found = verdict(claim("estimate", value=value, margin=margin, other=None), sample)
    assert found.verdict == expected


@pytest.mark.parametrize(
    ("kind", "hits", "expected"),
    [
        ("reaches", 10, REPRODUCED),
        ("reaches", 0, NOT_REPRODUCED),
        ("reaches", 6, UNDECIDED),
        ("never", 0, REPRODUCED),
        ("never", 10, NOT_REPRODUCED),
        ("never", 5, UNDECIDED),
        ("share", 10, REPRODUCED),
        ("share", 0, NOT_REPRODUCED),
    ],
)
def test_shares_of_ten_seeds(kind, hits, expected):
    values = [13.0] * hits + [math.nan] * (10 - hits)
    found = verdict(claim(kind, value=13, other=None), values)
    assert found.verdict == expected
    assert found.figure == hits / 10
    assert found.n == (10,)


def test_an_even_share_would_never_be_decided():
    assert verdict(claim("never", other=None), [1.0] * 5 + [math.nan] * 5).seeds is None


@pytest.mark.parametrize("kind", ["less", "greater", "equal", "no-less", "estimate", "reaches", "never", "share"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_seeds_decide_nothing(kind, count):
    found = verdict(claim(kind, value=1), [1.0] * count, [2.0] * count)
    assert found.verdict == UNDECIDED
    assert "needs 3 seeds" in found.note


@pytest.mark.parametrize("kind", ["less", "equal", "estimate"])
def test_figures_that_are_all_missing_are_named(kind):
    found = verdict(claim(kind, value=1), [math.nan] * 4, [1.0] * 4)
    assert found.verdict == UNDECIDED
    assert "rnd: no final_return in 4 seeds (0, 1, 2, 3), left out" in found.note


NEVER = [math.nan] * 4


def reached(made, rnd, none):
    cells = {
        name: {"frames": Figures(values=dict(enumerate(values)), planned=len(values), never=True)}
        for name, values in (("rnd", rnd), ("none", none))
    }
    return decide([replace(made, statistic="frames")], cells, seed=0)[0]


@pytest.mark.parametrize(
    ("kind", "rnd", "none", "expected"),
    [
        ("estimate", NEVER, [5.0] * 4, NOT_REPRODUCED),
        ("estimate", [1.0] * 4, NEVER, REPRODUCED),
        ("less", NEVER, [5.0] * 4, NOT_REPRODUCED),
        ("less", NEVER, NEVER, NOT_REPRODUCED),
        ("less", [5.0] * 4, NEVER, REPRODUCED),
        ("less", NEVER[:3], [5.0] * 4, UNDECIDED),
        ("less", [5.0] * 4, NEVER[:3], UNDECIDED),
        ("less", [5.0, 5.0, math.nan, math.nan], NEVER, UNDECIDED),
        ("greater", [5.0] * 4, NEVER, UNDECIDED),
        ("no-less", NEVER, [5.0] * 4, REPRODUCED),
        ("no-less", [5.0] * 4, NEVER, NOT_REPRODUCED),
        ("no-less", NEVER, NEVER, UNDECIDED),
        ("no-less", NEVER, [5.0, 5.0, math.nan, math.nan], UNDECIDED),
    ],
)
def test_seeds_that_never_got_there_are_evidence(kind, rnd, none, expected):
    assert reached(claim(kind, value=1.0), rnd, none).verdict == expected


def test_three_seeds_that_never_got_there_say_how_many_would_decide():
    found = reached(claim("estimate", value=1.0), NEVER[:3], NEVER)
    assert (found.verdict, found.seeds) == (UNDECIDED, 4)
    assert needed(found) == "about 4 seeds per cell would decide"
    assert ours(found) == "0 of 3 seeds"


def test_too_few_seeds_still_say_how_many_reached_it():
    for kind in ("reaches", "never"):
        assert ours(verdict(claim(kind), [math.nan])) == "0 of 1 seed (0% to 79%)"
        assert ours(verdict(claim(kind), [1.0, math.nan])) == "1 of 2 seeds (9% to 91%)"


def test_a_claim_of_our_own_is_supported_or_not():
    own = claim("less", paper=None)
    words = [verdict(own, *each).word for each in (([1.0] * 4, [9.0] * 4), ([9.0] * 4, [1.0] * 4), ([1.0], [9.0]))]
    assert words == ["supported", "not supported", "undecided"]
    assert verdict(claim("less"), [1.0] * 4, [9.0] * 4).word == REPRODUCED


def test_identical_values_are_decided_without_a_warning():
    assert verdict(claim("less"), [1.0] * 4, [2.0] * 4).verdict == REPRODUCED
    assert verdict(claim("less"), [1.0] * 4, [1.0] * 4).verdict == NOT_REPRODUCED
    assert verdict(claim("equal"), [1.0] * 4, [1.0] * 4).verdict == REPRODUCED
    assert verdict(claim("estimate", value=1.0), [1.0] * 4).verdict == REPRODUCED


def test_a_difference_of_rounding_alone_is_no_effect_at_any_number_of_seeds():
    one, other = [1 - 1e-9, 1.0, 1 - 2e-9, 1.0, 1.0], [1.0, 1 - 1e-9, 1.0, 1.0, 1.0]
    rounded = verdict(claim("greater", margin=None), one, other)
    assert rounded.verdict == NOT_REPRODUCED
    assert "equal but for rounding" in rounded.note
    below = verdict(claim("greater", margin=None), [0.9, 0.99, 0.97, 0.9, 1.0], other)  # probably lower, not tested so
    assert below.corrected > 0.05
    assert below.verdict == UNDECIDED
    real = [1 - 1e-3, 1.0, 1 - 2e-3, 1.0, 1 + 4e-3]
    assert verdict(claim("greater", margin=None), real, other).verdict == UNDECIDED
    small = verdict(claim("greater", margin=None), [1e-9, 2e-9, 1.5e-9, 1e-9], [0.0, 0.0, 0.0, 0.0])
    assert small.verdict == REPRODUCED  # rounding is relative to the figures


def test_a_cell_that_was_not_run_leaves_the_claim_open():
    found = verdict(claim("less"), [1.0] * 5)
    assert found.verdict == UNDECIDED
    assert "none was not run" in found.note
    assert json.loads(json.dumps(found.to_dict()))["figure"] is None


def test_unfinished_seeds_are_named_and_the_rest_decides():
    found = verdict(claim("less"), normal(0.0), normal(9.0, 4), planned=10)
    assert found.verdict == REPRODUCED
    assert found.note == "none: 4 of 10 seeds finished"
    assert (found.n, found.planned) == ((10, 4), (10, 10))


def test_every_further_test_raises_the_bar():
    x, y = np.arange(10.0), np.arange(10.0) + 3.5
    alone = verdict(claim("less", margin=None), x.tolist(), y.tolist())
    assert alone.verdict == REPRODUCED
    cells = {"rnd": {"final_return": figures(x)}, "none": {"final_return": figures(y)}}
    claims = [claim("less", id=str(i), margin=None, other="none" if i == 0 else "absent") for i in range(20)]
    crowded = decide(claims, cells, seed=0)[0]
    assert crowded.verdict == UNDECIDED
    assert crowded.corrected == pytest.approx(20 * alone.p)


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(math.nan)), max_size=8), st.lists(st.floats(-5, 5), max_size=8))
def test_no_data_breaks_a_rule(first, second):
    kinds = ("less", "greater", "equal", "no-less", "estimate", "reaches", "never", "share")
    cells = {"rnd": {"final_return": figures(first)}, "none": {"final_return": figures(second)}}
    for found in decide([claim(kind, id=kind, value=1.0) for kind in kinds], cells, seed=0, smoke=True):
        assert found.verdict in (REPRODUCED, NOT_REPRODUCED, UNDECIDED)
        assert found.smoke
        json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (claim("les"), "kind must be one of .* received 'les': did you mean 'less'"),
        (claim("less", statistic="final_retrn"), "statistic must be one of .* did you mean 'final_return'"),
        (claim("equal", margin=None), "of kind equal must have a margin"),
        (claim("no-less", margin=None), "of kind no-less must have a margin"),
        (claim("share", value=None), "of kind share must have a value"),
    ],
)
def test_claims_that_cannot_be_meant_are_refused(made, message):
    with pytest.raises(InputError, match=message):
        verdict(made, [1.0], [1.0])


def test_a_claim_that_fails_without_a_winner_names_none():
    """Equal but for rounding: neither ends better."""
    asked = [claim("greater", paper=None, margin=None, statistic=name) for name in ("final_return", "mean_return")]
    same, lower = [1.0, 1 - 1e-9, 1.0, 1.0], [1.0, 1.0, 1 - 1e-9, 1.0]
    known = {
        "rnd": {"final_return": figures(same), "mean_return": figures(normal(0.0))},
        "none": {"final_return": figures(lower), "mean_return": figures(normal(5.0))},
    }
    verdicts = decide([replace(each, id=each.statistic) for each in asked], known, seed=0)
    assert [each.verdict for each in verdicts] == [NOT_REPRODUCED, NOT_REPRODUCED]
    words = answer(verdicts, {"rnd": "RND", "none": "No bonus"})
    assert "whole training: No bonus than RND." in words
    assert "last tenth: undecided." in words
