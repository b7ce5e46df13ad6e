"""Jobs: a run's rows depend on its configuration alone, not on company, interruption or order."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from pbim.config import canonical, key_of, run_document
from pbim.results import CHECKPOINT, FINAL, METRICS, RunCertificate, Status, Store
from pbim.shaping import PBIM, NoBonus
from pbim.studies import STUDIES, _ppo_job, local
from pbim.studies.cliff import BONUS, SCHEMES
from pbim.studies.doorkey import BASE as DOORKEY, cell
from pbim.studies.job import Job, jobs_of, run
from pbim.training import checkpoint

SMALL = replace(SCHEMES["pbim"][1], lanes=3, episodes=30, intrinsic=replace(BONUS, hidden=(8,), features=4))
NONE = replace(SMALL, intrinsic=None, shaping=NoBonus())


def config(seed, learner=SMALL):
    return run_document(learner, seed)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr("pbim.training.compiled.keep_compiled", lambda: None)


def block(*seeds):
    return Job(cell="pbim", configs=tuple(map(config, seeds)), save_every=0.0)


def files(store, chosen):
    folder = store.folder(key_of(chosen))
    return [(folder / name).read_bytes() for name in (METRICS, FINAL)]


def test_a_seed_depends_neither_on_its_company_nor_on_interruptions(tmp_path, monkeypatch):
    monkeypatch.setattr("pbim.studies._q_job.CHUNKS", 1)
    monkeypatch.setattr("pbim.studies._q_job.SECONDS", 0.0)  # one chunk of 64 steps at a time
    together, alone, stopped = (Store(tmp_path / name) for name in ("together", "alone", "stopped"))
    last = list(run(block(0, 1, 2), together.path))[-1]
    assert last.finished
    list(run(block(1), alone.path))
    part = run(block(1, 2), stopped.path)
    for _ in range(4):
        next(part)
    part.close()  # what a power cut leaves: the last checkpoint
    saved = stopped.folder(block(1).keys[0]) / CHECKPOINT
    assert 0 < checkpoint.load(saved, _like(), config=_text(1)).steps < 30 * 50
    continued = list(run(block(1), stopped.path))
    assert continued[0].steps > 2 * 64
    for store in (alone, stopped):
        assert files(store, config(1)) == files(together, config(1))
        assert not (store.folder(block(1).keys[0]) / CHECKPOINT).exists()
    assert files(together, config(0)) != files(together, config(1))


def _like():
    import jax

    from pbim.agents import q_learning

    return jax.eval_shape(lambda: q_learning.init(SMALL, jax.random.key(0)))


def _text(seed):
    return canonical(config(seed))


def test_rows_of_q_learning_are_the_contracts(tmp_path):
    store = Store(tmp_path)
    chosen = config(4, NONE)
    list(run(Job(cell="none", configs=(chosen,)), tmp_path))
    found = store.run(key_of(chosen))
    assert found.state == "done"
    rows, arrays = found.metrics(), found.arrays()
    assert rows["episode"].to_list() == list(range(30))
    assert rows["steps"].to_list() == np.cumsum(rows["length"]).tolist()
    assert rows["steps"][-1] == arrays["visits"].sum() == found.status.steps
    assert arrays["q"].shape == (48, 4)
    assert arrays["path"][0] == 36
    tolerance = pytest.approx(3.5e-4, rel=0.1)
    assert found.certificate() == RunCertificate(episodes=30, worst=0.0, ok=True, exact=True, tolerance=tolerance)
    assert found.status.versions["jax"]


@pytest.mark.parametrize("damage", ["header", "folder", "settings"])
def test_a_damaged_checkpoint_is_named_set_aside_and_the_run_starts_over(tmp_path, damage):
    chosen = config(0, NONE)
    store, job = Store(tmp_path), Job(cell="none", configs=(chosen,))
    path = store.folder(key_of(chosen)) / CHECKPOINT
    path.parent.mkdir(parents=True)
    if damage == "header":
        path.write_bytes((30).to_bytes(8, "little") + b'{"a": {"dtype": "F32"}, "b":1}')
    elif damage == "folder":
        path.mkdir()
    else:
        checkpoint.save(path, {"a": np.zeros(1)}, config="{}")
    progress = list(run(job, tmp_path))
    assert progress[-1].finished
    assert progress[0].note.startswith("set aside: ")
    assert str(path) in progress[0].note
    assert not any(later.note for later in progress[1:])
    assert store.run(key_of(chosen)).state == "done"
    assert (tmp_path / "set-aside" / f"{key_of(chosen)}-{CHECKPOINT}-1").exists()


def test_ppo_continues_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(_ppo_job, "CHUNK", 2)
    monkeypatch.setattr(_ppo_job, "LAYOUTS", 4)
    tiny = {"num_envs": 2, "num_steps": 8, "minibatch_size": 8, "total_frames": 4 * 16, "epochs": 1}
    tiny |= {"memory": "none", "recurrence": 1}
    env = replace(DOORKEY.env, size=5, max_steps=6)
    chosen = cell("pbim", "PBIM", PBIM(gamma=0.99), "005-99", env=env, **tiny).document(0)
    job = Job(cell="pbim", configs=(chosen,), save_every=0.0)
    whole, parts = Store(tmp_path / "whole"), Store(tmp_path / "parts")
    assert list(run(job, whole.path))[-1].finished
    first = run(job, parts.path)
    assert next(first).done == 2
    first.close()
    assert [progress.done for progress in run(job, parts.path)] == [4]
    assert files(whole, chosen) == files(parts, chosen)
    found = whole.run(key_of(chosen))
    assert found.metrics()["frames"].to_list() == [16, 32, 48, 64]
    assert found.arrays()["optimal_lengths"].shape == (4,)
    assert found.certificate().ok
    assert found.certificate().episodes == found.metrics()["episodes"].sum() > 0


def test_jobs_hold_every_missing_run_once_in_fixed_lanes():
    study = STUDIES["cliff"].sized(seeds=7)
    every = {key_of(config) for *_, config in study.runs()}
    jobs = jobs_of(study, every, command="")
    assert sorted(key for job in jobs for key in job.keys) == sorted(every)
    assert {len(job.configs) for job in jobs} == {5, 2}
    assert [job.cell for job in jobs][3] == "none", "the short ones last"
    doorkey = STUDIES["doorkey"].sized(seeds=2)
    keys = {key_of(config) for *_, config in doorkey.runs()}
    jobs = jobs_of(doorkey, keys, command="")
    assert len(jobs) == len(keys) == 22
    assert [job.configs[0]["seed"] for job in jobs] == [0] * 11 + [1] * 11
    assert [job.replay for job in jobs] == [True] * 11 + [False] * 11


def test_a_process_that_hangs_is_replaced_and_nothing_is_lost(tmp_path, monkeypatch):
    """The first process is stopped dead at its start; only its silence tells."""
    stopped = []
    silent = local._Process.hangs
    monkeypatch.setattr(local._Process, "hangs", lambda self, _: self.popen.pid in stopped and silent(self, 1.0))
    launch = local._Process.__init__

    def stop_the_first(self, job, root):
        launch(self, job, root)
        if not stopped:
            os.kill(self.popen.pid, signal.SIGSTOP)
            stopped.append(self.popen.pid)

    monkeypatch.setattr(local._Process, "__init__", stop_the_first)
    events = [event.kind for event in local.run([block(0)], tmp_path, workers=1) if event is not None]
    assert events[:3] == ["started", "lost", "started"]
    assert events[-1] == "ended"
    assert Store(tmp_path).folder(block(0).keys[0]).joinpath(METRICS).exists()


def test_a_store_with_other_defaults_is_refused(tmp_path):
    from pbim.errors import InputError
    from pbim.studies.reproduce import check_defaults

    study = STUDIES["cliff"].sized(seeds=1, only=("none",))
    document = study.cells[0].document(100)
    store = Store(tmp_path)
    store.begin({**document, "defaults": {**document["defaults"], "epsilon_min": 0.2}}, Status())
    with pytest.raises(InputError, match="none seed 100 with another default of epsilon_min"):
        check_defaults(study, str(tmp_path), lambda key: store.run(key).config)
    store.begin(document, Status())
    check_defaults(study, str(tmp_path), lambda key: store.run(key).config)
