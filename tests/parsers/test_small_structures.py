"""The mmp block, the orphan file and access control lists: against e2fsprogs and the kernel."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.errors import CorruptError
from ext4kit.parsers import acl, mmp, orphan
from tests.parsers.reference import Image, make_image, mounted

# --- mmp ------------------------------------------------------------------------------------


@pytest.fixture
def mmp_image(tmp_path: Path) -> Image:
    return make_image(tmp_path, 8, "-b", "1024", "-O", "mmp,metadata_csum")


def mmp_block(image: Image) -> bytes:
    return image.block(int(image.header["MMP block number"]))


def test_mmp_reads_as_debugfs_dumps_it(mmp_image: Image) -> None:
    printed = mmp_image.debugfs("dump_mmp")
    shown = dict(re.findall(r"^(\w+): (\S+)", printed, re.MULTILINE))
    block = mmp_block(mmp_image)
    found = mmp.parse_mmp(block)
    assert found.sequence == int(shown["sequence"], 16)
    assert found.state == "clean"
    assert found.time_ns == int(shown["time"]) * 1_000_000_000
    assert found.host.decode() == shown["node_name"]
    assert found.device.decode() == shown["device_name"]
    assert found.check_interval == int(shown["check_interval"])
    assert found.checksum == int(shown["checksum"], 16)
    assert mmp.mmp_checksum(mmp_image.seed, block) == found.checksum


@pytest.mark.parametrize(
    ("sequence", "state"), [(0xE24D4D50, "fsck"), (1, "in use"), (0xE24D4D4F, "in use")]
)
def test_mmp_sequence_says_who_has_it(mmp_image: Image, sequence: int, state: str) -> None:
    block = mmp_block(mmp_image)
    changed = block[:4] + struct.pack("<I", sequence) + block[8:]
    assert mmp.parse_mmp(changed).state == state


def test_mmp_with_another_magic_number_is_corrupt(mmp_image: Image) -> None:
    with pytest.raises(CorruptError, match="0x004d4d51"):
        mmp.parse_mmp(b"\x51" + mmp_block(mmp_image)[1:])


# --- orphan file ----------------------------------------------------------------------------


def orphan_target(image: Image) -> str:
    return f"<{image.header['Orphan file inode']}>"


def checked_orphans(image: Image) -> list[int]:
    """The numbers in the orphan file, each block's checksum asserted."""
    target = orphan_target(image)
    seed = image.inode_seed(target)
    numbers: list[int] = []
    for number in image.data_blocks(target):
        block = image.block(number)
        found = orphan.parse_orphan_block(block)
        assert len(found.slots) == image.block_size // 4 - 2
        assert orphan.orphan_checksum(seed, number, block) == found.checksum
        numbers += found.inodes.tolist()
    return numbers


@pytest.mark.parametrize("block_size", [1024, 4096])
def test_the_orphan_file_of_a_new_file_system_is_empty_and_sound(
    tmp_path: Path, block_size: int
) -> None:
    image = make_image(tmp_path, 16, "-b", str(block_size), "-O", "orphan_file,metadata_csum")
    assert len(image.data_blocks(orphan_target(image))) > 1
    assert checked_orphans(image) == []


@pytest.mark.kernel
def test_files_unlinked_while_open_are_in_the_orphan_file(tmp_path: Path) -> None:
    image = make_image(tmp_path, 16, "-b", "4096", "-O", "orphan_file,metadata_csum")
    with mounted(image, tmp_path / "mnt") as root:
        files = [(root / f"f{number}").open("w") for number in range(20)]
        try:
            expected = {os.fstat(file.fileno()).st_ino for file in files}
            for file in files:
                Path(file.name).unlink()
            copy = frozen_copy(image, root, tmp_path / "copy.img")
        finally:
            for file in files:
                file.close()
    assert set(checked_orphans(copy)) == expected


def frozen_copy(image: Image, root: Path, path: Path) -> Image:
    """A copy of a mounted image with the journal written back to its places."""
    subprocess.run(["fsfreeze", "-f", root], check=True)
    try:
        shutil.copyfile(image.path, path)
    finally:
        subprocess.run(["fsfreeze", "-u", root], check=True)
    return Image(path)


def test_an_orphan_block_without_its_tail_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="magic"):
        orphan.parse_orphan_block(bytes(1024))
    with pytest.raises(CorruptError, match="shorter"):
        orphan.parse_orphan_block(bytes(7))


# --- access control lists -------------------------------------------------------------------

ON_DISK = bytes.fromhex(
    "01000000 0100 0700 0200 0600 e8030000 0400 0500 0800 0400 05000000 1000 0700 2000 0500"
)  # what `setfacl -m u:1000:rw,g:5:r` left on a directory of mode 775, as `debugfs ea_list` shows


def test_an_acl_reads_as_getfacl_writes_it() -> None:
    assert acl.acl_to_text(acl.parse_acl(ON_DISK)) == (
        "user::rwx\nuser:1000:rw-\ngroup::r-x\ngroup:5:r--\nmask::rwx\nother::r-x\n"
    )


def test_the_users_form_has_an_undefined_id_where_the_disk_has_none() -> None:
    words = struct.unpack("<I" + "HHI" * 6, acl.acl_to_xattr(acl.parse_acl(ON_DISK)))
    assert words[0] == 2
    assert words[3::3] == (0xFFFFFFFF, 1000, 0xFFFFFFFF, 5, 0xFFFFFFFF, 0xFFFFFFFF)


@pytest.mark.kernel
def test_getfacl_and_getxattr_say_the_same(tmp_path: Path) -> None:
    image = make_image(tmp_path, 8)
    with mounted(image, tmp_path / "mnt") as root:
        path = root / "file"
        path.touch(mode=0o640)
        subprocess.run(["setfacl", "-m", "u:1000:rwx,u:70000:-,g:5:x,m:rx", path], check=True)
        shown = os.getxattr(path, "system.posix_acl_access")
        command = ["getfacl", "-n", "-c", "-E", "-p", str(path)]
        text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    printed = image.debugfs("ea_get -r -x /file system.posix_acl_access")
    entries = acl.parse_acl(bytes.fromhex(printed.split("=")[1]))
    assert acl.acl_to_xattr(entries) == shown
    assert acl.acl_to_text(entries).strip() == text.strip()


@pytest.mark.parametrize(
    "value",
    [b"", ON_DISK[:3], b"\x02" + ON_DISK[1:], ON_DISK[:-2], ON_DISK[:14], ON_DISK + b"\x40\0\1\0"],
)
def test_a_broken_acl_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptError):
        acl.parse_acl(value)


tags = st.sampled_from([1, 2, 4, 8, 16, 32])


@given(st.lists(st.tuples(tags, st.integers(0, 7), st.integers(0, 0xFFFFFFFE)), max_size=30))
def test_entries_survive_the_way_from_disk(rows: list[tuple[int, int, int]]) -> None:
    disk = struct.pack("<I", 1)
    for tag, permissions, number in rows:
        disk += struct.pack("<HH", tag, permissions)
        disk += struct.pack("<I", number) if tag in (2, 8) else b""
    assert [(entry.tag, entry.permissions, entry.id) for entry in acl.parse_acl(disk)] == [
        (tag, permissions, number if tag in (2, 8) else None) for tag, permissions, number in rows
    ]
