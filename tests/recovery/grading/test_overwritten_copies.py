"""A copy in the log that the disk contradicts after an unmount is not the file's content."""

from __future__ import annotations

from pathlib import Path

import pytest

import ext4kit
from ext4kit.reasons import UNMOUNT_DISK_CONFLICT as REASON
from ext4kit.recovery import Grade, find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.recipes import machine
from tests.recovery.test_traps import log_again
from tests.writing_kernel import HERE

PATH = b"/file"


def _deleted(folder: Path, over: bytes) -> list[tuple[str, bool]]:
    """(grade, whether the reason is told) of a file that went through the log as data.

    It is not known by its path where the last mount wrote over what the log had of it.

    Args:
        folder: for the image.
        over: written over it in place in another mount, past the log; nothing where empty.
    """
    image = folder / "image"
    machine.make_file_system(image, 16 << 20, ("-t", "ext4"))
    with machine.mounted(image, "noatime,data=journal") as root:
        log_again(root)
        (root / "file").write_bytes(b"A" * 9000)
    if over:
        with machine.mounted(image, "noatime") as root, (root / "file").open("r+b") as file:
            file.write(over)
    with machine.mounted(image, "noatime") as root:
        (root / "file").unlink()
    with ext4kit.open(image) as opened:
        found = find_deleted(opened.volume().filesystem(), sources=JOURNAL_ONLY)
        told = [(str(each.grade), REASON in each.reasons) for each in found if each.path == PATH]
    assert len(told) == 1 or not HERE.log_goes_on
    return told


def _has_intact(told: list[tuple[str, bool]]) -> bool:
    return any(grade == Grade.INTACT for grade, _ in told)


@pytest.mark.kernel
def test_what_the_disk_has_as_the_log_has_it_stays_intact(
    needs_kernel: None, tmp_path: Path
) -> None:
    told = _deleted(tmp_path, b"")
    assert told == [(Grade.INTACT, False)] if HERE.log_goes_on else not _has_intact(told)


@pytest.mark.kernel
def test_what_was_written_over_without_the_log_is_not_intact(
    needs_kernel: None, tmp_path: Path
) -> None:
    told = _deleted(tmp_path, b"B" * 9000)
    assert told == [(Grade.PARTIAL, True)] if HERE.log_goes_on else not _has_intact(told)
