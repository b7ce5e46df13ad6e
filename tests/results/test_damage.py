"""Damage that still reads: other numbers, pickles, claims of terabytes, names that lead out of the folder."""

import io
import json
import os
import pickle
import random
import subprocess
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from pbim._files import read_arrays
from pbim.cli import main
from pbim.errors import InputError
from pbim.results import CERTIFICATE, CHECKSUMS, CONFIG, FINAL, METRICS, STATUS, STUDY, Corrupt, PlannedRun, frame
from results.test_store import finished


def test_no_changed_byte_of_a_finished_run_goes_unnoticed(tmp_path):
    store = finished(tmp_path)
    run, rng = store.runs()[0], random.Random(0)
    for name in (CONFIG, STATUS, METRICS, FINAL, CERTIFICATE):
        path = run.folder / name
        content = path.read_bytes()
        for _ in range(40):
            changed = bytearray(content)
            changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            found = store.run(run.key)
            if found.state == "corrupt":
                assert isinstance(found.trouble, Corrupt)
            else:
                with pytest.raises(Corrupt, match=CHECKSUMS):
                    found.check()
        path.write_bytes(content)
    store.run(run.key).check()


def test_sha256sum_reads_the_checksums(tmp_path):
    run = finished(tmp_path).runs()[0]
    for folder, files in ((run.folder, 5), (tmp_path, 1)):
        done = subprocess.run(["sha256sum", "--check", CHECKSUMS], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0
        assert done.stdout.count(": OK") == files


def test_a_run_without_checksums_is_read_and_has_them_from_then_on(tmp_path):
    store = finished(tmp_path)
    run = store.runs()[0]
    (run.folder / CHECKSUMS).unlink()
    assert store.mend(run) is None
    content = bytearray((run.folder / METRICS).read_bytes())
    content[len(content) // 2] ^= 1
    (run.folder / METRICS).write_bytes(content)
    assert str(run.folder / METRICS) in str(store.mend(store.run(run.key)))


@pytest.mark.parametrize("text", ["{}", "NaN", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, '{"state": "waiting"}'])
@pytest.mark.parametrize("name", [CONFIG, STATUS, CERTIFICATE])
def test_json_that_says_nothing_is_set_aside(tmp_path, name, text):
    store = finished(tmp_path)
    run = store.runs()[0]
    (run.folder / CHECKSUMS).unlink()
    (run.folder / name).write_text(text)
    error = store.mend(store.run(run.key))
    assert str(run.folder / name) in str(error)
    assert "\n" not in str(error)
    assert store.run(run.key).state == "waiting"


def npy(head, data=b""):
    """The bytes of an array with any header."""
    text = repr(head).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npz(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return content.getvalue()


class Touch:
    """What runs code where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_arrays_of_a_stranger_run_nothing_and_write_nothing(tmp_path):
    evil = pickle.dumps(np.array([Touch(str(tmp_path / "ran"))], object))
    path = tmp_path / "folder" / "state.npz"
    path.parent.mkdir()
    objects = npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, evil)
    huge = npy({"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}, bytes(8))
    for content in (evil, npz(**{"a.npy": objects}), npz(**{"a.npy": huge}), b"PK\x05\x06"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="path must name a saved state"):
            read_arrays(path)
    number = npy({"descr": "<i8", "fortran_order": False, "shape": (1,)}, bytes(8))
    path.write_bytes(npz(**{"../../escaped.npy": number}))
    assert list(read_arrays(path)) == ["../../escaped"]
    assert [file.name for file in tmp_path.rglob("*")] == ["folder", "state.npz"]


@pytest.mark.parametrize("content", [npz(**{"q.npy": npy({"descr": "<f8", "shape": (7 << 40,)})}), b"", b"PK\x03\x04"])
def test_final_arrays_that_claim_more_than_there_is_are_set_aside(tmp_path, content):
    store = finished(tmp_path)
    run = store.runs()[0]
    (run.folder / CHECKSUMS).unlink()
    (run.folder / FINAL).write_bytes(content)
    assert str(run.folder / FINAL) in str(store.mend(run))


def test_a_key_that_leads_out_of_the_folder_is_refused(tmp_path):
    store = finished(tmp_path / "store")
    plan = store.plan()
    cell = replace(plan.cells[0], runs=(PlannedRun(seed=0, key="../../precious"),))
    store.write_plan(replace(plan, cells=(cell,)))
    with pytest.raises(Corrupt, match="not the key of a run"):
        store.runs()


@pytest.mark.parametrize("change", [{"title": "[/red]"}, {"cells": "[bold]c[/x]"}])
def test_markup_in_names_is_printed_as_it_is(tmp_path, capsys, change):
    store = finished(tmp_path)
    plan = store.plan()
    if "cells" in change:
        change = {"cells": (replace(plan.cells[0], name=change["cells"]),)}
    store.write_plan(replace(plan, **change))
    assert main(["results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "[/red]" in out or "[bold]c[/x]" in out


def test_a_folder_in_place_of_a_file_is_damage_and_a_file_in_place_of_a_run_too(tmp_path):
    store = finished(tmp_path)
    first, second = store.runs()[:2]
    (first.folder / STATUS).unlink()
    (first.folder / STATUS).mkdir()
    store.set_aside(second.folder)
    second.folder.write_text("")
    for run in (first, second):
        assert store.run(run.key).state == "corrupt"
        assert store.mend(store.run(run.key)) is not None
        assert store.run(run.key).state == "waiting"
    assert len(list((tmp_path / "set-aside").iterdir())) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_set_aside(tmp_path):
    store = finished(tmp_path)
    run = store.runs()[0]
    (run.folder / METRICS).chmod(0)
    with pytest.raises(PermissionError):
        store.mend(run)
    assert run.folder.exists()


def test_a_plan_of_another_schema_is_refused_and_a_damaged_one_is_named(tmp_path):
    store = finished(tmp_path)
    data = json.loads((tmp_path / STUDY).read_text())
    (tmp_path / STUDY).write_text(json.dumps(data))
    with pytest.raises(Corrupt, match=STUDY):
        store.plan()
    (tmp_path / CHECKSUMS).unlink()
    assert frame(tmp_path).height == 6
    (tmp_path / STUDY).write_text(json.dumps({**data, "schema": 99}))
    with pytest.raises(InputError, match="has schema 99, this pbim reads 2"):
        store.plan()
