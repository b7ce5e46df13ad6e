"""Studies as data: what the paper says is there, every configuration is complete and builds, claims are decidable."""

import json
import subprocess
import sys
import warnings
from dataclasses import fields, replace

import optax
import pytest

from pbim.config import decode, encode, key_of
from pbim.errors import InputError, RepaymentWarning
from pbim.results import Store
from pbim.studies import STUDIES
from pbim.studies.doorkey import SETTINGS, TABLE

ALL = pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))


@ALL
def test_a_plan_names_its_runs_and_survives_the_store(study, tmp_path):
    plan = study.plan(command="pbim reproduce", version="0", commit=None)
    Store(tmp_path).write_plan(plan)
    assert Store(tmp_path).plan() == plan
    names = {cell.name for cell in plan.cells}
    groups = {group.name for group in plan.groups}
    assert all(cell.group in groups and cell.runs for cell in plan.cells)
    assert [len(cell.runs) for cell in plan.cells] == [study.seeds_of(cell) for cell in study.cells]
    for claim in plan.claims:
        assert {claim.cell, claim.other or claim.cell} <= names
        assert claim.rule.startswith("Reproduced if" if claim.paper else "Supported if")
        assert "{" not in claim.rule
        assert (claim.margin is not None) == (claim.kind in ("less", "greater", "equal", "no-less", "estimate"))
        assert bool(claim.reason) == (claim.margin is not None)
    for heat in plan.heat:
        params = [plan.cell(name).params for name in heat.cells]
        places = [(found[heat.x], found[heat.y]) for found in params]
        assert len(set(places)) == len(places) == len(heat.cells), "one cell per square"


def test_the_alternatives_are_those_of_the_related_work_with_their_cost():
    """Every scheme says what it costs to run and to tune; what differs in a number only costs what the other does."""
    study = STUDIES["alternatives"]
    controls = {"two-critics-episodic", "none-half-entropy", "grm-half-entropy", "eipo-fast"}
    assert {cell.name for cell in study.cells if cell.scheme in controls} == {f"{name}-025-995" for name in controls}
    schemes = {cell.scheme: cell for cell in study.cells if cell.scheme not in controls}
    assert len(study.cells) == len(SETTINGS) * len(schemes) + len(controls)
    halves = {f"raw-{part}" for part in (2, 4, 8)}
    others = {"none", "im", "pies-500k", "pies-1500k", "eipo", "adops", "adopes", "bsrs", "two-critics"}
    assert schemes.keys() == halves | others | {"rnd-two-critics", "pbim", "grm", "geometric"}
    for name, cell in schemes.items():
        assert cell.learner.total_frames == 2_000_000
        assert cell.params["compute"] > 0, name
        assert (cell.params["settings"] == 0) is (name == "none")
    assert study.seeds >= 5
    asked = {(claim.cell, claim.statistic) for claim in study.claims}
    assert asked >= {(cell.name, "frames_to_solve") for cell in schemes.values()}
    assert asked >= {(cell.name, "final_length") for cell in study.cells if cell.scheme != "none"}


@ALL
def test_equal_keys_are_equal_runs_and_other_configurations_have_other_keys(study):
    found = {}
    for _, _, config in study.runs():
        assert found.setdefault(key_of(config), config) == config
    assert len(found) >= sum(map(study.seeds_of, study.cells)) * 0.9


@ALL
def test_a_configuration_says_every_setting_and_is_its_learner_again(study):
    """Short form and defaults together are all fields, and decoding either form gives the learner back."""
    for cell in study.cells:
        document = json.loads(json.dumps(cell.document(0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepaymentWarning)
            assert decode(document["learner"]) == decode(encode(cell.learner)) == cell.learner
        said = set(document["learner"]) | {name.split(".")[0] for name in document["defaults"]}
        assert {field.name for field in fields(cell.learner)} | {"kind"} == said


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
    assert len(STUDIES["doorkey"].paper.rows) == 12


def test_no_bonus_at_one_gamma_is_one_run_for_both_alphas():
    study = STUDIES["doorkey"]
    keys = {cell.name: key_of(cell.document(0)) for cell in study.cells}
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
    assert [cell.learner.total_frames for cell in one.cells] == [4096]
    assert [row.cell for row in one.paper.rows] == ["pbim-005-99"]


def test_a_part_of_a_study_may_be_a_group():
    cells = STUDIES["doorkey"].sized(only=("005-99", "pbim-025-995")).cells
    assert [cell.name for cell in cells] == [cell.name for cell in STUDIES["doorkey"].cells[:4]] + ["pbim-025-995"]


def test_a_cell_may_have_seeds_of_its_own_which_a_size_overrides():
    study = STUDIES["doorkey-conversions"]
    seeds = {cell.name: study.seeds_of(cell) for cell in study.cells}
    assert (seeds["pbim-025-995"], seeds["pbim-005-99"]) == (10, 5)
    few = study.sized(seeds=2)
    assert {few.seeds_of(cell) for cell in few.cells} == {2}
    assert {study.sized(quick=True).seeds_of(cell) for cell in study.sized(quick=True).cells} == {3}


def test_the_base_reading_of_the_cliff_walks_has_seeds_that_nobody_had_seen():
    for name in ("cliff", "cliff-long"):
        study, first = STUDIES[name].sized(seeds=2), STUDIES[f"{name}-orthogonal"].sized(seeds=2)
        assert {seed for _, seed, _ in study.runs()} == {100, 101}
        assert {seed for _, seed, _ in first.runs()} == {0, 1}
        plan = study.plan(command="", version="", commit=None)
        assert [run.seed for run in plan.cells[0].runs] == [100, 101]
        assert [cell.name for cell in study.cells] == [cell.name for cell in first.cells]
        for cell, old in zip(study.cells, first.cells, strict=True):
            if cell.learner.intrinsic is not None:
                assert (cell.learner.intrinsic.init_scheme, old.learner.intrinsic.init_scheme) == (
                    "torch",
                    "orthogonal",
                )
                assert cell.learner.intrinsic.optimizer is optax.sgd


def test_smoke_size_is_another_configuration():
    quick = STUDIES["cliff"].sized(quick=True)
    assert quick.quick
    assert quick.seeds == 3
    full = {key_of(config) for *_, config in STUDIES["cliff"].runs()}
    assert not full & {key_of(config) for *_, config in quick.runs()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds must be from 1 to 10,000"),
        ({"only": ("pbin",)}, "did you mean 'pbim'"),
        ({"frames": 5}, "frames is for the DoorKey studies"),
    ],
)
def test_bad_sizes_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        STUDIES["cliff"].sized(**changes)


def test_a_grid_that_is_not_of_its_cells_is_refused():
    study = STUDIES["cliff"]
    with pytest.raises(InputError, match=r"grid of cliff must have the states .* received \(48, 4\) and \(200, 4\)"):
        replace(study, cells=STUDIES["cliff-long"].cells, claims=())


def test_studies_and_their_workers_warn_of_nothing():
    """Some cells owe much on purpose: whoever imports a study, or runs it, made none of them."""
    code = """if True:
        import warnings
        from pbim.errors import RepaymentWarning
        warnings.simplefilter("error", RepaymentWarning)
        from pbim.config import decode, encode
        from pbim.studies import STUDIES
        for study in STUDIES.values():
            for cell in study.cells:
                decode(encode(cell.learner.shaping))
    """
    subprocess.run([sys.executable, "-c", code], check=True)
