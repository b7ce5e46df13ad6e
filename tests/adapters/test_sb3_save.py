"""A save is whole or not there: real kills in the middle of saves, and a real disk that is full."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import pbim
from pbim.adapters import sb3
from pbim.intrinsic import EpisodicCount
from pbim.testing.scripted import ScriptedEnv

GAMMA = 0.5


def wrapped() -> sb3.ShapedVecEnv:
    venv = DummyVecEnv([lambda: ScriptedEnv(kind="box")])
    return sb3.wrap(venv, EpisodicCount(key="at"), pbim.PBIM(gamma=GAMMA), "settle")


def learner(venv: Any) -> PPO:
    return PPO("MlpPolicy", venv, gamma=GAMMA, n_steps=4, batch_size=4, n_epochs=1, device="cpu", seed=0)


def trained(steps: int) -> PPO:
    model = learner(wrapped())
    return model.learn(steps, callback=sb3.PBIMCallback()) if steps else model


def contents(model: PPO) -> dict[str, Any]:
    """Return everything a save must bring back: the weights and the state of the wrapper."""
    weights = {name: tensor.numpy() for name, tensor in model.policy.state_dict().items()}
    return weights | model.get_env().state_dict()


def same(here: dict[str, Any], there: dict[str, Any]) -> bool:
    return here.keys() == there.keys() and all(np.array_equal(here[name], there[name]) for name in here)


def loaded(path: Path) -> dict[str, Any]:
    return contents(sb3.load(path, PPO, wrapped(), device="cpu"))


def kill_many_saves(path: Path, rounds: int) -> None:
    """Save one of two models after the other in a child, kill it at a random moment, and load; again and again."""
    torch.set_num_threads(1)
    models, rng, found, torn = [trained(4), trained(8)], random.Random(0), [], 0
    states = [contents(model) for model in models]
    start = time.perf_counter()
    sb3.save(path, models[0])
    span = 4 * (time.perf_counter() - start)
    for _ in range(rounds):
        child = os.fork()
        if not child:
            while True:
                for model in models:
                    sb3.save(path, model)
        time.sleep(rng.uniform(0, span))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        torn += len(list(path.parent.glob("*.part")))
        (state,) = [number for number, state in enumerate(states) if same(state, loaded(path))]
        found.append(state)
    sb3.save(path, models[0])
    assert [file.name for file in path.parent.iterdir()] == ["agent.zip"]
    print(f"{rounds} kills, {sum(found)} times the second model, {torn} torn")


def test_a_save_that_is_killed_leaves_the_last_one(tmp_path: Path) -> None:
    """In a process of its own, because forking pytest is no good idea."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import pathlib, test_sb3_save as here; "
    code += "here.kill_many_saves(pathlib.Path(sys.argv[2]), 30)"
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "agent")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    _, _, second, *_, torn, _ = result.stdout.split()
    assert 0 < int(second) < 30, result.stdout
    assert int(torn) > 0, result.stdout  # some kills did hit the middle of a save


def test_a_full_disk_leaves_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    first, model = trained(0), trained(8)
    sb3.save(path, first)
    before = (tmp_path / "agent.zip").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
        with pytest.raises(pbim.InputError, match="an earlier save there is still whole") as caught:
            sb3.save(path, model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["agent.zip"]
    assert (tmp_path / "agent.zip").read_bytes() == before
    assert same(loaded(path), contents(first))
    sb3.save(path, model)
    assert same(loaded(path), contents(model))


def test_what_fills_a_small_disk_is_taken_away_again(tmp_path: Path) -> None:
    """On a file system of its own, if this user may mount one."""
    first, model = trained(0), trained(8)
    sb3.save(tmp_path / "agent", model)
    size = (tmp_path / "agent.zip").stat().st_size  # releases of SB3 differ
    mount = ["mount", "-t", "tmpfs", "-o", f"size={3 * size}", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        sb3.save(tmp_path / "agent", first)
        (tmp_path / "other").write_bytes(np.zeros(2 * size, np.uint8).tobytes())
        for _ in range(3):
            with pytest.raises(pbim.InputError, match="No space left on device"):
                sb3.save(tmp_path / "agent", model)
        assert same(loaded(tmp_path / "agent"), contents(first))
        (tmp_path / "other").unlink()
        sb3.save(tmp_path / "agent", model)
        assert same(loaded(tmp_path / "agent"), contents(model))
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_model_without_its_environments_is_not_saved(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", None, _init_setup_model=False)
    with pytest.raises(pbim.InputError, match="model must have its wrapped VecEnv"):
        sb3.save(tmp_path / "model", model)
    assert not list(tmp_path.iterdir())


def test_a_save_takes_away_what_killed_ones_left(tmp_path: Path) -> None:
    torn = tmp_path / "model.zip.1234.part"
    torn.write_bytes(b"half")
    sb3.save(tmp_path / "model", trained(8))
    assert [path.name for path in tmp_path.iterdir()] == ["model.zip"]
