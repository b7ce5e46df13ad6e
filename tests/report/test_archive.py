"""Published results: small, and as good as the store they were made from."""

import resource
import shutil
from dataclasses import replace

import numpy as np
import pytest

from pbim.cli import main
from pbim.errors import InputError
from pbim.report import verdicts
from pbim.report.archive import CURVES, publish
from pbim.report.evidence import gather
from pbim.report.tables import run_csv
from pbim.results import CHECKSUMS, Store
from report.stores import write_cliff, write_doorkey


@pytest.fixture(scope="module", params=["cliff", "doorkey"])
def pair(request, tmp_path_factory):
    """Return a store and what was published of it."""
    home = tmp_path_factory.mktemp("archive")
    if request.param == "cliff":
        store = write_cliff(home / "store", unfinished=[("rnd", 4)], failed=[("pbim-no-norm", 1)])
    else:
        store = write_doorkey(home / "store")
    publish(gather(store), home / "published")
    return store, home / "published"


def test_published_results_give_the_same_verdicts_and_figures(pair):
    store, published = pair
    assert str(verdicts(store)) == str(verdicts(published))  # as text: NaN is NaN
    assert run_csv(gather(store)) == run_csv(gather(published))


def test_published_results_have_every_seeds_curves_arrays_and_origin(pair):
    store, published = map(gather, pair)
    np.testing.assert_allclose(store.axis.middles, published.axis.middles)
    for one, other in zip(store.runs, published.runs, strict=True):
        assert (one.run.cell, one.run.seed, one.run.state) == (other.run.cell, other.run.seed, other.run.state)
        assert one.run.config == other.run.config
        assert one.certificate == other.certificate
        for name in ("commit", "versions", "seconds", "error"):
            assert getattr(one.run.status, name) == getattr(other.run.status, name)
        assert not other.run.status.command  # it may name folders of another machine
        for metric, curve in one.curves.items():
            np.testing.assert_allclose(curve, other.curves[metric], rtol=1e-6)
        for name, array in one.arrays.items():
            np.testing.assert_array_equal(array, other.arrays[name])


def test_the_page_is_made_of_published_results(pair, capsys):
    _, published = pair
    assert main(["report", str(published)]) == 0
    assert (published / "report/index.html").exists()
    assert "runs finished" in capsys.readouterr().out


def test_published_results_are_smaller(pair):
    store, published = pair

    def size(folder, *names):
        return sum(file.stat().st_size for name in names for file in folder.glob(name))

    assert size(published, "*.parquet", "*.npz", "*.json") < size(store, "study.json", "runs/*/*") / 2


def test_bad_folders_are_named(pair, tmp_path, capsys):
    store, published = pair
    assert main(["report", str(store), "--publish", str(store)]) == 2
    assert "publish must name a folder of its own" in capsys.readouterr().err
    for file in published.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes()[: None if file.name != CURVES else 40])
    with pytest.raises(InputError, match="must hold published results"):
        gather(tmp_path)


def test_a_publication_that_fails_half_way_leaves_the_earlier_one(pair, tmp_path, capsys):
    """Files may not grow beyond a few kilobytes: what a full disk does to a large one."""
    store, _ = pair
    target = tmp_path / "published"
    publish(gather(store), target)
    before = {file.name: file.read_bytes() for file in target.iterdir()}
    largest = max(map(len, before.values()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for folder in (target, tmp_path / "new"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, hard))
        try:
            assert main(["report", str(store), "--publish", str(folder)]) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        said = capsys.readouterr().err
        assert "the report could not be written" in said
        assert said.count("\n") == 1
    assert {file.name: file.read_bytes() for file in target.iterdir()} == before
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("name", ["study.json", "runs.parquet", "curves.parquet", "arrays.npz", CHECKSUMS])
def test_a_changed_byte_of_a_publication_is_noticed(pair, tmp_path, name):
    _, published = pair
    shutil.copytree(published, tmp_path / "copy")
    content = bytearray((tmp_path / "copy" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "copy" / name).write_bytes(content)
    with pytest.raises(InputError, match=r"must hold published results.*fetch it again"):
        gather(tmp_path / "copy")


def test_a_publication_without_checksums_is_read(pair, tmp_path):
    _, published = pair
    shutil.copytree(published, tmp_path / "copy")
    (tmp_path / "copy" / CHECKSUMS).unlink()
    assert str(verdicts(tmp_path / "copy")) == str(verdicts(published))


def test_a_publication_loses_nothing_that_was_published(pair, tmp_path):
    store, _ = pair
    evidence, target = gather(store), tmp_path / "published"
    publish(evidence, target)
    before = {file.name: file.read_bytes() for file in target.iterdir()}
    fewer = replace(evidence, runs=evidence.runs[1:])
    with pytest.raises(InputError, match="must not lose runs"):
        publish(fewer, target)
    with pytest.raises(InputError, match="at smoke size"):
        publish(replace(evidence, study=replace(evidence.study, quick=True)), target)
    assert {file.name: file.read_bytes() for file in target.iterdir()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "metrics.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"holds metrics\.jsonl"):
        publish(evidence, tmp_path / "mine")


def test_what_two_machines_trained_is_published_together(pair, tmp_path):
    """Each has the half of the runs that the other lacks, and the later plan lacks a cell that was published."""
    store, published = pair
    whole = gather(store)
    last = whole.study.cells[-1].name
    keys = [run.key for run in Store(store).runs(lambda run: run.state == "done")]
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, dropped in ((first, keys[1::2]), (second, keys[::2])):
        shutil.copytree(store, folder)
        for key in dropped:
            shutil.rmtree(Store(folder).folder(key), ignore_errors=True)
    kept = tuple(cell for cell in whole.study.cells if cell.name != last)
    claims = tuple(claim for claim in whole.study.claims if last not in (claim.cell, claim.other))
    Store(second).write_plan(replace(whole.study, cells=kept, claims=claims, heat=()))
    target = tmp_path / "together"
    assert main(["report", str(first), "--publish", str(target)]) == 0
    assert main(["report", str(second), "--publish", str(target)]) == 0
    found = gather(target)
    assert [cell.name for cell in found.study.cells] == [cell.name for cell in whole.study.cells]
    assert [claim.id for claim in found.study.claims] == [claim.id for claim in whole.study.claims]
    assert {entry.run.key for entry in found.runs if entry.done} == set(keys)
    mine = {(entry.run.key, entry.run.cell): entry for entry in gather(published).runs}
    for entry in found.runs:
        if entry.done:
            assert entry.figures == pytest.approx(mine[entry.run.key, entry.run.cell].figures, nan_ok=True)


def test_results_with_other_settings_are_not_added(pair, tmp_path, capsys):
    store, published = pair
    shutil.copytree(store, tmp_path / "other")
    shutil.copytree(published, tmp_path / "published")
    plan = Store(store).plan()
    strange = replace(plan.cells[0], runs=tuple(replace(run, key=run.key[::-1]) for run in plan.cells[0].runs))
    for changed, sentence in (
        (replace(plan, cells=(strange, *plan.cells[1:])), "received other settings of cell"),
        (replace(plan, study="mine"), "received 'mine' for"),
    ):
        Store(tmp_path / "other").write_plan(changed)
        assert main(["report", str(tmp_path / "other"), "--publish", str(tmp_path / "published")]) == 2
        assert sentence in capsys.readouterr().err
    assert str(verdicts(tmp_path / "published")) == str(verdicts(published))
