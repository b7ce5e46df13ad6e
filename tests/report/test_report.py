"""From a folder to a page: complete, escaped, the same every time, without JAX, and honest about what is missing."""

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pbim.cli import main
from pbim.report import build
from pbim.report.evidence import gather
from pbim.report.tables import run_csv
from pbim.results import CHECKSUMS, Column, Corrupt, Store, write_json
from report.stores import CELLS, certificate, claim, write_cliff, write_doorkey

VOID = {"meta", "link", "img", "input", "br"}


class Balanced(HTMLParser):
    """Fails on an element that is not closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.ids = [], []

    def handle_starttag(self, name, attributes):
        if name not in VOID:
            self.open.append(name)
        self.ids += [value for key, value in attributes if key == "id"]

    def handle_endtag(self, name):
        assert self.open.pop() == name


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])


@pytest.fixture(scope="module")
def cliff(tmp_path_factory):
    folder = write_cliff(
        tmp_path_factory.mktemp("store") / "cliff", unfinished=[("rnd", 4)], failed=[("pbim-no-norm", 1)]
    )
    return build(folder)


@pytest.fixture(scope="module")
def doorkey(tmp_path_factory):
    return build(write_doorkey(tmp_path_factory.mktemp("store") / "doorkey"))


@pytest.mark.parametrize("name", ["cliff", "doorkey"])
def test_the_page_is_well_formed_and_asks_nobody_for_anything(name, request):
    page = request.getfixturevalue(name)
    parser = Balanced()
    parser.feed(page.read_text())
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    outside = re.findall(
        r'(?:src|href)="(?!data:|#)[^"]*"|url\((?!data:)|@import|\bfetch\(|XMLHttpRequest', page.read_text()
    )
    assert outside == []


def test_a_cliff_page_shows_every_part_verdicts_first(cliff):
    page = cliff.read_text()
    order = re.findall(r'<section id="(\w+)"', page)
    assert order == ["verdicts", "curves", "cells", "policies", "certificates", "sensitivity", "runs", "provenance"]
    for said in ("Of 4 claims", "18 of 20 runs finished", "1 run failed", "1 run not finished", "not promised"):
        assert said in page
    assert page.count("reproduced</span>") >= 3
    for cell in gather(cliff.parents[1]).study.cells:
        assert cell.label in page


def test_what_the_store_says_is_text_and_never_markup(cliff, tmp_path):
    assert "&lt;b&gt;out of memory&lt;/b&gt;" in cliff.read_text()
    evil = "</script><script>alert(1)</script>"
    page = build(
        write_cliff(tmp_path / "evil", seeds=1, episodes=20, title=evil, claims=[claim(statement=evil, id=evil)])
    )
    assert evil not in page.read_text()


def test_every_run_of_the_plan_is_in_the_table_and_in_the_csv(cliff):
    evidence = gather(cliff.parents[1])
    lines = run_csv(evidence).splitlines()
    assert len(lines) == 1 + 20
    assert [line.split(",")[4] for line in lines[1:]].count("done") == 18
    page = cliff.read_text()
    assert all(seen.run.key in page for seen in evidence.runs)


def test_curves_keep_every_seed_and_are_thinned(cliff):
    charts = data_of(cliff)["groups"][0]["charts"]
    assert [chart["metric"] for chart in charts] == ["return", "length"]
    seeds = {series["label"]: series["seeds"] for series in charts[0]["series"]}
    assert seeds == {
        "No IM": [0, 1, 2, 3, 4],
        "PBIM": [0, 1, 2, 3, 4],
        "PBIM, no norm": [0, 2, 3, 4],
        "RND": [0, 1, 2, 3],
    }
    assert all(len(values) <= 400 for chart in charts for series in chart["series"] for values in series["values"])


def test_binned_curves_keep_the_mean(cliff):
    import numpy as np

    run = Store(cliff.parents[1]).runs()[0]
    values = data_of(cliff)["groups"][0]["charts"][0]["series"][0]["values"][0]
    assert np.mean(values) == pytest.approx(run.metrics()["return"].mean(), rel=1e-3)


def test_figures_are_written_as_svg_and_pdf_with_the_same_bytes_every_time(cliff):
    folder = cliff.parent / "figures"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    stems = {"curve-return", "curve-length", "policies", "heat-1-final_return"}
    assert set(before) == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")}
    page = cliff.read_bytes()
    assert build(cliff.parents[1]) == cliff
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert cliff.read_bytes() == page


def test_a_doorkey_page_has_the_papers_table_replays_and_a_chart_a_setting(doorkey):
    page = doorkey.read_text()
    assert page.count('data-gif="data:image/gif;base64,') == 6
    assert "The paper&#x27;s table beside ours" in page
    assert "N/A" in page
    assert "(0 of 3)" in page  # no seed of no IM converged in the hard setting
    assert [group["label"] for group in data_of(doorkey)["groups"]] == [
        "alpha .005, gamma .99",
        "alpha .025, gamma .995",
    ]
    assert len(list((doorkey.parent / "figures").glob("curve-*-length.svg"))) == 2


def test_a_smoke_size_says_so_in_every_output(tmp_path, capsys):
    folder = write_cliff(tmp_path / "quick", seeds=3, episodes=40, quick=True)
    assert main(["report", str(folder)]) == 0
    assert "(smoke size)" in capsys.readouterr().out
    page = (folder / "report" / "index.html").read_text()
    assert "Smoke size:" in page
    assert page.count('class="smoke"') == 4
    assert all(row.startswith("smoke size,") for row in run_csv(gather(folder)).splitlines()[1:])


def test_two_seeds_decide_nothing_and_draw_nothing_that_is_not_a_number(tmp_path):
    page = build(write_cliff(tmp_path / "two", seeds=2, episodes=40)).read_text()
    assert page.count("a verdict needs 3 seeds per cell, received 2") == 4
    assert "nan" not in re.sub(r"[A-Za-z]nan|nan[A-Za-z]", "", page.split('<script type="application/json"')[0])


def test_building_a_report_loads_no_jax(cliff):
    code = (
        f"import sys; from pbim.cli import main; main(['report', {str(cliff.parents[1])!r}, '--json']); "
        "print(sorted({'jax', 'torch', 'gymnasium', 'equinox'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    found = json.loads(told)
    assert found["page"] == str(cliff)
    assert found["verdicts"][0]["verdict"] == "reproduced"
    assert len(found["figures"]) == 8


def test_the_page_goes_where_it_is_told(cliff, tmp_path, capsys):
    target = tmp_path / "new" / "page.html"
    assert main(["report", str(cliff.parents[1]), "--out", str(target)]) == 0
    assert capsys.readouterr().out.endswith(f"{target}\n")
    assert target.read_bytes() == cliff.read_bytes()


def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path, capsys):
    empty = write_cliff(tmp_path / "empty", seeds=1, episodes=20, unfinished=[(cell, 0) for cell in CELLS])
    damaged = write_cliff(tmp_path / "damaged", seeds=1, episodes=20)
    broken = Store(damaged).runs()[2].folder / "metrics.parquet"
    broken.write_bytes(b"not parquet")
    status = write_cliff(tmp_path / "status", seeds=1, episodes=20)
    (Store(status).runs()[0].folder / "status.json").write_text("{")
    cases = {tmp_path: "study.json", empty: "0 of 4", damaged: str(broken), status: "status.json"}
    for folder, said in cases.items():
        assert main(["report", str(folder)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert said in captured.err
        assert captured.err.count("\n") == 1
        assert not (folder / "report").exists()
    with pytest.raises(Corrupt, match=r"metrics\.parquet"):
        build(damaged)
    whole = write_cliff(tmp_path / "whole", seeds=1, episodes=20)
    assert main(["report", str(whole), "--out", str(tmp_path)]) == 2
    assert "out must name a file" in capsys.readouterr().err


def test_a_run_without_a_column_is_named(tmp_path):
    folder = write_cliff(tmp_path / "old", seeds=1, episodes=20)
    store = Store(folder)
    store.write_plan(replace(store.plan(), curves=(Column(metric="speed", label="Speed"),)))
    with pytest.raises(Corrupt, match=r"it has no 'speed'.*run pbim reproduce again, which sets it aside"):
        build(folder)


def test_maps_of_one_statistic_share_their_colours(tmp_path):
    from pbim.report.heat import heat_maps

    maps = [
        {"title": name, "x": "learning_rate", "y": "encoding", "statistic": "final_return", "cells": [name]}
        for name in ("none", "rnd")
    ]
    high, low = heat_maps(gather(write_cliff(tmp_path / "maps", seeds=2, episodes=40, heat=maps)))
    assert high.bounds == low.bounds == (*low.means.values(), *high.means.values())
    assert list(low.counts.values()) == [2]


def test_runs_that_cells_share_count_once(tmp_path):
    folder = write_cliff(tmp_path / "shared", seeds=2, episodes=40)
    study = Store(folder).plan()
    twin = replace(study.cells[0], name="none-again")
    Store(folder).write_plan(replace(study, cells=(*study.cells, twin)))
    evidence = gather(folder)
    assert (evidence.done, evidence.planned, len(evidence.runs)) == (8, 8, 10)


def test_verdicts_for_a_terminal(cliff):
    from pbim.report import verdicts

    rows = verdicts(cliff.parents[1])
    assert [row["verdict"] for row in rows] == ["reproduced", "reproduced", "reproduced", "not reproduced"]
    assert rows[2]["ours"] == "5 of 5 seeds (57% to 100%)"
    assert all(row["rule"] and row["statement"] and row["paper"] for row in rows)


def test_overflows_are_named_and_nothing_is_drawn_where_there_is_no_grid(tmp_path):
    folder = write_cliff(tmp_path / "plain", seeds=3, episodes=40, grid=None)
    changes = {"pbim": {"worst": float("inf"), "ok": False}, "none": {"worst": 0.0, "episodes": 0, "ok": False}}
    for run in Store(folder).runs():
        if run.seed < 2 or run.cell == "none":
            (run.folder / CHECKSUMS).unlink()
            write_json(run.folder / "certificate.json", certificate(**changes.get(run.cell, {})))
    page = build(folder).read_text()
    assert "policies" not in re.findall(r'<section id="(\w+)"', page)
    assert "no: overflowed in 2 of 3 runs" in page
    assert "no episode ended" in page
    assert ">∞<" in page


def test_names_are_text_in_pictures_tables_and_spreadsheets_too(tmp_path):
    folder = write_cliff(tmp_path / "names", seeds=2, episodes=40, title="$\\frac{1}$ [/b]")
    study = Store(folder).plan()
    strange = ('=HYPERLINK("http://x")', "@SUM(A1)", "+1", "-1")
    cells = tuple(
        replace(cell, name=name, label=f"${name}$ \\oops", group=name)
        for cell, name in zip(study.cells, strange, strict=True)
    )
    Store(folder).write_plan(replace(study, cells=cells, claims=(), heat=()))
    build(folder)
    rows = list(csv.reader(run_csv(gather(folder)).splitlines()))[1:]
    assert {row[1] for row in rows} == {row[2] for row in rows} == {f"'{name}" for name in strange}
    assert any(float(row[7]) < 0 for row in rows)  # numbers stay numbers
