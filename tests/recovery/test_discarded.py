"""Discarded blocks: no file of zeros is called intact, and no file is doubted where none was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.engine import DISCARDED
from ext4kit.recovery.sources import ALL_SOURCES, Source
from sample_images.recipes.contents import noise, text
from sample_images.recipes.machine import run, sync
from tests.recovery.test_traps import Disk, content

pytestmark = pytest.mark.kernel
Act = Callable[[Disk], None]
HOLDS_ZEROS = b"holds zeros"  # by itself: a part of it is
SIZES = (100, 3000, 4096, 12_000, 100_000, 1_000_000)
ENOUGH = 0.9
MANY = 0.5  # kernel and loop device leave a discard out now and then; what they left is intact


def _contents() -> dict[bytes, bytes]:
    found = {
        b"%s %d" % (kind, size): make(f"{kind!r}{size}", size)
        for kind, make in ((b"text", text), (b"noise", noise))
        for size in SIZES
    }
    return found | {HOLDS_ZEROS: noise("start", 12_288) + bytes(16_384) + noise("end", 5000)}


CONTENTS = _contents()


def _fill(disk: Disk) -> None:
    with disk.mounted() as root:
        for name, data in CONTENTS.items():
            (root / os.fsdecode(name)).write_bytes(data)


def _remove(disk: Disk, options: str = "rw") -> None:
    with disk.mounted(options) as root:
        (root / "beside it").touch()
        sync(root)
        for name in CONTENTS:
            (root / os.fsdecode(name)).unlink()
        sync(root)


def _nothing(disk: Disk) -> None:
    _remove(disk)


def _by_mount(disk: Disk) -> None:
    _remove(disk, "rw,discard")


def _later(disk: Disk) -> None:
    _remove(disk)
    with disk.mounted() as root:
        run("fstrim", root)


def _in_part(disk: Disk) -> None:
    """From the middle of the largest file on."""
    _remove(disk)
    found = {file.path: file for file in find_deleted(disk.file_system())}
    _, first, count = found[b"/noise 1000000"].extents[0]
    with disk.mounted() as root:
        run("fstrim", "-o", str((first + count // 2) * 4096), "-l", str(16 << 20), root)


def _used_blocks_alone(disk: Disk) -> None:
    _remove(disk)
    copy = disk.image.with_suffix(".copy")
    run("e2image", "-ra", disk.image, copy)
    copy.replace(disk.image)


OPTIONS = {
    "ext4": ("-t", "ext4"),
    "ext3": ("-t", "ext3"),
    "no_checksums": ("-t", "ext4", "-O", "^metadata_csum"),
    "small_blocks": ("-t", "ext4", "-b", "1024"),
}
sources = pytest.mark.parametrize(
    "sources", [ALL_SOURCES, frozenset({Source.JOURNAL})], ids=["all", "journal"]
)
layouts = pytest.mark.parametrize("layout", OPTIONS)


def _come_back(
    folder: Path, layout: str, act: Act, sources: frozenset[Source]
) -> dict[bytes, DeletedFile]:
    """The deleted files by name; one that is called intact has the bytes that it had."""
    disk = Disk(folder, *OPTIONS[layout])
    _fill(disk)
    act(disk)
    with ext4kit.open(disk.image) as image:
        found = find_deleted(image.volume().filesystem(), sources=sources)
        files = {file.name: file for file in found if file.name in CONTENTS}
        wrong = [
            name
            for name, file in files.items()
            if name and file.grade.is_whole and content(file) != CONTENTS[name]
        ]
        assert wrong == []
        said = [str(problem) for problem in found.problems if "TRIM" in problem.what]
        assert len(said) == any(file.lost for file in files.values())
        assert all("in block groups " in one for one in said)
    return {name: file for name, file in files.items() if name}


@sources
@layouts
def test_what_was_not_discarded_is_intact(
    tmp_path: Path, layout: str, sources: frozenset[Source]
) -> None:
    files = _come_back(tmp_path, layout, _nothing, sources)
    intact = [name for name, file in files.items() if file.grade == "intact"]
    assert len(intact) >= ENOUGH * len(CONTENTS)
    assert HOLDS_ZEROS in intact


@sources
@layouts
@pytest.mark.parametrize(
    "act", [_by_mount, _later, _used_blocks_alone], ids=lambda act: act.__name__
)
def test_what_was_discarded_is_overwritten(
    tmp_path: Path, layout: str, act: Act, sources: frozenset[Source]
) -> None:
    files = _come_back(tmp_path, layout, act, sources)
    gone = [file for file in files.values() if file.grade == "overwritten"]
    assert len(gone) >= MANY * len(CONTENTS)
    told = [file for file in gone if DISCARDED in {piece.owner for piece in file.lost}]
    assert len(told) >= ENOUGH * len(gone)
    assert all(sum(piece.length for piece in file.lost) == file.size for file in told)


@sources
def test_a_file_discarded_in_part_is_partial(tmp_path: Path, sources: frozenset[Source]) -> None:
    files = _come_back(tmp_path, "ext4", _in_part, sources)
    half = files[b"noise 1000000"]
    assert half.grade == "partial"
    (piece,) = half.lost
    assert piece.owner == DISCARDED
    assert 0.4 * 1_000_000 < piece.length < 0.6 * 1_000_000
    assert {file.grade for file in files.values()} >= {"consistent", "partial"}  # mounted again


def test_when_fstrim_ran_last_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    stamp = Path("var/lib/systemd/timers/stamp-fstrim.timer")
    with disk.mounted() as root:
        (root / stamp).parent.mkdir(parents=True)
        (root / stamp).touch()
        os.utime(root / stamp, (1_700_000_000, 1_700_000_000))
    _fill(disk)
    _later(disk)
    found = find_deleted(disk.file_system())
    assert "fstrim ran last at 2023-11-14 22:13:20Z" in " ".join(one.what for one in found.problems)
