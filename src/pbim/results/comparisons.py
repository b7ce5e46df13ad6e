"""The claims of a comparison, fixed by the names of its cells alone."""

from collections.abc import Mapping

from pbim.results.records import Claim

BASELINES = ("none", "raw")
MEASURED = {
    "final_return": "ends with a higher return of the task than",
    "mean_return": "has a higher return of the task over the whole training than",
}
"""What is compared, and in words."""
BEFORE = "pbim compare: fixed before anything ran"
"""Where the claims of ``pbim compare`` come from."""
AFTER = "pbim compare --logs: fixed by the names, after the runs"
"""Where the claims of ``pbim compare --logs`` come from."""


def comparisons(labels: Mapping[str, str], source: str = BEFORE) -> tuple[Claim, ...]:
    """Return the claims about cells: each above ``none`` and ``raw``, raw above none; else each above the first.

    Args:
        labels: What tables call each cell, by its name.
        source: Whose question it is, and whether it was asked before the runs.

    >>> [claim.id for claim in comparisons({"raw": "Raw", "mine": "Mine"})]
    ['mine-final_return-raw', 'mine-mean_return-raw']

    """
    baselines = [name for name in BASELINES if name in labels] or list(labels)[:1]
    return tuple(
        Claim(
            id=f"{cell}-{statistic}-{base}",
            statement=f"{labels[cell]} {words} {labels[base]}",
            source=source,
            kind="greater",
            cell=cell,
            other=base,
            statistic=statistic,
        )
        for place, base in enumerate(baselines)
        for cell in labels
        if cell not in baselines[: place + 1]
        for statistic, words in MEASURED.items()
    )
