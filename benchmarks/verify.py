"""How many histories a second the verifier judges, in floats and in Fractions: the last line is one JSON object.

Run it with ``python benchmarks/verify.py --histories 1000000``. The bonus is a plain Python function of the history,
so nothing merges; one core does all the work.
"""

import argparse
import json
import resource
import sys
import time
from fractions import Fraction

import pbim
from pbim.verification import verify
from pbim.verification.gallery import grid


def measure(histories: int, *, exact: bool) -> dict[str, float | int | bool]:
    """Return counts, seconds, peak memory and the verdict on a long corridor."""
    gamma = Fraction(9, 10) if exact else 0.9
    alpha = Fraction(1, 10) if exact else 0.1
    moves = ("left", "right", "wait", "up")
    mdp = grid(["S" + "." * 13 + "G"], gamma=gamma, endings={"G": 1}, step_reward=-1, actions=moves)
    horizon = next(steps for steps in range(1, 30) if mdp.count_histories(steps) >= histories)
    began, began_cpu = time.perf_counter(), time.process_time()
    report = verify(
        mdp,
        intrinsic=lambda history: alpha / history[::2].count(history[-1]),
        shaping=pbim.PBIM(gamma=gamma),
        horizon=horizon,
        exact=exact,
        max_histories=10 * histories,
        progress=False,
    )
    seconds = time.perf_counter() - began
    return {
        "preserved": report.preserved,
        "histories": report.histories,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(time.process_time() - began_cpu, 2),
        "histories_per_second": round(report.histories / seconds),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    """Print one line a measurement and the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=1_000_000)
    histories = parser.parse_args().histories
    results = {"float": measure(histories, exact=False), "exact": measure(histories, exact=True)}
    for name, result in results.items():
        print(f"{name}: {result['histories']:,} histories in {result['seconds']} s", file=sys.stderr)
    print(json.dumps(results))
    return 0 if all(result["preserved"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
