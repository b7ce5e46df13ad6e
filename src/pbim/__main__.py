"""``python -m pbim`` is the ``pbim`` command."""

import os
import signal
import sys


def command() -> int:
    """Run the ``pbim`` command as a process of its own: Ctrl-C gives exit code 130 from the first import to the last.

    ``pbim.cli.main`` is the same inside another program.

    Returns:
        The exit code.

    """
    try:
        from pbim.cli import main

        code = main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: the way out of the interpreter is not interrupted
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # CPython dies of SIGINT where the error passed an exec(), even when it was caught
    return code


if __name__ == "__main__":
    sys.exit(command())
