"""Small scripts on a mounted file system, committed where they say so, and what they gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ext4kit
from ext4kit.timeline import Event, EventKind, build_timeline
from sample_images.recipes import machine
from tests.session import CommitWatch

Told = tuple[str, str | None, str | None]  # kind, path, former path


@dataclass(slots=True)
class Script:
    """A file system at work.

    Attributes:
        root: where it is mounted.
        marks: the newest transaction at each call of `commit`.
    """

    root: Path
    watch: CommitWatch
    marks: list[int]

    def commit(self) -> None:
        """Write out and commit what was done."""
        machine.sync(self.root)
        self.marks.append(self.watch.newest())


@contextmanager
def mounted(image: Path, marks: list[int], options: str = "") -> Iterator[Script]:
    """The image mounted; `marks` goes on growing over several mounts."""
    root = machine.mount_point()
    watch = CommitWatch(image)
    try:
        with machine.loop_device(image) as device:
            machine.mount(device, root, ",".join(filter(None, ("noatime,commit=600", options))))
            try:
                yield Script(root, watch, marks)
            finally:
                machine.unmount(root)
    finally:
        watch.close()
        root.rmdir()


def events_of(image: Path) -> list[Event]:
    """Everything that the timeline of an image tells."""
    with ext4kit.open(image) as opened:
        return list(build_timeline(opened.volume().filesystem()))


def told(events: list[Event], marks: list[int], step: int) -> list[Told]:
    """What was told of the transactions of one step, hints left out, sorted."""
    first, last = marks[step - 1], marks[step]
    chosen = [
        event
        for event in events
        if event.transaction is not None
        and first < event.transaction <= last
        and event.kind is not EventKind.HINT
    ]
    rows = [(str(event.kind), _text(event.path), _text(event.old_path)) for event in chosen]
    return sorted(rows, key=str)


def _text(path: bytes | None) -> str | None:
    return None if path is None else path.decode()
