"""The command line: teaching help, machine-readable output, one sentence and exit code 2 for bad input."""

import json
import subprocess
import sys

import pytest

import pbim
from pbim.cli import main


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pbim {pbim.__version__}\n"


def test_python_dash_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "pbim", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pbim {pbim.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["bench", "--help"],
        ["list", "--help"],
        ["verify", "--help"],
        ["procrastination", "--help"],
        ["train", "--help"],
        ["watch", "--help"],
        ["results", "--help"],
        ["reproduce", "--help"],
        ["report", "--help"],
    ],
)
def test_help_teaches(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "Example: pbim" in shown
    assert "usage: pbim" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bench", "shapin"], "pbim: what must be one of"),
        (["bench", "shaping", "--jsn"], "pbim: Unrecognized options: --jsn: did you mean --json?"),
        (["nothing"], "pbim: Unrecognized options: nothing: see pbim --help"),
        (["bench"], "pbim: Missing from pbim bench: WHAT"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, sentence, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(sentence)
    assert captured.err.count("\n") == 1


def test_list_names_every_conversion_and_its_guarantee(capsys):
    assert main(["list"]) == 0
    table = capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    conversions = json.loads(capsys.readouterr().out)["conversions"]
    assert {row["name"] for row in conversions} >= {"pbim", "grm", "geometric", "raw", "none", "pies", "pbrs", "adops"}
    for row in conversions:
        assert row["name"] in table
        assert row["if"]


def test_list_names_studies_environments_and_bonuses(capsys):
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"cliff", "doorkey", "doorkey-conversions"} <= {row["name"] for row in found["studies"]}
    assert {"CliffWalk", "DoorKey-8x8"} <= {row["name"] for row in found["environments"]}
    assert {"EpisodicCount", "RND", "ICM"} <= {row["name"] for row in found["bonuses"]}
    assert all(row["pays"] for row in found["bonuses"])


def test_bench_shaping_prints_one_json_object_as_its_last_line(capsys):
    assert main(["bench", "shaping", "--json", "--quick"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) == {"ratio", "ns_per_transition", "cases"}
    ratios = {case["case"]: case["ratio"] for case in result["cases"]}
    assert ratios["plain Python"] == 1
    assert result["ratio"] == min(ratios["PBIM, NumPy"], ratios["PBIM, JAX"])


def test_the_baseline_of_the_benchmark_is_equation_30():
    import numpy as np
    from benchmarks.shaping import plain_python

    rng = np.random.default_rng(0)
    bonus, ended = rng.random((40, 5)), rng.random((40, 5)) < 0.1
    shaping = pbim.PBIM(gamma=0.9, normalize=False)
    plain = plain_python(bonus.tolist(), ended.tolist(), 0.9)
    np.testing.assert_allclose(plain, shaping.rollout(shaping.init(5), bonus, ended)[1])
