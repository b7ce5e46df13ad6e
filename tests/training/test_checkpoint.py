"""Checkpoints are whole or refused, and say why."""

import json
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save

from pbim.errors import InputError
from pbim.training import checkpoint

STATE = {
    "a": jnp.arange(6.0).reshape(2, 3),
    "b": (jnp.asarray(3), jnp.asarray([True, False])),
    "key": jax.random.key(7),
    "rows": np.arange(4),
}


@pytest.fixture
def path(tmp_path):
    checkpoint.save(tmp_path / "run.ckpt", STATE, config='{"lr": 1}', about={"frames": 12})
    return tmp_path / "run.ckpt"


def test_round_trip(path):
    shapes = jax.eval_shape(lambda: STATE) | {"rows": np.zeros(4, int)}  # JAX has no 64-bit integers
    got = checkpoint.load(path, shapes, config='{"lr": 1}')
    assert checkpoint.digest(got) == checkpoint.digest(STATE)
    np.testing.assert_array_equal(jax.random.normal(got["key"], (3,)), jax.random.normal(STATE["key"], (3,)))
    assert checkpoint.about(path)["about"] == {"frames": 12}
    assert (type(got["rows"]), got["rows"].dtype) == (np.ndarray, np.int64)


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_truncated_file_is_refused(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"truncated|not a pbim checkpoint"):
        checkpoint.load(path, STATE, config='{"lr": 1}')


def test_a_changed_byte_is_noticed(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged"):
        checkpoint.load(path, STATE, config='{"lr": 1}')


def header(**entries):
    """The beginning of a safetensors file with any header."""
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


HUGE = {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 a zip",
        b"\x80\x04\x95pickle",
        json.dumps({}).encode(),
        b"\xff" * 64,
        header(),
        header(a=HUGE),
        header(a={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}) + bytes(8),
        struct.pack("<Q", 1 << 62) + b"{}",
        save({"a": np.zeros(2)}),
        save({"a": np.zeros(2)}, {"format": "another"}),
        save({"a": np.zeros(2)}, {"format": "pbim-checkpoint", "version": "2"}),
    ],
)
def test_foreign_files_are_refused_in_one_sentence(path, content):
    path.write_bytes(content)
    for read in (lambda: checkpoint.load(path, STATE, config='{"lr": 1}'), lambda: checkpoint.about(path)):
        with pytest.raises(InputError, match="not a pbim checkpoint") as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [1, 3])
def test_other_versions_are_named(path, version):
    written = header(format="pbim-checkpoint", version=1, config="{}", arrays={}) + bytes(8)
    if version == 3:
        about = {"format": "pbim-checkpoint", "version": "3", "config": "{}", "about": "{}", "sha256": ""}
        written = save({"a": np.zeros(2)}, about)
    path.write_bytes(written)
    with pytest.raises(InputError, match=f"checkpoint version {version}, this pbim reads 2"):
        checkpoint.about(path)


def test_it_is_a_safetensors_file(path):
    arrays = load_file(path)
    np.testing.assert_array_equal(arrays["['a']"], STATE["a"])
    assert arrays["['rows']"].dtype == np.int64


def test_what_is_said_about_a_run_is_strict_json(path):
    checkpoint.save(path, STATE, config="{}", about={"worst": float("inf")})
    assert checkpoint.about(path)["about"] == {"worst": None}


@pytest.mark.parametrize("name", ["folder", "missing"])
def test_what_is_no_file_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="path must name a checkpoint"):
        checkpoint.load(tmp_path / name, STATE, config="{}")


def test_another_configuration_is_named(path):
    with pytest.raises(InputError, match="lr: 1 there, 2 here"):
        checkpoint.load(path, STATE, config='{"lr": 2}')


@pytest.mark.parametrize("leaf", [jnp.zeros(4), jnp.zeros((2, 3), int)])
def test_another_shape_or_type_is_named(path, leaf):
    with pytest.raises(InputError, match=r"has float32 \(2, 3\) for \['a'\], not"):
        checkpoint.load(path, STATE | {"a": leaf}, config='{"lr": 1}')


def test_missing_and_surplus_arrays_are_named(path):
    with pytest.raises(InputError, match=r"has nothing for \['more'\]"):
        checkpoint.load(path, STATE | {"more": jnp.zeros(4)}, config='{"lr": 1}')
    with pytest.raises(InputError, match=r"holds \['rows'\], which the run does not"):
        checkpoint.load(path, {name: leaf for name, leaf in STATE.items() if name != "rows"}, config='{"lr": 1}')


def test_a_failed_write_leaves_the_last_good_one(path, monkeypatch):
    def broken(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, {"a": jnp.zeros(1)}, config="{}")
    monkeypatch.undo()
    assert checkpoint.digest(checkpoint.load(path, STATE, config='{"lr": 1}')) == checkpoint.digest(STATE)
    assert [file.name for file in path.parent.iterdir()] == ["run.ckpt"]


def rewritten(path, change):
    """Change the header of a checkpoint, which keeps its arrays."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    entries = json.loads(content[8 : 8 + size])
    change(entries)
    path.write_bytes(header(**entries) + content[8 + size :])


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries["['a']"].update(dtype="BF16", shape=[12]),
        lambda entries: entries["['a']"].update(dtype="F8_E4M3", shape=[24]),
        lambda entries: entries["['a']"].update(dtype="F99"),
        lambda entries: entries["['a']"].update(shape=[3, 2]),
        lambda entries: entries["['a']"].pop("data_offsets"),
        lambda entries: entries["__metadata__"].update(about="[" * 10_000),
        lambda entries: entries["__metadata__"].update(about='{"frames": 13}'),
        lambda entries: entries["__metadata__"].update(about="13"),
        lambda entries: entries["__metadata__"].update(config='{"lr": 1}', sha256="0"),
        lambda entries: entries.update({"['a']": entries["['rows']"], "['rows']": entries["['a']"]}),
    ],
)
def test_a_changed_header_is_one_sentence(path, change):
    rewritten(path, change)

    def read():
        checkpoint.about(path)
        checkpoint.load(path, STATE, config='{"lr": 1}')

    with pytest.raises(InputError) as caught:
        read()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_checkpoints_written_before_their_words_had_a_fingerprint_are_read(path):
    rewritten(path, lambda entries: entries["__metadata__"].pop("metadata_sha256"))
    got = checkpoint.load(path, STATE, config='{"lr": 1}')
    assert checkpoint.digest(got) == checkpoint.digest(STATE)
    assert checkpoint.about(path)["about"] == {"frames": 12}
