"""What Ctrl-C does while a command works: KeyboardInterrupt, which must not get lost.

Before and after that there is nothing to be put in order, and the program leaves at once
(`ext4kit/__main__.py`). A command closes its manifest and removes its bars, so it gets Python's
exception, wherever it is. In a finalizer, or in code that takes every exception for its own, that
goes no further and the work would go on: it is raised again then, and remembered for the end.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable
from types import FrameType

_LINE = b"ext4kit: interrupted\n"
_PATIENCE = 1.0  # seconds for putting things in order, in which another interrupt does nothing
_SOON = 0.01  # seconds until one that was lost is raised again


class Interrupts:
    """The program's answer to SIGINT.

    Attributes:
        is_working: a command works, and puts things in order when an exception is raised in it.
        came: one came while a command worked, whatever became of the exception.
    """

    def __init__(self) -> None:
        self.is_working = False
        self.came = False
        self._was_lost = False
        self._quiet_until = 0.0
        self._leave: Callable[[int, FrameType | None], object] = signal.default_int_handler

    def take(self) -> None:
        """Answer them from now on; who answered them before does so while no command works."""
        before = signal.getsignal(signal.SIGINT)
        if callable(before):
            self._leave = before
            signal.signal(signal.SIGINT, self._answer)
            sys.unraisablehook = self._unraisable

    def say(self) -> None:
        """One line, written past the stream, which may be in the middle of something."""
        if sys.stderr is not None:
            os.write(2, _LINE)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now < self._quiet_until and not self._was_lost:
            return
        if not self.is_working or (self.came and not self._was_lost):
            self._leave(number, frame)
        self.came, self._was_lost, self._quiet_until = True, False, now + _PATIENCE
        raise KeyboardInterrupt

    def _unraisable(self, what: sys.UnraisableHookArgs) -> None:
        """Python's hook for an exception in a finalizer or a callback, where it goes no further."""
        if issubclass(what.exc_type, KeyboardInterrupt):
            start_new_thread(self._raise_again, ())
        else:
            sys.__unraisablehook__(what)

    def _raise_again(self) -> None:
        time.sleep(_SOON)
        self._was_lost = True
        interrupt_main(signal.SIGINT)


INTERRUPTS = Interrupts()
