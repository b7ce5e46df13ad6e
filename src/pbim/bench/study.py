"""Running a study with two jobs at once against one: is the second core put to use?

The same runs of the cliff study, from nothing to the last file, programs compiled beforehand; the two take turns.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

SEEDS = 10


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure; ``ratio`` is the median over paired rounds of the seconds with one job over those with two."""
    from pbim.studies import STUDIES, local

    study = STUDIES["cliff"].sized(seeds=SEEDS, only=("rnd",))
    _seconds(study.sized(quick=True), 1)
    rounds = [{jobs: _seconds(study, jobs) for jobs in (1, 2)} for _ in range(1 if quick else 3)]
    return {
        "benchmark": "study",
        "quick": quick,
        "cores": local.cores(),
        "runs": study.seeds,
        "ratio": round(median(seconds[1] / seconds[2] for seconds in rounds), 2),
        "seconds_one_job": round(median(seconds[1] for seconds in rounds), 1),
        "seconds_two_jobs": round(median(seconds[2] for seconds in rounds), 1),
    }


def _seconds(study: Any, jobs: int) -> float:
    """Return how long the study takes with so many processes at once."""
    from pbim.results import key_of
    from pbim.studies import local
    from pbim.studies.job import jobs_of

    with tempfile.TemporaryDirectory() as folder:
        todo = jobs_of(study, {key_of(config) for *_, config in study.runs()}, command="pbim bench study")
        start = time.perf_counter()
        failed = [event for event in local.run(todo, Path(folder), workers=jobs) if event and event.kind == "failed"]
        seconds = time.perf_counter() - start
        if failed:
            raise RuntimeError(f"{failed[0].job.name} failed: {failed[0].error}")
        return seconds


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
