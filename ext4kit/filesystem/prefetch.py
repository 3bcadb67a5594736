"""Reading ahead: the next pieces of work are made in threads while one is looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import BoundedSemaphore, Thread
from typing import Generic, TypeVar

AT_ONCE, AHEAD = 2, 6  # pieces that are worked on, and that are made or waiting for that
_NO_LIMIT = nullcontext()
Given = TypeVar("Given")
Made = TypeVar("Made")


class BackgroundCall(Generic[Given, Made]):
    """One call in a thread of its own.

    Args:
        make: what to call.
        given: its argument.
        room: entered for as long as the call takes.
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
        """What the call gave; what it raised is raised here."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]


def prefetch_map(make: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """`map(make, items)`, with some ahead: NumPy and crc32c let other threads run meanwhile.

    Args:
        make: reads alone; it must not tell findings, whose order counts.
        items: taken here, not in the threads.
    """
    room = BoundedSemaphore(AT_ONCE)
    errands: deque[BackgroundCall[Given, Made]] = deque()
    for item in items:
        errands.append(BackgroundCall(make, item, room))
        if len(errands) > AHEAD:
            yield errands.popleft().wait()
    while errands:
        yield errands.popleft().wait()
