"""When an interrupt may come: not between a file and the record that tells of it.

Python raises it between any two steps, also between a file's creation and the moment at which
somebody knows that there is one. So it waits while files and records are brought into line, and
is heeded while contents are copied, which may take long. Windows has no way to make it wait.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_INTERRUPT = frozenset({signal.SIGINT})
_CAN_WAIT = hasattr(signal, "pthread_sigmask")


def interrupts_wait() -> AbstractContextManager[None]:
    """A context in which interrupts wait; one that came is raised when it is left."""
    return _masked(signal.SIG_BLOCK) if _CAN_WAIT else nullcontext()


def interrupts_heeded() -> AbstractContextManager[None]:
    """A context within such a one in which they are raised."""
    return _masked(signal.SIG_UNBLOCK) if _CAN_WAIT else nullcontext()


@contextmanager
def _masked(how: int) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(how, _INTERRUPT)  # which may raise when it has done so
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
