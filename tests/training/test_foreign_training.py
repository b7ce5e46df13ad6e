"""Training on environments of other JAX libraries by name; skipped where the library is absent."""

import json

import pytest

from pbim.cli.train import Train
from pbim.errors import InputError
from pbim.training import checkpoint
from pbim.training.environments import environment
from pbim.training.run import CHECKPOINT, METRICS

NAMES = (
    "gymnax:CartPole-v1",
    "craftax:Craftax-Classic-Symbolic-v1",
    "navix:Navix-DoorKey-5x5-v0",
    "xminigrid:MiniGrid-DoorKey-5x5",
)


@pytest.mark.parametrize("name", NAMES)
def test_they_train_cancel_and_resume_bit_for_bit(name, tmp_path, monkeypatch, record_property):
    pytest.importorskip(name.partition(":")[0])
    monkeypatch.setattr("pbim.training.compiled.keep_compiled", lambda: None)

    def trained(folder, frames, *more):
        words = f"{name} --intrinsic rnd --shaping geometric --num-envs 4 --num-steps 128 --minibatch-size 128"
        words += f" --frames {frames} --chunk 1 --evaluate-every 0 --out {tmp_path / folder}"
        arguments = Train.parse([*words.split(), *more])
        assert arguments.run() == 0
        return arguments.out

    whole, parts = trained("whole", 1536), trained("parts", 512)
    trained("parts", 1536, "--resume")
    rows = [json.loads(line) for line in (whole / METRICS).read_text().splitlines()]
    assert sum(row["episodes"] for row in rows) > 0
    worst = max(row["residual"] for row in rows)
    record_property("adapter", name.partition(":")[0])
    record_property("residual", worst)
    assert worst < 1e-4
    one, two = (checkpoint.about(folder / CHECKPOINT)["sha256"] for folder in (whole, parts))
    assert one == two


def test_small_views_are_flattened():
    pytest.importorskip("xminigrid")
    env = environment("xminigrid:XLand-MiniGrid-R1-9x9")
    assert env.obs_shape == (5 * 5 * 2,)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_names_and_absent_libraries_are_one_sentence(name):
    library = name.partition(":")[0]
    with pytest.raises(InputError, match=f"{library}:NoSuch") as caught:
        environment(f"{library}:NoSuch")
    assert "\n" not in str(caught.value)
