"""One thread for each opened file system, which reads for the screen and never lets it wait."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from queue import PriorityQueue
from threading import Event, Thread
from typing import TypeVar

from ext4kit.filesystem import FileSystem
from ext4kit.workspace import Workspace

_Result = TypeVar("_Result")
_Job = Callable[[], None]
_NOW, _LATER, _END = 0, 1, 2  # order of requests
_PATIENCE = 1.0  # seconds for the thread to end


class Cancelled(BaseException):
    """A task was given up; no code that collects problems of an image may take it for one."""


@dataclass(eq=False)
class Task:
    """A long piece of work, which the screen can follow and cancel.

    Attributes:
        title: what is done.
        done, total: how far it is, in units of its own; `total` is 0 until it is known.
    """

    title: str
    done: int = 0
    total: int = 0
    _stop: Event = field(default_factory=Event, repr=False)

    def progress(self, done: int, total: int) -> None:
        """The callback of the work.

        Raises:
            Cancelled: the task was cancelled.
        """
        self.done, self.total = done, total
        if self._stop.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """Let the work end at its next step."""
        self._stop.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._stop.is_set()

    @property
    def text(self) -> str:
        """What is done, and how much of it in percent."""
        if not self.total:
            return f"{self.title} ..."
        return f"{self.title} {min(100 * self.done // self.total, 100)} %"


class ReaderThread:
    """Reads one file system in a thread of its own; what is urgent goes before the rest.

    Args:
        name: of the thread.
        open_fs: opens the file system, when it is first needed.
    """

    def __init__(self, name: str, open_fs: Callable[[], FileSystem]) -> None:
        self._queue: PriorityQueue[tuple[int, int, _Job]] = PriorityQueue()
        self._numbers = count()
        self._opened = _Once(open_fs)
        self._task: Task | None = None
        self._is_closed = False
        context = contextvars.copy_context()
        self._thread = Thread(target=context.run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    def ask(
        self, work: Callable[[Workspace], _Result], task: Task | None = None
    ) -> Future[_Result]:
        """Let the thread do some work.

        Args:
            work: called in the thread with the file system.
            task: of long work, which waits until nothing urgent is left.
        """
        future: Future[_Result] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            self._task = task
            try:
                if task is not None and task.is_cancelled:
                    raise Cancelled
                found = work(self._opened.get())
            except BaseException as error:  # noqa: BLE001 -- the one who asked gets it
                with suppress(Exception):
                    future.set_exception(error)
            else:
                with suppress(Exception):
                    future.set_result(found)
            finally:
                self._task = None

        if self._is_closed:
            future.cancel()
            return future
        order = _NOW if task is None else _LATER
        self._queue.put((order, next(self._numbers), job))
        return future

    @property
    def is_busy(self) -> bool:
        """Whether the thread is at a long task."""
        return self._task is not None

    def close(self) -> bool:
        """End the thread; False if it is still at something that cannot be left."""
        self._is_closed = True
        if (task := self._task) is not None:
            task.cancel()
        self._queue.put((-1, next(self._numbers), _end))
        self._thread.join(_PATIENCE)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            _, _, job = self._queue.get()
            if job is _end:
                return
            job()


@dataclass(frozen=True)
class ReadPlace:
    """Which state of an image is read, and by which thread.

    Attributes:
        reader: the thread.
        transaction: stored tid; None for the present.
    """

    reader: ReaderThread
    transaction: int | None = None


class _Once:
    """A file system that is opened once."""

    def __init__(self, open_fs: Callable[[], FileSystem]) -> None:
        self._open_fs = open_fs
        self._made: Workspace | None = None

    def get(self) -> Workspace:
        """The workspace of the file system."""
        if self._made is None:
            self._made = Workspace(self._open_fs())
        return self._made


def _end() -> None:
    """Stands for the end of the queue."""
