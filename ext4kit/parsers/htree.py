"""Hashed directories (htree): index root, index node and their tail.

Sources: kernel Documentation/filesystems/ext4/directory.rst ("Hash Tree Directories");
fs/ext4/namei.c for details that the documentation omits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s, UInt32s
from ext4kit.errors import CorruptError
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.directory import DIRENT
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int8ul, Int16ul, Int32ul, Struct
from ext4kit.units import InodeNumber

# Inode 0 over the whole block, so that a reader without htree skips it.
FAKE_DIRENT = Layout("htree node's empty entry", DIRENT.struct)

DX_ROOT = Layout(
    "htree root",
    Struct(
        "dot_inode" / Int32ul,  # the directory itself
        "dot_rec_len" / Int16ul,  # 12
        "dot_name_len" / Int8ul,
        "dot_file_type" / Int8ul,
        "dot_name" / Bytes(4),
        "dotdot_inode" / Int32ul,  # the parent directory
        "dotdot_rec_len" / Int16ul,  # up to the end of the block: hides the index
        "dotdot_name_len" / Int8ul,
        "dotdot_file_type" / Int8ul,
        "dotdot_name" / Bytes(4),
        "reserved_zero" / Int32ul,
        "hash_version" / Int8ul,  # HASH_NAMES
        "info_length" / Int8ul,  # 8: reserved_zero .. unused_flags
        "indirect_levels" / Int8ul,  # levels of index nodes between the root and the leaves
        "unused_flags" / Int8ul,
    ),
)

DX_COUNTLIMIT = Layout(
    "htree count and limit",  # stored instead of the unused hash of entry 0
    Struct(
        "limit" / Int16ul,  # entries that fit, entry 0 counted
        "count" / Int16ul,  # entries in use, entry 0 counted
    ),
)

DX_ENTRY = Layout(
    "htree entry",
    Struct(
        "hash" / Int32ul,  # lowest hash in the block; bit 0: continues the previous block
        "block" / Int32ul,  # block number within the directory, 28 bits
    ),
)

DX_TAIL = Layout(
    "htree tail",
    Struct(
        "dt_reserved" / Int32ul,
        "dt_checksum" / Int32ul,  # crc32c(inode seed, block up to the last entry in use, tail)
    ),
)

HASH_NAMES = {
    0: "legacy",
    1: "half_md4",
    2: "tea",
    3: "legacy_unsigned",
    4: "half_md4_unsigned",
    5: "tea_unsigned",
    6: "siphash",
}
UNSIGNED_STEP = 3  # added to versions 0..2 if the superblock has the flag for unsigned hashes
INFO_LENGTH = 8
MAX_LEVELS = 2  # with large_dir; 1 without
BLOCK_MASK = 0x0FFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class IndexEntries:
    """The entries of a root or node, including entry 0, whose hash is 0.

    Attributes:
        offset: byte offset of the first entry in the block.
        limit: number of entries that fit into the block.
        hashes: uint32 (count,), bit 0 set where a run of equal hashes continues.
        blocks: int64 (count,), block numbers within the directory.
    """

    offset: int
    limit: int
    hashes: UInt32s
    blocks: Int64s

    @property
    def count(self) -> int:
        """Number of entries in use."""
        return len(self.blocks)

    @property
    def tail_offset(self) -> int:
        """Byte offset of the checksum tail, if the limit leaves room for one."""
        return self.offset + self.limit * DX_ENTRY.size


@dataclass(frozen=True, slots=True, eq=False)
class IndexRoot:
    """The first block of a hashed directory."""

    directory: InodeNumber
    parent: InodeNumber
    hash_version: int
    indirect_levels: int
    entries: IndexEntries


def is_index_root(block: Buffer) -> bool:
    """Whether the block has the form of an htree root: `.`, a `..` up to the block's end, info."""
    size = memoryview(block).nbytes
    if size < DX_ROOT.size + DX_ENTRY.size:
        return False
    root = DX_ROOT.parse(block)
    return bool(
        root.dot_rec_len == 12
        and root.dotdot_rec_len == size - 12
        and root.reserved_zero == 0
        and root.info_length == INFO_LENGTH
    )


