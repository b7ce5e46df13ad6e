"""Pictures of skills: the paths are walks on the grid, and every skill has its colour."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from pbim.agents import ppo
from pbim.agents.ppo import PPO
from pbim.envs import CliffWalk, DoorKey, Skills, ToyText
from pbim.errors import InputError
from pbim.intrinsic import DIAYN
from pbim.shaping import Raw
from pbim.training.skill_map import skill_map, skill_paths

SMALL = {"num_envs": 2, "num_steps": 8, "minibatch_size": 8, "shaping": Raw(), "task_reward": "none"}
GRIDS = {
    "cliff": (CliffWalk(max_steps=9), 12),
    "toy text": (ToyText(id="CliffWalking-v1", max_steps=9), 12),
    "doorkey": (DoorKey(size=5, max_steps=9), 5),
}


def fresh(env):
    config = PPO(env=Skills(env=env, count=3), intrinsic=DIAYN(count=3), **SMALL)
    return config, ppo.init(config, jax.random.key(0)).learner.params


@pytest.mark.parametrize("name", GRIDS)
def test_paths_walk_from_one_start_and_stay_where_the_episode_ended(name):
    env, width = GRIDS[name]
    config, params = fresh(env)
    paths = skill_paths(config, params, episodes=2)
    assert paths.shape == (3, 2, 10)
    assert len(np.unique(paths[:, :, 0])) == 1
    moves = np.abs(np.diff(paths, axis=2))
    back = paths[:, :, 1:] == paths[0, 0, 0]  # Gymnasium's cliff leads back to the start
    assert (np.isin(moves, (0, 1, width)) | (back & (name == "toy text"))).all()
    if name == "cliff":
        fell = (paths > env.start) & (paths < env.goal)
        assert (~fell[:, :, :-1] | fell[:, :, 1:]).all()
    figure = skill_map(config, params, episodes=2)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["skill 0", "skill 1", "skill 2"]


def test_other_environments_are_refused():
    for env in (CliffWalk(), Skills(env=ToyText(id="Taxi-v4", max_steps=9))):
        with pytest.raises(InputError, match="a picture of skills needs a run on CliffWalk or DoorKey with --skills"):
            skill_paths(PPO(env=env), None)


def test_the_example_draws_a_picture(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "skills.py"
    done = subprocess.run([sys.executable, example, "2048"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "of at most 2.08" in done.stdout
    assert (tmp_path / "skills.png").read_bytes()[1:4] == b"PNG"
