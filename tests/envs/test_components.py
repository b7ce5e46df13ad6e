"""Environments hold names and numbers only: written, read and compared by value."""

import subprocess
import sys

import pytest

import pbim.envs
from pbim.config import components, decode, encode
from pbim.envs import (
    CliffWalk,
    Craftax,
    DoorKey,
    Flattened,
    Gymnax,
    HostEnv,
    Navix,
    RiverSwim,
    Skills,
    ToyText,
    XMiniGrid,
)

EVERY = [
    CliffWalk(width=7, slip=0.5),
    DoorKey(size=5, reward="minigrid"),
    RiverSwim(max_steps=7),
    ToyText(id="Taxi-v4", max_steps=10_000),
    Gymnax(id="CartPole-v1", limit=9),
    Craftax(id="Craftax-Classic-Symbolic-v1"),
    Navix(id="Navix-DoorKey-5x5-v0"),
    XMiniGrid(id="MiniGrid-DoorKey-5x5"),
    Flattened(env=XMiniGrid(id="XLand-MiniGrid-R1-9x9")),
    HostEnv(id="CartPole-v1"),
    Skills(env=DoorKey(size=5), count=3),
]


@pytest.mark.parametrize("env", EVERY, ids=lambda env: env.kind)
def test_written_and_read_again_it_is_the_same(env):
    again = decode(encode(env))
    assert again == env
    assert hash(again) == hash(env)


def test_every_public_environment_is_tried_here():
    assert {type(env) for env in EVERY} == set(components("env"))


def test_importing_the_package_registers_ours_and_loads_no_bridge():
    code = "import sys, gymnasium, pbim.envs; gymnasium.spec('pbim/DoorKey-16x16-v0'); "
    code += "print(sorted(m for m in sys.modules if m.startswith('pbim.envs.') and 'foreign' in m or 'host' in m[:19]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    assert {"DoorKey", "ENVIRONMENTS", "RiverSwim", "autoreset_batch"} <= set(dir(pbim.envs))
