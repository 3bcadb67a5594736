"""What older laps of the log left behind is dated as far as it can be, and no further."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ext4kit.timeline import EventKind
from sample_images.recipes import machine
from tests.timeline.scripts import events_of, mounted, told

pytestmark = pytest.mark.kernel

SECOND = 1.1  # the clock of inodes of 128 bytes has moved on after that


def churned(root: Path, rounds: int) -> None:
    """Fill the log with changes of one file."""
    for number in range(rounds):
        (root / "churn").write_bytes(b"x" * (number % 7 * 100 + 1))
        machine.sync(root)


@pytest.mark.parametrize("kind", ["ext4", "ext3"])
def test_what_was_there_before_the_log_is_not_created_in_it(tmp_path: Path, kind: str) -> None:
    image, marks = tmp_path / "laps.img", list[int]()
    inode = "256" if kind == "ext4" else "128"
    machine.make_file_system(image, 48 << 20, ("-t", kind, "-I", inode, "-J", "size=4"))
    with mounted(image, marks) as script:
        (script.root / "old").mkdir()
        for number in range(20):
            (script.root / f"old/file-{number}").write_bytes(b"x")
        script.commit()
        churned(script.root, 450)
        script.commit()
        marks[:] = marks[-1:]
        time.sleep(SECOND if kind == "ext3" else 0)
        (script.root / "old/file-1").chmod(0o600)
        script.commit()
        (script.root / "old/file-2").rename(script.root / "old/moved")
        script.commit()
        (script.root / "old/file-3").unlink()
        script.commit()
        (script.root / "old/new").write_bytes(b"")
        script.commit()
    events = events_of(image)
    created = {event.path for event in events if event.kind is EventKind.CREATED}
    assert created == {b"/old/new"}
    paths = {event.path for event in events if event.kind is not EventKind.HINT}
    assert not paths & {b"/old/file-5", b"/old/file-6"}
    assert told(events, marks, 2) == [("status", "/old/moved", None)]  # its old name is lost
    assert told(events, marks, 3) == [("deleted", "/old/file-3", None)]
    assert told(events, marks, 4) == [("created", "/old/new", None)]


def test_an_unmount_loses_no_transaction(tmp_path: Path) -> None:
    """It takes an id or two of its own; what is done after the next mount is dated exactly."""
    image, marks = tmp_path / "mounts.img", list[int]()
    machine.make_file_system(image, 48 << 20, ("-t", "ext4", "-J", "size=4"))
    modes = (0o600, 0o640, 0o660)
    with mounted(image, marks) as script:
        (script.root / "kept").write_bytes(b"x")
        script.commit()
        churned(script.root, 60)
    for mode in modes:
        with mounted(image, marks) as script:
            (script.root / "kept").chmod(mode)
            script.commit()
            (script.root / f"new-{mode:o}").write_bytes(b"x")
            script.commit()
    events = events_of(image)
    changed = [event for event in events if event.kind is EventKind.MODE]
    assert [isinstance(event.new, int) and event.new & 0o777 for event in changed] == list(modes)
    assert [event.transaction for event in changed] == marks[1::2]
    created = [event for event in events if event.kind is EventKind.CREATED][-3:]
    assert [event.path for event in created] == [f"/new-{mode:o}".encode() for mode in modes]
    assert all(event.exact for event in changed + created)
