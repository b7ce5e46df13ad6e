"""Checkpoints are whole or refused, and say why."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim.errors import InputError
from pbim.training import checkpoint

STATE = {
    "a": jnp.arange(6.0).reshape(2, 3),
    "b": (jnp.asarray(3), jnp.asarray([True, False])),
    "key": jax.random.key(7),
}


@pytest.fixture
def path(tmp_path):
    checkpoint.save(tmp_path / "run.ckpt", STATE, config='{"lr": 1}', about={"frames": 12})
    return tmp_path / "run.ckpt"


def test_round_trip(path):
    got = checkpoint.load(path, jax.eval_shape(lambda: STATE), config='{"lr": 1}')
    assert checkpoint.digest(got) == checkpoint.digest(STATE)
    np.testing.assert_array_equal(jax.random.normal(got["key"], (3,)), jax.random.normal(STATE["key"], (3,)))
    assert checkpoint.about(path)["about"] == {"frames": 12}


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


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip", b"\x80\x04\x95pickle", json.dumps({}).encode(), b"\xff" * 64])
def test_foreign_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a pbim checkpoint"):
        checkpoint.load(path, STATE, config='{"lr": 1}')


def test_another_configuration_is_named(path):
    with pytest.raises(InputError, match="lr: 1 there, 2 here"):
        checkpoint.load(path, STATE, config='{"lr": 2}')


def test_another_shape_is_named(path):
    with pytest.raises(InputError, match="'a'"):
        checkpoint.load(path, STATE | {"a": jnp.zeros(4)}, config='{"lr": 1}')


def test_a_failed_write_leaves_the_last_good_one(path, monkeypatch):
    def broken(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, {"a": jnp.zeros(1)}, config="{}")
    monkeypatch.undo()
    assert checkpoint.digest(checkpoint.load(path, STATE, config='{"lr": 1}')) == checkpoint.digest(STATE)
    assert [file.name for file in path.parent.iterdir()] == ["run.ckpt"]
