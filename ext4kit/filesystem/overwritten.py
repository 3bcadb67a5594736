"""File systems whose start was overwritten by foreign data: an installer image, zeros, a tool.

The end of the foreign data is found from structures with checksums: none before it is valid. The
overwritten bytes are treated as unreadable, so that they are not taken for inodes, entries or
content.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, check_range, fileno_range, peek
from ext4kit.filesystem.inodes import Inodes
from ext4kit.filesystem.superblocks import valid_superblock
from ext4kit.parsers.inode import InodeTable, inode_checksums_ok
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET
from ext4kit.parsers.traces import plausible_inodes
from ext4kit.problems import Severity

_ISO_PLACE, _ISO_MAGIC = 32_768, b"\x01CD001\x01"  # ECMA-119, sections 6.2.1 and 8.4
_ISO_SIZE, _ISO_BLOCK = 80, 128  # offsets in the descriptor: number of blocks, bytes per block
_PIECE = 1 << 20
_TABLES_AT_ONCE = 1 << 12  # blocks


class OverwrittenStart:
    """A source whose first bytes are foreign data and are not read.

    Args:
        source: the source.
        end: number of foreign bytes.
        by: text that names what overwrote the start.
    """

    __slots__ = ("by", "end", "name", "size", "source")

    def __init__(self, source: Source, end: int, by: str) -> None:
        self.source, self.end, self.by = source, end, by
        self.name, self.size = source.name, source.size

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes.

        Raises:
            AccessError: the bytes are overwritten, or cannot be read.
        """
        if offset < self.end and length:
            raise AccessError(f"{self.name}: byte {offset:,} was overwritten by {self.by}")
        return self.source.read(offset, length)

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """As in the source; None for a range that is partly overwritten."""
        check_range(self, offset, length)
        return None if offset < self.end else fileno_range(self.source, offset, length)

    def unreadable(self) -> Int64s:
        """The overwritten range and the source's lost ranges, int64 (n, 2): first byte, end."""
        return merge_ranges([(0, self.end)], unreadable_ranges(self.source))

    def close(self) -> None:
        """Close the source."""
        self.source.close()


def without_overwritten(fs: Inodes, source: Source) -> OverwrittenStart | None:
    """The source without the overwritten start of its file system; None if it is not overwritten.

    A problem reports what overwrote the start, and where it ends.

    Args:
        fs: the file system, read from the copies of its superblock and descriptors.
        source: the volume's bytes.
    """
    size = fs.superblock.block_size
    if valid_superblock(source, SUPERBLOCK_OFFSET) is not None:
        return None
    by, end = "foreign data", 0
    head = peek(source, _ISO_PLACE, 2048)
    if head.startswith(_ISO_MAGIC):
        blocks = int.from_bytes(head[_ISO_SIZE : _ISO_SIZE + 4], "little")
        by = "iso9660"
        end = blocks * int.from_bytes(head[_ISO_BLOCK : _ISO_BLOCK + 2], "little")
    elif zeros := _zeros_from(source, SUPERBLOCK_OFFSET):
        by, end = "zeros", zeros
    last, valid = _foreign_table_blocks(fs)
    if (last + 1) * size > end:
        by = "foreign data" if by == "zeros" else by
        end = (last + 1) * size
    end = min(end, valid * size if valid >= 0 else source.size) // size * size
    descriptors = -(-fs.superblock.groups_count * fs.superblock.descriptor_size // size)
    if end <= (fs.superblock.first_data_block + 1 + descriptors) * size:
        return None  # all lost structures are read from copies
    what = f"bytes 0 to {end - 1:,} were overwritten by {by}; nothing is read from there"
    fs.problems.add("start", what)
    if by == "foreign data" and valid * size > end:
        what = f"data between byte {end:,} and byte {valid * size:,} may be overwritten too"
        fs.problems.add("start", what, Severity.WARNING)
    return OverwrittenStart(source, end, by)


def _zeros_from(source: Source, start: int) -> int:
    """The end of the zeros that begin at byte `start`; 0 if there are none."""
    place = start
    while place < source.size:
        data = np.frombuffer(peek(source, place, _PIECE), np.uint8)
        rest = np.flatnonzero(data)
        if len(rest) or not len(data):
            place += int(rest[0]) if len(rest) else 0
            break
        place += len(data)
    return 0 if place == start else place


def _foreign_table_blocks(fs: Inodes) -> tuple[int, int]:
    """(last inode table block without valid inodes, first one with a valid inode).

    The former is before the latter; -1 for none.
    """
    superblock = fs.superblock
    per_block = superblock.block_size // superblock.inode_size
    length = -(-superblock.inodes_per_group // per_block)
    length = min(length, 8 * superblock.inode_size)  # the bits of one bitmap block
    groups = np.argsort(fs.groups.inode_table, kind="stable")
    groups = groups[: fs.blocks.blocks_count // length + 1]  # tables do not share blocks
    at_once = max(_TABLES_AT_ONCE // length, 1)
    last = -1
    for at in range(0, len(groups), at_once):
        some = groups[at : at + at_once]
        blocks = (fs.groups.inode_table[some][:, None] + np.arange(length)).reshape(-1)
        slots = some[:, None] * superblock.inodes_per_group + np.arange(length * per_block) + 1
        data, _ = fs.fetch(blocks)
        rows = data.reshape(-1, superblock.inode_size)
        used, valid = rows.any(axis=1), _are_inodes(fs, slots.reshape(-1), rows)
        used, valid = (each.reshape(len(blocks), per_block) for each in (used, valid))
        good = np.flatnonzero(valid.any(axis=1))
        first = int(good[0]) if len(good) else len(blocks)
        foreign = np.flatnonzero(used[:first].any(axis=1))
        last = int(blocks[foreign[-1]]) if len(foreign) else last
        if len(good):
            return last, int(blocks[first])
    return last, -1


def _are_inodes(fs: Inodes, numbers: Int64s, rows: Bytes2D) -> Bools:
    """True for each slot of an inode table that holds an inode of its number."""
    if not fs.superblock.has_metadata_checksums:
        found = np.zeros(len(rows), bool)
        found[plausible_inodes(rows)] = True
        return found
    table = InodeTable(numbers, rows, fs.superblock)
    return (table.mode > 0) & inode_checksums_ok(table, fs.superblock)
