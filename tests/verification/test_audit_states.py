"""Which observations of a log are one state: what Python calls equal, or what ``key=`` says."""

import numpy as np
import pytest

import pbim
from pbim.cli import main

WAY = {"terminated": [False, False, True], "term": [1.0, 2.0, 3.0], "gamma": 0.9}


def chain(a, b, c, d):
    """Return the log of a -> b -> c -> d, the end."""
    return pbim.audit(obs=[a, b, c], next_obs=[b, c, d], **WAY)


@pytest.mark.parametrize(
    "states",
    [
        (b"", b"\0", b"\0\0", b"x"),
        ("a", "a\0", "a\0\0", "x"),
        (1, "1", 2, "2"),
        (2**60, 2**60 + 1, 0.5, 3),
        (2**63, 2**63 + 1, -1, 3),
        ({1: 0, "a": 0}, {1: 0, "a": 1}, {1: 1, "a": 0}, {1: 1, "a": 1}),
        (("a", 1), ("a", "1"), ("b", 1), ("b", "1")),
    ],
)
def test_states_that_differ_stay_apart(states):
    assert chain(*states).coverage.states == 4


@pytest.mark.parametrize("bad", [{"a": np.array([np.nan, 1.0])}, ("x", float("nan")), float("nan")])
def test_nan_is_refused_wherever_it_hides(bad):
    with pytest.raises(pbim.InputError, match=r"obs must hold no NaN.*drop"):
        chain(bad, "b", "c", "d")


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda cell: {"cell": cell, "clock": np.random.default_rng(cell).random(2)}, lambda obs: obs["cell"]),
        (lambda cell: {cell}, min),
        (lambda cell: (cell, "noise"), lambda obs: obs[0] if isinstance(obs, tuple) else None),
        (lambda cell: np.full((2, 2), cell), lambda obs: int(obs[0, 1])),
    ],
)
def test_key_is_asked_with_the_observation_as_it_was_passed(make, key):
    report = pbim.audit(
        obs=[make(0), make(1), make(1)], next_obs=[make(1), make(1), make(2)], key=key,
        term=[0.0, 0.5, 0.0], terminated=[False, False, True], gamma=0.9,
    )  # fmt: skip
    assert set(report.potential) == {0, 1, 2}
    assert [step.state for step in report.witness.way.steps] == [1]


def test_key_gets_one_row_of_every_part_of_a_dict_of_columns():
    obs, next_obs = (
        {"cell": np.array(cells), "noise": np.random.default_rng(0).random(3)} for cells in ([0, 1, 1], [1, 1, 2])
    )
    report = pbim.audit(obs=obs, next_obs=next_obs, key=lambda row: int(row["cell"]), **WAY)
    assert set(report.potential) == {0, 1, 2}


def test_key_and_features_are_two_questions():
    with pytest.raises(pbim.InputError, match="features must be left out where key= tells states apart"):
        pbim.audit(obs=[0, 1, 1], next_obs=[1, 1, 2], key=int, features=np.atleast_2d, **WAY)


def test_parts_of_observations_have_one_length():
    with pytest.raises(pbim.InputError, match=r"obs must have parts of one length, received 'a' of 3, 'b' of 4"):
        pbim.audit(obs={"a": [0, 1, 1], "b": [0, 1, 1, 1]}, next_obs={"a": [1, 1, 2], "b": [1, 1, 2]}, **WAY)


def test_large_pays_elsewhere_do_not_hide_a_cycle_that_pays():
    report = pbim.audit(
        obs=[0, 1, 1, 5, 6], next_obs=[1, 1, 2, 6, 7], term=[0, 1e-3, 0, 1e12, 1e12],
        terminated=[False, False, True, False, True], gamma=0.9,
    )  # fmt: skip
    assert not report.potential_based
    assert "1 -> 1 pays 0.001 in each round" in str(report.witness)


def test_the_smallest_pays_are_paid_too():
    report = pbim.audit(
        obs=[0, 1, 1], next_obs=[1, 1, 2], term=[0, 1e-300, 0], terminated=[False, False, True], gamma=0.9
    )
    assert "1 -> 1 pays 1e-300 in each round" in str(report.witness)


# --- what the report calls them ---


def test_parts_of_an_observation_are_named_and_images_are_their_rows():
    parts = [{"row": cell, "col": (0, cell)} for cell in range(3)]
    images = [np.full((7, 7, 3), cell) for cell in range(3)]
    for table, words in (
        (parts, "(col=(0, 1), row=1) -> (col=(0, 1), row=1) pays 0.5"),
        (images, "obs[1] -> obs[1] pays 0.5 in each round (row 1)"),
    ):
        report = pbim.audit(
            obs=[table[0], table[1], table[1]], next_obs=[table[1], table[1], table[2]], term=[0, 0.5, 0],
            terminated=[False, False, True], gamma=0.9,
        )  # fmt: skip
        assert words in str(report.witness)
    assert "-> next_obs[2] (the end)" in str(report.witness)


# --- what was tested ---


def test_a_term_that_never_pays_was_not_tested(tmp_path, monkeypatch, capsys):
    columns = {"obs": [0, 1, 1], "next_obs": [1, 1, 2], "term": [0.0] * 3, "terminated": [False, False, True]}
    report = pbim.audit(**columns, gamma=0.9)
    assert (report.potential_based, report.tested, report.coverage.paid) == (True, False, 0)
    assert str(report).startswith("NOT TESTED: the term is 0")
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **columns)
    assert main(["audit", "log.npz"]) == 1
    assert "Record episodes in which it pays" in capsys.readouterr().out


def test_the_coverage_of_continuous_observations_is_counted_too():
    rng = np.random.default_rng(0)
    walks = rng.random((40, 11, 2)).cumsum(axis=1)
    obs, next_obs = walks[:, :-1].reshape(-1, 2), walks[:, 1:].reshape(-1, 2)
    ended = np.tile(np.arange(10) == 9, 40)
    report = pbim.audit(
        obs=obs, next_obs=next_obs, term=next_obs[:, 0], terminated=ended, episode=np.arange(400) // 10, gamma=0.9
    )
    coverage = report.coverage
    assert report.class_name
    assert (coverage.states, coverage.components, coverage.ends) == (440, 40, 40)
    assert coverage.checks == 200
