"""Blocks interrupts (Ctrl-C and other signals) while a file and its record are made consistent.

Python raises KeyboardInterrupt between any two steps, also between the creation of a file and the
assignment of its descriptor. Interrupts therefore wait while files and records are updated. They
are accepted between a few files and while long contents are copied. Windows cannot block them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import TypeVar

from ext4kit.signals import INTERRUPTING

Item = TypeVar("Item")
_AT_ONCE = 32  # files; to block and accept interrupts takes longer than to write a small one
_CAN_WAIT = hasattr(signal, "pthread_sigmask")


def interrupts_wait() -> AbstractContextManager[None]:
    """A context in which interrupts wait; a waiting one is raised at its end."""
    return _masked(signal.SIG_BLOCK) if _CAN_WAIT else nullcontext()


def interrupts_heeded() -> AbstractContextManager[None]:
    """A context within `interrupts_wait` in which interrupts are raised."""
    return _masked(signal.SIG_UNBLOCK) if _CAN_WAIT else nullcontext()


def take_uninterrupted(items: Iterable[Item], take: Callable[[Item], None]) -> None:
    """Take each item, in order; interrupts wait while a few are taken, not while they are found."""
    left = iter(items)
    while few := list(islice(left, _AT_ONCE)):
        with interrupts_wait():
            for item in few:
                take(item)


@contextmanager
def _masked(how: int) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(how, INTERRUPTING)  # may raise after it has taken effect
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
