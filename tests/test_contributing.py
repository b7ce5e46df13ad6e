"""CONTRIBUTING's promise: a conversion, a bonus and an environment of somebody else need no change of ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGE = '''
"""Components of somebody who uses pbim: each is one class."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from pbim.agents import QLearning
from pbim.config import Component
from pbim.envs import Timestep
from pbim.intrinsic import LearnedBonus
from pbim.results import Claim
from pbim.shaping import Ledger
from pbim.studies import Cell, Study


@dataclass(frozen=True, kw_only=True)
class EveryOther(Ledger):
    """Repay all that is owed at the next step, times a share."""

    share: float = 0.5

    def payment(self, xp, memory, ledger, entry):
        return memory, self.share * ledger


@dataclass(frozen=True, kw_only=True)
class Parity(LearnedBonus):
    """Pay for arriving at an even state."""

    size: float = 1.0
    stepwise: ClassVar[bool] = True

    def init(self, key, spec):
        return jnp.zeros(())

    def reward_fn(self, state, transition):
        return self.size * (transition.next_obs % 2 == 0)

    def update_fn(self, state, transition):
        return state


class Place(NamedTuple):
    """Where the walker is, and the steps it took."""

    cell: Any
    step: Any


@dataclass(frozen=True, kw_only=True)
class Walk(Component):
    """Six cells in a row; the right end pays 1 and ends the episode."""

    max_steps: int = 12
    num_states: ClassVar[int] = 6
    num_actions: ClassVar[int] = 2
    obs_shape: ClassVar[tuple[int, ...]] = ()
    obs_dtype: ClassVar[Any] = jnp.int32

    def reset(self, key):
        place = Place(jnp.int32(0), jnp.int32(0))
        return place, place.cell

    def observe(self, state):
        return state.cell

    def step(self, key, state, action):
        cell = jnp.clip(state.cell + 2 * action - 1, 0, 5).astype(jnp.int32)
        place = Place(cell, state.step + 1)
        over = cell == 5
        return Timestep(place, cell, over.astype(jnp.float32), over, (place.step >= self.max_steps) & ~over)


LEARNER = QLearning(
    env=Walk(), intrinsic=Parity(size=0.1), shaping=EveryOther(gamma=0.9, share=0.25), gamma=0.9, episodes=30, lanes=2
)
STUDY = Study(
    name="theirs",
    title="Their study",
    summary="Does their own conversion cancel?",
    cells=(Cell(name="mine", learner=LEARNER),),
    seeds=2,
    claims=(),
)
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_package").mkdir()
    (folder / "their_package" / "__init__.py").write_text("")
    (folder / "their_package" / "parts.py").write_text(PACKAGE)
    return folder


def pbim(folder, *arguments):
    command = [sys.executable, "-c", "import sys; from pbim.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_somebody_elses_parts_train_from_the_command_line(package):
    done = pbim(
        package,
        *("train", "their_package.parts:Walk", "--intrinsic", "their_package.parts:Parity"),
        *("--shaping", "their_package.parts:EveryOther", "--share", "0.25", "--intrinsic.size", "0.5"),
        *("--num-envs", "2", "--num-steps", "16", "--minibatch-size", "8", "--total-frames", "64", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"] == 64
    settings = json.loads((package / "out/train/settings.json").read_text())
    assert settings["shaping"] == {
        "kind": "their_package.parts:EveryOther",
        "gamma": 0.99,
        "normalize": True,
        "max_steps": None,
        "share": 0.25,
    }
    assert settings["intrinsic"]["size"] == 0.5


def test_somebody_elses_bonus_works_in_a_wrapped_environment(package):
    code = """
import gymnasium, pbim
from their_package.parts import EveryOther, Parity
env = pbim.wrap(gymnasium.make("CliffWalking-v1"), Parity(size=0.5), EveryOther(gamma=0.9))
env.reset(seed=0)
print([env.step(0)[4]["intrinsic_reward"] for _ in range(2)])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[0.5, 0.5]\n", done.stderr


def test_somebody_elses_conversion_is_verified_from_the_command_line(package):
    done = pbim(package, "verify", "--shaping", "their_package.parts:EveryOther", "--share", "1/2")
    assert done.returncode == 0, done.stderr
    assert "PRESERVED" in done.stdout


def test_somebody_elses_study_runs_and_its_certificates_hold(package):
    done = pbim(package, "reproduce", "their_package.parts:STUDY", "--jobs", "1", "--out", "out/theirs")
    assert done.returncode == 0, done.stderr
    from pbim.results import Store

    runs = Store(package / "out/theirs").runs()
    assert [run.state for run in runs] == ["done", "done"]
    assert all(run.certificate().ok and run.certificate().exact for run in runs)
    assert runs[0].config["learner"]["shaping"]["kind"] == "their_package.parts:EveryOther"


def test_a_near_miss_only_suggests(package):
    for arguments, sentence in (
        (("train", "their_package.parts:Wlak"), "received 'their_package.parts:Wlak'"),
        (("train", "DoorKey-8x8", "--intrinsic", "cuont", "--shaping", "grm"), "did you mean 'count'"),
        (("train", "DoorKey-8x8", "--intrinsic", "count", "--shaping", "geometrc"), "did you mean 'geometric'"),
        (("reproduce", "clif"), "did you mean 'cliff'"),
    ):
        done = pbim(package, *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


def test_the_page_names_files_that_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for place in ("shaping/__init__.py", "intrinsic/__init__.pyi", "envs/__init__.pyi", "adapters/__init__.pyi"):
        assert f"src/pbim/{place}" in page
        assert (ROOT / "src/pbim" / place).exists()
