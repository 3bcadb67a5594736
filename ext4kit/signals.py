"""The signals that interrupt the work: Ctrl-C, `kill`, and the end of a session."""

from __future__ import annotations

import signal

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has not all of them
INTERRUPTING = frozenset(each for each in signal.Signals if each.name in _NAMES)
