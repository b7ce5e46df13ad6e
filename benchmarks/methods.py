"""Training DoorKey-8x8 by every method of the study ``alternatives``: time on the core per frame, against no bonus.

All run in one process on one core and take turns, so that a busy machine slows all of them alike.
"""

import time
from statistics import median
from typing import Any

from benchmarks._timing import one_core

GROUP = "025-995"
SCHEMES = (
    *("none", "im", "pies-500k", "eipo", "adops", "adopes", "bsrs", "two-critics", "rnd-two-critics"),
    *("pbim", "grm", "geometric"),
)
"""Those that differ in more than a number."""


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure the schemes of one setting of the study."""
    import jax

    from pbim.agents import ppo
    from pbim.studies import STUDIES

    with one_core() as core:
        cells = {cell.scheme: cell for cell in STUDIES["alternatives"].cells if cell.group == GROUP}
        runs = {}
        for scheme in SCHEMES:
            learner = cells[scheme].learner
            carry = ppo.init(learner, jax.random.key(0))
            runs[scheme] = carry, ppo.update_chunk.lower(learner, carry, 2).compile()
        seconds: dict[str, list[float]] = {scheme: [] for scheme in runs}
        for _ in range(3 if quick else 9):
            for scheme, (carry, program) in runs.items():
                start = time.process_time()
                carry, metrics = program(carry)
                jax.block_until_ready(metrics)  # type: ignore[no-untyped-call]
                seconds[scheme].append(time.process_time() - start)
                runs[scheme] = carry, program
    frames = 2 * cells["none"].learner.frames
    return {
        "benchmark": "methods",
        "quick": quick,
        "core": core,
        "cases": [
            {
                "scheme": scheme,
                "frames_per_core_second": round(frames / median(spent)),
                "time_per_frame": round(median(a / b for a, b in zip(spent, seconds["none"], strict=True)), 2),
            }
            for scheme, spent in seconds.items()
        ],
    }
