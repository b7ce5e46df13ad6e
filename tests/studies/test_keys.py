"""Published run keys stay valid: a study's plan of today names the rows that were published."""

import json
from pathlib import Path

import pytest

from pbim.results import key_of
from pbim.studies import STUDIES
from pbim.studies.study import config_of

PUBLISHED = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_still_names_the_runs_that_were_published(name):
    study = STUDIES[name]
    published = json.loads((PUBLISHED / name / "study.json").read_text())["cells"]
    assert {cell["name"] for cell in published} <= {cell.name for cell in study.cells}
    for cell in published:
        keys = [key_of(config_of(study, study.cell(cell["name"]), run["seed"])) for run in cell["runs"]]
        assert keys == [run["key"] for run in cell["runs"]], cell["name"]
