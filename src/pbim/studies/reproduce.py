"""From a study's name to its report: plan, mend, train what is missing, build the report."""

import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pbim._files import alone
from pbim.config import key_of
from pbim.errors import InputError
from pbim.results import (
    CONFIG,
    METRICS,
    RUNS,
    SET_ASIDE,
    STATUS,
    STUDY,
    Corrupt,
    Plan,
    Run,
    Store,
    write_json,
)
from pbim.studies.display import Display
from pbim.studies.job import Config, Event, Job, jobs_of, learner_of, status
from pbim.studies.study import Study

Engine = Callable[[Sequence[Job], Path], Generator[Event | None, None, None]]


def reproduce(
    study: Study,
    out: Path,
    engine: Engine,
    *,
    command: str,
    display: Display,
    checkpoint_every: float = 5.0,
    published: Path | None = None,
) -> int:
    """Run what the store in ``out`` and the folder ``published`` lack of a study.

    Returns:
        The exit code: 0 done, 1 runs failed, 130 stopped.

    """
    store = Store(out)
    commit = commit_of(Path(__file__))
    elsewhere = {} if published is None else published_runs(study, published)
    with usable(out), alone(out):
        check_folder(study, store, display)
        check_defaults(study, str(out), lambda key: store.run(key).config)
        plan = study.plan(command=command, version=version("pbim"), commit=commit)
        store.write_plan(plan)
        runs = unique(store.runs())
        for run in runs:
            if (trouble := store.mend(run, partial(check_run, plan=plan))) is not None:
                display.say(f"set aside: {trouble}")
        missing = {run.key for run in unique(store.runs(lambda run: run.state != "done"))} - elsewhere.keys()
        if elsewhere:
            display.say(
                f"{len(elsewhere)} of {len(runs)} runs are published in {published}: they are not trained again; pbim "
                f"report {out} --publish {published} adds the new ones"
            )
        jobs = jobs_of(study, missing, command=command, commit=commit, save_every=checkpoint_every)
        try:
            with display.showing(study, len(runs), len(runs) - len(missing)):
                failed = _train(store, jobs, engine, display)
        except KeyboardInterrupt:
            display.say(f"stopped; nothing that was finished is lost: continue with {command}")
            return 130
        for name, error in failed.items():
            display.say(f"failed: {name}: {error}")
        damaged = show_report(out, display)
    if failed:
        display.say(f"{len(failed)} of {len(jobs)} jobs failed: the same command tries them again")
    return 1 if failed or damaged else 0


