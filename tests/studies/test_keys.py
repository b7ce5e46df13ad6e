"""Published run keys stay valid: a study's plan of today names the rows that were published, defaults included."""

import json
from pathlib import Path

import polars
import pytest

from pbim.config import key_of
from pbim.results import Store
from pbim.studies import STUDIES

PUBLISHED = Path(__file__).parents[2] / "docs" / "results"


NAMES = [name for name in STUDIES if (PUBLISHED / name).exists()]


def test_every_published_store_has_a_study():
    assert {path.parent.name for path in PUBLISHED.glob("*/study.json")} == set(NAMES)
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_study_still_names_the_runs_that_were_published(name):
    study = STUDIES[name]
    published = Store(PUBLISHED / name).plan().cells
    assert {cell.name for cell in published} <= {cell.name for cell in study.cells}
    for cell in published:
        today = study.cell(cell.name)
        keys = [key_of(today.document(run.seed)) for run in cell.runs]
        assert keys == [run.key for run in cell.runs], cell.name
        assert cell.exact == today.learner.exact, cell.name


@pytest.mark.parametrize("name", NAMES)
def test_no_default_has_changed_under_a_published_run(name):
    """A key leaves defaults out, so a default that changes would change what a published key means."""
    study = STUDIES[name]
    rows = polars.read_parquet(PUBLISHED / name / "runs.parquet")
    stored = {row["key"]: json.loads(row["config"]) for row in rows.iter_rows(named=True)}
    for _, _, document in study.runs():
        if key_of(document) in stored:
            known = stored[key_of(document)]["defaults"]
            assert known == {field: document["defaults"].get(field) for field in known}
