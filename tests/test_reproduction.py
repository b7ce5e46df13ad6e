"""The published pages say what the published rows say, and nothing of the plan is left out."""

import importlib.util
import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars
import pytest

from pbim.config import key_of
from pbim.report.evidence import gather
from pbim.report.tables import cell_table
from pbim.results import Run, Status

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")  # as when the script runs
        yield loaded()


def loaded():
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


def test_no_line_starts_with_a_number_that_is_filled_in(pages):
    """A line that starts with a comment ends the paragraph: the rest of it would be read as HTML."""
    for page in pages.PAGES:
        assert not re.search(r"^\s*<!--=", page.read_text(), re.M), page.name


def test_the_reproduction_is_read_in_minutes():
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs/reproduction.md").read_text(), flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    assert len(re.findall(r"\S*[A-Za-z]\S*", "\n".join(lines))) <= 2500


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


def test_the_table_of_alternatives_waits_for_its_rows_and_shows_six_measures(pages, monkeypatch):
    """Rows of another study stand in: the difference to no bonus is of the means, the last columns are the plan's."""
    assert "Not run yet" in pages.alternatives("025-995") or "alternatives" in PUBLISHED
    real = pages.evidence_of("doorkey-conversions")
    cells = tuple(
        replace(cell, params={**cell.params, "compute": 1.25, "settings": place})
        for place, cell in enumerate(real.study.cells)
    )
    stand_in = replace(real, study=replace(real.study, cells=cells))
    assert str(cell_table(stand_in)).count(">1.25<") == len(cells)
    assert "Time per frame" not in str(cell_table(real))
    monkeypatch.setattr(pages, "evidence_of", lambda _: stand_in)
    monkeypatch.setattr(pages, "published", lambda: ["alternatives"])
    head, _, *rows = pages.alternatives("025-995").splitlines()
    assert [name.strip() for name in head.split("|")[3:-1]] == [
        *("Frames to solve", "Final length", "Gap", "Gap less that of no bonus", "Time per frame", "Settings")
    ]
    found = {row.split("|")[1].strip(): [part.strip() for part in row.split("|")[2:-1]] for row in rows}
    gaps = {name: float(parts[3].split(" ")[0]) for name, parts in found.items() if parts[3][0].isdigit()}
    assert found["No IM"][4] == "–"
    for name, parts in found.items():
        assert parts[5] == "1.25"
        if name != "No IM":
            said = float(parts[4].split(" ")[0].replace("−", "-"))
            assert said == pytest.approx(gaps[name] - gaps["No IM"], abs=0.1)


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


def test_the_figure_of_the_readings_is_about_the_planned_statistic_and_the_decided_difference(pages):
    from reproduction_figures import MARKED, reading_points

    study = "cliff-sensitivity"
    points = {point.cell.name: point for point in reading_points(pages.evidence_of(study))}
    assert set(MARKED) <= set(points)
    for name in MARKED:
        spread = pages._values(study, name, "bonus_spread")
        control = pages._values(study, "none-rate0.1-cap50", "final_return")
        assert points[name].spread == pytest.approx(spread.mean(), rel=1e-5)
        difference = pages._values(study, name, "final_return").mean() - control.mean()
        assert points[name].verdict.figure == pytest.approx(difference)
        assert pages.made(f"ours {study} {name}").startswith(pages.number(difference))
    rows = pages.spreads(study).splitlines()[2:]
    assert len(rows) == len(points)
    before, after = ([float(row.split(" | ")[place].replace(",", "")) for row in rows] for place in (2, 3))
    middle = [one + other for one, other in zip(before, after, strict=True)]
    assert all(low <= high * 1.001 for low, high in pairwise(middle))
    with pytest.raises(SystemExit, match="has no claim pbmi"):
        pages.made(f"ours {study} pbmi")
