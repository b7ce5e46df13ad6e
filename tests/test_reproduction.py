"""The published pages say what the published rows say, and nothing of the plan is left out."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import polars
import pytest

from pbim.config import key_of
from pbim.report.evidence import gather
from pbim.results import Run, Status

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("reproduction", ROOT / "scripts" / "reproduction.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLISHED = sorted(path.parent.name for path in (ROOT / "docs/results").glob("*/runs.parquet"))


def test_tables_and_numbers_equal_the_rows(pages):
    asked = 0
    for page in pages.PAGES:
        text = page.read_text()
        assert pages.filled(text) == text, f"{page.name} is stale: make results"
        asked += len(pages.BLOCK.findall(text)) + len(pages.VALUE.findall(text))
    assert asked > 10


def test_a_changed_row_changes_the_page(pages, tmp_path, monkeypatch):
    study, cell = "cliff-orthogonal", "none"
    shutil.copytree(pages.RESULTS / study, tmp_path / study, ignore=shutil.ignore_patterns("SHA256SUMS"))
    rows = polars.read_parquet(tmp_path / study / "runs.parquet")
    shifted = rows.with_columns(polars.col("final_return") + 1)
    shifted.write_parquet(tmp_path / study / "runs.parquet")
    before = pages.mean(study, cell, "final_return")
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    pages.evidence_of.cache_clear()
    assert pages.mean(study, cell, "final_return") != before
    pages.evidence_of.cache_clear()


@pytest.mark.parametrize("study", PUBLISHED)
def test_every_row_is_of_a_planned_run_and_names_its_configuration_and_commit(study):
    plan = json.loads((ROOT / "docs/results" / study / "study.json").read_text())
    keys = {run["key"] for cell in plan["cells"] for run in cell["runs"]}
    rows = polars.read_parquet(ROOT / "docs/results" / study / "runs.parquet")
    assert set(rows["key"]) <= keys
    assert rows["key"].is_unique().all()
    for row in rows.iter_rows(named=True):
        config = json.loads(row["config"])
        assert key_of(config) == row["key"]
        assert config["seed"] == row["seed"]
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"])
    assert not plan["quick"]


@pytest.mark.parametrize("study", PUBLISHED)
def test_exact_conversions_cancelled_in_every_published_run_but_where_pbim_overflowed(study):
    evidence = gather(ROOT / "docs/results" / study)
    for cell, runs in evidence.cells():
        for entry in runs:
            if entry.done and cell.exact and entry.certificate.episodes:
                overflowed = study == "held-out" and cell.scheme == "pbim" and entry.certificate.overflowed
                assert entry.certificate.ok or overflowed, (cell.name, entry.run.seed, entry.certificate)


def test_published_files_name_no_folder_of_the_machine_that_made_them():
    for path in (ROOT / "docs/results").rglob("*"):
        if path.suffix in (".json", ".html", ".csv", ".svg"):
            assert not re.search(r"/(work|home|root|tmp)/", path.read_text()), path


def test_hours_in_which_nothing_ran_and_runs_side_by_side_count_once(pages):
    def run(key, end, seconds, **config):
        status = Status(state="done", finished=f"2026-01-01T{end}+00:00", seconds=seconds, steps=1_000_000)
        return Run(key=key, folder=Path(), config={"learner": config, "defaults": {}}, status=status)

    lanes = [run(f"lane {lane}", "02:00:00", 360.0, lanes=5) for lane in range(5)]  # one program, from 1:30 to 2:00
    alone = [
        run("inside", "01:50:00", 600.0),
        run("over the end", "02:30:00", 2700.0),
        run("later", "05:00:00", 1800.0),
    ]
    assert pages._spent([*lanes, *alone], planned=9) == ["8 of 9", "0", "8.0 M", "1.50"]


def test_a_table_of_some_cells_has_these(pages):
    some, every = (pages.cells("cliff-orthogonal", names, "final_return").splitlines() for names in ("none,pbim", "-"))
    assert [row.split("|")[1].strip() for row in some[2:]] == ["No IM", "PBIM"]
    assert set(some) < set(every)
    with pytest.raises(SystemExit, match="no cell pbmi"):
        pages.cells("cliff-orthogonal", "none,pbmi", "final_return")


def test_an_unknown_wish_is_named(pages):
    with pytest.raises(SystemExit, match="known are"):
        pages.made("nothing")


def test_readings_share_claims_and_their_counts_add_up(pages):
    lines = pages.readings("base_one=cliff", "first=cliff-orthogonal").splitlines()
    assert lines[0] == "| claim | paper | base one | first |"
    claims = [line.split(" | ") for line in lines[2:-1]]
    evidence = pages.evidence_of("cliff").verdicts
    assert len(claims) == len(evidence)
    marks = [claim[2][0] for claim in claims]
    by_hand = [sum(v.verdict == word for v in evidence) for word in ("reproduced", "not reproduced", "undecided")]
    assert [marks.count(mark) for mark in "✓✗?"] == by_hand
    assert pages.tallies("base_one=cliff").splitlines()[-1] == f"| base one | {' | '.join(map(str, by_hand))} |"
