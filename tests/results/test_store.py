"""The store: keys follow configurations, done means readable, what cannot be read is named and set aside."""

import json

import numpy as np
import polars
import pytest

from pbim.agents import QLearning
from pbim.cli import main
from pbim.config import key_of
from pbim.results import (
    CERTIFICATE,
    CONFIG,
    FINAL,
    METRICS,
    STATUS,
    Column,
    Corrupt,
    Plan,
    PlannedCell,
    PlannedRun,
    RunCertificate,
    Status,
    Store,
    frame,
    write_json,
)

CONFIG_0 = {"schema": 2, "learner": {"kind": "q-learning"}, "defaults": {}, "seed": 0, "alpha": 0.1}
CERTIFIED = RunCertificate(episodes=3, worst=0.0, ok=True, exact=True, tolerance=1e-3)


def columns(rows=3):
    kinds = {name: metric.dtype for name, metric in QLearning.metrics.items()}
    return {name: np.arange(rows).astype(kind) for name, kind in kinds.items()}


def finished(path, seeds=(0, 1), waiting=(2,)):
    """A store with some finished runs and some that wait."""
    store, runs = Store(path), []
    for seed in (*seeds, *waiting):
        config = CONFIG_0 | {"seed": seed}
        runs.append(PlannedRun(seed=seed, key=key_of(config)))
        if seed in seeds:
            store.begin(config, Status())
            store.finish(
                key_of(config),
                metrics=columns(),
                arrays={"q": np.full((2, 4), seed, np.float32)},
                certificate=CERTIFIED,
                status=Status(seconds=1.0, steps=9),
            )
    store.write_plan(plan(PlannedCell(name="pbim", label="PBIM", runs=tuple(runs))))
    return store


def plan(*cells):
    x = Column(metric="episode", label="Episode")
    return Plan(study="s", title="T", summary="", learner="q-learning", cells=cells, claims=(), curves=(), x=x)


def test_a_key_is_the_configuration_and_nothing_else():
    assert key_of({"b": 1, "a": 2}) == key_of({"a": 2, "b": 1})
    assert len({key_of(CONFIG_0 | change) for change in ({}, {"seed": 1}, {"alpha": 0.2}, {"more": None})}) == 4
    with pytest.raises(ValueError, match="not JSON compliant"):
        key_of({"a": float("nan")})


def test_a_new_field_with_a_default_keeps_the_key():
    assert key_of(CONFIG_0) == key_of(CONFIG_0 | {"defaults": {"new": 1}})


def test_every_json_file_is_strict(tmp_path):
    write_json(tmp_path / "one.json", {"worst": float("inf"), "mean": float("nan")})
    write_json(tmp_path / "two.json", Status(seconds=float("nan")))

    def refuse(constant):
        raise AssertionError(constant)

    for name in ("one.json", "two.json"):
        json.loads((tmp_path / name).read_text(), parse_constant=refuse)


def test_what_was_written_is_read(tmp_path):
    store = finished(tmp_path)
    assert [(run.cell, run.seed, run.state) for run in store.runs()] == [
        ("pbim", 0, "done"),
        ("pbim", 1, "done"),
        ("pbim", 2, "waiting"),
    ]
    run = store.runs()[1]
    assert run.config["seed"] == 1
    assert run.arrays()["q"].tolist() == [[1] * 4] * 2
    assert run.certificate() == CERTIFIED
    assert {name: str(kind) for name, kind in run.metrics().schema.items()} == {
        "episode": "Int32",
        "steps": "Int64",
        "return": "Float32",
        "length": "Int32",
        "terminated": "Boolean",
    }
    table = frame(tmp_path)
    assert table.columns[:3] == ["cell", "seed", "key"]
    assert table["seed"].to_list() == [0, 0, 0, 1, 1, 1]


def test_rows_of_a_changed_configuration_do_not_mix(tmp_path):
    store = finished(tmp_path)
    store.begin(CONFIG_0 | {"alpha": 9.0}, Status())
    assert len(store.runs()) == 3


@pytest.mark.parametrize("name", [CONFIG, STATUS, METRICS, FINAL, CERTIFICATE])
@pytest.mark.parametrize("damage", [b"", b"{]", None])
def test_a_file_that_cannot_be_read_is_named_and_its_run_set_aside(tmp_path, name, damage):
    store = finished(tmp_path)
    good, bad = store.runs()[:2]
    path = bad.folder / name
    path.unlink() if damage is None else path.write_bytes(damage)
    bad = store.run(bad.key, cell=bad.cell, seed=bad.seed)
    assert store.mend(good) is None
    if name == STATUS and damage is None:  # nothing says that it ever ran
        assert bad.state == "waiting"
        return
    error = store.mend(bad)
    assert isinstance(error, Corrupt)
    assert str(path) in str(error)
    assert store.run(bad.key).state == "waiting"
    assert [run.state for run in store.runs()] == ["done", "waiting", "waiting"]
    assert (tmp_path / "set-aside" / f"{bad.key}-1").is_dir()


def test_a_truncated_table_is_corrupt(tmp_path):
    run = finished(tmp_path).runs()[0]
    content = (run.folder / METRICS).read_bytes()
    (run.folder / METRICS).write_bytes(content[: len(content) // 2])
    with pytest.raises(Corrupt, match=r"metrics\.parquet"):
        run.metrics()


def test_polars_reads_the_files_directly(tmp_path):
    finished(tmp_path)
    assert polars.scan_parquet(tmp_path / "runs/*/metrics.parquet").select("length").collect().height == 6


def test_pbim_results_prints_and_filters(tmp_path, capsys):
    finished(tmp_path)
    assert main(["results", str(tmp_path), "--state", "done", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["seed"] for row in rows] == [0, 1]
    assert main(["results", str(tmp_path)]) == 0
    assert "waiting" in capsys.readouterr().out
    for arguments, sentence in (
        (["results", str(tmp_path / "none")], "path must hold a study"),
        (["results", str(tmp_path), "--cell", "pbin"], "did you mean 'pbim'"),
        (["results", str(tmp_path), "--state", "doen"], "did you mean 'done'"),
    ):
        assert main(arguments) == 2
        assert sentence in capsys.readouterr().err
