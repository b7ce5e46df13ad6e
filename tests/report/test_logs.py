"""Runs read from the logs that other tools leave: the same figures whatever the format."""

import csv
import json

import numpy as np
import pytest

from pbim.errors import InputError
from pbim.report import build, logs
from pbim.report.evidence import gather
from pbim.report.page import render
from pbim.results import comparisons

STEPS = np.arange(1, 41) * 250.0


def course(seed, gain=1.0):
    rng = np.random.default_rng(seed)
    return {"step": STEPS, "return": gain * STEPS / STEPS[-1] + rng.normal(0, 0.01, 40), "length": 100 - STEPS / 200}


def as_csv(path, rows, names=("step", "return", "length"), head=""):
    with path.open("w", newline="") as file:
        file.write(head)
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*rows.values(), strict=True))


def plain(folder, rows):
    as_csv(folder / "log.csv", rows)


def progress(folder, rows):
    as_csv(folder / "progress.csv", rows, ("time/total_timesteps", "rollout/ep_rew_mean", "rollout/ep_len_mean"))


def rllib(folder, rows):
    with (folder / "result.json").open("w") as file:
        for step, score, length in zip(*rows.values(), strict=True):
            inner = {"episode_return_mean": score, "episode_len_mean": length, "ok": True}
            file.write(json.dumps({"num_env_steps_sampled_lifetime": step, "env_runners": inner, "node": "a"}) + "\n")


def tensorboard(folder, rows):
    writer = pytest.importorskip("tensorboard.summary").Writer(str(folder))
    for step, score, length in zip(*rows.values(), strict=True):
        writer.add_scalar("charts/episodic_return", score, step=int(step))
        writer.add_scalar("charts/episodic_length", length, step=int(step))
    writer.close()


def training(folder, rows):
    with (folder / "metrics.jsonl").open("w") as file:
        for step, score, length in zip(*rows.values(), strict=True):
            row = {"frames": step, "extrinsic_return": score, "shaping_return": 9.0, "length": length, "gap": None}
            file.write(json.dumps(row) + "\n")
        file.write('{"frames": 99')  # killed as it was written


@pytest.mark.parametrize("write", [plain, progress, rllib, tensorboard, training])
def test_every_format_tells_the_same_run(write, tmp_path):
    rows = course(0)
    write(tmp_path, rows)
    found = logs.read(tmp_path).rows
    for name in rows:
        np.testing.assert_allclose(found[name], rows[name], rtol=1e-6, err_msg=name)


def test_the_episodes_of_several_monitors_are_merged_in_time(tmp_path):
    for index in range(2):
        episodes = {"r": [index, index + 10], "l": [5, 5], "t": [1.0 + index, 3.0 + index]}
        as_csv(tmp_path / f"{index}.monitor.csv", episodes, ("r", "l", "t"), head='#{"t_start": 0}\n')
    found = logs.read(tmp_path).rows
    assert found["step"].tolist() == [5, 10, 15, 20]
    assert found["return"].tolist() == [0, 1, 10, 11]


def test_the_tasks_own_return_is_preferred(tmp_path):
    names = ("time/total_timesteps", "rollout/ep_rew_mean", "pbim/extrinsic_return")
    as_csv(tmp_path / "progress.csv", {"step": [1, 2], "paid": [9, 9], "task": [0.5, 1]}, names)
    log = logs.read(tmp_path)
    assert log.column == "pbim/extrinsic_return"
    assert log.rows["return"].tolist() == [0.5, 1]


def test_of_rows_with_one_step_the_last_counts_and_holes_are_left_out(tmp_path):
    rows = {"step": [1, 2, 2, 3, 4], "return": [0, 1, 5, float("nan"), 7], "length": [1, 1, 1, 1, 1]}
    as_csv(tmp_path / "a.csv", rows)
    assert logs.read(tmp_path).rows["return"].tolist() == [0, 5, 7]


