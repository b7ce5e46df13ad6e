"""``pbim compare``: real training of a few updates, real processes, one page."""

import json

import pytest

from pbim.cli import main
from pbim.cli.compare import Compare
from pbim.cli.run_options import RunOptions
from pbim.results import Store
from pbim.shaping import GRM, Geometric, NoBonus, Raw, recommended

SMALL = ["--frames", "512", "--num-steps", "16", "--num-envs", "16", "--seeds", "1", "--jobs", "2"]


def test_the_conversions_differ_in_nothing_else():
    words = ["DoorKey-5x5", "--intrinsic", "count", "--alpha", "0.1", "--gamma", "0.9", "--shaping"]
    made = Compare.parse([*words, "none", "raw", "geometric,rate=0.5", "grm,delay=3,normalize=false", "--seeds", "7"])
    cells = dict(made.conversions)
    assert made.seeds == 7
    assert made.learner.intrinsic_scale == 0.1
    assert cells["none"] == {"intrinsic": None, "intrinsic_scale": 1.0, "shaping": NoBonus()}
    assert cells["raw"] == {"shaping": Raw()}
    assert cells["geometric-rate=0.5"] == {"shaping": Geometric(gamma=0.9, rate=0.5)}
    assert cells["grm-delay=3-normalize=false"] == {"shaping": GRM(gamma=0.9, delay=3, normalize=False)}


def test_a_comparison_ends_with_a_page(tmp_path, capfd):
    words = ["--intrinsic", "count", "--shaping", "none", "raw", "geometric", "--out", str(tmp_path)]
    assert main(["compare", "CliffWalk", *words, *SMALL]) == 0
    said = capfd.readouterr()
    assert "Geometric, rate 0.02 ends with a higher return" in said.out
    assert "report:" in said.err
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Holm-corrected" in page
    assert "not in the paper" not in page  # a user's own claims have no paper
    store = Store(tmp_path)
    assert {run.state for run in store.runs()} == {"done"}
    assert [claim.id for claim in store.plan().claims][:2] == ["raw-final_return-none", "raw-mean_return-none"]
    assert main(["compare", "CliffWalk", *words, *SMALL]) == 0  # nothing to do
    assert "3 of 3 runs were already finished" in capfd.readouterr().err


def test_environments_on_the_host_are_compared_too(tmp_path, capfd):
    words = ["--intrinsic", "rnd", "--shaping", "none", "geometric", "--out", str(tmp_path)]
    assert main(["compare", "CartPole-v1", *words, *SMALL]) == 0
    runs = Store(tmp_path).runs()
    assert {run.state for run in runs} == {"done"}
    assert all(run.certificate().ok for run in runs)
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CliffWalk"], "--intrinsic rnd"),
        (["CliffWalk", "--intrinsic", "count", "--shaping"], "followed by names"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "geometrc"], "geometric"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "geometric,delay=3"], "no setting delay"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "geometric,rate"], "NAME,FIELD=VALUE"),
        (
            ["CliffWalk", "--intrinsic", "count", "--shaping", "none", "adops", "--critics", "joint"],
            "needs two critics",
        ),
        (
            ["CliffWalk", "--intrinsic", "count", "--shaping", "none", "raw", "eipo,alhpa=9"],
            "eipo has no setting alhpa",
        ),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "none,foo=1", "raw"], "none has no setting foo"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "raw", "eipo,alpha=1,alpha=2"], "each setting once"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "none", "epio"], "did you mean 'eipo'?"),
        (["CliffWalk", "--intrinsic", "count", "--seeds", "0"], "seeds must be"),
        (["CliffWalk", "--intrinsic", "count", "--shaping", "none"], "two or more conversions"),
        (["CliffWalk", "--intrinsic", "count", "--jobs", "0"], "jobs must be at least 1"),
        (["--logs", "raw=nothing*"], "matches none"),
        (["--logs", "raw"], "NAME=PATH"),
        (["--logs", "raw=.", "raw=."], "received raw twice: join its paths by a comma"),
    ],
)
def test_bad_input_is_one_sentence(words, said, capsys):
    assert main(["compare", *words]) == 2
    out, error = capsys.readouterr()
    assert said in error
    assert out == ""
    assert "Traceback" not in error


def test_a_conversion_that_will_not_guide_is_said_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr(RunOptions, "run", lambda *_, **__: 0)
    assert main(["compare", "CliffWalk", "--intrinsic", "count", "--shaping", "none", "grm,delay=1"]) == 0
    assert "will hardly guide this learner: GRM" in capsys.readouterr().err


def test_logs_of_other_tools_get_the_same_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, gain in (("raw", 1), ("converted", 3)):
        for seed in range(3):
            rows = "\n".join(f"{step},{gain * step + seed}" for step in range(1, 30))
            (tmp_path / f"{name}{seed}.csv").write_text(f"step,return\n{rows}\n")
    for _ in range(2):  # the second time it replaces its own page
        assert main(["compare", "--logs", "raw=raw*.csv", "converted=converted*.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [verdict["word"] for verdict in found["verdicts"]] == ["supported", "supported"]
    page = (tmp_path / "out" / "compare-logs" / "report" / "index.html").read_text()
    assert "raw against converted" in page
    assert "Did the shaping reward cancel?" not in page
    assert "after the runs" in page
    assert "before anything ran" not in page


def test_a_study_file_of_the_users_own_runs(tmp_path, capfd, monkeypatch):
    assert main(["reproduce", "--template"]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_study.py").write_text(capfd.readouterr().out)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.setenv("PYTHONPATH", __import__("os").environ.get("PYTHONPATH", ""))
    words = ["--frames", "2048", "--seeds", "1", "--only", "geometric"]
    assert main(["reproduce", "mine/my_study.py", *words]) == 0
    assert (tmp_path / "out" / "my-study" / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.py", None, "--template"),
        ("broken_study.py", "1 / 0\n", "ZeroDivisionError"),
        ("empty_study.py", "", "STUDY"),
        ("json.py", "", "rename"),
    ],
)
def test_a_study_file_that_is_none_is_refused(name, content, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    monkeypatch.setenv("PYTHONPATH", "")
    if content is not None:
        (tmp_path / name).write_text(content)
    assert main(["reproduce", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_run_of_train_is_shown_and_written_for_tensorboard(tmp_path, capsys):
    words = ["--frames", "512", "--num-steps", "16", "--num-envs", "16", "--chunk", "1", "--out", str(tmp_path / "run")]
    assert main(["train", "CliffWalk", "--intrinsic", "count", "--tensorboard", *words]) == 0
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents*"))
    assert main(["results", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["state"] == "done"
    assert main(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "report" / "index.html").exists()


def test_a_conversion_without_settings_is_made_for_the_learners_lambda():
    made = Compare.parse(["CliffWalk", "--intrinsic", "count", "--shaping", "geometric", "grm", "--gae-lambda", "0.8"])
    assert dict(made.conversions) == {kind: {"shaping": recommended(0.99, 0.8, kind)} for kind in ("geometric", "grm")}
