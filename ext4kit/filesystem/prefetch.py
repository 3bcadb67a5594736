"""Prefetch: threads compute the next items while the caller processes one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeVar

AT_ONCE, AHEAD = 2, 6  # items being computed; items being computed or waiting
_NO_LIMIT = nullcontext()
Given = TypeVar("Given")
Made = TypeVar("Made")


class BackgroundCall(Generic[Given, Made]):
    """A call that runs in a separate thread.

    Args:
        make: the function to call.
        given: argument of the function.
        room: context manager that is held during the call.
    """

    def __init__(
        self,
        make: Callable[[Given], Made],
        given: Given,
        room: AbstractContextManager[object] = _NO_LIMIT,
    ) -> None:
        self._make, self._given, self._room = make, given, room
        self._made: list[Made] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._room:
                self._made.append(self._make(self._given))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            self._error = error

    def wait(self) -> Made:
        """The result of the call, or the exception that the call raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]


def prefetch_map(make: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """`map(make, items)` with some items computed ahead; NumPy and crc32c release the GIL.

    Args:
        make: a function that only reads; it must not report findings, because their order matters.
        items: the items; the caller's thread iterates over them.
    """
    room = BoundedSemaphore(AT_ONCE)
    errands: deque[BackgroundCall[Given, Made]] = deque()
    for item in items:
        errands.append(BackgroundCall(make, item, room))
        if len(errands) > AHEAD:
            yield errands.popleft().wait()
    while errands:
        yield errands.popleft().wait()
