"""What a type checker says of the adapters: mypy reads each call with the type it must have."""

import subprocess
import sys
from pathlib import Path

import pytest

CALLS = """
from typing import Any, assert_type
import gymnasium, numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv
import pbim
from pbim.adapters import sb3
from pbim.adapters.gymnasium import ShapedEnv, ShapedVectorEnv, TrainingReport

class Walk(gymnasium.Env[int, np.int64]): ...

bonus, shaping = pbim.EpisodicCount(alpha=0.1), pbim.PBIM(gamma=0.9)
env = pbim.wrap(Walk(), intrinsic=bonus, shaping=shaping, truncation="continue", update_every=8)
assert_type(env, ShapedEnv[int, np.int64])
assert_type(env.step(np.int64(0)), tuple[int, float, bool, bool, dict[str, Any]])
assert_type(env.reset(), tuple[int, dict[str, Any]])
assert_type(env.training, bool)
assert_type(env.certificate(), TrainingReport)
assert_type(env.certificate().ok, bool)
assert_type(env.state_dict(), dict[str, NDArray[Any]])
vector = pbim.wrap(gymnasium.make_vec("CliffWalking-v1", num_envs=2), bonus, shaping)
assert_type(vector, ShapedVectorEnv)
assert_type(vector.training, bool)
assert_type(vector.certificate(), TrainingReport)
venv = sb3.wrap(DummyVecEnv([]), bonus, shaping)
assert_type(venv, sb3.ShapedVecEnv)
assert_type(venv.training, bool)
assert_type(venv.certificate(), TrainingReport)
pbim.wrap(Walk(), bonus, shaping, "settled")  # type: ignore[call-overload]
sb3.wrap(DummyVecEnv([]), bonus, shaping, "settled")  # type: ignore[arg-type]
"""


def test_mypy_reads_the_types_of_the_adapters(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(file)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert result.returncode == 0, result.stdout + result.stderr
