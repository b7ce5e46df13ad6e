"""From a results folder to one page: statistics over seeds, verdicts on the paper's claims, figures, HTML.

Reads what ``pbim.results`` stores and nothing else: no learner, no environment, no JAX.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbim.report.evidence import Evidence

FOLDER, PAGE, FIGURES = "report", "index.html", "figures"


def build(path: str | Path, *, out: str | Path | None = None) -> Path:
    """Write the report of a study's folder and return the page's path (``out``, by default ``report/index.html``).

    The figures go to ``report/figures`` beside the runs. Raises ``InputError`` where there is nothing to report.
    """
    from pbim.report.evidence import gather

    return write(gather(path), path, out=out)[0]


def verdicts(path: str | Path) -> list[dict[str, Any]]:
    """Return the claims of a study's folder, decided: the claim's own fields, and verdict, ours, n, p, seeds, note."""
    from pbim.report.evidence import gather
    from pbim.report.verdict_table import row

    return [row(verdict) for verdict in gather(path).verdicts]


def write(evidence: "Evidence", path: str | Path, *, out: str | Path | None = None) -> tuple[Path, list[Path]]:
    """Write the page and the figures of what was gathered from ``path``; returns the page and the figures."""
    from pbim._files import replacing
    from pbim.report.figures import write_figures
    from pbim.report.page import render

    page = Path(out) if out is not None else Path(path) / FOLDER / PAGE
    html = render(evidence)
    figures = write_figures(evidence, Path(path) / FOLDER / FIGURES)
    with replacing(page) as file:
        file.write(html.encode())
    return page, figures
