"""What one sees: bars and a table on a terminal, lines elsewhere, smoke size said in both."""

from pbim.studies import STUDIES
from pbim.studies.display import Display
from pbim.studies.job import Event, Job, Progress

STUDY = STUDIES["cliff"].sized(seeds=2, only=("pbim",), quick=True)
JOB = Job(cell="pbim", configs=tuple(STUDY.cells[0].document(seed) for seed in range(2)))
ONE, TWO = JOB.keys


def shown(terminal):
    display = Display(terminal=terminal)
    with display.console.capture() as capture, display.showing(STUDY, 2, 0):
        display.update(Event(JOB, "started"))
        display.update(Event(JOB, "progress", Progress(ONE, 30, 60, 900, {"return": -50.0, "length": 12.0})))
        if terminal:
            display.console.print(display)
        display.update(Event(JOB, "progress", Progress(TWO, 60, 60, 99, {"return": 41.0, "length": 13.0}, (), True)))
        display.update(Event(JOB, "lost"))
        display.update(None)
    assert display.finished == 1
    assert display.share == 0.75
    return capture.get()


def test_plain_lines_elsewhere():
    said = shown(False)
    assert "smoke size" in said
    assert "[1/2] pbim seed 1: return 41.00, length 13.0, 99 steps; about" in said
    assert "no answer" in said
    assert "\x1b" not in said


def test_bars_and_a_table_on_a_terminal():
    said = shown(True)
    assert "smoke size" in said
    assert "50%" in said
    assert "-50.00" in said


def test_verdicts_are_a_table():
    display = Display(terminal=False)
    row = {"word": "undecided", "statement": "It works", "paper": "p < .05", "ours": "3.1"}
    own = {"word": "supported", "statement": "So does this", "paper": None, "ours": "2.7"}
    with display.console.capture() as capture, display.showing(STUDY, 2, 2):
        display.verdicts([row, row, own])
    said = capture.get()
    assert "It works" in said
    assert "not in the paper" in " ".join(said.split())
    assert "None" not in said
    assert "2 undecided, 1 supported (smoke size" in said


def test_a_run_without_a_finished_episode_shows_no_nan():
    display = Display(terminal=False)
    nothing = {"return": float("nan"), "length": float("nan")}
    with display.console.capture() as capture, display.showing(STUDY, 2, 0):
        display.update(Event(JOB, "progress", Progress(TWO, 60, 60, 99, nothing, (), True)))
    assert "no episode finished yet, 99 steps" in capture.get()
    assert "nan" not in capture.get()
