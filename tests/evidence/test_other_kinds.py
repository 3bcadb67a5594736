"""What is not ext has blkid's name, label and UUID; a hostile header breaks nothing."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.cli.main import run as call
from ext4kit.evidence import open_evidence
from ext4kit.evidence.magics import VolumeSignature
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.signatures import identify
from tests.evidence.kept_volumes import KeptVolume, ask_blkid, kept_volumes
from tests.partition_tables import write_table

KEPT = kept_volumes()
PATH = "/sbin:/usr/sbin:/usr/bin:/bin"
ASKED = (2, 38)  # version of the blkid that every name must be that of
UUID = "10111213-1415-1617-1819-1a1b1c1d1e1f"
RAW_UUID = uuid.UUID(UUID).bytes


def _identify(path: Path) -> VolumeSignature:
    source = RawFile(path)
    try:
        return identify(source)
    finally:
        source.close()


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_kind_version_label_and_uuid_are_what_blkid_said(kept: KeptVolume, tmp_path: Path) -> None:
    found = _identify(kept.write(tmp_path / "volume"))
    assert (found.kind, found.version, found.label, found.uuid) == kept.blkid


def _blkid_version() -> tuple[int, ...]:
    told = subprocess.run(
        ["blkid", "-V"], env={"PATH": PATH}, capture_output=True, text=True, check=True
    ).stdout
    return tuple(map(int, re.findall(r"\d+", told)[:2]))


def test_blkid_names_the_kept_volumes_so_today(tmp_path: Path) -> None:
    if shutil.which("blkid", path=PATH) is None:
        pytest.skip("needs blkid")
    said = {kept.name: ask_blkid(kept.write(tmp_path / "volume"))[0] for kept in KEPT}
    kept_names = {kept.name: kept.blkid[0] for kept in KEPT}
    if _blkid_version() > ASKED:
        if not any(said.values()):
            pytest.skip("blkid names nothing here")
        # newer ones check more of a volume than was kept of it, and name nothing
        said = {name: kind or kept_names[name] for name, kind in said.items()}
        said |= {"iso_hfs": kept_names["iso_hfs"]}  # both in one; 2.41 names the other
    assert said == kept_names


def _written(path: Path, *pieces: tuple[int, bytes]) -> Path:
    with path.open("wb") as file:
        file.truncate(4 << 20)
        for offset, raw in pieces:
            file.seek(offset)
            file.write(raw)
    return path


def _number(value: int, order: str) -> bytes:
    return value.to_bytes(4, "little" if order == "little" else "big")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (  # newer versions of blkid (2.39) name it; fs/bcachefs/bcachefs_format.h
            [(4120, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")), (4152, RAW_UUID),
             (4168, b"member\0")],
            ("bcachefs", "", "member", UUID),
        ),
        (  # blkid wants a whole root directory; fs/befs/befs_fs_types.h
            [(512, b"Haiku"), (544, _number(0x42465331, "little")),
             (580, _number(0xDD121031, "little")), (624, _number(0x15B6830E, "little"))],
            ("befs", "little-endian", "Haiku", ""),
        ),
        (  # blkid checks a sum; the magic has 16 bytes
            [(516, b"!Stra0tis\x86\xff\x02^Arh"), (544, UUID.replace("-", "").encode())],
            ("stratis", "", "", UUID),
        ),
        (  # blkid 2.38 leaves out the UUID; fs/zonefs/zonefs.h
            [(0, b"SFOZ"), (8, b"zones"), (72, RAW_UUID)],
            ("zonefs", "", "zones", UUID),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_formats_that_this_blkid_does_not_name(
    tmp_path: Path, pieces: list[tuple[int, bytes]], expected: tuple[str, ...]
) -> None:
    found = _identify(_written(tmp_path / "volume", *pieces))
    assert (found.kind, found.version, found.label, found.uuid) == expected


def test_ext_on_a_mirror_is_ext_though_the_end_says_raid(
    tmp_path: Path, run: Callable[..., str]
) -> None:
    """Metadata 0.90 and 1.0 are at the end; the file system in front of it can be read."""
    member = next(kept for kept in KEPT if kept.name == "md090")
    path = member.write(tmp_path / "volume")
    assert _identify(path).kind == "linux_raid_member"
    run("mke2fs", "-q", "-F", "-t", "ext4", path, "60M")
    assert _identify(path).kind == "ext4"


def test_the_end_of_the_last_partition_is_not_that_of_the_disk(tmp_path: Path) -> None:
    """ZFS has labels at its end, which is the end of the disk too."""
    member = next(kept for kept in KEPT if kept.name == "zfs_end")
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate((1 << 20) + member.size)
        for offset, raw in member.sectors.items():
            file.seek((1 << 20) + offset)
            file.write(raw)
    write_table(path, f"label: dos\nstart=2048, size={member.size // 512}, type=bf\n")
    with open_evidence(path) as evidence:
        assert [volume.kind for volume in evidence.volumes] == ["zfs_member"]
        assert not list(evidence.problems)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_a_hostile_header_breaks_nothing(kept: KeptVolume, tmp_path: Path) -> None:
    """Lengths, counts and pointers of any value, and an image that ends early."""
    chance = random.Random(kept.name)
    begun = time.monotonic()
    for _ in range(6):
        sectors = {}
        for offset, raw in kept.sectors.items():
            damaged = bytearray(raw)
            for _ in range(chance.choice((0, 1, 8))):
                at = chance.randrange(len(raw))
                value = chance.choice((b"\xff" * 8, bytes(8), chance.randbytes(4)))
                damaged[at : at + len(value)] = value
            sectors[offset] = bytes(damaged)
        size = chance.choice((kept.size, kept.size, chance.randrange(1, kept.size)))
        path = KeptVolume(kept.name, kept.size, kept.blkid, sectors).write(tmp_path / "volume")
        with path.open("r+b") as file:
            file.truncate(size)
        found = _identify(path)
        assert len(found.label) <= 1024
        assert len(found.uuid) <= 64
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fat32", "vfat (FAT32)"),
        ("luks2", "crypto_LUKS (2)"),
        ("ocfs2", "ocfs2 (0.90)"),
        ("zfs", "zfs_member (5000)"),
        ("hfsplus", "hfsplus"),
    ],
)
def test_volumes_lists_and_errors_name_them_alike(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = next(kept for kept in KEPT if kept.name == name)
    path = kept.write(tmp_path / "volume")
    call(["volumes", str(path)])
    line = capsys.readouterr().out.splitlines()[1]
    for word in (text, kept.blkid[2], kept.blkid[3], str(kept.size)):
        assert word in line
    call(["volumes", str(path), "--json"])
    record = json.loads(capsys.readouterr().out.splitlines()[0])
    names = ("kind", "version", "label", "uuid")
    assert tuple(record[each] for each in names) == kept.blkid
    for arguments in (("ls",), ("ls", "--volume", "1"), ("ls", "--offset", "0")):
        command, *options = arguments
        assert call([command, str(path), *options]) == 3
        said = capsys.readouterr().err
        assert text in said
        assert "not ext2, ext3 or ext4" in said
