"""Studies as data: what the paper says is there, every configuration is complete and builds, claims are decidable."""

import json
from dataclasses import fields

import pytest

from pbim.errors import InputError
from pbim.results import key_of
from pbim.studies import STUDIES
from pbim.studies.doorkey import SETTINGS, TABLE

ALL = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


@ALL
def test_a_plan_is_plain_data_that_names_its_runs(study):
    document = json.loads(json.dumps(study.document(command="pbim reproduce", version="0", commit=None)))
    names = {cell["name"] for cell in document["cells"]}
    groups = {group["name"] for group in document["groups"]}
    assert all(cell["group"] in groups and cell["runs"] for cell in document["cells"])
    assert [len(cell["runs"]) for cell in document["cells"]] == [study.seeds_of(cell) for cell in study.cells]
    for claim in document["claims"]:
        assert {claim["cell"], claim["other"] or claim["cell"]} <= names
        assert claim["rule"].startswith("Reproduced if" if claim["paper"] else "Supported if")
        assert "{" not in claim["rule"]
        assert (claim["margin"] is not None) == (claim["kind"] in ("less", "greater", "equal", "estimate"))
        assert bool(claim["reason"]) == (claim["margin"] is not None)
    for heat in document["heat"]:
        params = [cell["params"] for cell in document["cells"] if cell["name"] in heat["cells"]]
        places = [(found[heat["x"]], found[heat["y"]]) for found in params]
        assert len(set(places)) == len(places) == len(heat["cells"]), "one cell a square"


@ALL
def test_equal_keys_are_equal_runs_and_other_configurations_have_other_keys(study):
    found = {}
    for _, _, config in study.runs():
        assert found.setdefault(key_of(config), config) == config
    assert len(found) >= sum(map(study.seeds_of, study.cells)) * 0.9


@ALL
def test_configurations_say_everything_and_build_their_learner(study):
    """No number that determines a run is left to a default, and ``exact`` is what the conversion promises."""
    from pbim.shaping import Level
    from pbim.studies.learners import learner_of

    for cell in study.cells:
        config = {"learner": study.learner, **cell.config, "seed": 0}
        learner = learner_of(config)
        said = set(config) - {"learner", "seed", "lanes"}
        more = {"intrinsic_scale", "advice"} if study.learner == "q_learning" else {"correction"}
        assert {field.name for field in fields(learner)} - more == said - more
        altered = config.get("settlement") == "rollout" or config.get("settle_truncated") is False
        altered |= config["truncation"] == "continue" and config["shaping"]["kind"] == "pbim"  # it never settles
        promises = learner.shaping.guarantee.level is Level.EXACT or config["shaping"]["kind"] == "none"
        assert cell.exact == (promises and not altered)


def test_the_papers_table_is_claimed_whole():
    claims = {claim.id: claim for claim in STUDIES["doorkey"].claims}
    for group in SETTINGS:
        for scheme, (time, mean, deviation) in TABLE[group].items():
            name = f"doorkey-{scheme}-{group}"
            assert claims[f"{name}-T"].value == time
            assert claims[f"{name}-T"].kind == ("never" if time is None else "estimate")
            assert claims[f"{name}-mean"].value == mean
            assert claims[f"{name}-deviation"].value == deviation
        for statistic in ("converged_length", "converged_std"):
            assert claims[f"doorkey-pbim-less-im-{statistic}-{group}"].kind == "less"
    assert claims["doorkey-pbim-less-im-frames_to_converge-025-995"].kind == "less"
    assert len(STUDIES["doorkey"].paper["rows"]) == 12


def test_no_bonus_at_one_gamma_is_one_run_for_both_alphas():
    study = STUDIES["doorkey"]
    keys = {cell.name: key_of(cell.config) for cell in study.cells}
    assert keys["none-02-995"] == keys["none-025-995"] != keys["none-005-99"]


def test_what_two_studies_share_is_one_run():
    chosen, known = STUDIES["doorkey-default"], STUDIES["doorkey-conversions"]
    runs = [{key_of(config): cell.name for cell, _, config in study.runs()} for study in (chosen, known)]
    shared = {runs[0][key] for key in runs[0].keys() & runs[1].keys()}
    assert shared == {"geometric-0.02-025-995", "grm-32-025-995"}


def test_a_part_of_a_study_keeps_what_it_can_decide():
    study = STUDIES["cliff"].sized(seeds=4, only=("pbim", "none"))
    assert [cell.name for cell in study.cells] == ["none", "pbim"]
    assert {claim.id for claim in study.claims} == {
        "cliff-pbim-equals-none",
        "cliff-pbim-shortest",
        "cliff-none-shortest",
    }
    one = STUDIES["doorkey"].sized(only=("pbim-005-99",), frames=4096)
    assert [cell.config["total_frames"] for cell in one.cells] == [4096]
    assert [row["cell"] for row in one.paper["rows"]] == ["pbim-005-99"]


def test_a_cell_may_have_seeds_of_its_own_which_a_size_overrides():
    study = STUDIES["doorkey-conversions"]
    seeds = {cell.name: study.seeds_of(cell) for cell in study.cells}
    assert (seeds["pbim-025-995"], seeds["pbim-005-99"]) == (10, 5)
    few = study.sized(seeds=2)
    assert {few.seeds_of(cell) for cell in few.cells} == {2}
    assert {study.sized(quick=True).seeds_of(cell) for cell in study.sized(quick=True).cells} == {3}


def test_smoke_size_is_another_configuration():
    quick = STUDIES["cliff"].sized(quick=True)
    assert quick.quick
    assert quick.seeds == 3
    full = {key_of(config) for *_, config in STUDIES["cliff"].runs()}
    assert not full & {key_of(config) for *_, config in quick.runs()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"only": ("pbin",)}, "did you mean 'pbim'"),
        ({"frames": 5}, "frames is for the DoorKey studies"),
    ],
)
def test_bad_sizes_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        STUDIES["cliff"].sized(**changes)
