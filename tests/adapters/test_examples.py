"""Every example of an adapter runs as a user would run it, and says that the bonus cancelled."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = {
    "gymnasium_wrap.py": [],
    "sb3_ppo.py": ["--total-timesteps", "1024"],
    "cleanrl_ppo_pbim.py": ["--total-timesteps", "4096"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_runs_and_prints_its_certificate(name: str) -> None:
    command = [sys.executable, "-W", "error::UserWarning", str(EXAMPLES / name), *COMMANDS[name]]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().splitlines()[-1].startswith("cancelled: "), result.stdout


def test_the_raw_bonus_is_not_certified() -> None:
    command = [sys.executable, str(EXAMPLES / "cleanrl_ppo_pbim.py"), "--shaping", "raw", "--total-timesteps", "2048"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.strip().splitlines()[-1].startswith("DID NOT CANCEL"), result.stdout
