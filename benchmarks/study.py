"""Running a study with two jobs at once against one: is the second core put to use?

The same runs of the cliff study, from nothing to the last file, programs compiled beforehand; the two take turns.
"""

import json
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

SEEDS = 10


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure; ``ratio`` is the median over paired rounds of the seconds with one job over those with two.

    ``core_ratio`` is that of the seconds their cores worked: 1 means that two jobs do not hinder each other, whatever
    else the machine does meanwhile.
    """
    from pbim.studies import STUDIES, local

    study = STUDIES["cliff"].sized(seeds=SEEDS, only=("rnd",))
    _compile(study)
    rounds = [{jobs: _seconds(study, jobs) for jobs in (1, 2)} for _ in range(1 if quick else 3)]
    return {
        "benchmark": "study",
        "quick": quick,
        "cores": local.cores(),
        "runs": study.seeds,
        **{name: round(median(r[1][i] / r[2][i] for r in rounds), 2) for i, name in enumerate(("ratio", "core_ratio"))},
        "seconds": {jobs: round(median(r[jobs][0] for r in rounds), 1) for jobs in (1, 2)},
        "core_seconds": {jobs: round(median(r[jobs][1] for r in rounds), 1) for jobs in (1, 2)},
    }


def _compile(study: Any) -> None:
    """Start a job and end it as soon as its program, which JAX keeps, has run."""
    from pbim.studies import local

    with tempfile.TemporaryDirectory() as folder, closing(local.run(_jobs(study)[:1], Path(folder))) as events:
        next(event for event in events if event and event.kind == "progress")


def _seconds(study: Any, jobs: int) -> tuple[float, float]:
    """Return how long the study takes with so many processes at once, by the clock and on the cores."""
    from pbim.studies import local

    with tempfile.TemporaryDirectory() as folder:
        start, busy = time.perf_counter(), _busy()
        events = list(local.run(_jobs(study), Path(folder), workers=jobs))
        seconds = time.perf_counter() - start, _busy() - busy
    failed = [event for event in events if event and event.kind == "failed"]
    if failed:
        raise RuntimeError(f"{failed[0].job.name} failed: {failed[0].error}")
    return seconds


def _jobs(study: Any) -> list[Any]:
    from pbim.results import key_of
    from pbim.studies.job import jobs_of

    return list(jobs_of(study, {key_of(config) for *_, config in study.runs()}, command="python -m benchmarks study"))


def _busy() -> float:
    """Return the processor time of the processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
