"""The command line: teaching help, machine-readable output, one sentence and exit code 2 for bad input."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import docstring_parser
import pytest

import pbim
from pbim.cli import main
from pbim.cli.commands import COMMANDS
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
        ["compare", "--help"],
        ["compare", "--logs", "--help"],
        ["completion", "--help"],
        ["train", "--intrinsic", "rnd", "--shaping", "mixture", "--help"],
    ],
)
def test_help_teaches(arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "Example: pbim" in shown
    assert "usage: pbim" in shown
    assert not re.search(r"\{None|NUMBER\|(NUMBER|FLOAT)|\{True,False\}", shown)
    assert "\n\n\n" not in shown
    assert "``" not in shown
    assert not re.search(r"--\w[\w-]*-$", shown, re.M)  # an option is never cut in two
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_in_a_coloured_terminal_has_the_same_lines(name, capsys, monkeypatch):
    assert main([name, "--help"]) == 0
    plain = capsys.readouterr().out
    monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(isatty=lambda: True))
    assert main([name, "--help"]) == 0
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == [line.rstrip() for line in plain.splitlines()]


@pytest.mark.parametrize("cls", COMMANDS.values(), ids=COMMANDS)
def test_the_text_of_an_option_is_one_line(cls):
    """Tyro keeps the line break of a longer one, in the middle of a sentence."""
    assert not [each.arg_name for each in docstring_parser.parse_from_object(cls).params if "\n" in each.description]


def test_pbim_alone_names_every_command_and_the_version_option(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.M) for name in COMMANDS)
    assert "--version" in shown


def test_no_normalize_is_explained_and_centres_nothing(capsys):
    assert main(["train", "--intrinsic", "count", "--shaping", "pbim", "--help"]) == 0
    assert re.search(r"--no-normalize.{0,20}\ssubtracts\s+nothing", re.sub(r"[│\s]+", " ", capsys.readouterr().out))
    words = ["CliffWalk", "--intrinsic", "count", "--shaping", "pbim"]
    assert Train.parse([*words, "--no-normalize"]).learner.shaping.normalize is False
    assert Train.parse([*words, "--shaping.normalize", "true"]).learner.shaping.normalize is True


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--gae-lambda" in script


def test_bash_accepts_the_script_and_completes_a_command_and_an_option(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    path = tmp_path / "completion.bash"
    path.write_text(capsys.readouterr().out)
    subprocess.run(["bash", "-n", path], check=True)
    asks = """
source "$1"
completes() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
  $(complete -p pbim | sed -E 's/.*-F ([^ ]+).*/\\1/'); echo "${COMPREPLY[@]}"; }
completes pbim ver
completes pbim recommend --bon
"""
    done = subprocess.run(["bash", "-c", asks, "bash", path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["verify", "--bonus-scale"]


def test_what_needs_an_extra_is_listed_with_the_line_that_installs_it():
    """In a process of its own: there, no jax is found."""
    code = """
