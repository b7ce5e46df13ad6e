"""One job in one process: ``python -m pbim.studies._worker ROOT`` reads the job from stdin, answers JSON lines.

It stops when its driver does: on SIGTERM, or when nobody reads its answers any more. Files are whole at any moment.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pbim.studies.job import Job, Progress, run


def encode(job: Job) -> bytes:
    """Return a job as one line."""
    return json.dumps({**vars(job)}).encode() + b"\n"


def decode(line: bytes | str) -> Job:
    """Return the job of a line."""
    fields: dict[str, Any] = json.loads(line)
    return Job(**{**fields, "configs": tuple(fields["configs"])})


def progress_of(line: str) -> Progress | str:
    """Return what an answer says: progress, or the error that ended the job."""
    fields = json.loads(line)
    if "error" in fields:
        return str(fields["error"])
    return Progress(**{**fields, "files": tuple(fields["files"])})


def main(root: str) -> None:
    """Do the job on stdin; answers go to the real stdout, whatever else prints goes to stderr."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # an error inside XLA's compiler would crash it
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        for progress in run(decode(sys.stdin.readline()), Path(root)):
            print(json.dumps(progress._asdict()), file=answers)
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        print(json.dumps({"error": f"{type(error).__name__}: {first}"}), file=answers)
        raise


if __name__ == "__main__":
    main(sys.argv[1])
