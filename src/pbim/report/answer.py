"""The answer of a comparison in words: who learns faster, who ends better."""

from collections.abc import Mapping, Sequence

from pbim.report.claims import ALPHA, Verdict

QUESTIONS = {
    "mean_return": "Learns faster, by the return over the whole training",
    "final_return": "Ends better, by the return of the last tenth",
}
"""What ``pbim compare`` asks, by the figure that it compares."""


def answer(verdicts: Sequence[Verdict], labels: Mapping[str, str]) -> str:
    """Return what a comparison decided, or nothing if the claims ask something else.

    Args:
        verdicts: All that the study decided.
        labels: What tables call each cell, by its name.

    """
    asked = [
        found
        for found in verdicts
        if found.claim.paper is None and found.claim.kind == "greater" and found.claim.statistic in QUESTIONS
    ]
    if not asked or len(asked) < len(verdicts):
        return ""
    return " ".join(
        f"{words}: {_winners([found for found in asked if found.claim.statistic == figure], labels)}."
        for figure, words in QUESTIONS.items()
    )


def _winners(verdicts: Sequence[Verdict], labels: Mapping[str, str]) -> str:
    better: dict[str, list[str]] = {}
    for found in verdicts:
        one, other = labels[found.claim.cell], labels[str(found.claim.other)]
        if found.corrected < ALPHA:  # a claim may fail without a winner: where no effect is left
            best, rest = (one, other) if found.figure > 0 else (other, one)
            better.setdefault(best, []).append(rest)
    return "; ".join(f"{best} than {' and '.join(rest)}" for best, rest in better.items()) or "undecided"
