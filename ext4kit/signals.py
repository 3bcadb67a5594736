"""The signals that interrupt the work: Ctrl-C, `kill`, and the end of a session."""

from __future__ import annotations

import signal

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has not all of them
INTERRUPTING = frozenset(each for each in signal.Signals if each.name in _NAMES)


def take_signals() -> None:
    """Turn signals that would end the program at once into an interrupt of the main thread."""
    for number in INTERRUPTING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