import pbim._extras as extras
found = extras.find_spec
extras.find_spec = lambda name: None if name in ("jax", "polars") else found(name)
from pbim.cli import main
main(["list", "--json"])
main(["list"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    missing, table = done.stdout.split("\n", 1)
    assert {"studies, environments and methods"} <= {row["name"] for row in json.loads(missing)["not installed"]}
    assert all(row["needs"].startswith("pip install 'pbim[") for row in json.loads(missing)["not installed"])
    assert "pip install 'pbim[studies]'" in table


def test_every_command_without_its_extras_names_the_line_that_installs_them(tmp_path):
    """In a process of its own: there, no optional package is found."""
    code = """
import sys
from pbim._extras import EXTRAS
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, *rest)
sys.meta_path[:] = map(Without, sys.meta_path)
from pbim.cli import main
for line in sys.stdin:
    print(main(line.split()), file=sys.stderr)
"""
    needs = {
        "train CliffWalk --intrinsic count": "jax",
        "watch out": "jax",
        "watch out --out skills.png": "jax",
        "compare CliffWalk --intrinsic rnd": "studies",
        "compare --logs raw=log.csv none=log.csv": "report",
        "reproduce cliff": "studies",
        "results out": "results",
        "report out": "report",
        "audit log.parquet": "results",
        "audit minari:log-v0": "minari",
        "audit FrozenLake-v1 --term info:prob": "gymnasium",
        "verify --env FrozenLake-v1": "gymnasium",
        "verify --shaping raw --picture tree.png": "plot",
        "procrastination --map map.png": "plot",
    }
    (tmp_path / "log.parquet").touch()
    lines = "\n".join(needs)
    done = subprocess.run([sys.executable, "-c", code], input=lines, capture_output=True, text=True, cwd=tmp_path)
    said = done.stderr.splitlines()
    assert said[1::2] == ["2"] * len(needs), done.stderr
    for command, extra, sentence in zip(needs, needs.values(), said[::2], strict=True):
        assert f"pip install 'pbim[{extra}]'" in sentence, (command, sentence)


def test_the_counts_of_runs_agree_with_the_page_about_studies(capsys):
    assert main(["list", "--json"]) == 0
    runs = {row["name"]: row["runs"] for row in json.loads(capsys.readouterr().out)["studies"]}
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    written = {}
    for names, counts in re.findall(r"^\| (`[^|]+`) \| ([\d, ]+) \|", page, re.M):
        written |= dict(zip(re.findall(r"`([^`]+)`", names), map(int, counts.split(", ")), strict=True))
    assert written == runs


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--jsn"], ["Unrecognized options: --jsn", "--json"]),
        (["nothing"], ["nothing"]),
        (["--verison"], ["did you mean '--version'?"]),
        (["report"], ["pbim: FOLDER is missing: the folder that pbim", "--publish wrote; see"]),
        (["audit"], ["pbim: SOURCE is missing: a file"]),
        (["recommend", "--gamma", "x"], ["--gamma must be a number, received 'x'; see pbim recommend --help"]),
        (["recommend", "--max-steps", "x"], ["--max-steps must be a whole number, received 'x'"]),
        (["recommend", "--gamma"], ["--gamma must be followed by a value, received nothing; see"]),
        (["completion", "csh"], ["shell must be one of bash, zsh, fish, received 'csh'; see"]),
        (["train", "--truncation", "no"], ["--truncation must be one of settle, bootstrap, continue, received 'no'"]),
        (["verify", "--rate", "0"], ["pbim: rate must be in (0, 1], received 0: 1 repays all at the next step"]),
        (["verify", "--rate", "1/0"], ["--shaping.rate must be a number, received '1/0'"]),
        (["train", "DoorKey-5x5", "--num-env", "2"], ["--num-env", "--num-envs"]),
        (["verify", "--shapng", "raw"], ["--shapng", "did you mean --shaping?"]),
        (["train", "DoorKey-5x5", "--shaping"], ["--shaping must be followed by a value"]),
    ],
)
def test_bad_input_is_said_by_what_was_typed_and_exit_code_2(arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(word.lower() in captured.err.lower() for word in words)
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1


def test_list_names_every_conversion_and_its_guarantee(capsys):
    assert main(["list"]) == 0
    table = capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    conversions, methods = found["conversions"], found["methods"]
    assert {row["name"] for row in conversions} >= {"pbim", "grm", "geometric", "raw", "none", "pies", "pbrs"}
    assert {row["name"] for row in methods} >= {"adops", "adopes", "eipo", "bsrs", "two-critics"}
    for row in conversions + methods:
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
    bonuses, compositions = ({row["name"] for row in found[family]} for family in ("bonuses", "compositions"))
    assert not bonuses & compositions
    assert {"scaled", "sum"} <= compositions
    assert f"| pbim | {len(bonuses)} " in (Path(__file__).parents[2] / "docs" / "peers.md").read_text()


@pytest.mark.parametrize("words", [["verify", "--help"], ["verify"], ["list"], ["--help"], ["completion", "bash"]])
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


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing.py", "'nothing.py', which is not there"), ("my-study.py", "rename it with letters, digits")],
)
def test_a_study_file_that_cannot_be_used_is_named_with_the_way_out(tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-study.py").write_text("")
    assert main(["reproduce", name]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["my-study.py"]
