"""``pbim report``: a study's results as one page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from pbim._extras import REPORT, require
from pbim.errors import InputError

if TYPE_CHECKING:
    from pbim.report.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class WriteReport:
    """Write the results of a study as one HTML file, with the verdicts first.

    The page has curves, tables, policies, certificates and every run. It needs no network. The figures are beside it as
    SVG and PDF.

    Example: pbim report out/cliff
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """The folder that pbim reproduce, compare, train or --publish wrote. Runs may be missing."""
    out: Path | None = None
    """The file to write. Without it: report/index.html in the folder."""
    publish: Path | None = None
    """Write a small copy of the results into this folder, or add them to the runs there; it gives the same page."""
    json: bool = False
    """Print one JSON object: the verdicts and the files."""

    def run(self) -> int:
        """Write the page, print the verdicts and return the exit code."""
        require("pbim report", *REPORT, extra="report")
        from pbim.report import write
        from pbim.report.archive import is_archive, publish
        from pbim.report.evidence import gather

        if self.out is not None and self.out.is_dir():
            raise InputError(
                f"out must name a file, received the folder {str(self.out)!r}: add a name such as cliff.html"
            )
        adds = self.publish is not None and is_archive(self.publish) and not is_archive(self.folder)
        evidence = gather(self.folder, earlier=gather(self.publish) if adds and self.publish else None)
        try:
            if self.publish is not None:
                publish(evidence, self.publish)
                evidence = gather(self.publish)  # the page says what the copy holds
            page, figures = write(evidence, self.publish or self.folder, out=self.out)
        except OSError as error:
            raise InputError(f"the report could not be written ({error}): choose another --out or make room") from None
        say(evidence, page, figures, as_json=self.json)
        return 0


def say(evidence: "Evidence", page: Path, figures: Sequence[Path], *, as_json: bool) -> None:
    """Print the verdicts and where the page is."""
    from pbim.report.verdict_table import row

    smoke = evidence.study.quick
    if as_json:
        verdicts = [row(verdict) for verdict in evidence.verdicts]
        found = {"page": str(page), "figures": [str(file) for file in figures], "headline": evidence.headline}
        print(json.dumps({**found, "smoke": smoke, "done": evidence.done, "verdicts": verdicts}))
        return
    for claim in map(row, evidence.verdicts):
        print(f"{claim['word']}{' (smoke size)' if smoke else ''}: {claim['statement']}")
        paper = f"paper: {claim['paper']}" if claim["paper"] else ""
        print("    " + "; ".join(filter(None, (paper, f"ours: {claim['ours']}", claim["note"]))))
        print(f"    rule: {claim['rule']}")
    print(f"{evidence.headline}\n{page}")
