"""Reading ahead: the next pieces of work are made in threads while one is looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import Generic, TypeVar

AT_ONCE = 2  # pieces under way
Given = TypeVar("Given")
Made = TypeVar("Made")


class Errand(Generic[Given, Made]):
    """One call in a thread of its own."""

    def __init__(self, make: Callable[[Given], Made], given: Given) -> None:
        self._make, self._given = make, given
        self._made: list[Made] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._made.append(self._make(self._given))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            self._error = error

    def wait(self) -> Made:
        """What the call gave; what it raised is raised here."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]


def ahead(make: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """`map(make, items)`, with some ahead: NumPy and crc32c let other threads run meanwhile.

    Args:
        make: reads alone; it must not tell findings, whose order counts.
        items: taken here, not in the threads.
    """
    errands: deque[Errand[Given, Made]] = deque()
    for item in items:
        errands.append(Errand(make, item))
        if len(errands) > AT_ONCE:
            yield errands.popleft().wait()
    while errands:
        yield errands.popleft().wait()
