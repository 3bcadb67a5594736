"""First bytes that say something else than what is behind them: both are told, the disk is read."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import struct
import zlib
from contextlib import closing
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import AccessError
from ext4kit.evidence.openers import FORMATS
from ext4kit.evidence.partitions import find_partitions
from ext4kit.evidence.raw import RawFile
from ext4kit.problems import Problems
from tests.conftest import Cli, Images
from tests.evidence.conftest import Run
from tests.evidence.containers import hostile

SAMPLE = "rm_rf_tree"
START = 2048 * 512  # byte of the partition
DELETED = "177 deleted files: 177 intact"
TABLE = "a partition table (mbr)"
SUPERBLOCK = "a signature of ext4 at byte 1,024"
_GZIP_WITH_EXTRA = (
    b"\x1f\x8b\x08\x04" + bytes(6) + struct.pack("<H", 8) + bytes(8)
    + zlib.compress(bytes(200), 9)[2:-4] + struct.pack("<II", zlib.crc32(bytes(200)), 200)
)  # fmt: skip
CONTAINERS = {  # the first bytes that each format asks for, some with a disk of their own
    "qcow2": hostile.qcow2_header(1 << 20, 0x30000, 1),
    "gzip": _GZIP_WITH_EXTRA,
    "gzip, damaged": b"\x1f\x8b\x08\x00" + bytes(6),
    "xz": lzma.compress(bytes(1 << 20)),
    "bzip2": bz2.compress(bytes(1 << 20)),
    "vmdk": b"# Disk DescriptorFile\nversion=1\n",
    "vmdk, sparse": b"KDMV\1\0\0\0",
    "ewf": b"EVF\x09\x0d\x0a\xff\x00\x01\x01\x00\x00\x00",
    "ewf2": b"EVF2\x0d\x0a\x81\x00\x02\x01",
    "vhdx": b"vhdxfile",
    "vhd": b"conectix" + bytes(64),
}
OTHERS = {
    "xfs": b"XFSB",
    "crypto_LUKS": b"LUKS\xba\xbe\x00\x01",
    "ntfs": b"\xeb\x52\x90NTFS    ",
    "exfat": b"\xeb\x76\x90EXFAT   ",
    "squashfs": b"hsqs" + bytes(24) + b"\4\0",
    "zip": b"PK\x03\x04",
    "apfs": bytes(32) + b"NXSB",
}


@pytest.fixture(scope="module")
def plain(unpacked: Images) -> bytes:
    """A file system without a partition table."""
    return unpacked(SAMPLE).image.read_bytes()


@pytest.fixture(scope="module")
def disk(plain: bytes) -> bytes:
    """A disk with one partition."""
    table = bytearray(512)
    table[446:462] = b"\x80\0\0\0\x83\0\0\0" + struct.pack("<II", START // 512, len(plain) // 512)
    table[510:] = b"\x55\xaa"
    return bytes(table).ljust(START, b"\0") + plain


def _written(path: Path, data: bytes, head: bytes, at: int = 0) -> Path:
    path.write_bytes(data[:at] + head + data[at + len(head) :])
    return path


@pytest.mark.heavy
@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("form", ["disk", "plain"])
def test_a_disk_that_begins_like_a_container_is_read_as_the_disk(
    request: pytest.FixtureRequest, ext4kit: Cli, tmp_path: Path, form: str, name: str
) -> None:
    image = _written(tmp_path / "a.img", request.getfixturevalue(form), CONTAINERS[name])
    result = ext4kit("deleted", image)
    assert DELETED in result.stdout and result.returncode == 0
    kind, shown = name.split(",")[0], TABLE if form == "disk" else SUPERBLOCK
    assert f"a.img: begins like {kind} and is also a disk, with {shown}; it is read as raw" in (
        result.stderr
    )
    assert DELETED in ext4kit("deleted", image, "--format", "raw").stdout
    if form == "disk":
        assert DELETED in ext4kit("deleted", image, "--offset", str(START)).stdout


def test_tables_in_tables_end(tmp_path: Path) -> None:
    """Each partition begins with a table of one partition, which is nearly all of it."""
    count, step = 40, 64
    data = bytearray(512 * step * (count + 1))
    for number in range(count):
        at = number * step * 512
        rest = len(data) // 512 - (number + 1) * step
        data[at + 446 : at + 462] = b"\0\0\0\0\x83\0\0\0" + struct.pack("<II", step, rest)
        data[at + 510 : at + 512] = b"\x55\xaa"
    (tmp_path / "a.img").write_bytes(data)
    with library.open(tmp_path / "a.img") as opened:
        (volume,) = opened.volumes
        assert volume.facts.scheme == "mbr/mbr/mbr"
        assert volume.facts.offset == 3 * step * 512


@pytest.mark.parametrize("bad", [512, 4096, 60 << 10])
def test_a_bad_sector_beside_a_table_hides_nothing(disk: bytes, tmp_path: Path, bad: int) -> None:
    """The library's process asks for whole pages, and for what it needs where one is damaged."""

    class Damaged(RawFile):
        def read(self, offset: int, length: int) -> memoryview:
            if offset < bad + 512 and bad < offset + length:
                raise AccessError("bad sector")
            return super().read(offset, length)

    (tmp_path / "a.img").write_bytes(disk)
    with closing(Damaged(tmp_path / "a.img")) as source:
        (found,) = find_partitions(source, Problems())
        assert (found.offset, found.size, found.scheme) == (START, len(disk) - START, "mbr")