@contextmanager
def usable(out: Path) -> Iterator[None]:
    """Say in one sentence that a folder has no room, may not be written to, or is a file."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"out must be a folder that can be written to, received {str(out)!r} ({error}): make room, change its "
            "rights or pass another --out; the same command continues, and nothing that was finished is lost"
        ) from error


def check_folder(study: Study, store: Store, display: Display) -> None:
    """Refuse a folder of something else, before anything in it is replaced; a plan that is damaged is set aside.

    Raises:
        InputError: If it holds another study, smoke size beside the full one, published results, or the plan of
            another version of pbim.

    """
    from pbim.report import FOLDER
    from pbim.report.archive import is_archive

    where = f"out {str(store.path)!r}"
    for name in (RUNS, SET_ASIDE, FOLDER):
        if (store.path / name).exists() and not (store.path / name).is_dir():
            raise InputError(f"{where} must have a folder {name!r}, received a file: move it, or pass another --out")
    if is_archive(store.path):
        raise InputError(f"{where} holds published results, which would be replaced: pass another --out")
    if not (store.path / STUDY).exists():
        return
    try:
        earlier = store.plan()
    except Corrupt as trouble:
        display.say(f"set aside: {trouble}")
        store.set_aside(store.path / STUDY)
        return
    if (earlier.study, earlier.quick) != (study.name, study.quick):
        there, here = (
            f"{name}{' at smoke size' * quick}"
            for name, quick in ((earlier.study, earlier.quick), (study.name, study.quick))
        )
        raise InputError(f"{where} holds {there}, not {here}: pass another --out")
    planned = {key_of(config) for *_, config in study.runs()}
    left = {run.key for cell in earlier.cells for run in cell.runs} - planned
    if left:
        display.say(f"{len(left)} runs of the last plan are not in this one: they stay in {RUNS}/, not in the report")


def check_run(run: Run, plan: Plan) -> None:
    """Refuse a finished run that a report could not show, or that has not as many rows as its learner makes.

    Raises:
        Corrupt: If it has to be redone.

    """
    from pbim.report import evidence, measures

    if plan.learner in measures.MEASURES:
        evidence.check(run, plan)
    else:
        run.check()
    learner = learner_of(run.config)
    rows = getattr(learner, "episodes", getattr(learner, "updates", None))
    if rows not in (None, found := run.metrics().height):
        raise Corrupt(run.folder / METRICS, f"it has {found} rows, not {rows}")


def _train(store: Store, jobs: Sequence[Job], engine: Engine, display: Display) -> dict[str, str]:
    """Drive the engine; returns the jobs that failed and why, noted in the status of their unfinished runs."""
    failed: dict[str, str] = {}
    with closing(engine(jobs, store.path)) as events:
        for event in events:
            if event is not None and event.kind == "failed":
                failed[event.job.name] = str(event.error)
                note_failure(store, event.job, str(event.error))
            display.update(event)
    return failed


def note_failure(store: Store, job: Job, error: str) -> None:
    """Write into the status of a job's unfinished runs that it failed; its checkpoints stay."""
    for config in job.configs:
        run = store.run(key_of(config))
        if run.state != "done":
            write_json(run.folder / CONFIG, config)
            write_json(run.folder / STATUS, status(job, state="failed", error=error))


def check_defaults(study: Study, folder: str, config_of: Callable[[str], Config]) -> None:
    """Refuse a folder whose runs were made with other defaults: a key leaves them out, so it cannot tell."""
    for cell, seed, document in study.runs():
        known, now = config_of(key_of(document)).get("defaults", {}), document["defaults"]
        changed = sorted(name for name in known if name in now and known[name] != now[name])
        if changed:
            raise InputError(
                f"{folder!r} holds {cell.name} seed {seed} with another default of {', '.join(changed)}: pass another "
                "folder, or use the pbim that wrote it"
            )


def published_runs(study: Study, folder: Path) -> dict[str, Run]:
    """Return the finished runs of a study that a folder holds as published results, by key.

    Raises:
        InputError: If the folder holds nothing published, another study, or runs made with other defaults.

    """
    from pbim.report.archive import is_archive, read

    if not is_archive(folder):
        raise InputError(
            f"published must name a folder of published results, received {str(folder)!r}: such as docs/results/cliff"
        )
    evidence = read(folder)
    if (evidence.study.study, evidence.study.quick) != (study.name, study.quick):
        raise InputError(f"published {str(folder)!r} holds {evidence.study.study}, not {study.name}: pass another")
    found = {entry.run.key: entry.run for entry in evidence.runs if entry.done}
    check_defaults(study, str(folder), lambda key: found[key].config if key in found else {})
    return {key: found[key] for key in found.keys() & {key_of(config) for *_, config in study.runs()}}


def unique(runs: list[Run]) -> list[Run]:
    """Return every run once: cells may share one."""
    return list({run.key: run for run in runs}.values())


def show_report(out: Path, display: Display) -> bool:
    """Build the report and say what it says and where it is; returns whether stored results stood in the way."""
    from pbim import report

    try:
        page = report.build(out)
        display.verdicts(report.verdicts(out))
    except InputError as error:  # nothing finished yet, for one
        display.say(f"results: {out}\nno report: {error}")
        return isinstance(error, Corrupt)
    display.say(f"results: {out}\nreport: {page}")
    return False


def commit_of(file: Path) -> str | None:
    """Return the commit of the repository that ``file`` is tracked in, None outside of one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None
