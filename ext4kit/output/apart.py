"""Work in a process of its own, beside the one that uses what comes of it."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import IO, Any, NoReturn, TypeVar

from ext4kit.errors import OutputError
from ext4kit.output.interrupts import interrupts_heeded

_AT_ONCE = 32  # items of one message
_AT_LATEST = 0.25  # seconds that one waits to be sent
_INTERRUPT = frozenset({signal.SIGINT})

Item = TypeVar("Item")


def can_be_apart() -> bool:
    """Whether there is a second processor, and a process can be had for it."""
    if not hasattr(os, "fork") or not hasattr(os, "sched_getaffinity"):
        return False
    handled = callable(signal.getsignal(signal.SIGINT))  # neither ignored nor the system's affair
    return handled and current_thread() is main_thread() and len(os.sched_getaffinity(0)) > 1


def apart(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The items of an iterable, made by a process of its own while earlier ones are used.

    All comes in order: the items, and then what is raised instead of the next one. An interrupt
    is handed to that process, so that it ends what it does as an interrupt ends it, and is
    raised here behind all items that it still made. Close the iterator when it is not used up.

    Raises:
        OutputError: the process is gone.
    """
    reading, writing = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)  # until both know what to do with it
    process = os.fork()
    if not process:
        os.close(reading)  # so that writing fails when the other process reads no more
        _serve(items, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as stream, _interrupts_for(process) as interrupts:  # noqa: PTH123
            yield from _received(stream, interrupts)
        if interrupts:
            raise KeyboardInterrupt
    finally:
        os.waitpid(process, 0)


def _received(stream: IO[bytes], interrupts: list[int]) -> Iterator[Any]:
    """What the other process sends.

    Raises:
        OutputError: it ended without a word.
    """
    while True:
        try:
            items, error, is_last = pickle.load(stream)  # noqa: S301 -- of this process's copy
        except (EOFError, pickle.UnpicklingError):
            if interrupts:
                raise KeyboardInterrupt from None
            raise OutputError("the process that writes files has ended; try again") from None
        yield from items
        if error is not None:
            raise error
        if is_last:
            return


@contextmanager
def _interrupts_for(process: int) -> Iterator[list[int]]:
    """Hand interrupts to another process; the signals that came."""
    came: list[int] = []

    def hand_on(number: int, _: object) -> None:
        came.append(number)
        os.kill(process, signal.SIGINT)

    before = signal.signal(signal.SIGINT, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(items: Iterable[Any], writing: int) -> NoReturn:
    """Make the items, send them, and end this process."""
    try:
        signal.signal(signal.SIGINT, _interrupted)
        _send_all(items, writing)
    finally:
        os._exit(0)  # nothing that the other process has begun is to be ended here as well


def _send_all(items: Iterable[Any], writing: int) -> None:
    """Send the items, some at a time, and what is raised.

    Interrupts wait here, so that no item gets lost: an iterator heeds them where it takes long.
    """
    ready: list[Any] = []
    failure: BaseException | None = None
    since = time.monotonic()
    try:
        for item in items:
            ready.append(item)
            with interrupts_heeded():
                pass
            if len(ready) == _AT_ONCE or time.monotonic() - since > _AT_LATEST:
                _send(ready, writing)
                since = time.monotonic()
    except BaseException as error:  # noqa: BLE001 -- raised where the items are used
        failure = error
    _send(ready, writing, _portable(failure), True)


def _send(
    ready: list[Any], writing: int, failure: BaseException | None = None, is_last: bool = False
) -> None:
    """Send items, which are taken off the list."""
    rest = memoryview(pickle.dumps((ready, failure, is_last)))
    while rest:
        rest = rest[os.write(writing, rest) :]
    ready.clear()


def _portable(failure: BaseException | None) -> BaseException | None:
    """An exception that can be raised in another process."""
    try:
        pickle.loads(pickle.dumps(failure))  # noqa: S301
    except Exception:  # noqa: BLE001 -- whatever it is that it cannot do
        return OutputError(f"{type(failure).__name__}: {failure}")
    return failure


def _interrupted(*_: object) -> None:
    """The first interrupt counts: those that follow must not disturb what it brings about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
