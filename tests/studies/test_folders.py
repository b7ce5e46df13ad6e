"""``pbim reproduce`` and the folder it is given: nothing is replaced without a word, damage is redone, one sentence."""

import json
from pathlib import Path

import polars
import pytest

from pbim._files import write_arrays
from pbim.cli import main
from pbim.config import key_of
from pbim.report import build
from pbim.report.archive import publish
from pbim.report.evidence import gather
from pbim.results import CHECKSUMS, FINAL, METRICS, STUDY, Store, write_checksums
from pbim.studies import STUDIES
from pbim.studies.display import Display
from pbim.studies.reproduce import reproduce
from report.stores import certificate, q_run, status

STUDY_OF_ONE = STUDIES["cliff"].sized(seeds=2, only=("none",))


def nothing(jobs, root):
    """An engine that leaves every run as it is."""
    yield from ()


def written(out, study=STUDY_OF_ONE):
    """The store of a study with every run finished."""
    import numpy as np

    store = Store(out)
    for _, seed, config in study.runs():
        store.begin(config, status())
        metrics, arrays = q_run(np.random.default_rng(seed), 41.0, 4000)
        done = {"certificate": certificate(), "status": status()}
        store.finish(key_of(config), metrics=metrics, arrays=arrays, **done)
    store.write_plan(study.plan(command="pbim reproduce cliff", version="0", commit=None))
    return store


def again(store, capsys, study=STUDY_OF_ONE):
    """Run the study into the folder without training, and return the exit code and what was said."""
    code = reproduce(study, store.path, nothing, command="pbim reproduce cliff", display=Display())
    return code, capsys.readouterr().err.replace("\n", " ")


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cliff", "--quick"], "holds cliff, not cliff at smoke size: pass another --out"),
        (["cliff-long"], "holds cliff, not cliff-long: pass another --out"),
    ],
)
def test_another_study_or_size_is_refused_and_nothing_changes(tmp_path, capsys, arguments, sentence):
    store = written(tmp_path)
    build(tmp_path)
    before = files_of(tmp_path)
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err
    assert files_of(tmp_path) == before
    assert store.plan().study == "cliff"


@pytest.mark.parametrize("sealed", [True, False])
def test_the_plan_of_a_newer_pbim_is_kept(tmp_path, capsys, sealed):
    written(tmp_path)
    data = json.loads((tmp_path / STUDY).read_text())
    (tmp_path / STUDY).write_text(json.dumps({**data, "schema": 3, "new": True}))
    (tmp_path / CHECKSUMS).unlink()
    if sealed:
        write_checksums(tmp_path, (STUDY,))
    before = files_of(tmp_path)
    assert main(["reproduce", "cliff", "--out", str(tmp_path)]) == 2
    assert "has schema 3, this pbim reads 2: use the pbim that wrote it" in capsys.readouterr().err
    assert files_of(tmp_path) == before


def test_published_results_are_not_run_into(tmp_path, capsys):
    written(tmp_path / "store")
    publish(gather(tmp_path / "store"), tmp_path / "published")
    before = files_of(tmp_path / "published")
    assert main(["reproduce", "cliff", "--out", str(tmp_path / "published")]) == 2
    assert "holds published results" in capsys.readouterr().err
    assert files_of(tmp_path / "published") == before


def test_fewer_runs_than_planned_are_said(tmp_path, capsys):
    store = written(tmp_path)
    code, said = again(store, capsys, STUDIES["cliff"].sized(seeds=1, only=("none",)))
    assert code == 0
    assert "1 runs of the last plan are not in this one: they stay in runs/" in said


def test_a_damaged_plan_is_set_aside_and_written_again(tmp_path, capsys):
    store = written(tmp_path)
    good = (tmp_path / STUDY).read_bytes()
    (tmp_path / STUDY).write_bytes(good.replace(b"cliff", b"clixf", 1))
    code, said = again(store, capsys)
    assert (code, "set aside: " in said, STUDY in said) == (0, True, True)
    assert store.plan().study == "cliff"
    assert (tmp_path / "set-aside" / f"{STUDY}-1").exists()
    assert "2 of 2 runs were already finished" in said


def without_array(run):
    arrays = run.arrays()
    del arrays["visits"]
    write_arrays(run.folder / FINAL, arrays)