def test_runs_are_cut_where_the_shortest_ends_and_compared(tmp_path):
    cells = {}
    for name, gain in (("raw", 1.0), ("converted", 2.0)):
        for seed in range(4):
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            plain(folder, course(seed, gain) if seed else {k: v[:30] for k, v in course(seed, gain).items()})
            cells.setdefault(name, []).append(logs.read(folder))
    evidence = logs.evidence(cells, claims=comparisons({name: name for name in cells}))
    assert "Cut at 7,500 steps" in evidence.study.summary
    assert [verdict.word for verdict in evidence.verdicts] == ["supported", "supported"]
    final, mean = evidence.verdicts
    late, everything = STEPS[:30] > 0.9 * 7500, slice(None)
    for verdict, rows in ((final, late), (mean, everything)):
        expected = (STEPS[:30] / STEPS[-1])[rows].mean()  # gain 2 minus gain 1
        assert verdict.figure == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "must name files or folders"),
        ("step,score\n1,2\n2,3\n", "column for the return"),
        ("step,return\n1,2\n", "at least 2 rows"),
        ("step,return\n", "at least 2 rows with a step and a return, received .* with 0"),
        ("step,return\n1,nan\n2,nan\n", "at least 2 rows with a step and a return, received .* with 0"),
        ("hello\nworld\n", "with no column of numbers"),
        ("", "readable"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(content, words, tmp_path):
    if content is not None:
        (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=words):
        logs.read(tmp_path)


def test_a_path_is_one_run(tmp_path):
    """A folder of several runs, or one run named twice, would be counted as seeds that nobody trained."""
    for seed in range(2):
        folder = tmp_path / "all" / str(seed)
        folder.mkdir(parents=True)
        rllib(folder, course(seed))
        tensorboard(tmp_path / "tb" / str(seed), course(seed))
    for place in ("all", "tb"):
        with pytest.raises(InputError, match=r"one run per path, received .* with the logs of 2: name each"):
            logs.read(tmp_path / place)
    runs = [logs.read(folder) for folder in (tmp_path / "all").iterdir()]
    with pytest.raises(InputError, match="each run once"):
        logs.evidence({"raw": runs, "converted": runs[:1]})


def test_a_run_whose_return_becomes_nan_says_why_it_ends(tmp_path):
    plain(tmp_path, course(0))
    longer, rows = logs.read(tmp_path), course(1)
    rows["return"][30:] = float("nan")
    (tmp_path / "b").mkdir()
    plain(tmp_path / "b", rows)
    found = logs.evidence({"raw": [longer], "converted": [logs.read(tmp_path / "b")]})
    assert "Cut at 7,500 steps" in found.study.summary
    assert "has its last return (10 rows without one follow)" in found.study.summary


def test_the_page_answers_first(tmp_path):
    cells = {}
    for name, gain in (("raw", 1.0), ("converted", 2.0), ("none", 1.0)):
        for seed in range(4):
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            plain(folder, course(seed, gain))
            cells.setdefault(name, []).append(logs.read(folder))
    found = logs.evidence(cells, claims=comparisons({name: name for name in cells}))
    top = render(found).partition('class="tiles"')[0]
    assert "Learns faster, by the return over the whole training: converted than none and raw." in top
    assert "Ends better, by the return of the last tenth: converted than none and raw." in top
    assert found.headline in top
    alone = logs.evidence({name: runs[:1] for name, runs in cells.items()}, claims=found.study.claims)
    assert "Ends better, by the return of the last tenth: undecided." in render(alone)


def test_a_column_can_be_named_and_must_exist(tmp_path):
    (tmp_path / "a.csv").write_text("step,score\n1,2\n2,3\n")
    assert logs.read(tmp_path, {"return": "score"}).rows["return"].tolist() == [2, 3]
    with pytest.raises(InputError, match="return_name must be a column"):
        logs.read(tmp_path, {"return": "none"})


def test_a_run_of_train_has_a_report(tmp_path):
    training(tmp_path, course(0))
    assert gather(tmp_path).done == 1
    assert "pbim train" in build(tmp_path).read_text()
