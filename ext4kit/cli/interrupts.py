"""Handles interrupts while a command runs, so that no KeyboardInterrupt is lost.

Before and after a command nothing needs a clean-up, and the program ends at once
(`ext4kit/__main__.py`). A command closes its manifest and removes its progress bars. It therefore
gets Python's exception at any point. A finalizer, or code that catches every exception, can swallow
it, and the work would continue. The exception is then raised again, and remembered until the end.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ext4kit.leaving import leave
from ext4kit.signals import INTERRUPTING

_LINE = b"ext4kit: interrupted"
_PATIENCE = 1.0  # seconds for the clean-up, in which further interrupts are ignored
_SOON = 0.01  # seconds until a lost interrupt is raised again


class Interrupts:
    """The handler of Ctrl-C and of the other signals that interrupt.

    Attributes:
        is_working: whether a command runs, which cleans up when an exception is raised in it.
        came: whether an interrupt came while a command ran, even if its exception was lost.
        outcome: what the interrupted command has done, for the line.
    """

    def __init__(self) -> None:
        self.is_working = False
        self.came = False
        self.outcome = ""
        self._was_lost = False
        self._number: int = signal.SIGINT  # the last one
        self._quiet_until = 0.0
        self._leave: Callable[[int, FrameType | None], object] = signal.default_int_handler

    def take(self) -> None:
        """Handle interrupts from now on; while no command runs, as SIGINT was handled before.

        Signals that the program was started to ignore stay ignored, as SIGHUP by `nohup`, or
        SIGINT in the background of a script. The others are handled.
        """
        before = signal.getsignal(signal.SIGINT)
        self._leave = before if callable(before) else leave
        for number in INTERRUPTING:
            if signal.getsignal(number) in (self._leave, signal.SIG_DFL):
                signal.signal(number, self._answer)
        sys.unraisablehook = self._unraisable

    def say(self) -> None:
        """Write one line directly to the descriptor, because the stream may be in use."""
        if sys.stderr is not None:
            text = f"; {self.outcome}" if self.outcome else ""
            os.write(2, _LINE + text.encode("utf-8", "backslashreplace") + b"\n")

    @contextmanager
    def explained(self, text: Callable[[], str]) -> Iterator[None]:
        """Context manager: a text says what an interrupted command has done."""
        try:
            yield
        except KeyboardInterrupt:
            self.outcome = text()
            raise

    def _answer(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now < self._quiet_until and not self._was_lost:
            return
        if not self.is_working or (self.came and not self._was_lost):
            self._leave(number, frame)
        self.came, self._was_lost, self._quiet_until = True, False, now + _PATIENCE
        self._number = number
        raise KeyboardInterrupt

    def _unraisable(self, what: sys.UnraisableHookArgs) -> None:
        """Python's hook for exceptions that are not propagated (finalizers and callbacks)."""
        if issubclass(what.exc_type, KeyboardInterrupt):
            start_new_thread(self._raise_again, ())
        else:
            sys.__unraisablehook__(what)

    def _raise_again(self) -> None:
        time.sleep(_SOON)
        self._was_lost = True
        interrupt_main(signal.Signals(self._number))


INTERRUPTS = Interrupts()