def test_a_library_that_crashes_over_a_table_is_told(
    disk: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ext4kit.evidence.sleuthkit._tables", lambda *_: os._exit(9))
    (tmp_path / "a.img").write_bytes(disk)
    with library.open(tmp_path / "a.img") as opened:
        assert [volume.facts.kind for volume in opened.volumes] == ["unknown"]
        assert [one.what for one in opened.problems] == [
            "cannot be read: The Sleuth Kit crashed over it"
        ]


def test_both_readings_are_listed(ext4kit: Cli, disk: bytes, tmp_path: Path) -> None:
    image = _written(tmp_path / "a.img", disk, CONTAINERS["qcow2"])
    lines = ext4kit("volumes", image, "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [(one["record"], one.get("reading"), one.get("size")) for one in records] == [
        ("volume", None, len(disk) - START), ("other volume", "qcow2", 1 << 20),
        ("problem", None, None),
    ]  # fmt: skip
    told = ext4kit("volumes", image)
    assert "not taken: the volumes with --format qcow2\n" in told.stdout
    assert "--format qcow2 reads the other" in told.stderr


@pytest.mark.parametrize("head", ["qcow2", "vhd"])
def test_a_report_has_a_strong_sign(ext4kit: Cli, disk: bytes, tmp_path: Path, head: str) -> None:
    image = _written(tmp_path / "a.img", disk, CONTAINERS[head])
    records = [json.loads(one) for one in ext4kit("report", image, "--json").stdout.splitlines()]
    (sign,) = [one for one in records if one.get("code") == "disguise" and one["record"] == "sign"]
    assert (sign["weight"], sign["count"]) == ("strong", 1)
    (seen,) = [one for one in records if one["record"] == "sighting" and one["code"] == "disguise"]
    assert seen["note"] == f"the image begins like {head} and is also a disk, with {TABLE}"
    assert "(the image)" in ext4kit("report", image).stdout


@pytest.mark.heavy
@pytest.mark.parametrize("name", OTHERS)
def test_a_volume_that_begins_like_another_is_listed_as_both(
    ext4kit: Cli, plain: bytes, disk: bytes, tmp_path: Path, name: str
) -> None:
    for data, at in ((plain, 0), (disk, START)):
        image = _written(tmp_path / "a.img", data, OTHERS[name], at)
        with library.open(image) as opened:
            assert [volume.facts.kind for volume in opened.volumes] == [name, "ext4"]
            assert len(opened.evidence.disguises) == 1
        assert DELETED in ext4kit("deleted", image).stdout
    told = f"volume 1: begins like {name}"
    assert told in ext4kit("volumes", image).stderr


@pytest.mark.parametrize("name", OTHERS)
def test_a_disk_that_begins_like_a_volume_is_listed_as_both(
    ext4kit: Cli, disk: bytes, tmp_path: Path, name: str
) -> None:
    image = _written(tmp_path / "a.img", disk, OTHERS[name])
    with library.open(image) as opened:
        assert [volume.facts.kind for volume in opened.volumes] == [name, "ext4"]
        assert opened.evidence.disguises[0].endswith(f"holds {TABLE}")
    assert DELETED in ext4kit("deleted", image).stdout


def test_a_table_whose_backup_alone_is_left_is_found(
    ext4kit: Cli, run: Run, plain: bytes, tmp_path: Path
) -> None:
    """A longer decoy, over the MBR and the first GPT."""
    image = tmp_path / "a.img"
    with image.open("wb") as file:
        file.truncate(START + len(plain) + (1 << 20))
        file.seek(START)
        file.write(plain)
    run("sfdisk", "-q", image, text=f"label: gpt\nstart=2048, size={len(plain) // 512}\n")
    with image.open("r+b") as file:
        file.write(CONTAINERS["qcow2"].ljust(20 << 10, b"\0"))
    assert DELETED in ext4kit("deleted", image).stdout
    assert "begins like qcow2 and is also a disk" in ext4kit("volumes", image).stderr


def test_a_container_with_a_planted_superblock_is_read_as_the_container(
    ext4kit: Cli, run: Run, plain: bytes, tmp_path: Path
) -> None:
    """The decoy the other way round: the header of a real QCOW2 has room for a superblock."""
    raw, image = tmp_path / "raw", tmp_path / "a.qcow2"
    raw.write_bytes(plain)
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image)
    _written(image, image.read_bytes(), plain[1024:2048], 1024)
    result = ext4kit("deleted", image)
    assert DELETED in result.stdout
    assert "it is read as qcow2, where it has more known data" in result.stderr
    assert DELETED not in ext4kit("deleted", image, "--format", "raw").stdout


