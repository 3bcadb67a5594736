"""A log on a device of its own, made by mke2fs; and maps of a journal inode with holes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.evidence import open_evidence
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.journal import Log, replay
from ext4kit.journal.location import _expanded, locate_journal
from ext4kit.journal.post_recovery import post_recovery_patches
from ext4kit.problems import Severity
from tests.journal.kernel_log import opened, run
from tests.journal.log_writer import LOG_START, LogWriter
from tests.journal.written_fast_commits import register

SIZE = 1024
NO_UUID = "00000000-0000-0000-0000-000000000000"
UUID = "01234567-89ab-cdef-0123-456789abcdef"
RAW_UUID = bytes.fromhex(UUID.replace("-", ""))
BEHIND = 2  # log block of the journal superblock, with blocks of 1,024 bytes


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A file system that names an external journal, and the device with it."""
    device, image = tmp_path / "device", tmp_path / "image"
    run("mke2fs", "-q", "-F", "-b", "1024", "-O", "journal_dev", "-U", UUID, device, "2M")
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal", image, "4M")
    requests = ("feature has_journal", f"ssv journal_uuid {UUID}", "ssv journal_dev 0x801")
    for request in requests:
        run("debugfs", "-w", "-R", request, image)
    return image, device


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def seal(path: Path) -> None:
    """A superblock's checksum."""
    body = path.read_bytes()[1024:2048]
    change(path, 1024 + 1020, struct.pack("<I", register(0xFFFFFFFF, body[:1020])))


def place_of(image: Path, device: Path) -> tuple[Any, list[str]]:
    fs = opened(image)
    place = locate_journal(fs, open_evidence(device).source)
    return place, [str(problem) for problem in fs.problems]


def test_the_log_is_the_device(pair: tuple[Path, Path]) -> None:
    place, told = place_of(*pair)
    assert told == []
    assert place.log_blocks.tolist() == list(range(2048))
    assert place.superblock_at == BEHIND


@pytest.mark.parametrize("needs", [False, True])
def test_without_the_device_its_absence_is_told(needs: bool, pair: tuple[Path, Path]) -> None:
    if needs:
        run("debugfs", "-w", "-R", "feature needs_recovery", pair[0])
    fs = opened(pair[0])
    assert locate_journal(fs) is None
    (problem,) = fs.problems
    assert problem.severity is (Severity.ERROR if needs else Severity.NOTE)
    assert UUID in problem.what
    assert ("the newest changes are missing" in problem.what) is needs


def test_a_uuid_alone_leads_to_another_device(pair: tuple[Path, Path]) -> None:
    run("debugfs", "-w", "-R", "ssv journal_dev 0", pair[0])
    fs = opened(pair[0])
    assert locate_journal(fs) is None
    assert [UUID in problem.what for problem in fs.problems] == [True]


def test_a_journal_that_nothing_leads_to_is_told(pair: tuple[Path, Path]) -> None:
    for request in (
        f"ssv journal_uuid {'00000000-' + '0000-' * 3 + '0' * 12}",
        "ssv journal_dev 0",
    ):
        run("debugfs", "-w", "-R", request, pair[0])
    fs = opened(pair[0])
    assert locate_journal(fs) is None
    assert [problem.what for problem in fs.problems] == ["the journal has no inode"]


def test_another_file_systems_device_is_not_read(pair: tuple[Path, Path]) -> None:
    change(pair[1], 1024 + 0x68, b"s" * 16)
    seal(pair[1])
    place, (told,) = place_of(*pair)
    assert place is None
    assert "belongs to another file system" in told
    assert UUID in told


def test_a_device_with_a_bad_checksum_is_not_read(pair: tuple[Path, Path]) -> None:
    found = FileSystem.from_source(open_evidence(pair[0]).source)
    assert found.superblock.journal_uuid == RAW_UUID
    run("mke2fs", "-q", "-F", "-b", "1024", "-O", "journal_dev,metadata_csum", "-U", UUID,
        pair[1], "2M")  # fmt: skip
    assert place_of(*pair)[0] is not None
    change(pair[1], 1024 + 0x88, b"label")
    place, (told,) = place_of(*pair)
    assert place is None
    assert "bad checksum of the device's superblock" in told


