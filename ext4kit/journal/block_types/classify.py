"""The types of the blocks that each transaction wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.block_types.by_location import by_place
from ext4kit.journal.block_types.by_owner import find_block_owners
from ext4kit.journal.block_types.types import BlockRole
from ext4kit.parsers.features import Compat
from ext4kit.parsers.orphan import MAGIC as ORPHAN_MAGIC

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.journal.log import Log

XATTR_MAGIC = b"\x00\x00\x02\xea"
EXTENT_MAGIC = b"\x0a\xf3"


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

    order: Any
    block: Any
    kind: Any
    number: Any
    rows: Any

    def of(self, order: int) -> Any:
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


def _mark_special_files(fs: FileSystem, kind: Any, number: Any) -> None:
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


def _classify_by_content(log: Log, kind: Any) -> None:
    """Classify the copies of blocks without a known owner by their content."""
    unknown = np.flatnonzero((kind == BlockRole.UNKNOWN) & log.tags.valid)
    for start in range(0, len(unknown), log.reader.chunk):
        index = unknown[start : start + log.reader.chunk]
        rows = log.read_copies(index)
        kind[index[_starts_with(rows, XATTR_MAGIC)]] = BlockRole.XATTR
        kind[index[_starts_with(rows, EXTENT_MAGIC)]] = BlockRole.MAP_NODE
        tails = np.ascontiguousarray(rows[:, -8:-4]).view("<u4")[:, 0]
        kind[index[tails == ORPHAN_MAGIC]] = BlockRole.ORPHAN_FILE
        kind[index[_is_directory(rows)]] = BlockRole.DIRECTORY


def _starts_with(rows: Any, magic: bytes) -> Any:
    return (rows[:, : len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)


def _is_directory(rows: Any) -> Any:
    """True where a block has the tail of a directory block, or starts with the entry `.`."""
    tail = np.frombuffer(b"\x00\x00\x00\x00\x0c\x00\x00\xde", np.uint8)
    dot = np.frombuffer(b"\x0c\x00\x01", np.uint8)
    starts = (rows[:, 4:7] == dot).all(axis=1) & (rows[:, 8] == ord("."))
    return (rows[:, -12:-4] == tail).all(axis=1) | starts
