"""Where the metadata of a sound image lies, and how its checksums are made to fit again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ext4kit
from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.filesystem.geometry import descriptor_blocks
from ext4kit.journal import Log
from ext4kit.parsers import extents, htree, orphan, xattr
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.group import descriptor_checksum
from ext4kit.parsers.inode import inode_seed, seal_inode
from ext4kit.parsers.superblock import Superblock

JOURNAL_MAGIC = bytes.fromhex("c03b3998")
EXTENTS = extents.MAGIC.to_bytes(2, "little")
COMMIT = 2
FAST_TAGS, FAST_TAIL = 9, 8
INODES_WANTED = 400


@dataclass(frozen=True, slots=True)
class Place:
    """A structure of an image.

    Attributes:
        kind: "superblock", "descriptor", "inode", "extents", "directory", "xattr", "journal",
            "copy", "fast", "orphan".
        offset: its first byte; length: its bytes.
        number: of the group, or of the inode that it belongs to.
        generation: of that inode.
    """

    kind: str
    offset: int
    length: int
    number: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A sound image taken to pieces.

    Attributes:
        data: its bytes; superblock: as it is.
        places: by kind.
        journal_seed: of the log's checksums; None where it has none.
    """

    data: bytes
    superblock: Superblock
    places: dict[str, list[Place]]
    journal_seed: int | None

    def seal(self, image: bytearray, place: Place) -> None:
        """Make the checksums of a changed structure fit its bytes."""
        if place.kind in ("journal", "copy"):
            if place.kind == "journal" and self.journal_seed is not None:
                _seal_journal(image, place, self.journal_seed)
        elif place.kind == "fast":
            _seal_fast_commit(image, place)
        elif place.kind == "descriptor":
            _seal_descriptor(image, place, self.superblock)
        elif self.superblock.has_metadata_checksums:
            _SEALS[place.kind](image, place, self.superblock)


def anatomy(path: Path) -> Anatomy:
    """The pieces of an image that can be read.

    Raises:
        Ext4kitError: it holds no file system that can be opened.
    """
    with ext4kit.open(path) as image:
        volume = image.volume()
        fs = volume.filesystem(replay=False)
        places: dict[str, list[Place]] = {}
        for place in _all(fs):
            places.setdefault(place.kind, []).append(place)
        log = Log.open(fs)
        seed = log.superblock.seed if log and log.features.has_block_checksums else None
        if log:
            places |= _log_places(log, fs.superblock.block_size)
        assert volume.facts.offset == 0, "bare file systems only"
        return Anatomy(path.read_bytes(), fs.superblock, places, seed)


