"""``pbim train`` and ``pbim watch``: what is written, what is refused, and that resuming changes nothing."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from pbim._files import alone
from pbim.agents import BSRS, EIPO, TwoCritics, ppo
from pbim.agents.ppo import PPO
from pbim.cli import main
from pbim.cli.train import Train
from pbim.cli.watch import Watch
from pbim.errors import InputError
from pbim.shaping import GRM, Raw, recommended
from pbim.training import checkpoint
from pbim.training.run import CHECKPOINT, METRICS, SETTINGS
from pbim.training.saved import load_run, start_from

QUICK = {
    "--intrinsic": "count",
    "--shaping": "geometric",
    "--num-envs": 2,
    "--num-steps": 8,
    "--minibatch-size": 8,
    "--chunk": 1,
    "--checkpoint-every": 2,
    "--evaluate-every": 0,
    "--frames": 64,
}


def quick(*words, env="CliffWalk", **changes):
    """A small run; ``changes`` are options, None leaves one out."""
    options = QUICK | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    pairs = [str(part) for name, value in options.items() if value is not None for part in (name, value)]
    return Train.parse([env, *pairs, *words])


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr("pbim.training.compiled.keep_compiled", lambda: None)


def test_compiled_programs_are_kept_in_the_users_cache(tmp_path, monkeypatch):
    code = "import jax; from pbim.training.compiled import keep_compiled; keep_compiled(); "
    code += "print(jax.config.jax_compilation_cache_dir)"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(tmp_path / "pbim" / "compiled")


def weights(folder):
    return checkpoint.about(folder / CHECKPOINT)["sha256"]


@pytest.mark.parametrize("choice", [{}, {"shaping": None, "method": "eipo"}], ids=["plain", "eipo"])
def test_stopped_and_resumed_is_bit_identical(choice, tmp_path, capsys):
    whole, parts = quick(out=tmp_path / "whole", **choice), quick(out=tmp_path / "parts", frames=32, **choice)
    assert whole.run() == 0
    assert parts.run() == 0
    with (parts.out / METRICS).open("a") as file:
        file.write('{"frames": 48}\n{"fram')  # what a killed run leaves after its last checkpoint
    assert quick("--resume", "--json", out=parts.out, **choice).run() == 0
    assert weights(whole.out) == weights(parts.out)
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = [json.loads(line) for line in (parts.out / METRICS).read_text().splitlines()]
    assert [row["frames"] for row in rows] == [16, 32, 48, 64]
    assert last["peak_memory_mib"] > 100
    assert last["frames"] == 64
    assert np.isfinite(last["entropy"])


def test_evaluation_is_written_and_does_not_touch_training(tmp_path):
    plain, watched = (quick(out=tmp_path / name) for name in ("plain", "watched"))
    watched = replace(watched, evaluate_every=3, evaluation_episodes=2)
    assert plain.run() == watched.run() == 0
    assert weights(plain.out) == weights(watched.out)
    rows = [json.loads(line) for line in (watched.out / METRICS).read_text().splitlines()]
    assert [row["frames"] for row in rows if "evaluation_return" in row] == [48, 64]
    assert rows[-1]["evaluation_length"] <= 50
    script = Path(__file__).parents[2] / "examples" / "learning_curve.py"
    files = [f"--out={tmp_path / 'curve.png'}", f"--csv={tmp_path / 'curve.csv'}"]
    for source in (watched.out, tmp_path / "curve.csv"):
        drawn = subprocess.run([sys.executable, script, source, *files], capture_output=True, text=True)
        assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_adops_and_adopes_come_with_two_critics():
    adops, adopes = quick(shaping="adops").learner, quick(shaping="adopes", rise_frames=99).learner
    assert adops.critics == adopes.critics == "separate"
    assert (adops.method.rise_frames, adopes.method.rise_frames) == (0, 99)
    assert quick().learner.method is None
    assert quick(shaping=None, method="adops").learner == adops


def test_a_method_comes_with_what_it_needs_and_its_fields_are_options():
    eipo = quick(shaping=None, method="eipo", alpha_rate=0.5).learner
    assert (eipo.method, eipo.shaping, eipo.critics) == (EIPO(alpha_rate=0.5), Raw(), "joint")
    two = quick("--episodic", shaping="grm", method="two-critics").learner
    assert (two.method, two.shaping.kind, two.critics) == (TwoCritics(episodic=True), "grm", "separate")
    alone = quick(shaping=None, intrinsic=None, method="bsrs", eta=0.25).learner
    assert (alone.method, alone.shaping.kind) == (BSRS(eta=0.25), "none")


def test_a_bonus_without_a_conversion_gets_the_recommended_one():
    for gamma in (0.9, 0.99, 0.995):
        assert quick(shaping=None, gamma=gamma).learner.shaping == recommended(gamma)
        assert quick(shaping="grm", gamma=gamma).learner.shaping == GRM(gamma=gamma)
    assert quick(shaping=None, intrinsic=None).learner.shaping.kind == "none"


def test_options_are_the_fields_of_the_components():
    learner = quick("--no-normalize", rate=0.3, gamma=0.9, alpha=0.5).learner
    assert (learner.shaping.rate, learner.shaping.gamma, learner.shaping.normalize) == (0.3, 0.9, False)
    assert (learner.gamma, learner.intrinsic_scale) == (0.9, 0.5)
    rnd = quick(intrinsic="rnd", features=16, **{"intrinsic.learning_rate": 0.01}).learner
    assert (rnd.intrinsic.features, rnd.intrinsic.learning_rate, rnd.learning_rate) == (16, 0.01, 1e-3)


@pytest.mark.learning
@pytest.mark.parametrize(
    "kind",
    [
        "count",
        "lifetime-count",
        "action-recency",
        "pseudo-count",
        "rnd",
        "icm",
        "ride",
        "noveld",
        "e3b",
        "disagreement",
        "re3",
        "ngu",
        "empowerment",
    ],
)
def test_every_bonus_trains(kind, tmp_path):
    assert quick(intrinsic=kind, frames=32, out=tmp_path).run() == 0


def test_control_c_while_a_chunk_is_computed_keeps_that_chunk(tmp_path, monkeypatch, capsys):
    """Nothing is raised inside the compiled program: the chunk is finished, recorded and saved."""
    from pbim.agents import ppo

    calls, original = [], ppo.update_chunk

    def interrupted(config, carry, updates):
        calls.append(updates)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(config, carry, updates)

    monkeypatch.setattr(ppo, "update_chunk", interrupted)
    before = signal.getsignal(signal.SIGINT)
    stopped = quick(out=tmp_path / "stopped")
    assert stopped.run() == 130
    assert checkpoint.about(stopped.out / CHECKPOINT)["about"]["frames"] == 32
    assert json.loads((stopped.out / METRICS).read_text().splitlines()[-1])["frames"] == 32
    assert "stopping after this chunk" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_a_folder_in_use_is_refused(tmp_path):
    with alone(tmp_path / "used"), pytest.raises(InputError, match="in use by another pbim"):
        quick(out=tmp_path / "used").run()


def test_what_becomes_of_the_bonus_is_said(tmp_path, capsys):
    quick(out=tmp_path / "a", shaping=None, frames=16).run()
    said = capsys.readouterr().err
    assert "bonus count x 0.025, converted by Geometric" in said
    assert "per episode, before it is converted" in said
    assert "100%" in said  # a line of progress without a terminal
    quick(out=tmp_path / "b", shaping="none", frames=16).run()
    assert "which --shaping none keeps from the learner" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--learning-rate", "nan"),
        ("--learning-rate", "inf"),
        ("--learning-rate", "-1"),
        ("--entropy-coefficient", "nan"),
        ("--alpha", "inf"),
        ("--gae-lambda", "1.5"),
        ("--seed", "100000000000000000000"),
        ("--seed", "-1"),
    ],
)
def test_numbers_that_cannot_train_are_refused(words, tmp_path, capsys):
    assert main(["train", "CliffWalk", "--intrinsic", "count", "--out", str(tmp_path / "x"), *words]) == 2
    assert "must be a" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_damaged_lines_and_settings_are_named(tmp_path, capsys):
    folder = tmp_path / "run"
    assert quick(out=folder, frames=16).run() == 0
    kept = (folder / METRICS).read_bytes()
    (folder / METRICS).write_bytes(b"\xff{ not json\n" + kept)
    with pytest.raises(InputError, match="one JSON object with frames per line"):
        quick("--resume", out=folder, frames=32).run()
    (folder / METRICS).write_bytes(kept)
    for text in ("{", "[]", "{}", '{"seed": 0}', '{"kind": "ppo", "seed": "x"}', "[" * 100_000):
        (folder / SETTINGS).write_text(text)
        assert main(["watch", str(folder), "--out", str(tmp_path / "a.gif")]) == 2, text
        assert "must hold the settings of a run" in capsys.readouterr().err
    assert main(["watch", str(folder), "--episodes", "0", "--out", str(tmp_path / "a.gif")]) == 2
    assert "episodes must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "DorKey-8x8"}, "did you mean 'DoorKey-8x8'"),
        ({"intrinsic": "cuont"}, "did you mean 'count'"),
        ({"shaping": "geometrical"}, "did you mean 'geometric'"),
        ({"minibatch_size": 12}, "minibatch_size must divide"),
        ({"recurrence": 5}, "recurrence must divide"),
        ({"intrinsic": "none"}, "no bonus to convert"),
        ({"method": "eippo"}, "did you mean 'eipo'"),
        ({"method": "eipo", "shaping": "adops"}, "received method eipo too"),
        ({"method": "adops", "shaping": "none"}, "which shaping none keeps from it"),
        ({"skills": 8, "intrinsic": "diayn", "intrinsic.count": 4}, "must pay for the skills of env, 8, received"),
        ({"method": "adops", "critics": "joint"}, "needs two critics"),
        ({"method": "eipo", "intrinsic": "none", "shaping": None}, "needs a bonus"),
        ({"alpha_rate": 0.5}, "must go with --method eipo"),
        ({"eta": 0.5}, "must go with --intrinsic icm or --method bsrs"),
        ({"skills": 1, "intrinsic": "diayn"}, "--skills must be a whole number of at least 2, received 1"),
        ({"words": ["--resume"]}, "has no checkpoint"),
        ({"hidden_size": 10**9}, "the run must fit into .* GiB of memory, it needs at least .* GiB: lower"),
        ({"num_envs": 10**10, "minibatch_size": 10**10 + 2, "recurrence": 1}, "minibatch_size must divide num_envs"),
        ({"env": "CartPole-v1", "num_envs": 10**10, "minibatch_size": 8}, "it needs at least .* GiB: lower --hidden"),
        ({"intrinsic": "re3", "capacity": 2 * 10**9}, "it needs at least .* GiB: lower"),
        ({"chunk": 0}, "chunk"),
        ({"evaluate_every": -1}, "evaluate_every"),
        ({"evaluation_episodes": 0}, "evaluation_episodes"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        quick(*changes.pop("words", ()), out=tmp_path / "run", **changes).run()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_runs_are_not_overwritten_and_not_mixed(tmp_path):
    first = quick(out=tmp_path / "run", frames=16)
    assert first.run() == 0
    before = weights(first.out)
    with pytest.raises(InputError, match="already holds a run"):
        first.run()
    with pytest.raises(InputError, match=r"intrinsic_scale: 0\.025 there, 0\.5 here"):
        quick("--resume", alpha=0.5, out=first.out).run()
    assert weights(first.out) == before


def test_skills_without_a_task_then_a_task_from_the_skills(tmp_path, capsys):
    skills, task = tmp_path / "skills", tmp_path / "task"
    shared = {"skills": 3, "intrinsic": "diayn"}
    first = quick(**shared, shaping=None, task_reward="none", out=skills)
    assert first.learner.shaping == Raw()
    assert first.run() == 0
    assert "by which alone it learns" in capsys.readouterr().err
    rows = [json.loads(line) for line in (skills / METRICS).read_text().splitlines()]
    assert any(row["extrinsic_return"] for row in rows)  # reported, though not learned from
    picture = tmp_path / "skills.png"
    assert Watch(folder=skills, out=picture, episodes=1).run() == 0
    assert picture.read_bytes()[1:4] == b"PNG"

    second = quick(**shared, init_from=skills, out=task)
    source, found = load_run(skills)
    begin = start_from(second.learner, ppo.init(second.learner, jax.random.key(0)), source, found)
    for mine, theirs in ((begin.learner.params, found.learner.params), (begin.world.bonus, found.world.bonus)):
        assert checkpoint.digest(mine) == checkpoint.digest(theirs)
    assert second.run() == 0
    assert load_run(task)[0] == replace(second.learner, total_frames=PPO.total_frames)
    again = quick("--resume", **shared, init_from=skills, out=task, frames=128)
    assert again.run() == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--skills 1 --intrinsic diayn", "--skills must be a whole number of at least 2, received 1"),
        (f"--skills {'9' * 5000} --intrinsic diayn", "--skills must be a whole number of at least 2, received 999"),
        ("--intrinsic count --shaping epio", "did you mean 'eipo'?"),
        ("--skills many --intrinsic diayn", "--skills must be a whole number of at least 2, received many"),
        ("--intrinsic diayn", "needs episodes that follow skills"),
        ("--skills 3000000000 --intrinsic count", "it needs more than can be counted: lower"),
        ("--task-reward none", "leaves the bonus alone to learn from, and there is none"),
        ("--task-reward none --intrinsic count --shaping raw --alpha 0", "and intrinsic_scale is 0"),
        ("--task-reward none --intrinsic count --shaping geometric", "shaping Geometric, rate 0.02 cancels it"),
        ("--task-reward half --intrinsic count", "task_reward must be one of full, none, received 'half'"),
        ("--init-from nowhere", "folder must hold a run of pbim train, received 'nowhere'"),
    ],
)
def test_skills_and_starts_that_cannot_be_are_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "CliffWalk", *words.split(), "--out", "run"]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_another_network_cannot_be_started_from(tmp_path, capsys):
    source = tmp_path / "source"
    assert quick(out=source).run() == 0
    with pytest.raises(InputError, match="same network, received one with obs_shape"):
        quick(env="DoorKey-5x5", init_from=source, out=tmp_path / "other").run()
    assert not (tmp_path / "other").exists()


def test_watch_writes_a_moving_picture(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    trained = quick(out=tmp_path / "run", frames=16)
    assert trained.run() == 0
    assert Watch(folder=trained.out, out=tmp_path / "agent.gif", episodes=1).run() == 0
    with image.open(tmp_path / "agent.gif") as picture:
        assert picture.format == "GIF"
    assert "1 episodes" in capsys.readouterr().out
    with pytest.raises(InputError, match="must hold a run"):
        Watch(folder=tmp_path / "nowhere").run()


def test_a_learner_that_diverges_is_said_and_is_no_success(tmp_path, capsys):
    assert quick(out=tmp_path / "run", learning_rate=1e30, frames=160).run() == 1
    assert "the learner diverged" in capsys.readouterr().err


def test_a_method_that_diverges_names_its_settings(tmp_path, capsys):
    words = {"method": "eipo", "shaping": None, "method.alpha": 1e30, "frames": 160}
    assert quick(out=tmp_path / "run", **words).run() == 1
    assert (
        "--alpha, --method.alpha, --method.alpha-rate, --method.alpha-clip or --reward-scale" in capsys.readouterr().err
    )


def test_a_shorter_last_chunk_is_one_line_and_compiling_is_no_rate(tmp_path, capsys):
    assert quick(out=tmp_path / "run", chunk=3, frames=160, evaluate_every=10, evaluation_episodes=2).run() == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    assert [row["frames"] for row in rows] == [48, 96, 144, 160]
    rates = [row["frames_per_second"] for row in rows]
    assert rates[0] is None
    assert rates[1] > 0
    assert rates[3] == rates[2]  # the last is a program of its own
    last = [line for line in capsys.readouterr().err.splitlines() if line.startswith("100%")]
    assert len(last) == 1
    assert "greedy" in last[0]


def test_help_shows_a_methods_settings_without_a_bonus(capsys):
    with pytest.raises(SystemExit) as stop:
        Train.parse(["--method", "eipo", "--help"])
    assert stop.value.code == 0
    assert "--method.alpha-clip" in capsys.readouterr().out


def test_figures_of_a_run_without_a_checkpoint_are_kept(tmp_path, capsys):
    (tmp_path / METRICS).write_text("mine")
    assert quick(out=tmp_path, frames=16).run() == 0
    assert (tmp_path / "metrics-1.jsonl").read_text() == "mine"
    assert "is now metrics-1.jsonl" in capsys.readouterr().err


def test_the_conversion_by_default_is_made_for_the_learners_lambda():
    for kind in ("geometric", "grm"):
        made = quick(shaping=kind, gamma=0.995, gae_lambda=0.8).learner
        assert (made.shaping, made.gae_lambda) == (recommended(0.995, 0.8, kind), 0.8)
    assert quick(gamma=0.995, gae_lambda=0.8, rate=0.3).learner.shaping.rate == 0.3


def test_the_first_lines_say_how_strongly_the_conversion_guides(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pbim.cli.train._run", lambda *_: 0)  # the first lines come before anything is compiled
    assert main([*WORDS, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    share = recommended(0.99).guidance(0.95, rollout=QUICK["--num-steps"])
    assert f"guidance {share:.2f} at lambda 0.95" in said
    assert "debt up to" in said
    assert "hardly guide" not in said
    words = ["--shaping", "grm", "--delay", "1", "--gae-lambda", "0.99", "--out", str(tmp_path / "weak")]
    assert main([*WORDS, *words]) == 0
    assert "hardly guide this learner: GRM, delay 1 passes on 13% of a bonus" in capsys.readouterr().err
    assert main([*WORDS, "--intrinsic", "none", "--out", str(tmp_path / "none")]) == 0
    assert "guidance" not in capsys.readouterr().err


WORDS = ["train", "CliffWalk", *(str(word) for pair in QUICK.items() if pair[0] != "--shaping" for word in pair)]
