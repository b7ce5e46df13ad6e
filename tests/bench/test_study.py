"""The benchmark of a study compares the same runs with one and with two jobs. Speed is not a test's business."""

from benchmarks import study


def test_the_ratio_is_of_paired_rounds(monkeypatch):
    asked = []

    def seconds(study, jobs):
        asked.append((study.quick, study.seeds, jobs))
        return 10.0 / jobs, 9.0

    monkeypatch.setattr(study, "_compile", lambda study: asked.append(study.name))
    monkeypatch.setattr(study, "_seconds", seconds)
    found = study.run(quick=True)
    assert found["ratio"] == 2.0
    assert found["core_ratio"] == 1.0
    assert asked == ["cliff", (False, study.SEEDS, 1), (False, study.SEEDS, 2)]
