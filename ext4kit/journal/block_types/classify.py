"""The types of the blocks that each transaction wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s, Rows
from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.block_types.by_location import by_place
from ext4kit.journal.block_types.by_owner import find_block_owners
from ext4kit.journal.block_types.types import BlockRole
from ext4kit.parsers.features import Compat
from ext4kit.parsers.orphan import MAGIC as ORPHAN_MAGIC

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.journal.log import Log

SIGNATURES = (  # ((offset, bytes there), ...) of each type; the last one that fits counts
    (BlockRole.XATTR, ((0, b"\x00\x00\x02\xea"),)),
    (BlockRole.MAP_NODE, ((0, b"\x0a\xf3"),)),
    (BlockRole.ORPHAN_FILE, ((-8, ORPHAN_MAGIC.to_bytes(4, "little")),)),
    (BlockRole.DIRECTORY, ((-12, b"\x00\x00\x00\x00\x0c\x00\x00\xde"),)),  # its tail
    (BlockRole.DIRECTORY, ((4, b"\x0c\x00\x01"), (8, b"."))),  # its first entry
)


@dataclass(frozen=True, slots=True)
class Touched:
    """Types of the copies in a log, one row per tag of `log.tags`.

    Attributes:
        order: int64, tid of the transaction.
        block: int64, home block of the copy.
        kind: int64, BlockRole.
        number: int64: group of a bitmap, first inode of an inode table block, inode of a block
            with an owner; -1 where there is none or it is not known.
        rows: int64, rows of the other columns by (order, kind, number).
    """

    order: Int64s
    block: Int64s
    kind: Int64s
    number: Int64s
    rows: Rows

    def of(self, order: int) -> Rows:
        """Rows of one transaction, by kind and number."""
        first, end = np.searchsorted(self.order[self.rows], [order, order + 1])
        return self.rows[first:end]


def classify_copies(fs: FileSystem, log: Log) -> Touched:
    """Classify every copy that a descriptor of the log names.

    Args:
        fs: the file system as it is on disk.
        log: its log.
    """
    tags = log.tags
    kind, number = by_place(fs, log, tags.block)
    open_ones = np.flatnonzero(kind == BlockRole.UNKNOWN)
    if len(open_ones):
        owners = find_block_owners(fs, BlockHistory(log), tags.block[open_ones])
        found, inode = owners.of(tags.block[open_ones], tags.order[open_ones])
        kind[open_ones], number[open_ones] = found, inode
        _mark_special_files(fs, kind, number)
        _classify_by_content(log, kind)
    rows = np.lexsort((tags.block, number, kind, tags.order))
    return Touched(tags.order, tags.block, kind, number, rows)


def _mark_special_files(fs: FileSystem, kind: Int64s, number: Int64s) -> None:
    """Mark the blocks of the file system's own files."""
    superblock = fs.superblock
    data = kind == BlockRole.FILE_DATA
    if Compat.ORPHAN_FILE in superblock.features:
        kind[data & (number == superblock.orphan_file_inode)] = BlockRole.ORPHAN_FILE
    quotas = [
        superblock.user_quota_inode,
        superblock.group_quota_inode,
        superblock.project_quota_inode,
    ]
    kind[data & np.isin(number, [each for each in quotas if each])] = BlockRole.QUOTA


def _classify_by_content(log: Log, kind: Int64s) -> None:
    """Classify the copies of blocks without a known owner by their content."""
    unknown = np.flatnonzero((kind == BlockRole.UNKNOWN) & log.tags.valid)
    for start in range(0, len(unknown), log.reader.chunk):
        index = unknown[start : start + log.reader.chunk]
        rows = log.read_copies(index)
        for role, signature in SIGNATURES:
            fits = [
                (rows[:, at : at + len(part)] == np.frombuffer(part, np.uint8)).all(axis=1)
                for at, part in signature
            ]
            kind[index[np.logical_and.reduce(fits)]] = role
