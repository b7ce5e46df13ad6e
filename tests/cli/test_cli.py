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
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "Example: pbim" in shown
    assert "usage: pbim" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--jsn"], ["Unrecognized options: --jsn", "--json"]),
        (["nothing"], ["nothing"]),
        (["report"], ["folder"]),
        (["train", "DoorKey-5x5", "--num-env", "2"], ["--num-env", "--num-envs"]),
        (["train", "DoorKey-5x5", "--shaping"], ["--shaping must be followed by a name"]),
    ],
)
def test_bad_input_is_said_by_what_was_typed_and_exit_code_2(arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(word.lower() in captured.err.lower() for word in words)
    assert "Traceback" not in captured.err


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
    names = {row["name"] for row in found["bonuses"]}
    eleven = "count lifetime-count action-recency pseudo-count rnd icm ride noveld e3b disagreement empowerment"
    assert set(eleven.split()) <= names
    assert all(row["pays"] for row in found["bonuses"])
