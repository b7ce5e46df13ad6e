"""``pbim audit``: exit codes, files, environments, JSON, and one sentence for bad input."""

import json
import sys

import gymnasium
import numpy as np
import polars
import pytest

import pbim
from pbim.cli import main
from verification.audit_logs import corridor, shaped

PHI = np.array([1.0, 4.0, -2.0, 3.0, 0.5, 7.0])
MODULE = '''
"""What a user would write."""

import gymnasium
import numpy as np


class Corridor(gymnasium.Env):
    """Six cells; the right end terminates. info has a safe term and one that pays for dwelling."""

    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action):
        before, self.cell = self.cell, int(np.clip(self.cell + action - 1, 0, 5))
        over = self.cell == 5
        info = {"safe": 0.9 * (not over) * self.cell - before, "dense": 0.5 * (self.cell == 4), "name": "x"}
        return self.cell, float(over), over, False, info


gymnasium.register("Corridor-v0", lambda: Corridor(), max_episode_steps=30)


def right(obs, rng):
    return 2


def dwelling(transition):
    return 0.5 * (transition.next_obs == 4)


def cell(obs):
    return int(obs)


def broken(obs):
    return 1 / 0


def nowhere(obs, rng):
    return "nowhere"
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_for_audit.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("mine_for_audit", None)
    gymnasium.registry.pop("Corridor-v0", None)


@pytest.fixture(scope="module")
def log():
    return corridor(episodes=60)


def write(path, columns):
    if path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        polars.DataFrame(columns).write_parquet(path)
    return str(path)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_give_the_verdict_of_python(here, log, suffix, capsys):
    safe, dwelling = shaped(log, PHI, 0.9), 0.5 * (log["next_obs"] == 4)
    path = write(here / f"log{suffix}", {**log, "term": safe, "dense": dwelling})
    assert main(["audit", path, "--gamma", "0.9"]) == 0
    assert capsys.readouterr().out.startswith("SAFE")
    assert main(["audit", path, "--gamma", "0.9", "--term", "dense", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(pbim.audit(**log, term=dwelling, gamma=0.9).to_json())


def test_several_columns_make_one_and_rows_of_lists_are_states(here, log, capsys):
    safe = shaped(log, PHI, 0.9)
    parts = {f"{name}_{part}": log[name] // (1 + part) for name in ("obs", "next_obs") for part in (0, 1)}
    path = write(here / "log.parquet", {"term": safe, "terminated": log["terminated"], **parts})
    options = ("--obs", "obs_0,obs_1", "--next-obs", "next_obs_0,next_obs_1", "--gamma", "0.9")
    assert main(["audit", path, *options]) == 0
    lists = {name: [[int(cell), 0] for cell in log[name]] for name in ("obs", "next_obs")}
    path = write(here / "lists.parquet", {"term": safe, "terminated": log["terminated"], **lists})
    assert main(["audit", path, "--gamma", "0.9"]) == 0
    assert "6 states" in capsys.readouterr().out


def test_an_environment_is_played(here, capsys):
    env = ("audit", "mine_for_audit:Corridor-v0", "--gamma", "0.9", "--episodes", "40")
    assert main([*env, "--term", "info:safe"]) == 0
    assert main([*env, "--term", "info:dense"]) == 1
    assert "4 -> 4 pays 0.5 in each round" in capsys.readouterr().out
    assert main([*env, "--term", "mine_for_audit:dwelling", "--key", "mine_for_audit:cell"]) == 1
    assert main([*env, "--term", "info:dense", "--policy", "mine_for_audit:right"]) == 1
    assert "NOT TESTED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.npz",), "there is no such file"),
        (("folder.npz",), "a log must be a file, received 'folder.npz': this is a folder"),
        (("text.csv",), "a log must be a .parquet or .npz file, received 'text.csv'"),
        (("broken.npz",), "must be an .npz file of plain arrays, but cannot be read"),
        (("broken.parquet",), "must be a parquet file, but cannot be read"),
        (("good.npz", "--term", "dens"), "--term must be one of"),
        (("good.npz", "--episode", "worker"), "--episode must be one of"),
        (("good.npz", "--gamma", "1.5"), "gamma must be in (0, 1], received 1.5"),
        (("nan.npz",), "term must be finite, received nan in row 0"),
        (("empty.npz",), "received an empty log"),
        (("mixed.npz",), "must have one entry per transition"),
        (("good.npz", "--key", "nowhere:function"), "--key must be a function as package.module:function"),
        (("missing.csv",), "source must be a .parquet or .npz file, minari:NAME or a registered environment"),
        (("NoSuchThing-v1", "--term", "info:dense"), "source must be a .parquet or .npz file"),
        (("FrozenLake-v1", "--term", "info:dense"), "received 'dense' where info has 'prob'"),
        (
            ("FrozenLake-v1",),
            "--term must be info:NAME or package.module:function for an environment, received nothing: say",
        ),
        (("FrozenLake-v1", "--term", "info:prob", "--obs", "x"), "--obs must go with a file"),
        (("FrozenLake-v1", "--term", "info:prob", "--episodes", "0"), "episodes must be a whole number"),
        (("FrozenLake-v1", "--term", "info:prob", "--policy", "greedy"), "--policy must be a function"),
        (("good.npz", "--episodes", "3"), "--episodes must go with an environment, received it with 'good.npz'"),
        (("good.npz", "--policy", "mine_for_audit:right"), "--policy must go with an environment"),
        (("minari:any/log-v0", "--obs", "x"), "--obs must go with a .parquet or .npz file"),
        (("minari:any/log-v0", "--seed", "1"), "--seed must go with an environment"),
        (("good.npz", "--features", "mine_for_audit:broken"), "--features must be a function that works"),
        (("columnless.npz",), "a log must have columns, received 'columnless.npz', which has none"),
        (("good.npz", "--key", "mine_for_audit:broken"), "which raised ZeroDivisionError: division by zero in line"),
        (
            ("FrozenLake-v1", "--term", "info:prob", "--policy", "mine_for_audit:nowhere"),
            "received 'nowhere', which raised KeyError: 'nowhere' in line",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(here, log, arguments, words, capsys):
    columns = {name: log[name] for name in ("obs", "next_obs", "terminated")} | {"term": log["extrinsic"]}
    write(here / "good.npz", columns)
    write(here / "columnless.npz", {})
    write(here / "nan.npz", columns | {"term": np.full(len(log["obs"]), np.nan)})
    write(here / "empty.npz", {name: column[:0] for name, column in columns.items()})
    write(here / "mixed.npz", columns | {"obs": log["obs"][:-1]})
    for name in ("text.csv", "broken.npz", "broken.parquet"):
        (here / name).write_text("not what it says")
    (here / "folder.npz").mkdir()
    before = sorted(here.iterdir())
    assert main(["audit", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "correct it: " not in said.err  # one sentence, not one inside another
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert sorted(path for path in here.iterdir() if path.name != "__pycache__") == before
    assert main(["audit", *arguments, "--json"]) == 2
    assert words in json.loads(capsys.readouterr().out)["error"]
