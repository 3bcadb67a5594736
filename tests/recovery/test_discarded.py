"""Discarded blocks: no file of zeros is called intact, and no file is doubted where none was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit
from ext4kit.carving.indirect_bodies import DIRECT_BLOCKS
from ext4kit.reasons import ZEROS_POSSIBLY_DISCARDED as IN_UNITS
from ext4kit.recovery import DeletedFile, Grade, find_deleted
from ext4kit.recovery.discarded import UNIT
from ext4kit.recovery.losses import DISCARDED
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY, SearchSource
from sample_images.recipes.contents import noise, text
from sample_images.recipes.machine import loop_device, run, sync
from tests.recovery.test_traps import BLOCK, Disk, content, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
Act = Callable[[Disk], None]
HOLDS_ZEROS = b"holds zeros"  # by itself: a part of it is
SIZES = (100, 3000, 4096, 12_000, 100_000, 1_000_000)
ENOUGH = 0.9
ENOUGH_THEN = 0.8  # where mounts write the log anew: two of 13 are of whole blocks
LARGE = 1_000_000
SPARSE = "sparse"
DISCARDED_SECTORS, SECTOR = 13, 512  # field of the statistics; bytes
WAIT = 5  # seconds
MANY = 0.5  # kernel and loop device leave a discard out now and then; what they left is intact


def _contents() -> dict[bytes, bytes]:
    found = {
        b"%s %d" % (kind, size): make(f"{kind!r}{size}", size)
        for kind, make in ((b"text", text), (b"noise", noise))
        for size in SIZES
    }
    return found | {HOLDS_ZEROS: noise("start", 12_288) + bytes(16_384) + noise("end", 5000)}


CONTENTS = _contents()


def _needs_discards(disk: Disk) -> None:
    """Skip where loop devices discard nothing, as those of Linux 5.10 on the disk of a guest."""
    with loop_device(disk.image) as device:
        most = Path(f"/sys/block/{device.name}/queue/discard_max_bytes").read_text()
    if int(most) == 0:
        pytest.skip("needs loop devices that discard")


def _fill(disk: Disk) -> None:
    with disk.mounted() as root:
        for name, data in CONTENTS.items():
            (root / os.fsdecode(name)).write_bytes(data)


def _remove(disk: Disk, options: str = "rw") -> None:
    with disk.mounted(options) as root:
        (root / "beside it").touch()
        sync(root)
        before = _discarded_bytes(root)
        for name in CONTENTS:
            (root / os.fsdecode(name)).unlink()
        sync(root)
        if "discard" in options:
            size = os.statvfs(root).f_bsize
            blocks = sum(-(-len(data) // size) for data in CONTENTS.values())
            _wait_for_discards(root, before + blocks * size)


def _discarded_bytes(root: Path) -> int:
    """How much was ever discarded of the device that is mounted there."""
    device = root.stat().st_dev
    statistics = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(statistics.read_text().split()[DISCARDED_SECTORS]) * SECTOR


def _wait_for_discards(root: Path, expected: int) -> None:
    """Since Linux 5.15 they run beside, and an unmount drops the rest.

    Source: kernel fs/ext4/mballoc.c, `ext4_discard_work`.
    """
    until = time.monotonic() + WAIT
    while _discarded_bytes(root) < expected and time.monotonic() < until:
        time.sleep(0.01)


def _nothing(disk: Disk) -> None:
    _remove(disk)


def _by_mount(disk: Disk) -> None:
    _needs_discards(disk)
    _remove(disk, "rw,discard")


def _later(disk: Disk) -> None:
    _needs_discards(disk)
    _remove(disk)
    with disk.mounted(logs=False) as root:
        run("fstrim", root)


def _in_part(disk: Disk) -> None:
    """From the middle of the largest file on."""
    _needs_discards(disk)
    _remove(disk)
    found = {file.path: file for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)}
    _, first, count = found[b"/noise 1000000"].extents[0]
    with disk.mounted(logs=False) as root:
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
sources = pytest.mark.parametrize("sources", [ALL_SOURCES, JOURNAL_ONLY], ids=["all", "journal"])
layouts = pytest.mark.parametrize("layout", OPTIONS)


def _come_back(
    folder: Path, layout: str, act: Act, sources: frozenset[SearchSource]
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


def _has_all_in_log(layout: str) -> bool:
    """Whether the log shows the inodes of all files: a table block of 1 KiB has four of them."""
    return HERE.log_goes_on or layout != "small_blocks"


@sources
@layouts
def test_what_was_not_discarded_is_intact(
    tmp_path: Path, layout: str, sources: frozenset[SearchSource]
) -> None:
    files = _come_back(tmp_path, layout, _nothing, sources)
    best = [name for name, file in files.items() if file.grade is HERE.best]
    assert best
    if _has_all_in_log(layout):
        assert len(best) >= (ENOUGH if HERE.log_goes_on else ENOUGH_THEN) * len(CONTENTS)
        assert HOLDS_ZEROS in best


@sources
@layouts
@pytest.mark.parametrize(
    "act", [_by_mount, _later, _used_blocks_alone], ids=lambda act: act.__name__
)
def test_what_was_discarded_is_overwritten(
    tmp_path: Path, layout: str, act: Act, sources: frozenset[SearchSource]
) -> None:
    files = _come_back(tmp_path, layout, act, sources)
    gone = [file for file in files.values() if file.grade == "overwritten"]
    assert len(gone) >= MANY * len(CONTENTS)
    told = [file for file in gone if DISCARDED in {piece.owner for piece in file.lost}]
    assert told
    assert len(told) >= ENOUGH * len(gone) or not _has_all_in_log(layout)
    if not HERE.log_goes_on and layout == "ext3":  # the indirect blocks are discarded as well
        direct = DIRECT_BLOCKS * BLOCK
        told = [file for file in told if file.size is not None and file.size <= direct]
    assert all(sum(piece.length for piece in file.lost) == file.size for file in told)


@sources
def test_a_file_discarded_in_part_is_partial(
    tmp_path: Path, sources: frozenset[SearchSource]
) -> None:
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
    found = find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    if not HERE.log_goes_on and not any("TRIM" in one.what for one in found.problems):
        pytest.skip("the next mount wrote over the maps of the deleted files")
    assert "fstrim ran last at 2023-11-14 22:13:20Z" in " ".join(one.what for one in found.problems)


# -- inside one run: a drive discards in units of its own -----------------------------------------


def _write_and_remove(disk: Disk, data: dict[str, bytes]) -> None:
    """Files that an unmount brought to the disk, gone in a later mount; zeros are holes in one."""
    with disk.mounted() as root:
        for name, whole in data.items():
            (root / name).write_bytes(whole)
        if SPARSE in data:
            run("fallocate", "--dig-holes", root / SPARSE)
    with disk.mounted() as root:
        remove(*(root / name for name in data))


def _extent(disk: Disk, name: bytes) -> tuple[int, int]:
    """First byte and end of the only run of blocks of a deleted file."""
    ((_, first, count),) = disk.deleted()[name].extents
    return first * BLOCK, (first + count) * BLOCK


def _discard(disk: Disk, start: int, length: int) -> None:
    """Discard a range of the disk as a loop device does it: it reads as zeros afterwards."""
    run("fallocate", "--punch-hole", "-o", str(start), "-l", str(length), disk.image)


def _is_doubted_for_its_units(file: DeletedFile) -> bool:
    """For nothing else, where it would have been intact.

    Where no changes are counted or the log restarts, zeros at its end speak more against it.
    """
    if file.grade is Grade.PARTIAL:
        return not (HERE.counts_changes and HERE.log_goes_on)
    alone = len(file.reasons) == 1 or HERE.best is not Grade.INTACT
    return file.grade is Grade.CONSISTENT and IN_UNITS in file.reasons and alone


@sources
@pytest.mark.parametrize("units", [1, 2, 5])
def test_units_discarded_inside_a_run_are_not_vouched_for(
    tmp_path: Path, units: int, sources: frozenset[SearchSource]
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    data = {"spoilt": noise("spoilt", LARGE), "spared": noise("spared", LARGE)}
    _write_and_remove(disk, data)
    assert {file.grade for file in disk.deleted().values()} == {HERE.best}
    start, end = _extent(disk, b"/spoilt")
    middle = (start + end) // 2 // UNIT * UNIT
    _discard(disk, middle, units * UNIT)
    found = find_deleted(disk.file_system(), sources=sources)
    files = {file.path: file for file in found if file.path}
    assert content(files[b"/spoilt"]) != data["spoilt"]  # it was discarded
    assert _is_doubted_for_its_units(files[b"/spoilt"])
    assert files[b"/spared"].grade is HERE.best


@pytest.mark.parametrize("edge", ["start", "end"])
def test_a_unit_that_is_discarded_across_the_edge_of_a_file_is_not_vouched_for(
    tmp_path: Path, edge: str
) -> None:
    """Less than a unit of it is in the file; the rest was free, and zeros or in use now."""
    disk = Disk(tmp_path, "-t", "ext4")
    data = {name: noise(name, LARGE + 20_000) for name in ("before", "spoilt", "behind")}
    _write_and_remove(disk, data)
    start, end = _extent(disk, b"/spoilt")
    at = start if edge == "start" else end
    assert at % UNIT
    _discard(disk, at // UNIT * UNIT, UNIT)
    file = disk.deleted()[b"/spoilt"]
    assert content(file) != data["spoilt"]
    assert _is_doubted_for_its_units(file)


def test_a_unit_of_the_disk_is_meant_where_the_file_system_does_not_begin_at_one(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    data = {"spoilt": noise("spoilt", LARGE)}
    _write_and_remove(disk, data)
    start, end = _extent(disk, b"/spoilt")
    skip = 63 * 512  # where the first partition of old disks begins
    inside = (start + end) // 2 // UNIT * UNIT
    # Whole blocks of one unit of the disk; in the file system they are in two units.
    first, stop = -(-(inside - skip) // BLOCK) * BLOCK, (inside - skip + UNIT) // BLOCK * BLOCK
    with disk.image.open("r+b") as stream:
        stream.seek(first)
        stream.write(bytes(stop - first))
    whole = tmp_path / "disk"
    with whole.open("xb") as out:
        head = bytearray(skip)
        sectors = (disk.image.stat().st_size // 512).to_bytes(4, "little")
        head[446:462] = b"\0\0\0\0\x83\0\0\0" + (63).to_bytes(4, "little") + sectors
        head[510:512] = b"\x55\xaa"
        out.write(bytes(head) + disk.image.read_bytes())
    with ext4kit.open(whole) as opened:
        (file,) = find_deleted(opened.volume().filesystem(), sources=JOURNAL_ONLY)
        assert content(file) != data["spoilt"]
        assert _is_doubted_for_its_units(file)


def test_zeros_of_a_file_that_fill_no_unit_are_its_own(tmp_path: Path) -> None:
    """Twins of what is discarded: less than a unit, holes, and the end of an archive."""
    disk = Disk(tmp_path, "-t", "ext4")
    start, end = noise("start", LARGE), noise("end", LARGE)
    data = {
        "some": start + bytes(UNIT - 2 * BLOCK) + end,
        "here and there": (start[:5000] + bytes(20_000)) * 30,
        "archive": start + bytes(10 << 10),
        SPARSE: start + bytes(10 * UNIT) + end,
        "one block": start[: 3 * BLOCK] + bytes(BLOCK) + end[:BLOCK],
    }
    _write_and_remove(disk, data)
    files = disk.deleted()
    for name, whole in data.items():
        file = files[b"/" + name.encode()]
        assert content(file) == whole
        # Where nothing tells of an unmount, a content may go on where it ends in zeros or a block.
        told = {HERE.best} if HERE.log_goes_on else {HERE.best, Grade.PARTIAL}
        assert file.grade in told


def test_zeros_of_which_the_journal_has_a_copy_are_the_files_own(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-J", "size=16")
    data = {"logged": noise("start", 100_000) + bytes(4 * UNIT) + noise("end", 100_000)}
    with disk.mounted("data=journal") as root:
        (root / "logged").write_bytes(data["logged"])
        sync(root)
        remove(root / "logged")
    (file,) = disk.deleted().values()
    assert content(file) == data["logged"]
    assert IN_UNITS not in file.reasons
    # Earlier kernels forget the bytes of a file that goes before they were written to their place.
    assert file.grade.is_whole or not HERE.log_goes_on
