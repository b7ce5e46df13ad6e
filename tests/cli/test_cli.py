"""The command line: teaching help, machine-readable output, one sentence and exit code 2 for bad input."""

import json
import subprocess
import sys

import pytest

import pbim
from pbim.cli import main
from pbim.cli.train import Train
from pbim.envs import ENVIRONMENTS


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
        ["audit", "--help"],
        ["procrastination", "--help"],
        ["recommend", "--help"],
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
    assert "{None}" not in shown


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


def test_the_list_tells_bonuses_from_what_is_made_of_them(capsys):
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["bonuses"]) == 11
    assert {"scaled", "sum"} <= {row["name"] for row in found["compositions"]}


@pytest.mark.parametrize("words", [["verify", "--help"], ["list"], ["--help"]])
def test_a_reader_that_has_enough_is_no_error(words):
    """As ``pbim list | head -1`` does: the pipe is closed before all is written."""
    command = [sys.executable, "-m", "pbim", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


def test_a_fault_of_ours_is_no_verdict(monkeypatch, capsys):
    monkeypatch.setattr("pbim.cli.catalogue._catalogue", lambda: 1 / 0)
    assert main(["list"]) == 70
    assert "fault of pbim" in capsys.readouterr().err


def test_what_the_file_system_refuses_is_said_in_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["--intrinsic", "count", "--out", str(tmp_path / "file" / "run")]
    assert main(["train", "CliffWalk", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pbim: the file system refused")
    assert "Traceback" not in said


def test_a_module_that_raises_is_the_users_and_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "raising_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["train", "CliffWalk", "--intrinsic", "raising_module:Bonus"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--shaping", "raw"]])
def test_every_option_of_verify_has_a_default(words, capsys):
    assert main(["verify", *words]) == int(bool(words))
    assert "corridor" in capsys.readouterr().out


def test_every_option_of_train_has_a_default():
    assert Train.parse([]).learner.env == ENVIRONMENTS["DoorKey-8x8"]
    assert Train.parse(["CliffWalk", "--intrinsic", "count"]).learner.intrinsic is not None
