"""The progress of long work, on stderr and for a terminal alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]  # (done, total)


@contextmanager
def progress(quiet: bool, title: str) -> Iterator[Progress | None]:
    """A bar while work goes on; None where nobody would see it or it is not wanted.

    It moves without saying how far until it is told.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        yield show
