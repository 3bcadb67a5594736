"""Partition tables agree with sfdisk, and damaged ones are told."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ext4kit.evidence import Evidence, open_evidence
from tests.partition_tables import write_table

Run = Callable[..., str]
Make = Callable[[str, int], Path]

EXTENDED = {"5", "f", "85"}
MBR = """label: dos
2048 4096 83
8192 100000 5
10240 4096 83
16384 4096 82
120000 2000 b
40000 2000 83
"""
GPT = """label: gpt
start=2048,size=4096,name=root
start=8192,size=4096,type=S,name="b√ü x"
start=20000
"""


def _places(evidence: Evidence) -> list[tuple[int, int]]:
    return [(volume.offset, volume.size) for volume in evidence.volumes]


def _sfdisk(run: Run, path: Path) -> list[dict[str, Any]]:
    table = json.loads(run("sfdisk", "--json", path))["partitiontable"]
    parts = [each for each in table["partitions"] if each["type"] not in EXTENDED]
    return sorted(parts, key=lambda each: int(each["start"]))


def _expected(run: Run, path: Path, sector: int = 512) -> list[tuple[int, int]]:
    return [(each["start"] * sector, each["size"] * sector) for each in _sfdisk(run, path)]


@pytest.mark.parametrize(("script", "scheme"), [(MBR, "mbr"), (GPT, "gpt")])
def test_offsets_and_sizes_are_what_sfdisk_says(
    run: Run, make: Make, script: str, scheme: str
) -> None:
    path = make("disk", 64)
    write_table(path, script)
    with open_evidence(path) as evidence:
        assert _places(evidence) == _expected(run, path)
        assert {volume.scheme for volume in evidence.volumes} == {scheme}
        indexes = [volume.index for volume in evidence.volumes]
        assert indexes == list(range(1, len(indexes) + 1))
        assert len(evidence.problems) == 0


def test_gpt_names_are_what_sfdisk_says(run: Run, make: Make) -> None:
    path = make("disk", 64)
    write_table(path, GPT)
    names = [each.get("name", "") for each in _sfdisk(run, path)]
    with open_evidence(path) as evidence:
        assert [volume.description for volume in evidence.volumes] == names


def test_a_sun_label_made_by_parted(run: Run, make: Make) -> None:
    path = make("disk", 64)
    second = ("mkpart", "ext2", "20MiB", "40MiB")
    run("parted", "-s", path, "mklabel", "sun", "mkpart", "ext2", "1MiB", "20MiB", *second)
    whole = (0, 64 << 20)
    with open_evidence(path) as evidence:
        assert _places(evidence) == [each for each in _expected(run, path) if each != whole]


LARGE_MBR = """label: dos
256 4096 83
5000 40000 5
5256 4096 83
10000 4096 82
50000 2000 b
"""
LARGE_PRIMARY = "label: dos\n256 4096 83\n5000 4096 83\n50000 4096 83\n"
LARGE_GPT = "label: gpt\nstart=256,size=4096,name=four\nstart=8192\n"


def _large(run: Run, loop: Callable[..., Path], path: Path, script: str) -> list[tuple[int, int]]:
    """Partition a disk with sectors of 4,096 bytes; what sfdisk says of it."""
    device = loop(path, "-b", "4096")
    write_table(device, script, "--no-reread")
    return _expected(run, device, 4096)


@pytest.mark.kernel
@pytest.mark.parametrize(("script", "count"), [(LARGE_GPT, 2), (LARGE_MBR, 4)])
def test_sectors_of_4_kib(
    run: Run, make: Make, loop: Callable[..., Path], script: str, count: int
) -> None:
    """A GPT and extended tables are found where such sectors put them."""
    path = make("disk", 256)
    expected = _large(run, loop, path, script)
    with open_evidence(path) as evidence:
        assert _places(evidence) == expected
        assert len(evidence.problems) == 0
    assert len(expected) == count


@pytest.mark.kernel
@pytest.mark.parametrize("script", [LARGE_PRIMARY, LARGE_MBR])
def test_what_is_in_them_tells_sectors_of_4_kib(
    run: Run, make: Make, loop: Callable[..., Path], script: str
) -> None:
    path, volume = make("disk", 256), make("volume", 2)
    expected = _large(run, loop, path, script)
    run("mke2fs", "-q", "-t", "ext4", "-L", "large", volume)
    _put(path, expected[1][0], volume.read_bytes())
    with open_evidence(path) as evidence:
        assert _places(evidence) == expected
        assert [each.label for each in evidence.volumes if each.is_ext] == ["large"]


@pytest.mark.kernel
def test_a_device_tells_its_sectors(run: Run, make: Make, loop: Callable[..., Path]) -> None:
    """Nothing in the partitions tells them; of the image file 512 bytes have to be believed."""
    path = make("disk", 256)
    device = loop(path, "-b", "4096")
    write_table(device, LARGE_PRIMARY, "--no-reread")
    expected = _expected(run, device, 4096)
    with open_evidence(device) as evidence:
        assert _places(evidence) == expected


@pytest.mark.kernel
@pytest.mark.parametrize("label", ["msdos", "gpt"])
def test_sectors_of_4_kib_by_parted(
    run: Run, make: Make, loop: Callable[..., Path], label: str
) -> None:
    path = make("disk", 256)
    names = ("primary", "extended", "logical") if label == "msdos" else ("a", "b", "c")
    ranges = (("1MiB", "20MiB"), ("32MiB", "200MiB"), ("40MiB", "60MiB"))
    if label == "gpt":
        ranges = (ranges[0], ("32MiB", "36MiB"), ranges[2])
    commands = [word for name, ends in zip(names, ranges, strict=True)
                for word in ("mkpart", name, *ends)]  # fmt: skip
    sectors = "PARTED_SECTOR_SIZE=4096"  # of a file; of a device it tells the kernel, too
    run("env", sectors, "parted", "-s", "-a", "none", path, "mklabel", label, *commands)
    device = loop(path, "-b", "4096")
    expected = _expected(run, device, 4096)
    with open_evidence(device) as evidence:
        assert _places(evidence) == expected
    assert len(expected) == (2 if label == "msdos" else 3)


@pytest.mark.kernel
def test_a_gpt_by_sgdisk_with_sectors_of_4_kib_is_read_from_its_backup(
    run: Run, make: Make, loop: Callable[..., Path]
) -> None:
    path = make("disk", 256)
    device = loop(path, "-b", "4096")
    run("sgdisk", "-n", "1:256:4351", "-n", "2:8192:9000", device)
    expected = _expected(run, device, 4096)
    with open_evidence(path) as evidence:
        assert _places(evidence) == expected
    _put(path, 4096, bytes(4096))
    with open_evidence(path) as evidence:
        assert _places(evidence) == expected
        assert ["backup" in problem.what for problem in evidence.problems] == [True]


def test_volumes_know_what_they_hold(run: Run, make: Make) -> None:
    path = make("disk", 64)
    write_table(path, MBR)
    volume = make("volume", 2)
    run("mke2fs", "-q", "-t", "ext4", "-L", "logical", volume)
    _put(path, 10240 * 512, volume.read_bytes())
    with open_evidence(path) as evidence:
        kinds = [each.kind for each in evidence.volumes]
        assert kinds == ["unknown", "ext4", "unknown", "unknown", "unknown"]
        logical = evidence.volumes[1]
        assert (logical.label, logical.is_ext) == ("logical", True)
        assert logical.source.read(0, logical.source.size) == volume.read_bytes()


def test_pieces_of_a_split_disk_give_the_same_volumes(run: Run, make: Make) -> None:
    path = make("disk", 64)
    write_table(path, GPT)
    data = path.read_bytes()
    for index, start in enumerate(range(0, len(data), 5_000_001), 1):
        path.with_name(f"disk.{index:03d}").write_bytes(data[start : start + 5_000_001])
    with open_evidence(path.with_name("disk.001")) as evidence:
        assert _places(evidence) == _expected(run, path)


# -------------------------------------------------------------------------------- damaged tables


def _put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(("start", "length"), [(0, 34 * 512), (512, 512)])
def test_a_destroyed_gpt_is_read_from_its_backup_and_told(
    run: Run, make: Make, start: int, length: int
) -> None:
    path = make("disk", 64)
    write_table(path, GPT)
    expected = _expected(run, path)
    _put(path, start, bytes(length))
    with open_evidence(path) as evidence:
        assert _places(evidence) == expected
        assert ["backup" in problem.what for problem in evidence.problems] == [True]


@pytest.mark.parametrize("script", [MBR, GPT])
def test_partitions_beyond_the_end_are_kept_and_told(run: Run, make: Make, script: str) -> None:
    path = make("disk", 64)
    write_table(path, script)
    expected = _expected(run, path)
    size = expected[1][0] + 1_000_000
    with path.open("r+b") as file:
        file.truncate(size)
    with open_evidence(path) as evidence:
        whole, cut, *outside = evidence.volumes
        assert whole.source.missing == 0
        assert (cut.offset, cut.size) == expected[1]
        assert (cut.source.size, cut.source.missing) == (1_000_000, cut.size - 1_000_000)
        assert outside
        assert all(volume.source.size == 0 for volume in outside)
        places = {problem.where for problem in evidence.problems}
        assert places >= {f"volume {volume.index}" for volume in (cut, *outside)}


def test_logical_partitions_that_cannot_be_read_are_told(run: Run, make: Make) -> None:
    path = make("disk", 64)
    write_table(path, MBR)
    with path.open("r+b") as file:
        file.truncate(14_000 * 512)  # between the first and the second extended table
    with open_evidence(path) as evidence:
        told = [str(each) for each in evidence.problems if "extended table" in each.what]
    assert len(told) == 1


def _entry(kind: int, start: int, sectors: int) -> bytes:
    return struct.pack("<4xB3xII", kind, start, sectors)


def _boot_record(*entries: bytes) -> bytes:
    return (bytes(446) + b"".join(entries)).ljust(510, b"\0") + b"\x55\xaa"


def test_a_circle_of_extended_tables_ends(make: Make) -> None:
    path = make("disk", 64)
    _put(path, 0, _boot_record(_entry(5, 2048, 100_000)))
    _put(path, 2048 * 512, _boot_record(_entry(0x83, 1, 100), _entry(5, 10, 1000)))
    _put(path, 2058 * 512, _boot_record(_entry(0x83, 1, 100), _entry(5, 0, 1000)))
    with open_evidence(path) as evidence:
        assert _places(evidence) == [(2049 * 512, 51_200), (2059 * 512, 51_200)]


def test_a_chain_without_end_is_cut_and_told(make: Make) -> None:
    path = make("disk", 64)
    links = 20_000
    _put(path, 0, _boot_record(_entry(5, 2048, 100_000)))
    chain = (
        _boot_record(_entry(0x83, 1, 1), _entry(5, 2 * link, 2)).ljust(1024, b"\0")
        for link in range(1, links)
    )
    _put(path, 2048 * 512, b"".join(chain))
    with open_evidence(path) as evidence:
        assert 0 < len(evidence.volumes) <= 1024
        assert evidence.problems.errors > 0


def test_a_boot_sector_without_partitions_is_one_volume(make: Make) -> None:
    path = make("disk", 4)
    _put(path, 0, _boot_record())
    with open_evidence(path) as evidence:
        assert [(each.index, each.size, each.scheme) for each in evidence.volumes] == [
            (1, 4 << 20, "")
        ]


# ----------------------------------------------------------------------- tables within and below


def _bsd_label(entries: list[tuple[int, int]]) -> bytes:
    """A disklabel (FreeBSD sys/disklabel.h) with (start, size) in sectors of 512 bytes."""
    label = bytearray(512)
    struct.pack_into("<I", label, 0, 0x82564557)
    struct.pack_into("<I", label, 40, 512)
    struct.pack_into("<I", label, 132, 0x82564557)
    struct.pack_into("<H", label, 138, len(entries))
    for index, (start, size) in enumerate(entries):
        struct.pack_into("<IIIBBH", label, 148 + 16 * index, size, start, 1024, 7, 8, 0)
    return bytes(label)


@pytest.mark.parametrize("base", [0, 8192])
def test_a_bsd_label_in_a_slice(make: Make, base: int) -> None:
    """Starts may count from the slice (today) or from the disk (once)."""
    path = make("disk", 64)
    _put(path, 0, _boot_record(_entry(0x83, 2048, 4096), _entry(0xA5, 8192, 50_000)))
    parts = [(base + 16, 1000), (base + 2000, 3000), (base, 50_000)]
    _put(path, (8192 + 1) * 512, _bsd_label(parts))
    with open_evidence(path) as evidence:
        found = [(each.scheme, each.offset // 512, each.size // 512) for each in evidence.volumes]
    inner = [("mbr/bsd", 8192 + 16, 1000), ("mbr/bsd", 8192 + 2000, 3000)]
    assert found == [("mbr", 2048, 4096), *inner]


@pytest.mark.heavy
def test_a_disk_image_within_a_partition(run: Run, make: Make) -> None:
    inner, outer = make("inner", 16), make("outer", 64)
    write_table(inner, "label: gpt\nstart=2048,size=4096\nstart=8192,size=4096\n")
    write_table(outer, f"label: dos\nstart=2048,size={16 << 11}\nstart=40000,size=8\n")
    _put(outer, 1 << 20, inner.read_bytes())
    with open_evidence(outer) as evidence:
        expected = [(offset + (1 << 20), size) for offset, size in _expected(run, inner)]
        assert _places(evidence)[:2] == expected
        assert [each.scheme for each in evidence.volumes] == ["mbr/gpt", "mbr/gpt", "mbr"]


def test_tables_within_tables_end(make: Make) -> None:
    path = make("disk", 64)
    for level in range(60):
        _put(path, level * 8192, _boot_record(_entry(0x83, 16, 50_000)))
    with open_evidence(path) as evidence:
        assert len(evidence.volumes) == 1
        assert evidence.volumes[0].scheme.count("mbr") <= 4


def test_a_file_system_below_a_table_is_listed_with_the_partitions(run: Run, make: Make) -> None:
    path = make("disk", 64)
    run("mke2fs", "-q", "-t", "ext4", "-L", "whole", path)
    _put(path, 0, _boot_record(_entry(0x83, 2048, 4096)))
    with open_evidence(path) as evidence:
        found = [(each.index, each.offset, each.kind) for each in evidence.volumes]
        assert found == [(1, 0, "ext4"), (2, 1 << 20, "unknown")]
        assert ["both are listed" in problem.what for problem in evidence.problems] == [True]


def test_a_boot_sector_alone_does_not_make_a_disk_of_a_file_system(run: Run, make: Make) -> None:
    path = make("disk", 16)
    run("mke2fs", "-q", "-t", "ext4", path)
    _put(path, 510, b"\x55\xaa")
    with open_evidence(path) as evidence:
        assert [(each.offset, each.kind) for each in evidence.volumes] == [(0, "ext4")]
        assert len(evidence.problems) == 0


@pytest.mark.heavy
def test_changed_bytes_in_tables_raise_nothing(run: Run, make: Make) -> None:
    """Volumes come back from any table, and what is missing of each adds up."""
    chooser = random.Random(7)
    disks = []
    for script in (MBR, GPT):
        path = make("disk", 64)
        write_table(path, script)
        disks.append(path.read_bytes()[: 1 << 20])
    path = make("changed", 1)
    for _ in range(40):
        data = bytearray(chooser.choice(disks))
        for at in (chooser.randrange(446, 510), *chooser.choices(range(512, 1536), k=8)):
            data[at] = chooser.choice((0, 1, 255, chooser.randrange(256)))
        path.write_bytes(data)
        with open_evidence(path) as evidence:
            assert evidence.volumes
            for volume in evidence.volumes:
                assert volume.source.size + volume.source.missing == volume.size
                assert volume.offset + volume.source.size <= max(volume.offset, len(data))
