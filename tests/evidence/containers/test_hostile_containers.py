"""Containers made to hurt their reader end at once, within bounds, in one line of exit code 3."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.evidence.lost import unreadable_ranges
from tests.evidence.containers import hostile
from tests.evidence.containers.measured import measured_command

MIB = 1 << 20
SECONDS, MEMORY = 10.0, 256 * MIB
USED = 1 << 63  # of a QCOW2 entry: its cluster has one user
Made = tuple[Path, str]


def _sparse(path: Path, size: int, *parts: tuple[int, bytes]) -> Path:
    with path.open("xb") as file:
        file.truncate(size)
        for at, data in parts:
            file.seek(at)
            file.write(data)
    return path


def _overlapping_tables(folder: Path) -> Made:
    """Tables that each reach to the end of the last one, 2,900 in 296 KiB."""
    kind, body = hostile.ewf_volume(1 << 40)
    path = hostile.ewf(folder / "disk.E01", [(kind, body)])
    step, count = hostile.EWF_HEADER + 24 + 4, 2900
    start = path.stat().st_size
    end = start + step * count
    with path.open("ab") as file:
        for at in range(start, end, step):
            entries = (end - at - hostile.EWF_HEADER - 24) // 4
            behind = at + hostile.EWF_HEADER + 24 + 4 * entries
            head = struct.pack("<IIQI", entries, 0, behind, 0)  # no checksum follows the entries
            head += struct.pack("<I", zlib.adler32(head))
            file.write(hostile.ewf_section(b"table", at + step, end - at) + head + bytes(4))
    return path, "cannot be read as an EWF image: EWF table section at byte 1,217: its header"


def _full_tables(folder: Path) -> Made:
    """One table of entries alone: more chunks than a file of its size could have stored."""
    sections = [hostile.ewf_volume(1 << 40), hostile.ewf_table(list(range(1 << 20)))]
    path = hostile.ewf(folder / "disk.E01", [*sections, (b"done", b"")])
    return path, "lists more chunks than its 4,195,625 bytes can hold"


def _large_chunks(folder: Path) -> Made:
    per_chunk = (128 * MIB) // 512
    path = hostile.ewf(
        folder / "disk.E01",
        [hostile.ewf_volume(3 * per_chunk, per_chunk), (b"sectors", bytes(384 << 10))],
    )
    return path, "786,432 sectors, chunks of 134,217,728 bytes"


def _no_first_level(folder: Path) -> Made:
    head = hostile.qcow2_header(1 << 30, 1 << 20, 2)
    path = _sparse(folder / "disk.qcow2", 256 << 10, (0, head))
    return path, "image, bytes 0 to 1,073,741,823: their part of its first-level table is not there"


def _large_first_level(folder: Path) -> Made:
    head = hostile.qcow2_header(1 << 50, 1 << 16, 1 << 24, cluster_bits=9)
    path = _sparse(folder / "disk.qcow2", 24 * MIB, (0, head))
    return path, "a disk of 1,125,899,906,842,624 bytes needs more than QEMU's 33,554,432"


def _sparse_first_level(folder: Path) -> Made:
    head = hostile.qcow2_header(1 << 61, 1 << 16, (1 << 32) - 1)
    path = _sparse(folder / "disk.qcow2", 33 << 30, (0, head))
    return path, "needs more than QEMU's 33,554,432"


def _table_of_all(folder: Path) -> Made:
    """One second-level table, and one cluster, that make a disk of 1 TiB."""
    path = _sparse(
        folder / "disk.qcow2", 9 * MIB,
        (0, hostile.qcow2_header(1 << 40, 1 << 16, 2048)),
        (1 << 16, struct.pack(">Q", USED | 2 << 16) * 2048),
        (2 << 16, struct.pack(">Q", USED | 3 << 16) * 8192),
        (3 << 16, os.urandom(1 << 16)),
    )  # fmt: skip
    return path, "bytes 536,870,912 to 1,099,511,627,775: their second-level table is that of"


def _small_clusters(folder: Path) -> Made:
    """The same with a million entries of the first level."""
    entries, place = 1 << 20, 9 * MIB
    path = _sparse(
        folder / "disk.qcow2", place + 1024,
        (0, hostile.qcow2_header(entries * 64 * 512, 512, entries, cluster_bits=9)),
        (512, struct.pack(">Q", USED | place) * entries),
        (place, struct.pack(">Q", USED | place + 512) * 64),
        (place + 512, os.urandom(512)),
    )  # fmt: skip
    return path, "bytes 32,768 to 34,359,738,367: their second-level table is that of another range"


def _vhd_table(folder: Path) -> Made:
    """A dynamic VHD of 4 EiB - 1 in blocks of a sector."""
    head = struct.pack(
        ">8sIIQI4sI4sQQHBBI", b"conectix", 2, 0x10000, 512, 0, b"test", 0, b"Wi2k", 1 << 61,
        1 << 61, 65535, 16, 255, 3,
    )  # fmt: skip
    dynamic = b"cxsparse" + struct.pack(">QQIII", (1 << 64) - 1, 1536, 0x10000, (1 << 32) - 1, 512)
    parts = ((0, head), (512, dynamic))
    path = _sparse(folder / "disk.vhd", 33 << 30, *parts)
    return path, "a disk of 2,305,843,009,213,693,952 bytes in blocks of 512"


def _many_extents(folder: Path) -> Made:
    path = folder / "disk.vmdk"
    (folder / "flat.vmdk").write_bytes(bytes(MIB))
    path.write_bytes(hostile.vmdk_descriptor(['RW 2048 FLAT "flat.vmdk" 0'] * 200_000))
    return path, "has 200,000 extents, more than 8,192"


def _zero_extent(folder: Path) -> Made:
    path = folder / "disk.vmdk"
    path.write_bytes(hostile.vmdk_descriptor(["RW 2048 ZERO"]))
    return path, "VMDK with an extent of zeros that no file holds (ZERO); convert it to a VMDK"


HOSTILE: list[Callable[[Path], Made]] = [
    _overlapping_tables, _full_tables, _large_chunks, _no_first_level, _large_first_level,
    _sparse_first_level, _table_of_all, _small_clusters, _vhd_table, _many_extents, _zero_extent,
]  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE)
def test_it_ends_at_once_within_bounds_and_says_why(
    make: Callable[[Path], Made], tmp_path: Path
) -> None:
    path, words = make(tmp_path)
    done, took, peak = measured_command("info", path)
    assert words in done.stderr
    assert done.returncode == 3
    assert "internal error" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert took < SECONDS
    assert peak < max(MEMORY, 4 * min(path.stat().st_size, MEMORY // 4))


def test_what_the_tables_lose_is_known_as_ranges(tmp_path: Path) -> None:
    """The first of two equal second-level tables is read; only the second is lost."""
    path, _ = _table_of_all(tmp_path)
    with open_evidence(path) as evidence:
        assert unreadable_ranges(evidence.source).tolist() == [[1 << 29, 1 << 40]]
        assert evidence.source.read(0, 1 << 16) == path.read_bytes()[3 << 16 : 4 << 16]
        assert len(evidence.problems) == 1


def test_memory_for_tables_is_a_few_times_the_file(tmp_path: Path) -> None:
    """As many chunks as a file can hold: an entry and the smallest stream for each."""
    count = 1 << 20
    stream = zlib.compress(b"")
    volume = hostile.ewf_volume(count * 64)
    first = 13 + 2 * hostile.EWF_HEADER + len(volume[1])
    starts = [1 << 31 | first + at * len(stream) for at in range(count)]
    sections = [volume, (b"sectors", stream * count), hostile.ewf_table(starts), (b"done", b"")]
    path = hostile.ewf(tmp_path / "disk.E01", sections)
    _, _, peak = measured_command("volumes", path)
    assert peak < MEMORY
