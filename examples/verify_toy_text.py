"""Three verdicts on Gymnasium's own toy-text environments: does a count bonus change what is optimal?

Run it with ``python examples/verify_toy_text.py``; it takes a few seconds and needs ``pbim[gymnasium]``.
"""

from fractions import Fraction

import gymnasium

import pbim
from pbim.verification import FiniteMDP, verify
from pbim.verification.bonuses import count

GAMMA = Fraction(99, 100)
CASES = {  # environment: horizon, bonus coefficient, and a start state (None: the environment's own)
    "FrozenLake-v1": (8, Fraction(1, 10), None),
    "CliffWalking-v1": (6, Fraction(4), 34),  # just above the cliff, two steps from the goal
    "Taxi-v4": (5, Fraction(40), 116),  # the passenger is on board, one street from where they want to go
}


def main() -> None:
    """Print, for each environment, the verdict on the raw bonus and on the same bonus through PBIM."""
    for name, (horizon, alpha, start) in CASES.items():
        mdp = FiniteMDP.from_toy_text(gymnasium.make(name), gamma=GAMMA, initial=start)
        bonus = count(mdp, alpha)
        print(f"== {name}, up to {horizon} steps, {mdp.count_histories(horizon):,} histories")
        for shaping in (pbim.Raw(), pbim.PBIM(gamma=GAMMA)):
            report = verify(mdp, intrinsic=bonus, shaping=shaping, horizon=horizon)
            verdict = "preserved" if report.preserved else "NOT preserved"
            print(f"{type(shaping).__name__:<5} {verdict} ({report.expanded:,} histories after merging)")
            worst = report.costly or report.counterexample
            if worst is not None:
                print(f"      {worst.why}")
        print()


if __name__ == "__main__":
    main()
