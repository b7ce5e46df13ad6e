"""The readings of the paper that two DoorKey studies vary: each is what its name says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pbim import residuals
from pbim.agents.conversion import convert, ledger_ends
from pbim.intrinsic import EpisodicCount, Spec, Transition
from pbim.shaping import PBIM, InexactPBIM
from pbim.studies import STUDIES
from pbim.studies.doorkey import SETTINGS, TABLE
from pbim.studies.doorkey_baselines import COUNTS, VARIANTS, CellCount
from pbim.studies.doorkey_readings import READINGS


def walk(bonus, cells, over, keys=9):
    """Return what a bonus pays for walks (T, num_envs) whose episodes are over where ``over``."""
    never = jnp.zeros(over.shape[1:], bool)
    step = Transition(jnp.asarray(cells[0]), never * 0, jnp.asarray(cells[0]), never, never, {})
    state = bonus.init(jax.random.key(0), Spec(example=step._replace(info={"count_key": step.obs}), num_keys=keys))
    paid = []
    for cell, end in zip(cells, over, strict=True):
        now = step._replace(truncated=jnp.asarray(end), info={"count_key": jnp.asarray(cell)})
        paid.append(np.asarray(bonus.reward_fn(state, now)))
        state = bonus.update_fn(state, now)
    return np.array(paid)


def test_the_studys_count_is_the_librarys_until_something_is_varied():
    rng = np.random.default_rng(0)
    cells, over = rng.integers(0, 9, (60, 3)), rng.random((60, 3)) < 0.1
    expected = walk(EpisodicCount(alpha=0.5, key="count_key"), cells, over)
    np.testing.assert_allclose(walk(CellCount(alpha=0.5), cells, over), expected)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, [1, 1 / 2, 1, 1, 1 / 2, 1]),
        ({"resets": False}, [1, 1 / 2, 1, 1 / 3, 1 / 4, 1 / 2]),
        ({"stays": False}, [1, 0, 1, 1, 0, 1]),
        ({"resets": False, "stays": False}, [1, 0, 1, 1 / 2, 0, 1 / 2]),
    ],
)
def test_counts_by_hand(changes, wanted):
    """Cells 4, 4, 5 of one episode and 4, 4, 5 of the next."""
    cells, over = np.array([[4], [4], [5], [4], [4], [5]]), np.array([[0], [0], [1], [0], [0], [0]], bool)
    np.testing.assert_allclose(walk(CellCount(alpha=1.0, **changes), cells, over)[:, 0], wanted)


def test_the_readings_are_five_of_which_one_is_exact():
    study = STUDIES["doorkey-readings"]
    assert len(study.cells) == 5 * 2 * 3 * 2
    assert {cell.params["reading"] for cell in study.cells if cell.learner.exact} == {"printed"}
    assert {reading: type(shaping) for reading, (_, shaping, _) in READINGS.items()} == {
        "printed": PBIM,
        "start": InexactPBIM,
        "end": InexactPBIM,
        "undiscounted": InexactPBIM,
        "rollout": PBIM,
    }
    for cell in study.cells:
        assert cell.learner.env.reward == ("minigrid" if cell.name.endswith("-decayed") else "paper")
        assert cell.learner.shaping.normalize is ("no-norm" not in cell.name)
        assert cell.learner.total_frames == 3_000_000
    part = study.sized(only=("start-pbim",), seeds=1)
    assert [cell.name for cell in part.cells] == [
        f"start-pbim-{setting}{reward}" for reward in ("", "-decayed") for setting in SETTINGS
    ]


@pytest.mark.parametrize("name", ["doorkey-readings", "doorkey-baselines"])
def test_every_cell_is_judged_by_its_row_of_the_papers_table(name):
    study = STUDIES[name]
    claims = {claim.id: claim for claim in study.claims}
    for cell in study.cells:
        scheme = cell.scheme.partition("-")[2] if name == "doorkey-readings" else cell.scheme.partition("-")[0]
        if "goal-reset" in cell.name:  # its episodes of one step would look like success
            assert not any(claim.cell == cell.name for claim in study.claims)
            continue
        time, mean, _ = TABLE[cell.group.removesuffix("-decayed")][scheme]
        assert claims[f"{name}-{cell.name}-solves"].kind == ("never" if time is None else "reaches")
        assert claims[f"{name}-{cell.name}-length"].value == mean


@pytest.mark.parametrize("reading", sorted(set(READINGS) - {"printed"}))
def test_a_reading_at_full_length_is_the_papers_study_with_another_pbim(reading):
    study, printed, short = STUDIES[f"doorkey-{reading}"], STUDIES["doorkey"], STUDIES["doorkey-readings"]
    assert [cell.name for cell in study.cells] == [cell.name for cell in printed.cells]
    assert [claim.statement for claim in study.claims] == [claim.statement for claim in printed.claims]
    for ours, theirs in zip(study.cells, printed.cells, strict=True):
        if "pbim" not in ours.scheme:
            assert ours == theirs
            continue
        assert not ours.learner.exact
        learner = short.cell(f"{reading}-{ours.name}").learner
        changed = {field for field in vars(learner) if getattr(ours.learner, field) != getattr(learner, field)}
        assert changed == {"total_frames"}


def test_every_baseline_differs_from_the_base_in_one_thing():
    cells = {cell.name: cell.learner for cell in STUDIES["doorkey-baselines"].cells}
    for scheme, variants in (("im", VARIANTS | COUNTS), ("none", VARIANTS)):
        for variant in variants:
            base, learner = cells[f"{scheme}-base-025-995"], cells[f"{scheme}-{variant}-025-995"]
            changed = {field for field in vars(base) if getattr(base, field) != getattr(learner, field)}
            expected = {"intrinsic"} if variant in COUNTS else set(VARIANTS[variant][1])
            assert changed == expected, variant
    assert cells["im-base-025-995"].shaping.kind == "raw"


def test_a_reading_leaves_in_the_episode_what_its_weights_do_not_take_back():
    """The same counts through every reading, in two rollouts that cut the last of four episodes."""
    study, left = STUDIES["doorkey-readings"], {}
    bonus, ended = (
        1 / (1 + jnp.arange(80.0) % 20)[:, None].repeat(2, 1),
        (jnp.arange(80) % 20 == 19)[:, None].repeat(2, 1),
    )
    for reading in READINGS:
        config = study.cell(f"{reading}-pbim-no-norm-005-99").learner
        state, shaped = config.shaping.init(2, like=bonus), []
        for rows in (slice(0, 70), slice(70, 80)):
            end = ledger_ends(config, ended[rows], jnp.zeros_like(ended[rows]))
            state, part = convert(config, state, bonus[rows], end)
            shaped.append(part)
        left[reading] = np.asarray(residuals(jnp.concatenate(shaped), ended, config.gamma)).reshape(4, 2)[:, 0]
    assert np.abs(left["printed"]).max() < 1e-5
    assert (left["undiscounted"] > 0.1).all()  # weights of 1 take back most of what weights that do not grow can
    assert (left["start"] > left["undiscounted"]).all()
    assert (left["end"] > left["undiscounted"]).all()
    assert np.abs(left["rollout"][:3]).max() < 1e-5
    assert left["rollout"][3] > 0.1  # what the rollout before it paid is not taken back
