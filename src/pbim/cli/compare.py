"""``pbim compare``: conversions of one bonus on one task, over seeds, and the page that decides."""

import json
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from glob import glob
from pathlib import Path
from sys import stderr
from typing import Annotated, Any, Self

import tyro

from pbim._extras import REPORT, STUDIES, require
from pbim.cli import components
from pbim.cli.report import say
from pbim.cli.run_options import DEFAULT_OPTIONS, RunOptions
from pbim.cli.train import ENV, feels, learner_of_words, write_out
from pbim.errors import InputError

DEFAULT = ("none", "raw", "geometric")


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Train one learner with several conversions of a bonus, over seeds, and write a report.

    pbim compare ENV --intrinsic BONUS --shaping CONVERSION CONVERSION ... [options]

    pbim compare --logs NAME=PATH NAME=PATH ...   (runs that you have already; see pbim compare --logs --help)

    ENV and BONUS are those of pbim train. A CONVERSION is none (no bonus), raw, one that pbim list shows, or your own
    class, package.module:Class. Settings follow a comma: geometric,rate=0.05 or grm,delay=16,normalize=false. The
    default is: none raw geometric. A method of pbim list can stand beside them: eipo, adops, adopes or two-critics,
    with the raw bonus, and bsrs, without a bonus.

    pbim prints the claims before it trains. Each conversion is compared with raw and with none, by the task's own
    return. The same command continues after an interruption.

    Example: pbim compare DoorKey-6x6 --intrinsic rnd --shaping none raw geometric --seeds 5 --frames 500000
    """

    learner: Annotated[Any, tyro.conf.arg(name="")] = None
    seeds: int = 5
    """Runs per conversion. Fewer than three decide nothing."""
    quick: bool = False
    """A small size that tries everything in minutes and decides nothing."""
    out: Path | None = None
    """The folder of the results. Without it: out/compare-ENV-BONUS."""
    running: Annotated[RunOptions, tyro.conf.arg(name="")] = DEFAULT_OPTIONS
    env_name: tyro.conf.Suppress[str] = ""
    conversions: tyro.conf.Suppress[tuple[tuple[str, Any], ...]] = ()
    line: tyro.conf.Suppress[str] = "pbim compare"

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Self | CompareLogs":
        """Return the command that the words after ``pbim compare`` ask for."""
        if "--logs" in arguments:
            return CompareLogs.parse(arguments)
        require("pbim compare", *STUDIES, extra="studies")
        names, rest = take_all(arguments, "--shaping", DEFAULT)
        if any(word.partition("=")[0] == "--method" for word in rest):
            raise InputError("method must stand beside the conversions, received --method: --shaping none raw eipo")
        asks_help = any(word in ("-h", "--help") for word in rest)
        if not asks_help and "--intrinsic" not in " ".join(rest):
            raise InputError("intrinsic must name the bonus to convert, received none: add --intrinsic rnd")
        env_name = next((word for word in rest[:1] if not word.startswith("-")), ENV)
        learner, rest = learner_of_words([*rest, "--shaping", "raw"] if not asks_help else rest)
        parts = {"intrinsic": learner.intrinsic}
        own = [name for kind in (type(learner), cls, RunOptions) for name in components.options_of(kind)]
        words = components.lengthen(write_out(rest), own, parts)
        default = cls(learner=learner, env_name=env_name, line=shlex.join(["pbim", "compare", *arguments]))
        made = components.read(cls, "compare", words, default)
        asked = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in words}
        cells = tuple((name.replace(",", "-"), _changes(name, made.learner, asked)) for name in dict.fromkeys(names))
        if len(cells) < 2:
            raise InputError(f"shaping must name two or more conversions, received {names[0]!r} alone: add another")
        return replace(made, conversions=cells)

    def run(self) -> int:
        """Run the comparison and return the exit code: 0 done, 1 runs failed, 130 stopped by Ctrl-C."""
        from pbim.config import kind_of
        from pbim.studies.comparison import comparison

        self.running.check()
        bonus, env = kind_of(self.learner.intrinsic), self.env_name
        place = re.sub(r"[^A-Za-z0-9.]+", "-", f"{env}-{bonus}").strip("-").lower()
        study = comparison(
            self.learner, dict(self.conversions), name=f"compare-{place}", title=f"{env} with the bonus {bonus}"
        )
        study = study.sized(seeds=self.seeds, quick=self.quick)
        print("Decided when all runs are done, by Welch's test over seeds, Holm-corrected:")
        for claim in study.claims:
            print(f"  {claim.statement}")
        for _, changes in self.conversions:
            feels(replace(self.learner, **changes))  # for its warning, which a worker would say to nobody
        return self.running.run(study, self.out or Path("out") / study.name, command=self.line)


@dataclass(frozen=True, kw_only=True)
class CompareLogs:
    """Compare runs that you have already, by their logs, and write a report.

    pbim compare --logs NAME=PATH NAME=PATH ...

    A PATH can have wildcards and commas. Each file or folder that it names is one run and counts as one seed. pbim
    reads the logs of pbim train, RLlib (result.json), Stable-Baselines3 (progress.csv, monitor.csv, TensorBoard),
    CleanRL (TensorBoard), and any CSV file with a step and a return. Each NAME is compared with none and raw if these
    are among the names, else with the first.

    Example: pbim compare --logs raw=runs/raw* converted=runs/converted*
    """

    logs: tuple[str, ...] = ()
    """One NAME=PATH per group of runs."""
    step_name: str | None = None
    """The column of the step, if it has none of the usual names."""
    return_name: str | None = None
    """The column of the return of an episode: the task's own return, without the bonus."""
    length_name: str | None = None
    """The column of the length of an episode."""
    out: Path = Path("out/compare-logs")
    """The folder of the report and of a copy of its rows."""
    json: bool = False
    """Print one JSON object: the verdicts and the files."""
    line: tyro.conf.Suppress[str] = "pbim compare"

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Return the command that the words after ``pbim compare`` ask for."""
        default = cls(line=shlex.join(["pbim", "compare", *arguments]))
        return components.read(cls, "compare", arguments, default)

    def run(self) -> int:
        """Read the logs, write the page and return the exit code."""
        require("pbim compare --logs", *REPORT, extra="report")
        from pbim.report import logs, write
        from pbim.report.archive import publish
        from pbim.results import AFTER, comparisons

        given = {"step": self.step_name, "return": self.return_name, "length": self.length_name}
        names = {figure: name for figure, name in given.items() if name is not None}
        groups = [_paths(text) for text in self.logs]
        twice = [name for place, (name, _) in enumerate(groups) if name in dict(groups[:place])]
        if twice:
            raise InputError(f"logs must name each group once, received {twice[0]} twice: join its paths by a comma")
        cells = {name: [logs.read(path, names) for path in paths] for name, paths in groups}
        if len(cells) < 2:
            raise InputError(f"logs must name at least two groups NAME=PATH, received {len(cells)}: add one")
        for column in sorted({log.column for runs in cells.values() for log in runs}):
            if not column.endswith("extrinsic_return"):
                print(f"pbim: the return is {column!r}: if a bonus was paid into it, name the task's own", file=stderr)
        labels = {name: name for name in cells}
        claims = comparisons(labels, AFTER)
        found = logs.evidence(cells, claims=claims, title=" against ".join(cells), command=self.line)
        publish(found, self.out)
        page, figures = write(found, self.out)
        say(found, page, figures, as_json=self.json)
        return 0


def _paths(text: str) -> tuple[str, list[Path]]:
    """Return the name and the existing paths of ``NAME=PATH,PATH``."""
    name, equals, patterns = text.partition("=")
    if not equals or not name or not patterns:
        raise InputError(f"logs must be NAME=PATH, received {text!r}: raw=runs/raw* is one")
    found = []
    for pattern in patterns.split(","):
        paths = sorted(Path(path) for path in glob(str(Path(pattern).expanduser())))
        if not paths:
            raise InputError(
                f"logs must name files that are there, received {pattern!r}, which matches none: correct it"
            )
        found += paths
    return name, found


def take_all(arguments: Sequence[str], option: str, default: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """Return the values of ``--option VALUE VALUE ...`` up to the next option, and the other words.

    >>> take_all(["CliffWalk", "--shaping", "none", "raw", "--seeds", "3"], "--shaping", ())
    (('none', 'raw'), ['CliffWalk', '--seeds', '3'])
    """
    words = list(arguments)
    if option not in words:
        return default, words
    start = words.index(option)
    stop = next((i for i in range(start + 1, len(words)) if words[i].startswith("--")), len(words))
    if stop == start + 1:
        raise InputError(f"{option} must be followed by names, received nothing: {' '.join(default)} is usual")
    return tuple(words[start + 1 : stop]), words[:start] + words[stop:]


def _changes(text: str, learner: Any, asked: Collection[str]) -> dict[str, Any]:
    """Return what a conversion or a method with its settings changes in a learner, but for what was asked for.

    Raises:
        InputError: If it is unknown, or has no such setting.

    """
    from pbim.config import find
    from pbim.shaping import NoBonus

    name, *settings = text.split(",")
    pairs = [_setting(text, setting) for setting in settings]
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InputError(f"shaping {name} must have each setting once, received {text!r}: leave one out")
    alone = {"intrinsic": None, "intrinsic_scale": 1.0, "shaping": NoBonus()}  # also for a method that needs no bonus
    if name == "none":
        _check_settings(text, given, ())
        return alone
    if components.is_method(name):
        _check_settings(text, given, [field.name for field in fields(find("method", name)) if field.init])
        method = components.method(name, **given)
        needs = {field: value for field, value in method.goes_with.items() if field not in asked}
        changes = {"method": method, **(needs or alone)}
        replace(learner, **changes)  # refuses what was asked for and does not fit
        return changes
    made: Any = components.conversion(name, learner.gamma, learner.gae_lambda, frames=learner.total_frames)
    _check_settings(text, given, vars(made))
    return {"shaping": replace(made, **given)}


def _check_settings(text: str, given: Collection[str], known: Collection[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        name, its = text.partition(",")[0], ", ".join(sorted(known)) or "none"
        raise InputError(f"shaping {name} has no setting {unknown[0]}, received {text!r}: it has {its}")


def _setting(text: str, setting: str) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise InputError(f"shaping must be NAME,FIELD=VALUE,..., received {text!r}: write {name}=... ")
    try:
        return name.replace("-", "_"), json.loads(value)
    except ValueError:
        return name.replace("-", "_"), value