def _all(fs: FileSystem) -> Iterator[Place]:
    superblock, size = fs.superblock, fs.superblock.block_size
    yield Place("superblock", 1024, 1024)
    per_block = size // superblock.descriptor_size
    for group in range(len(fs.groups)):
        block = int(descriptor_blocks(superblock)[group // per_block])
        offset = block * size + group % per_block * superblock.descriptor_size
        yield Place("descriptor", offset, superblock.descriptor_size, group)
    for table in fs.inode_batches():
        used = np.flatnonzero((table.mode != 0) | (table.number < 12))
        used = used if len(used) < INODES_WANTED else used[: INODES_WANTED // 2]
        some = table.take(used)
        blocks, offsets = fs.inode_location(some.number)
        for row, place in enumerate((blocks * size + offsets).tolist()):
            number = int(some.number[row])
            yield Place("inode", place, superblock.inode_size, number, int(some.generation[row]))
        yield from _of_inodes(fs, some)


def _of_inodes(fs: FileSystem, table: Any) -> Iterator[Place]:
    size = fs.superblock.block_size

    def place(kind: str, row: int, block: int) -> Place:
        mark = int(table.number[row]), int(table.generation[row])
        return Place(kind, block * size, size, *mark)

    for row, block in zip(
        *(column.tolist() for column in fs.map_table(table).tree_blocks), strict=True
    ):
        yield place("extents", row, block)
    folders = table.take(np.flatnonzero((table.mode & 0xF000) == 0x4000))
    rows = np.flatnonzero((table.mode & 0xF000) == 0x4000)
    for row, block in zip(*(each.tolist() for each in directory_blocks(fs, folders)), strict=True):
        yield place("directory", int(rows[row]), block)
    for row, block in enumerate(table.file_acl.tolist()):
        if block:
            yield place("xattr", row, block)
    orphans = np.flatnonzero(table.number == (fs.superblock.orphan_file_inode or -1))
    for row in orphans.tolist():
        for first in fs.block_map(table.one(row)).physical.tolist():
            yield place("orphan", row, first)


def _log_places(log: Log, size: int) -> dict[str, list[Place]]:
    """Blocks of the log: the superblock and other headers, and a few copies."""
    blocks = log.reader.log_blocks[log.headers.position]
    journal = [Place("journal", int(block) * size, size) for block in blocks.tolist()]
    copies = log.reader.log_blocks[log.tags.position]
    return {
        "journal": [Place("journal", log.superblock_block * size, 1024), *journal],
        "copy": [Place("copy", int(block) * size, size) for block in copies.tolist()[:200]],
        "fast": list(_fast_commits(log, size)),
    }


def _fast_commits(log: Log, size: int) -> Iterator[Place]:
    """Blocks of the fast commit area that begin with one of its tags."""
    area = log.superblock.fast_commit_area
    blocks = log.reader.log_blocks[log.superblock.length - area :].tolist() if area else []
    for block in blocks:
        kind = int.from_bytes(log.reader.blocks.read(block)[:2], "little")
        if 0 < kind <= FAST_TAGS:
            yield Place("fast", block * size, size)


# -- checksums --------------------------------------------------------------------------------


def _put(image: bytearray, offset: int, value: int) -> None:
    image[offset : offset + 4] = value.to_bytes(4, "little")


def _seal_superblock(image: bytearray, place: Place, superblock: Superblock) -> None:
    _put(image, place.offset + 1020, crc32c(ONES, image[place.offset : place.offset + 1020]))


def _seal_descriptor(image: bytearray, place: Place, superblock: Superblock) -> None:
    row = np.frombuffer(bytes(image[place.offset : place.offset + place.length]), np.uint8)
    value = descriptor_checksum(superblock, place.number, row)
    if value >= 0:
        image[place.offset + 30 : place.offset + 32] = value.to_bytes(2, "little")


def _seal_inode(image: bytearray, place: Place, superblock: Superblock) -> None:
    raw = bytearray(image[place.offset : place.offset + place.length])
    seal_inode(raw, place.number, superblock)
    image[place.offset : place.offset + place.length] = raw


def _seal_extents(image: bytearray, place: Place, superblock: Superblock) -> None:
    data = bytes(image[place.offset : place.offset + place.length])
    end = extents.HEADER.size + int.from_bytes(data[4:6], "little") * extents.EXTENT.size
    if data[:2] == EXTENTS and end + 4 <= len(data):  # and not an indirect block
        seed = inode_seed(superblock, place.number, place.generation)
        _put(image, place.offset + end, crc32c(seed, data[:end]))


def _seal_directory(image: bytearray, place: Place, superblock: Superblock) -> None:
    data = bytes(image[place.offset : place.offset + place.length])
    seed = inode_seed(superblock, place.number, place.generation)
    try:
        first = htree.DX_ROOT.size if htree.is_index_root(data) else htree.FAKE_DIRENT.size
        entries = htree.parse_entries(data, first)
        value = htree.index_checksum(seed, data, entries)
        _put(image, place.offset + entries.tail_offset + 4, value)
    except CorruptError:
        _put(image, place.offset + place.length - 4, crc32c(seed, data[:-12]))


def _seal_xattr(image: bytearray, place: Place, superblock: Superblock) -> None:
    data = bytes(image[place.offset : place.offset + place.length])
    value = xattr.block_checksum(superblock.seed, place.offset // place.length, data)
    _put(image, place.offset + xattr.XATTR_BLOCK_HEADER.offset_of("h_checksum"), value)


def _seal_orphan(image: bytearray, place: Place, superblock: Superblock) -> None:
    data = bytes(image[place.offset : place.offset + place.length])
    seed = inode_seed(superblock, place.number, place.generation)
    value = orphan.orphan_checksum(seed, place.offset // place.length, data)
    _put(image, place.offset + place.length - 4, value)


_SEALS = {
    "superblock": _seal_superblock,
    "inode": _seal_inode,
    "extents": _seal_extents,
    "directory": _seal_directory,
    "xattr": _seal_xattr,
    "orphan": _seal_orphan,
}


def _seal_fast_commit(image: bytearray, place: Place) -> None:
    """The tail's checksum, of a fast commit that ends in the block that it begins in."""
    data, at = bytes(image[place.offset : place.offset + place.length]), 0
    while at + 12 <= len(data):
        kind, length = (int.from_bytes(data[at + step :][:2], "little") for step in (0, 2))
        if kind == FAST_TAIL:
            _put(image, place.offset + at + 8, crc32c(0, data[: at + 8]))
            return
        at += 4 + length


def _seal_journal(image: bytearray, place: Place, seed: int) -> None:
    data = bytearray(image[place.offset : place.offset + place.length])
    kind = int.from_bytes(data[4:8], "big")
    at, register = place.length - 4, seed
    if kind in (3, 4):
        at, register = 0xFC, ONES
    elif kind == COMMIT:
        at = 16
    data[at : at + 4] = bytes(4)
    value = crc32c(register, bytes(data)).to_bytes(4, "big")
    image[place.offset + at : place.offset + at + 4] = value
