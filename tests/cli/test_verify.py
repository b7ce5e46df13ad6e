"""``pbim verify`` and ``pbim procrastination``: exit codes, words for newcomers, JSON for machines."""

import json
import time
import warnings
from fractions import Fraction

import pytest

from pbim.cli import main
from pbim.cli.verify import MISTAKES, Verify, convertible
from pbim.shaping import recommended
from pbim.verification.bonuses import BONUSES
from pbim.verification.gallery import MDPS


def pbim_verify(*arguments):
    return main(["verify", *arguments])


def test_the_counterexample_is_in_plain_words(capsys):
    assert pbim_verify("--env", "corridor", "--intrinsic", "count", "--shaping", "raw") == 1
    printed = capsys.readouterr().out
    assert "NOT PRESERVED" in printed
    assert "At the very start, in the start cell, the task alone calls right best." in printed
    assert "the start cell -right-> cell 1 -right-> cell 2 -right-> the goal" in printed


@pytest.mark.parametrize(
    ("shaping", "options"),
    [
        ("pbim", []),
        ("pbim", ["--no-normalize"]),
        ("grm", ["--delay", "2"]),
        ("geometric", ["--rate", "0.3"]),
        ("geometric", ["--shaping.rate", "3/10"]),
        ("bounded", ["--shaping.limit", "1/50"]),
        ("mixture", []),
        ("pbrs", []),
        ("look-back", []),
        ("none", []),
    ],
)
def test_exact_conversions_exit_with_0(shaping, options, capsys):
    assert pbim_verify("--shaping", shaping, *options, "--mean", "1/3", "--exact") == 0
    assert "exactly, in rational arithmetic" in capsys.readouterr().out


@pytest.mark.parametrize("shaping", ["raw", "pies", "inexact-pbim", "unsettled-pbrs", "flipped-pbim"])
def test_the_others_exit_with_1(shaping, capsys):
    assert pbim_verify("--shaping", shaping, "--float") == 1
    assert "in floats" in capsys.readouterr().out


