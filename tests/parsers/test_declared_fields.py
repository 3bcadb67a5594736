"""Each integer of the declarations is where e2fsprogs writes it, in its byte order and sign."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ext4kit.parsers.group import DESCRIPTOR_64, parse_groups
from ext4kit.parsers.inode import INODE, INODE_EXTRA, parse_inode
from ext4kit.parsers.layout import Layout
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock, judge
from tests.parsers.reference import Image, make_image

FEATURES = "^metadata_csum,^uninit_bg,^has_journal,64bit"  # nothing is made anew on closing
TARGET = "<12>"
_LISTED = re.compile(r"^\t(\w+)(?:\[(\w+)\S*\])?\s+(unsigned integer|integer|date/time)", re.M)


class Structure(NamedTuple):
    """A structure that debugfs sets fields of.

    Attributes:
        command: of debugfs; its names of the fields come behind it.
        prefix: of the names in the declaration.
        layouts: one behind the other on disk.
        left_out: what debugfs writes a value of its own to, and what is no field of its own.
    """

    command: str
    prefix: str
    layouts: tuple[Layout, ...]
    left_out: tuple[str, ...]


STRUCTURES = {
    "superblock": Structure("set_super_value", "s_", (SUPERBLOCK,), ("wtime", "block_group_nr")),
    "inode": Structure(
        f"set_inode_field {TARGET}", "i_", (INODE, INODE_EXTRA),
        ("translator", "block", "frag", "fsize", "author"),
    ),
    "group": Structure("set_block_group 0", "bg_", (DESCRIPTOR_64,), ()),
}  # fmt: skip


class Field(NamedTuple):
    """One number: what debugfs calls it, where it is declared, and the bytes in front of that."""

    word: str
    name: str
    layout: Layout
    before: int
    is_time: bool

    @property
    def size(self) -> int:
        """Bytes of one number."""
        return int(self.layout.dtype[self.name].base.itemsize)

    @property
    def number(self) -> int:
        """To be set: no byte of it twice, the highest bit set; for debugfs no time beyond 2038."""
        raw = bytes(range(0xF4, 0xF4 - self.size, -1))
        return int.from_bytes(raw, "big") & ~(self.is_time << 8 * self.size - 1)

    def read(self, raw: bytes) -> int:
        """What the declaration reads, unsigned where it says so; of an array the second element."""
        found = self.layout.parse(raw)[self.name]
        return int(found[1] if self.word.endswith("]") else found)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return make_image(tmp_path_factory.mktemp("fields"), 8, "-b", "1024", "-O", FEATURES)


def fields(image: Image, structure: Structure) -> Iterator[Field]:
    """The numbers that debugfs sets, halves of split ones and elements of arrays apart."""
    for name, part, kind in _LISTED.findall(image.debugfs(f"{structure.command.split()[0]} -l")):
        is_time = kind == "date/time"
        if name not in structure.left_out:
            split = part == "_hi" and not is_time
            for word in [f"{name}_lo", f"{name}_hi"] if split else [name]:
                yield declared(word + "[1]" * part.isdigit(), structure, is_time)


def declared(word: str, structure: Structure, is_time: bool) -> Field:
    """The field that a word of debugfs means; the kernel spells some of them in another way."""
    name, before = structure.prefix + word.removesuffix("[1]"), 0
    spellings = (name, name.removesuffix("_lo"), name.replace("_hi", "_high"),
                 name.replace("faddr", "obso_faddr"))  # fmt: skip
    for layout in structure.layouts:
        for spelling in spellings:
            if spelling in (layout.dtype.names or ()):
                return Field(word, spelling, layout, before, is_time)
        before += layout.size
    raise AssertionError(f"{word} is not declared")


def place(image: Image, kind: str) -> int:
    """Where the structure is in the image."""
    if kind == "inode":
        return image.inode_offset(TARGET)
    return {"superblock": SUPERBLOCK_OFFSET, "group": 2 * image.block_size}[kind]


@pytest.mark.parametrize("kind", STRUCTURES)
def test_what_debugfs_sets_is_read(image: Image, tmp_path: Path, kind: str) -> None:
    structure = STRUCTURES[kind]
    offset = place(image, kind)
    written, read = {}, {}
    for field in fields(image, structure):
        copy = Image(Path(shutil.copyfile(image.path, tmp_path / "copy.img")))
        value = f"@{field.number}" if field.is_time else field.number
        copy.debugfs(f"{structure.command} {field.word} {value}", write=True)
        written[field.word] = field.number
        read[field.word] = field.read(copy.read(offset + field.before, field.layout.size))
    assert len(read) > 15
    if kind == "superblock":
        written["max_mnt_count"] -= 1 << 16  # the one that is negative where nothing is counted
    assert read == written


# --- numbers that are stored in two halves ----------------------------------------------------

JOINED = {  # debugfs' name -> ours, and its bits
    "superblock": {
        "blocks_count": ("blocks_count", 64),
        "r_blocks_count": ("reserved_blocks_count", 64),
        "free_blocks_count": ("free_blocks_count", 64),
    },
    "inode": {
        "uid": ("uid", 32),
        "gid": ("gid", 32),
        "size": ("size", 63),
        "blocks": ("blocks", 48),
        "version": ("version", 64),
        "file_acl": ("file_acl", 48),
    },
    "group": {
        "block_bitmap": ("block_bitmap", 63),
        "inode_bitmap": ("inode_bitmap", 63),
        "inode_table": ("inode_table", 63),
        "free_blocks_count": ("free_blocks_count", 32),
        "free_inodes_count": ("free_inodes_count", 32),
        "used_dirs_count": ("used_dirs_count", 32),
        "itable_unused": ("itable_unused", 32),
        "block_bitmap_csum": ("block_bitmap_checksum", 32),
        "inode_bitmap_csum": ("inode_bitmap_checksum", 32),
    },
}


def parsed(image: Image, kind: str, offset: int) -> Any:
    superblock = Superblock.parse(image.read(SUPERBLOCK_OFFSET, SUPERBLOCK.size))
    if kind == "superblock":
        return superblock
    if kind == "inode":
        return parse_inode(image.read(offset, 256), 12, superblock)
    row = np.frombuffer(image.read(offset, DESCRIPTOR_64.size), np.uint8)
    return parse_groups(row[None, :], superblock)


@pytest.mark.parametrize("kind", JOINED)
def test_numbers_in_two_halves_are_those_that_debugfs_sets(
    image: Image, tmp_path: Path, kind: str
) -> None:
    image.debugfs(
        f"set_inode_field {TARGET} mode 0100644",
        f"set_inode_field {TARGET} extra_isize 32",
        write=True,
    )
    offset = place(image, kind)
    written, read = {}, {}
    for word, (name, bits) in JOINED[kind].items():
        copy = Image(Path(shutil.copyfile(image.path, tmp_path / "copy.img")))
        number = 0xF4F3F2F1E4E3E2E1 >> 64 - bits
        low = 16 if bits == 32 else 32  # bits of the lower half
        halves = {"_lo": number & (1 << low) - 1, "_hi": number >> low}
        command = STRUCTURES[kind].command
        copy.debugfs(
            *(f"{command} {word}{half} {value}" for half, value in halves.items()), write=True
        )
        written[name] = number
        read[name] = int(np.ravel(getattr(parsed(copy, kind, offset), name))[0])
    assert read == written


@pytest.mark.parametrize(
    ("major", "minor"), [(1, 5), (255, 255), (259, 0), (4095, 0xFFFF), (8, 0x1234), (0xABC, 1)]
)
@pytest.mark.parametrize("kind", ["c", "b"])
def test_device_numbers_are_those_that_debugfs_makes(
    image: Image, tmp_path: Path, kind: str, major: int, minor: int
) -> None:
    copy = Image(Path(shutil.copyfile(image.path, tmp_path / "copy.img")))
    copy.debugfs(f"mknod node {kind} {major} {minor}", write=True)
    superblock = Superblock.parse(copy.read(SUPERBLOCK_OFFSET, SUPERBLOCK.size))
    assert parse_inode(copy.inode_raw("/node"), 12, superblock).device == (major, minor)
    assert parse_inode(copy.inode_raw("/"), 2, superblock).device is None


# --- what can be read -------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("-O", "bigalloc", "-C", "16384")])
@pytest.mark.parametrize(
    ("word", "fine", "wrong"),
    [
        ("s_blocks_per_group", (8,), (0,)),
        ("s_inodes_per_group", (8192, 1), (8193, 0)),
        ("s_inode_size", (128, 256, 1024), (64, 384, 2048)),
        ("s_desc_size", (64, 128, 1024), (96, 65, 2048)),
        ("s_first_data_block", (0, 1), (2,)),
        ("s_log_block_size", (6,), (7,)),
        ("s_magic", (0xEF53,), (0xEF52, 0xEF54, 0)),
        ("s_blocks_count_lo", (2,), (0,)),
    ],
)
def test_what_no_kernel_mounts_is_no_superblock(
    tmp_path: Path,
    options: tuple[str, ...],
    word: str,
    fine: tuple[int, ...],
    wrong: tuple[int, ...],
) -> None:
    image = make_image(tmp_path, 8, "-b", "1024", *options)
    raw = image.read(SUPERBLOCK_OFFSET, SUPERBLOCK.size)
    at, size = SUPERBLOCK.offset_of(word), SUPERBLOCK.dtype[word].itemsize

    def verdict(number: int) -> str | None:
        changed = raw[:at] + number.to_bytes(size, "little") + raw[at + size :]
        return judge(Superblock.parse(changed))

    if word == "s_blocks_per_group":  # a bitmap is one block, and has a bit a cluster
        most = 8 * 1024 * int(image.header.get("Cluster size", "1024")) // 1024
        fine, wrong = (*fine, most), (*wrong, most + 1)
    assert [verdict(number) for number in fine] == [None] * len(fine)
    assert None not in [verdict(number) for number in wrong]
