"""From a study's name to its report: plan, mend, train what is missing, build the report."""

import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from pbim._files import alone
from pbim.config import key_of
from pbim.errors import InputError
from pbim.results import CONFIG, STATUS, Run, Store, write_json
from pbim.studies.display import Display
from pbim.studies.job import Event, Job, jobs_of, status
from pbim.studies.study import Study

Engine = Callable[[Sequence[Job], Path], Generator[Event | None, None, None]]


def reproduce(
    study: Study, out: Path, engine: Engine, *, command: str, display: Display, checkpoint_every: float = 5.0
) -> int:
    """Run what the store in ``out`` lacks of a study; returns the exit code: 0 done, 1 runs failed, 130 stopped."""
    store = Store(out)
    commit = commit_of(Path(__file__))
    with alone(out):
        store.write_plan(study.plan(command=command, version=version("pbim"), commit=commit))
        runs = unique(store.runs())
        for run in runs:
            if (trouble := store.mend(run)) is not None:
                display.say(f"set aside: {trouble}")
        check_defaults(study, store)
        missing = {run.key for run in unique(store.runs(lambda run: run.state != "done"))}
        jobs = jobs_of(study, missing, command=command, commit=commit, save_every=checkpoint_every)
        try:
            with display.showing(study, len(runs), len(runs) - len(missing)):
                failed = _train(store, jobs, engine, display)
        except KeyboardInterrupt:
            display.say(f"stopped; nothing that was finished is lost: continue with {command}")
            return 130
        for name, error in failed.items():
            display.say(f"failed: {name}: {error}")
        show_report(out, display)
    if failed:
        display.say(f"{len(failed)} of {len(jobs)} jobs failed: the same command tries them again")
    return 1 if failed else 0


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


def check_defaults(study: Study, store: Store) -> None:
    """Refuse a store whose runs were made with other defaults: a key leaves them out, so it cannot tell."""
    for cell, seed, document in study.runs():
        known, now = store.run(key_of(document)).config.get("defaults", {}), document["defaults"]
        changed = sorted(name for name in known if name in now and known[name] != now[name])
        if changed:
            raise InputError(
                f"out {str(store.path)!r} holds {cell.name} seed {seed} with another default of {', '.join(changed)}: "
                "pass another --out, or use the pbim that wrote it"
            )


def unique(runs: list[Run]) -> list[Run]:
    """Return every run once: cells may share one."""
    return list({run.key: run for run in runs}.values())


def show_report(out: Path, display: Display) -> None:
    """Build the report and say what it says and where it is."""
    from pbim import report

    try:
        page = report.build(out)
        display.verdicts(report.verdicts(out))
    except InputError as error:  # nothing finished yet, for one
        display.say(f"results: {out}\nno report: {error}")
        return
    display.say(f"results: {out}\nreport: {page}")


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