def test_a_backing_file_that_begins_like_a_container_is_the_disk(
    ext4kit: Cli, run: Run, plain: bytes, tmp_path: Path
) -> None:
    _written(tmp_path / "base", plain, CONTAINERS["qcow2"])
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base", tmp_path / "a.qcow2")
    result = ext4kit("deleted", tmp_path / "a.qcow2")
    assert DELETED in result.stdout
    assert "base: begins like qcow2 and is also a disk" in result.stderr


def test_a_member_of_an_array_over_an_old_file_system_is_no_sign(
    plain: bytes, tmp_path: Path
) -> None:
    """`mdadm --create --metadata 1.1` leaves what stands behind its own superblock."""
    member = struct.pack("<II", 0xA92B4EFC, 1).ljust(256, b"\0")
    image = _written(tmp_path / "a.img", plain, member)
    with library.open(image) as opened:
        assert [volume.facts.kind for volume in opened.volumes] == ["linux_raid_member", "ext4"]
        assert opened.evidence.disguises == ()
        (told,) = opened.problems
        assert "begins like linux_raid_member" in told.what


@pytest.mark.parametrize("form", ["plain", "disk", "gpt"])
def test_real_containers_have_one_reading(
    request: pytest.FixtureRequest, run: Run, plain: bytes, tmp_path: Path, form: str
) -> None:
    raw = tmp_path / "raw"
    if form == "gpt":
        raw.write_bytes(bytes(START) + plain + bytes(1 << 20))
        run("sfdisk", "-q", raw, text=f"label: gpt\nstart=2048, size={len(plain) // 512}\n")
    else:
        raw.write_bytes(request.getfixturevalue(form))
    data = raw.read_bytes()
    for name, *options in (
        ("qcow2",), ("vmdk",), ("vpc",), ("vhdx",), ("vpc", "subformat=fixed"),
        ("qcow2", "preallocation=full"), ("vmdk", "subformat=monolithicFlat"),
    ):  # fmt: skip
        image = tmp_path / f"{name}{len(options)}"
        more = [word for option in options for word in ("-o", option)]
        run("qemu-img", "convert", "-f", "raw", "-O", name, *more, raw, image)
        with library.open(image) as opened:
            assert opened.evidence.other is None and opened.evidence.disguises == (), image
            assert [volume.facts.kind for volume in opened.volumes] == ["ext4"], image
            assert not list(opened.problems), image
    for name, pack in (("gzip", gzip.compress(data, 0)), ("xz", lzma.compress(data, preset=0))):
        (tmp_path / name).write_bytes(pack)  # gzip stores it as it is
        with library.open(tmp_path / name) as opened:
            assert opened.evidence.other is None and opened.evidence.disguises == (), name
            assert len(list(opened.problems)) == 1, name


@pytest.mark.parametrize("form", FORMATS)
def test_a_forced_format_is_the_only_one(
    ext4kit: Cli, plain: bytes, tmp_path: Path, form: str
) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(plain)
    result = ext4kit("volumes", image, "--format", form)
    assert result.returncode == (0 if form == "raw" else 3)
    assert result.stderr.count("\n") == (form != "raw")
    shutil.copy(image, tmp_path / "b.001")
    result = ext4kit("volumes", tmp_path / "b.001", "--format", form)
    assert result.returncode in ((0,) if form == "raw" else (2, 3))
