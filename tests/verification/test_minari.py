"""A Minari dataset is a log like any other. Runs where Minari is installed (scripts/environment minari)."""

import json

import numpy as np
import pytest

minari = pytest.importorskip("minari")

import gymnasium  # noqa: E402

import pbim  # noqa: E402
from pbim.cli import main  # noqa: E402
from verification.audit_logs import corridor, shaped  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Minari misses an author and a description
PHI = np.array([1.0, 4.0, -2.0, 3.0, 0.5, 7.0])


@pytest.fixture(scope="module")
def log():
    return corridor(episodes=40)


@pytest.fixture
def dataset(log, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    safe = shaped(log, PHI, 0.9)
    buffers = []
    for number in range(40):
        rows = log["episode"] == number
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=np.append(log["obs"][rows], log["next_obs"][rows][-1]),
                actions=np.zeros(rows.sum(), dtype=np.int64),
                rewards=log["extrinsic"][rows],
                terminations=log["terminated"][rows],
                truncations=log["truncated"][rows],
                infos={"safe": np.append(0.0, safe[rows])},
            )
        )
    space = gymnasium.spaces.Discrete
    minari.create_dataset_from_buffers(
        "corridor/walk-v0", buffer=buffers, observation_space=space(6), action_space=space(3)
    )
    return "minari:corridor/walk-v0"


def test_its_verdict_is_that_of_its_arrays(dataset, log, capsys):
    assert main(["audit", dataset, "--term", "info:safe", "--gamma", "0.9"]) == 0
    capsys.readouterr()
    assert main(["audit", dataset, "--term", "reward", "--gamma", "0.9", "--json"]) == 1
    others = {name: column for name, column in log.items() if name != "extrinsic"}  # nothing to rank a reward against
    expected = json.loads(pbim.audit(**others, term=log["extrinsic"], gamma=0.9).to_json())
    assert json.loads(capsys.readouterr().out) == expected
    assert main(["audit", dataset, "--term", "info:safe", "--gamma", "0.9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inversions"] is not None


def test_what_is_not_there_is_said_in_one_sentence(dataset, capsys):
    for arguments, words in (
        (["minari:corridor/none-v0"], "a Minari dataset must be on this machine"),
        ([dataset, "--term", "info:saf"], "did you mean 'safe'?"),
        ([dataset, "--term", "dense"], "--term must be reward or info:NAME"),
    ):
        assert main(["audit", *arguments]) == 2
        assert words in capsys.readouterr().err
