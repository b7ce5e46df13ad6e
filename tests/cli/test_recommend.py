"""``pbim recommend``: the conversion for a learner, with its figures, for people and for machines."""

import json
import math

import pytest

import pbim
from pbim.cli import main
from pbim.shaping import recommended


def answer(capsys, *words):
    assert main(["recommend", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (0.995, 0.9), (0.9, 0.98), (1.0, 0.5), (0.99, 0.0)])
def test_the_line_of_code_is_what_is_recommended_and_has_the_figures(gamma, gae_lambda, capsys):
    words = ("--gamma", str(gamma), "--gae-lambda", str(gae_lambda), "--max-steps", "1000", "--bonus-scale", "0.1")
    found = answer(capsys, *words)
    made = eval(found["recommended"]["code"], {"pbim": pbim})
    assert made == recommended(gamma, gae_lambda)
    for row in (found["recommended"], *found["alternatives"]):
        each = eval(row["code"], {"pbim": pbim})
        assert row["guidance"] == pytest.approx(each.guidance(gae_lambda))
        debt = each.debt(0.1, 1000)
        assert (row["debt"]["worst"], row["debt"]["expected"]) == pytest.approx((debt.worst, debt.expected))
    assert [row["keeps_the_task"] for row in found["alternatives"]] == [True, True, False]
    assert found["max_steps"] == 1000


def test_without_a_length_what_has_no_bound_is_null(capsys):
    found = answer(capsys)
    assert found["alternatives"][1]["debt"]["worst"] is None
    assert math.isclose(found["recommended"]["debt"]["worst"], 100)


def test_people_get_the_line_first_and_a_table_of_alternatives(capsys):
    assert main(["recommend", "--gamma", "0.99", "--gae-lambda", "0.95", "--max-steps", "1000"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Start with  pbim.Geometric(gamma=0.99, rate=0.02)\n")
    assert all(name in shown for name in ("GRM, delay 32", "PBIM", "Raw bonus", "0.81", "0.72"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gae-lambda", "1"], "every exact conversion is inert"),
        (["--gae-lambda", "-0.1"], "gae_lambda must be in [0, 1], received -0.1"),
        (["--gamma", "1.5"], "gamma must be in (0, 1], received 1.5"),
        (["--max-steps", "0"], "pbim: --max-steps must be at least 1, received 0"),
        (["--bonus-scale", "nan"], "pbim: --bonus-scale must be a number of at least 0, received nan"),
        (["--gamma", "much"], "much"),
    ],
)
def test_bad_input_is_said_and_exits_with_2(words, sentence, capsys):
    assert main(["recommend", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(("gamma", "ahead"), [("0.99", True), ("0.9", False)])
def test_an_alternative_that_is_ahead_by_the_figures_is_said_to_be(gamma, ahead, capsys):
    assert main(["recommend", "--gamma", gamma, "--max-steps", "1000"]) == 0
    assert ("by these figures GRM" in capsys.readouterr().out) == ahead