@pytest.mark.parametrize("content", [b"no journal at all", b""])
def test_what_is_no_journal_is_not_read(content: bytes, pair: tuple[Path, Path]) -> None:
    pair[1].write_bytes(content.ljust(4096, b"\0"))
    place, (told,) = place_of(*pair)
    assert place is None
    assert "not an external journal" in told


def test_a_file_system_is_no_external_journal(pair: tuple[Path, Path]) -> None:
    place, (told,) = place_of(pair[0], pair[0])
    assert place is None
    assert "not an external journal" in told


def test_a_device_for_a_file_system_without_a_journal_is_told(pair: tuple[Path, Path]) -> None:
    run("debugfs", "-w", "-R", "feature ^has_journal", pair[0])
    place, (told,) = place_of(*pair)
    assert place is None
    assert "the file system has no journal" in told


def test_a_device_for_a_file_system_with_a_log_inside_is_not_read(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", inside, "4M")
    place, (told,) = place_of(inside, pair[1])
    assert place is not None
    assert "has an internal journal" in told
    assert len(place.log_blocks) == 1024


def test_a_log_on_a_device_is_replayed_and_emptied_there(pair: tuple[Path, Path]) -> None:
    writer = LogWriter(64, checksums=False)
    writer.head = 3
    writer.transaction(7, (4000, b"copy"))
    writer.log(7, start=3)
    rows = writer.rows[LOG_START:].copy()
    rows[0, 0x14:0x18] = (0, 0, 0, 3)  # s_first
    rows[0, 0x10:0x14] = (0, 0, 8, 0)  # s_maxlen
    change(pair[1], BEHIND * SIZE, rows[0].tobytes())
    change(pair[1], 3 * SIZE, rows[3:].tobytes())
    run("debugfs", "-w", "-R", "feature needs_recovery", pair[0])
    fs = opened(pair[0])
    fs.journal_device = open_evidence(pair[1]).source
    log = Log.open(fs)
    assert log is not None
    assert log.is_shared_device
    blocks = replay(log, fs)
    assert blocks.plan.blocks.tolist() == [4000]
    assert blocks.read(4000)[:4].tobytes() == b"copy"
    after = post_recovery_patches(fs, blocks)
    (emptied,) = after.journal
    assert emptied.offset == BEHIND * SIZE
    assert struct.unpack_from(">II", emptied.data, 0x18) == (9, 0)
    (patch,) = after.volume
    assert patch.offset == 1024
    assert struct.unpack_from("<I", patch.data, 0x60)[0] & 4 == 0


@pytest.mark.parametrize(
    ("runs", "size", "log_blocks"),
    [
        ([(0, 3, 100), (3, 2, 200)], 5 * SIZE, [100, 101, 102, 200, 201]),
        ([(3, 2, 200), (0, 3, 100)], 5 * SIZE, [100, 101, 102, 200, 201]),
        ([(0, 2, 100), (4, 1, 200)], 6 * SIZE, [100, 101, -1, -1, 200, -1]),
        ([(0, 9, 100)], 4 * SIZE + 1000, [100, 101, 102, 103]),
        ([(0, 3, 100), (1, 2, 200)], 4 * SIZE, [100, 200, 201, -1]),
        ([(2, 5, 100), (9, 1, 7)], 4 * SIZE, [-1, -1, 100, 101]),
        ([], 2 * SIZE, [-1, -1]),
        ([(0, 2, 100)], 0, []),
        ([(0, 1, 100)], 1 << 60, [100] + [-1] * 4095),
    ],
)
def test_a_map_becomes_one_entry_a_log_block(
    runs: list[tuple[int, int, int]], size: int, log_blocks: list[int], pair: tuple[Path, Path]
) -> None:
    logical, length, physical = np.array(runs, np.int64).reshape(-1, 3).T
    none = np.zeros(len(runs), np.int64)
    table = Runs(none, logical, length, physical, none != 0)
    assert _expanded(opened(pair[0]), table, size).tolist() == log_blocks
