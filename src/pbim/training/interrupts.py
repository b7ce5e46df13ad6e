"""Ctrl-C during a run: no Python error may rise inside XLA's compiler, which crashes the process."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """While it is entered, Ctrl-C asks the run to stop at its next ``check``; a second one ends the process.

    Args:
        unsaved: Tells whether the run holds what its last checkpoint does not; if not, the first Ctrl-C ends the
            process, too, and nobody waits for a compiler.
        say: Prints a line.

    """

    def __init__(self, unsaved: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._unsaved, self._say = unsaved, say
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise what Ctrl-C asked for, here, where everything is in order.

        Raises:
            KeyboardInterrupt: If Ctrl-C was pressed.

        """
        if self._asked:
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked or not self._unsaved():
            self._say("stopped; the last checkpoint, if there is one, is whole")
            sys.stdout.flush()
            os._exit(130)
        self._asked = True
        self._say("stopping after this chunk; Ctrl-C again stops at once")
