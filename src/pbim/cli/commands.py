"""The commands of ``pbim`` in the order in which a newcomer meets them, and the page that ``pbim`` alone prints."""

import inspect
import textwrap
from typing import Any

from pbim.cli.audit import Audit
from pbim.cli.catalogue import List
from pbim.cli.compare import Compare
from pbim.cli.completion import Completion
from pbim.cli.procrastination import Procrastination
from pbim.cli.recommend import Recommend
from pbim.cli.report import WriteReport
from pbim.cli.reproduce import Reproduce
from pbim.cli.results import Results
from pbim.cli.train import Train
from pbim.cli.verify import Verify
from pbim.cli.watch import Watch

COMMANDS: dict[str, type[Any]] = {
    "verify": Verify,
    "audit": Audit,
    "recommend": Recommend,
    "train": Train,
    "watch": Watch,
    "compare": Compare,
    "reproduce": Reproduce,
    "results": Results,
    "report": WriteReport,
    "procrastination": Procrastination,
    "list": List,
    "completion": Completion,
}

_HEAD = """usage: pbim COMMAND [options]

pbim keeps your exploration bonus and provably keeps your task.

A bonus (counts, RND, ICM, a dense term) helps an agent learn, but it can change
which policy is best. pbim converts the bonus so that the best policies stay the
same, and checks that they did.

First steps:
  Example: pbim verify --shaping raw    a count bonus changes what is best
           pbim verify                  converted, it does not: a proof
           pbim recommend               the conversion that suits your learner
           pbim list                    all conversions, bonuses and studies

Commands:
"""
_FOOT = """
Options:
  -h, --help         show this page; pbim COMMAND --help explains a command
  --version          show the version
"""


def overview() -> str:
    """Return what ``pbim`` alone prints: what it is for, first steps, and one line per command."""
    lines = []
    for name, cls in COMMANDS.items():
        summary = (inspect.getdoc(cls) or "").split("\n\n")[0]
        lines += textwrap.wrap(summary, 79, initial_indent=f"  {name:<18} ", subsequent_indent=" " * 21)
    return _HEAD + "\n".join(lines) + "\n" + _FOOT.rstrip()
