"""A forked process in which C code works, and which can be ended at any moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe

_INTERRUPT = frozenset({signal.SIGINT})


def can_fork() -> bool:
    """Whether this system has forked processes, which Windows has not."""
    return hasattr(os, "fork")


class Forked:
    """A process that runs `work(pipe, *arguments)`, with all that is open here.

    It hears no interrupts: who started it ends it. It ends by itself when its pipe is closed.

    Attributes:
        pipe: this side of it. What comes from it is bytes of a process that may have been taken
            over: it is not unpickled.
    """

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self.pipe, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
        try:
            self._pid = os.fork()
            if not self._pid:
                _run(work, self.pipe, theirs, arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
        theirs.close()

    def end(self) -> None:
        """Kill it."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self.pipe.close()
        self._pid = 0


def _run(
    work: Callable[..., None], ours: Connection, theirs: Connection, arguments: tuple[object, ...]
) -> None:
    """The child: work, and leave without a trace of what the parent had in hand."""
    code = 1
    try:
        ours.close()
        work(theirs, *arguments)
        code = 0
    except (EOFError, ConnectionError, MemoryError):
        pass  # the parent is gone, or sees that this process is
    finally:
        os._exit(code)