def test_json_is_one_object(capsys):
    assert pbim_verify("--shaping", "raw", "--json", "--gamma", "0.9", "--alpha", "1/2", "--horizon", "5") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["env"], data["gamma"], data["alpha"], data["horizon"]) == ("corridor", "9/10", "1/2", 5)
    assert data["preserved"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--env", "coridor"), "did you mean 'corridor'?"),
        (("--intrinsic", "cuont"), "did you mean 'count'?"),
        (("--shaping", "pbmi"), "did you mean 'pbim'?"),
        (("--shaping", "zzzzzz"), "choose one of these"),
        (("--gamma", "high"), "--gamma must be a number"),
        (("--gamma", "1/0"), "--gamma must be a number"),
        (("--gamma", "2"), "gamma must be in (0, 1]"),
        (("--horizon", "0"), "horizon must be"),
        (("--exact", "--float"), "exclude each other"),
        (("--env", "noisy-tv", "--shaping", "raw", "--picture", "x.png"), "--picture needs a grid world"),
        (("--intrinsic", "hindsight-count", "--horizon", "40"), "max_histories must cover"),
        (("--horizon", "2"), "horizon must be at least 3"),
        (("--env", "FrozenLake-v1", "--horizon", "4"), "horizon must be at least 6 to reach a reward"),
        (
            ("--env", "FrozenLake8x8-v1", "--max-histories", "99"),
            "no shorter horizon reaches a reward: raise max_histories",
        ),
        (("--env", "NoSuchThing-v1"), "env must be a registered environment"),
        (("--env", "CartPole-v1"), "only environments with a table"),
    ],
)
def test_bad_input_exits_with_2_and_one_sentence(arguments, words, capsys):
    assert pbim_verify(*arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert pbim_verify(*arguments, "--json") == 2
    assert words in json.loads(capsys.readouterr().out)["error"]


def test_the_list_names_everything(capsys):
    assert pbim_verify("--list") == 0
    printed = capsys.readouterr().out
    names = {cls.kind for cls in convertible()} | set(MISTAKES)
    for name in (*MDPS, *BONUSES, *names):
        assert f"  {name} " in printed
    assert pbim_verify("--list", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["shaping"]) == names


def test_a_gamma_that_does_not_match_is_named(capsys):
    assert pbim_verify("--shaping-gamma", "0.5") == 1
    assert "the conversion's gamma (1/2) is not the task's (19/20)" in capsys.readouterr().out


def test_gymnasium_environments_work(capsys):
    assert pbim_verify("FrozenLake-v1") == 0  # the task may stand first
    assert "at most 6 steps" in capsys.readouterr().out
    assert pbim_verify("--env", "CliffWalking-v1", "--shaping", "raw") == 1
    assert "exactly" in capsys.readouterr().out


def test_pictures_are_written(tmp_path, capsys):
    path = tmp_path / "cliff.png"
    assert pbim_verify("--env", "cliff", "--shaping", "raw", "--picture", str(path)) == 1
    assert path.stat().st_size > 5_000
    assert pbim_verify("--env", "cliff", "--picture", str(tmp_path / "none.png")) == 0
    assert "nothing to draw" in capsys.readouterr().err
    assert pbim_verify("--env", "cliff", "--shaping", "raw", "--picture", str(tmp_path / "no" / "x.png")) == 2
    assert pbim_verify("--env", "cliff", "--shaping", "raw", "--picture", str(tmp_path / "x.nonsense")) == 2


def test_procrastination(tmp_path, capsys):
    def command(*arguments):
        return main(["procrastination", *arguments])

    assert command("--alpha", "0.005", "--gamma", "0.99") == 0
    assert "never pays" in capsys.readouterr().out
    assert command("--alpha", "0.025", "--gamma", "0.995", "--json", "--map", str(tmp_path / "map.png")) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["pays"] is True
    assert data["gain"] == pytest.approx(0.0075)
    assert data["visits"] == 3
    assert (tmp_path / "map.png").exists()
    assert command("--n", "-1") == 2


@pytest.mark.parametrize(
    "words",
    [
        "verify --horizon 100000",
        "verify --horizon 1000000000 --intrinsic hindsight-count",
        "verify --alpha 1e30000000",
        "verify --alpha 1e-30000000",
        "verify --gamma 1e400",
        "verify --mean 1e999999999",
        "procrastination --t 100000000",
        "procrastination --alpha 1e30000000",
    ],
)
def test_absurd_sizes_are_refused_at_once(words, capsys):
    start = time.process_time()
    assert main(words.split()) == 2
    assert time.process_time() - start < 1
    assert capsys.readouterr().err.count("\n") == 1


def test_long_stalling_is_answered_at_once(capsys):
    start = time.process_time()
    assert main(["procrastination", "--t", "100000"]) == 0
    assert time.process_time() - start < 5
    assert "-0.91" in capsys.readouterr().out


def test_without_a_word_it_is_the_recommended_conversion_with_its_rate(capsys):
    """One default in one place: what the class says for the discount of the task."""
    for gamma in ("0.9", "0.995"):
        command = Verify.parse(["--gamma", gamma])
        assert command.shaping == recommended(Fraction(gamma))
        assert pbim_verify("--gamma", gamma) == 0
    assert "through Geometric" in capsys.readouterr().out


def test_options_of_the_conversion_mean_the_conversion():
    assert Verify.parse(["--shaping", "bounded", "--limit", "1/50"]).shaping.limit == Fraction(1, 50)
    assert Verify.parse(["--shaping", "bounded", "--max-histories", "50"]).max_histories == 50


def test_growing_debts_are_no_news_where_episodes_are_short():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pbim_verify("--shaping", "geometric", "--rate", "1/50", "--gamma", "0.9") == 0


def test_what_floats_cannot_tell_exits_with_3(capsys):
    assert pbim_verify("--alpha", "1e18", "--shaping", "geometric", "--float") == 3
    said = capsys.readouterr().out
    assert "UNDECIDED in floats" in said
    assert "leave --float out" in said
    assert pbim_verify("--alpha", "1e18", "--shaping", "geometric") == 0
