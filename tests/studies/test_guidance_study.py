"""The study of the guidance law: what it compares is what the law says is equal, and parts of it can be run."""

from dataclasses import replace

import pytest

from pbim.results import Claim
from pbim.studies import STUDIES
from pbim.studies.guidance import DELAYS, LAMBDAS
from pbim.studies.guidance_transfer import RULE

STUDY = STUDIES["guidance"]


def guidance(name: str) -> float:
    learner = STUDY.cell(name).learner
    return learner.shaping.guidance(learner.gae_lambda)


def claims(number: int, kind: str) -> list[Claim]:
    return [claim for claim in STUDY.claims if claim.id.startswith(f"guidance-{number}-") and claim.kind == kind]


def test_every_lambda_has_every_delay_the_same_guidance_geometrically_and_none():
    assert len(STUDY.cells) == len(LAMBDAS) * (2 * len(DELAYS) + 1)
    assert {(study.seeds, cell.learner.total_frames) for study in (STUDY,) for cell in study.cells} == {(5, 1_000_000)}
    for gae_lambda in LAMBDAS:
        for delay in DELAYS:
            one, other = f"grm-{delay}-{gae_lambda:g}", f"geometric-{delay}-{gae_lambda:g}"
            assert guidance(one) == pytest.approx(1 - gae_lambda**delay)
            assert guidance(other) == pytest.approx(guidance(one), rel=1e-3)
            assert STUDY.cell(one).params["guidance"] == pytest.approx(guidance(one), abs=1e-6)
        assert STUDY.cell(f"none-{gae_lambda:g}").learner.gae_lambda == gae_lambda


def test_a_group_is_a_lambda():
    part = STUDY.sized(only=("lambda-0.7",))
    assert {cell.learner.gae_lambda for cell in part.cells} == {0.7}
    assert len(part.cells) == 2 * len(DELAYS) + 1
    assert len(part.claims) == len(DELAYS) + 5  # claims 1 and 3 stay within a lambda
    assert {claim.id.split("-")[1] for claim in part.claims} == {"1", "3"}


def test_the_four_claims_compare_what_they_say():
    assert len(claims(1, "equal")) == len(LAMBDAS) * len(DELAYS)
    for claim in claims(1, "equal") + claims(2, "equal"):
        assert guidance(claim.cell) == pytest.approx(guidance(claim.other), rel=0.11)
    assert all(guidance(claim.cell) < 0.5 for claim in claims(2, "equal"))
    for claim in claims(2, "less"):
        one, other = STUDY.cell(claim.cell), STUDY.cell(claim.other)
        assert one.params["delay"] == other.params["delay"] <= 16
        assert one.learner.gae_lambda < other.learner.gae_lambda
    for claim in claims(3, "no-less"):
        assert STUDY.cell(claim.cell).params["delay"] > STUDY.cell(claim.other).params["delay"]
        assert guidance(claim.other) >= 0.97
    for claim in claims(3, "less"):
        assert STUDY.cell(claim.other).params["delay"] >= 4 * STUDY.cell(claim.cell).params["delay"]
    assert {STUDY.cell(claim.other).learner.gae_lambda for claim in claims(4, "less")} == {0.95}


def test_the_coefficient_is_swept_over_two_decades_at_a_fixed_guidance():
    study = STUDIES["guidance-alpha"]
    for group in study.groups:
        cells = [cell for cell in study.cells if cell.group == group.name]
        assert len({cell.params["guidance"] for cell in cells}) == 1
        alphas = [cell.learner.intrinsic.alpha for cell in cells]
        assert max(alphas) / min(alphas) == pytest.approx(100)


def test_a_critic_sees_the_ledger_in_one_cell_alone():
    cells = STUDIES["guidance-critic"].cells
    assert [cell.learner.critic_input for cell in cells] == ["observation", "observation", "ledger"]
    assert replace(cells[2].learner, critic_input="observation") == cells[1].learner
    assert all(cell in STUDY.cells for cell in cells[:2])


def test_the_rule_is_one_constant():
    for cell in STUDIES["guidance-transfer"].cells:
        if cell.scheme == "rule":
            assert cell.learner.gae_lambda == RULE.gae_lambda
            assert cell.learner.shaping.guidance(RULE.gae_lambda) >= RULE.guidance
            assert cell.learner.shaping.gamma == cell.learner.gamma
    for cell in STUDIES["guidance-tabular"].cells:
        if cell.scheme == "rule":
            assert cell.learner.shaping.debt(steps=1000).worst == pytest.approx(1 / 0.99), "the shortest delay"
