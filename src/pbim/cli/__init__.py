"""The ``pbim`` command: one frozen dataclass per subcommand, each in its own file, parsed by tyro."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pbim
from pbim.cli import components
from pbim.cli.commands import COMMANDS, overview
from pbim.errors import GuidanceWarning, InputError, MissingExtraError, RepaymentWarning, choose

CRASH = 70
"""The exit code of a fault of pbim itself (sysexits' EX_SOFTWARE), so that it is never taken for a verdict."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: verified to be false, a term is unsafe, or some runs failed; 2: bad input, or a file that cannot be
    read or written; 3: undecided (``verify`` in floats); 70: a fault of pbim; 130: stopped by Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has enough, as head has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(arguments: list[str]) -> int:
    try:
        with warnings.catch_warnings():
            for category in (RepaymentWarning, GuidanceWarning):
                warnings.filterwarnings("default", category=category)
            warnings.showwarning = _advice(set())
            if arguments[:1] in ([], ["-h"], ["--help"], ["--version"]):
                print(f"pbim {pbim.__version__}" if arguments[:1] == ["--version"] else overview())
                return 0
            return _parsed(*arguments).run()
    except (InputError, MissingExtraError) as error:
        return _refuse(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" {str(error.filename)!r}" if error.filename else ""
        return _refuse(
            f"the file system refused{where} ({error.strerror or error}): free or choose another place; what was "
            "written before is whole"
        )
    except SystemExit as stop:  # tyro has printed its help or what it did not understand
        if isinstance(stop.__context__, BrokenPipeError):  # rich found the pipe closed
            return 0
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        print("pbim: stopped", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        print("pbim: this is a fault of pbim; please report it with the lines above", file=sys.stderr)
        return CRASH


def _advice(printed: set[str]) -> Callable[..., None]:
    """Return what prints each warning once, as a sentence and not as a line of somebody's code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            print(f"pbim: {message}", file=sys.stderr)

    return show


def _refuse(sentence: str) -> int:
    print(f"pbim: {sentence}", file=sys.stderr)
    return 2


class _Run(Protocol):
    """A parsed command."""

    def run(self) -> int:
        """Do it and return the exit code."""


def _parsed(name: str, *arguments: str) -> _Run:
    cls = COMMANDS[choose("command", name, [*COMMANDS, "--version", "--help"])]
    parse: Callable[[Sequence[str]], _Run] | None = getattr(cls, "parse", None)
    if parse is not None:  # its options depend on the components that it names
        return parse(arguments)
    made: _Run = components.read(cls, name, arguments)
    return made