def is_index_node(block: Buffer) -> bool:
    """Whether the block starts with one unused entry over its whole length.

    An empty directory leaf without a checksum tail looks the same. Only `indirect_levels` of
    the root distinguishes the two.
    """
    size = memoryview(block).nbytes
    if size < FAKE_DIRENT.size + DX_ENTRY.size:
        return False
    entry = FAKE_DIRENT.parse(block)
    whole = {size} if size < 1 << 16 else {0, 0xFFFF}  # 64 KiB does not fit into 16 bits
    return entry.inode == 0 and entry.name_len == 0 and entry.rec_len in whole


def parse_entries(block: Buffer, offset: int) -> IndexEntries:
    """The index entries that start at byte `offset` of the block.

    Raises:
        CorruptError: limit or count are not possible in the block.
    """
    head = DX_COUNTLIMIT.parse(block, offset)
    room = (memoryview(block).nbytes - offset) // DX_ENTRY.size
    if not room - 1 <= head.limit <= room:
        what = f"limit {head.limit}, the block has room for {room}"
        raise CorruptError(DX_COUNTLIMIT.name, offset, what)
    if not 1 <= head.count <= head.limit:
        what = f"count {head.count} with a limit of {head.limit}"
        raise CorruptError(DX_COUNTLIMIT.name, offset, what)
    table = DX_ENTRY.table(block, head.count, offset)
    hashes = table["hash"].astype(np.uint32)
    hashes[0] = 0
    return IndexEntries(offset, head.limit, hashes, table["block"].astype(np.int64) & BLOCK_MASK)


def parse_root(block: Buffer) -> IndexRoot:
    """The root in the first block of a hashed directory.

    Raises:
        CorruptError: the block does not have the form of a root, or its counts are not possible.
    """
    root = DX_ROOT.parse(block)
    if not is_index_root(block):
        raise CorruptError(DX_ROOT.name, 0, "not '.', '..' and an index after them")
    if root.indirect_levels > MAX_LEVELS:
        raise CorruptError(DX_ROOT.name, 0, f"{root.indirect_levels} levels of index nodes")
    inodes = InodeNumber(root.dot_inode), InodeNumber(root.dotdot_inode)
    entries = parse_entries(block, DX_ROOT.size)
    return IndexRoot(*inodes, root.hash_version, root.indirect_levels, entries)


def parse_node(block: Buffer) -> IndexEntries:
    """The entries of an index block below the root.

    Raises:
        CorruptError: the block does not have the form of a node, or its counts are not possible.
    """
    if not is_index_node(block):
        raise CorruptError("htree node", 0, "not one unused entry over the whole block")
    return parse_entries(block, FAKE_DIRENT.size)


def stored_checksum(block: Buffer, entries: IndexEntries) -> int | None:
    """The checksum in the tail, or None if the limit leaves no room for a tail."""
    if entries.tail_offset + DX_TAIL.size > memoryview(block).nbytes:
        return None
    return int(DX_TAIL.parse(block, entries.tail_offset).dt_checksum)


def index_checksum(seed: int, block: Buffer, entries: IndexEntries) -> int:
    """Computed checksum of the tail.

    It covers the block up to the last entry in use, then the tail with a zero checksum. It does
    not cover the unused entries between the two.

    Args:
        seed: the directory inode's checksum seed.
        block: the whole block.
        entries: the entries as parsed from the block.

    Raises:
        CorruptError: there is no room for a tail.
    """
    used = entries.offset + entries.count * DX_ENTRY.size
    reserved = DX_TAIL.parse(block, entries.tail_offset).dt_reserved
    register = crc32c(seed, bytes(memoryview(block)[:used]))
    return crc32c(register, DX_TAIL.build({"dt_reserved": reserved, "dt_checksum": 0}))
