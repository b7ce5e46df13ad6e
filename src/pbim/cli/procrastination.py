"""``pbim procrastination``: does it pay to stall before finishing?"""

import json
from dataclasses import dataclass
from pathlib import Path

from pbim.cli.verify import NOT_PRESERVED, PRESERVED, number, refuse, save
from pbim.errors import InputError
from pbim.verification.numbers import shown
from pbim.verification.procrastination import procrastination_map, stalling_gain, visits_worth_stalling


@dataclass(frozen=True, kw_only=True)
class Procrastination:
    """Compute whether a count bonus makes it pay to wait before the goal (the paper's appendix).

    Exit code 0: waiting does not pay. 1: it pays. 2: bad input.

    Example: pbim procrastination --alpha 0.025 --n 3
    """

    alpha: str = "0.02"
    """What the bonus is multiplied by."""
    gamma: str = "0.995"
    """The discount."""
    n: int = 1
    """Visits to the tile so far, this one included."""
    t: int = 1
    """The number of steps to wait."""
    map: Path | None = None
    """Draw a map over alpha and gamma into this file."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Print the answer and return the exit code."""
        return run_procrastination(self)


def run_procrastination(args: Procrastination) -> int:
    """Run ``pbim procrastination``: exit code 1 when stalling pays, 0 when it does not, 2 for bad input."""
    try:
        alpha, gamma = number("alpha", args.alpha), number("gamma", args.gamma)
        gain = stalling_gain(alpha, gamma, args.n, args.t)
        if args.map is not None:
            save(procrastination_map, args.map)
    except InputError as error:
        return refuse(error, as_json=args.json)
    visits = visits_worth_stalling(alpha, gamma)
    if args.json:
        data = {"alpha": float(alpha), "gamma": float(gamma), "n": args.n, "t": args.t}
        print(json.dumps({**data, "pays": gain > 0, "gain": float(gain), "visits": visits if gamma < 1 else None}))
    else:
        print(
            f"Stalling {args.t} step(s) on a tile visited {args.n} time(s) {'pays' if gain > 0 else 'does not pay'} "
            f"with alpha={shown(alpha)}, gamma={shown(gamma)}: bonus won minus return lost is {shown(gain)}.\n"
            + (
                f"One more step pays up to visit {visits:g} of a tile."
                if visits
                else "It never pays at these settings."
            )
        )
    return NOT_PRESERVED if gain > 0 else PRESERVED
