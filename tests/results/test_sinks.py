"""Sinks copy stored rows, each run once, and say what is missing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pbim.config import key_of
from pbim.errors import InputError
from pbim.results import Column, Plan, PlannedCell, PlannedRun, RunCertificate, Status, Store, sinks

ROWS = 2500


@pytest.fixture
def store(tmp_path):
    config = {"seed": 0}
    store = Store(tmp_path)
    store.begin(config, Status())
    certificate = RunCertificate(episodes=1, worst=0.0, ok=True, exact=True, tolerance=1e-3)
    metrics = {"frames": np.arange(ROWS) * 10, "length": np.where(np.arange(ROWS) < 3, np.nan, 7.0)}
    store.finish(key_of(config), metrics=metrics, arrays={}, certificate=certificate, status=Status())
    runs = (PlannedRun(seed=0, key=key_of(config)),)
    cells = tuple(PlannedCell(name=name, label=name, runs=runs) for name in ("pbim", "same"))
    x = Column(metric="frames", label="Frames")
    store.write_plan(Plan(study="s", title="T", summary="", learner="ppo", cells=cells, claims=(), curves=(), x=x))
    return store


def test_points_are_few_begin_with_nothing_made_up_and_end_with_the_last_row(store):
    points = list(sinks.points(store.runs()[0]))
    assert ROWS / 3 <= len(points) <= sinks.MOST
    assert points[-1] == ((ROWS - 1) * 10, {"length": 7.0})
    assert points[0][1] == {}


def test_tensorboard_gets_every_run_once(store):
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert sinks.to_tensorboard(store) == 1
    assert sinks.to_tensorboard(store) == 0
    (folder,) = (store.path / "tensorboard").iterdir()
    events = loading.EventAccumulator(str(folder)).Reload()
    assert events.Tensors("length")[-1].step == (ROWS - 1) * 10


def test_wandb_gets_every_run_once(store, monkeypatch):
    sent = []

    class Fake:
        def __init__(self, **about):
            sent.append(about)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            sent.append("finished")

        def log(self, row, step):
            sent.append((step, row))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=Fake))
    assert sinks.to_wandb(store, "mine") == 1
    assert sent[0]["project"] == "mine"
    assert sent[0]["config"] == {"seed": 0}
    assert sent[-2:] == [((ROWS - 1) * 10, {"length": 7.0}), "finished"]
    assert sinks.to_wandb(store, "mine") == 0


def test_a_missing_package_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="pip install wandb"):
        sinks.to_wandb(store, "mine")
