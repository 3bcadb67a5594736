"""The lock of an output folder: two runs never write into one at once.

The system releases it when the process ends, however it does. Where there are no such locks, none
is taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ext4kit.errors import RequestError

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class _Locks(ExitStack):
    """The locks of a command: each is released at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[tuple[int, int]] = set()


_CURRENT: ContextVar[_Locks | None] = ContextVar("locks", default=None)


@contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Keep an output folder locked; one that is not there yet, from `lock` on.

    Raises:
        RequestError: another run writes into it.
    """
    with _Locks() as locks:
        token = _CURRENT.set(locks)
        try:
            if folder is not None:
                lock(folder)
            yield
        finally:
            _CURRENT.reset(token)


def lock(folder: Path) -> None:
    """Lock a folder to the end of `locked`, unless it is locked by this command already.

    Raises:
        RequestError: another run writes into it.
    """
    locks = _CURRENT.get()
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    if locks is None:
        return
    with suppress(OSError):  # no such folder, or no locks there
        handle = os.open(folder, _FOLDER)
        facts = os.fstat(handle)
        if (facts.st_dev, facts.st_ino) in locks.held:
            os.close(handle)
            return
        locks.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            advice = "wait for its end, or choose another folder"
            raise RequestError(f"{folder} is being written by another run; {advice}") from error
        locks.held.add((facts.st_dev, facts.st_ino))
