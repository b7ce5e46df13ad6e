"""Every example of an adapter runs as a user would run it, and says that the bonus cancelled."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = {
    "cleanrl_ppo_pbim.py": "torch",
    "dense_term.py": "stable_baselines3",
    "envpool_async.py": "envpool",
    "rllib_ppo.py": "ray tree",
    "rsl_rl_ppo.py": "rsl_rl",
    "sb3_ppo.py": "stable_baselines3",
    "torchrl_ppo.py": "torchrl",
}
COMMANDS = {
    "gymnasium_wrap.py": ([], "1000 random steps on the cliff; the last one: extrinsic_reward "),
    "sb3_ppo.py": (["--total-timesteps", "1024"], "converted by Geometric, rate 0.02.\nMean return of the task alone "),
    "torchrl_ppo.py": (["--frames", "2048"], "2048 frames, mean length of the last episodes "),
    "rsl_rl_ppo.py": (["--iterations", "5"], "5 iterations, "),
    "dense_term.py": (["--total-timesteps", "2048"], "PPO took 2048 steps with a dense term, converted by Geometric"),
    "envpool_async.py": ([], " episodes in 16 environments, 4 answers at a time; mean return "),
    "rllib_ppo.py": (["--iterations", "1", "--num-env-runners", "0"], "steps on 0 env runners.\nMean returns: task -"),
    "cleanrl_ppo_pbim.py": (["--total-timesteps", "4096"], "4096 steps, extrinsic return "),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_runs_and_says_what_it_did(name: str) -> None:
    for package in PACKAGES.get(name, "gymnasium").split():
        pytest.importorskip(package)
    options, sentence = COMMANDS[name]
    others = name in ("envpool_async.py", "rllib_ppo.py")  # EnvPool's bounds lose digits; Ray warns of itself
    warned = "default" if others else "error::UserWarning"
    command = [sys.executable, "-W", warned, str(EXAMPLES / name), *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert sentence in result.stdout
    assert result.stdout.strip().splitlines()[-1].startswith("cancelled: "), result.stdout


@pytest.mark.parametrize(
    "framework", ["gymnasium_wrap", "sb3_ppo", "rllib_ppo", "torchrl_ppo", "rsl_rl_ppo", "envpool_async"]
)
def test_the_example_of_a_framework_is_short(framework: str) -> None:
    lines = (EXAMPLES / f"{framework}.py").read_text().splitlines()
    assert len([line for line in map(str.strip, lines) if line and not line.startswith(("#", '"""'))]) <= 30


def test_the_raw_bonus_is_not_certified() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(EXAMPLES / "cleanrl_ppo_pbim.py"), "--shaping", "raw", "--total-timesteps", "2048"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.strip().splitlines()[-1].startswith("DID NOT CANCEL"), result.stdout