def changed_rows(change):
    def write(run):
        change(run.metrics()).write_parquet(run.folder / METRICS)

    return write


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (without_array, "it has no 'visits'"),
        (changed_rows(lambda rows: rows.head(3999)), "it has 3999 rows, not 4000"),
        (changed_rows(lambda rows: rows.drop("return")), "it has no 'return'"),
        (changed_rows(lambda rows: rows.head(0)), "it has no rows with increasing episode"),
        (
            changed_rows(lambda rows: rows.with_columns(episode=polars.lit(float("nan")))),
            "it has no rows with increasing episode",
        ),
        (
            changed_rows(lambda rows: rows.with_columns(length=polars.lit("x"))),
            "length is not a column of numbers",
        ),
        (
            lambda run: write_arrays(run.folder / FINAL, run.arrays() | {"q": run.arrays()["q"][:3]}),
            "q and visits are not of shape (48, 4)",
        ),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_what_a_report_cannot_show_is_redone(tmp_path, capsys, damage, why, sealed):
    """The report names a run and sends to reproduce, which sets that run aside: nobody is sent back."""
    store = written(tmp_path)
    run = store.runs()[1]
    if not sealed:
        (run.folder / CHECKSUMS).unlink()
    damage(run)
    if sealed:
        why = CHECKSUMS
    if "3999" not in why:  # the report does not know how many there should be
        assert main(["report", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert why in said
        assert "run pbim reproduce again" in said
        assert said.count("\n") == 1
    _, said = again(store, capsys)
    assert f"set aside: '{run.folder}" in said
    assert why in said
    assert [found.state for found in store.runs()] == ["done", "waiting"]


@pytest.mark.parametrize("name", [".", "runs", "set-aside", "report"])
def test_a_file_in_place_of_a_folder_is_one_sentence(tmp_path, capsys, name):
    out = tmp_path / "out"
    if name != ".":
        out.mkdir()
    (out / name).write_text("")
    assert main(["reproduce", "cliff", "--only", "none", "--seeds", "1", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(out) in said
    assert (out / name).read_text() == ""
    assert not (out / STUDY).exists()


def test_a_folder_in_place_of_the_lock_is_one_sentence(tmp_path, capsys):
    (tmp_path / ".lock").mkdir()
    assert main(["reproduce", "cliff", "--only", "none", "--seeds", "1", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Is a directory" in said


def test_a_report_where_a_file_stands_is_one_sentence(tmp_path, capsys):
    written(tmp_path)
    (tmp_path / "report").write_text("")
    assert main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "the report could not be written" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only"], "only must name a scheme, a group or a cell, received none"),
        (["--only", "None"], "did you mean 'none'"),
        (["--seeds", "100000000000000000000"], "seeds must be from 1 to 10,000"),
        (["--seeds", "0"], "seeds must be from 1 to 10,000"),
        (["--checkpoint-every", "nan"], "checkpoint_every must be at least 0"),
    ],
)
def test_sizes_that_no_study_has_are_refused(tmp_path, capsys, arguments, sentence):
    assert main(["reproduce", "cliff", "--out", str(tmp_path / "out"), *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_frames_that_nobody_can_count_are_refused(tmp_path, capsys):
    assert main(["reproduce", "doorkey", "--frames", str(10**20), "--out", str(tmp_path / "out")]) == 2
    assert "frames must be from 1 to 2,000,000,000" in capsys.readouterr().err


def test_every_cell_is_run_where_none_is_named():
    from pbim.cli.reproduce import Reproduce

    assert Reproduce(study="cliff").line == "pbim reproduce cliff"
    assert Reproduce(study="cliff", only=("none",)).line == "pbim reproduce cliff --only none"


def test_two_studies_are_not_published_into_one_folder(tmp_path, capsys):
    written(tmp_path / "cliff")
    other = STUDIES["cliff-sensitivity"].sized(seeds=1, only=(STUDIES["cliff-sensitivity"].cells[0].name,))
    written(tmp_path / "other", other)
    assert main(["report", str(tmp_path / "cliff"), "--publish", str(tmp_path / "published")]) == 0
    before = files_of(tmp_path / "published")
    assert main(["report", str(tmp_path / "other"), "--publish", str(tmp_path / "published")]) == 2
    assert "received 'cliff-sensitivity' for 'cliff'" in capsys.readouterr().err
    assert files_of(tmp_path / "published") == before
    assert not list(Path(tmp_path / "published").glob(".part*"))
