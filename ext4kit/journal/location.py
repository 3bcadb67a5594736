"""Where a file system keeps its log.

In the journal inode, of which the superblock holds a copy, or on a device of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.evidence.source import Source
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.findings import Severity
from ext4kit.parsers.features import Compat, Incompat
from ext4kit.parsers.inode import InodeFlags
from ext4kit.parsers.journal import HEADER, MAGIC
from ext4kit.parsers.superblock import MAGIC as SUPERBLOCK_MAGIC
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.filesystem.maps import Runs

BACKUP_BLOCKS = 1  # s_jnl_backup_type: s_jnl_blocks holds the journal inode's map and size
EXTENT_MAGIC = 0xF30A


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """Where a log is read.

    Attributes:
        blocks: reads the file system, or the external journal device.
        log_blocks: int64, the block of each log block, -1 where the map has a hole.
        superblock_at: log block of the journal superblock.
    """

    blocks: BlockReader
    log_blocks: Any
    superblock_at: int = 0


def journal_place(fs: FileSystem, device: Source | None = None) -> JournalPlace | None:
    """Where the log of a file system lies, or None; what is wrong becomes a problem of `fs`.

    Args:
        fs: the file system.
        device: its external journal device, when there is one at hand.
    """
    superblock = fs.superblock
    if Compat.HAS_JOURNAL not in superblock.features:
        return None
    if superblock.journal_inode:
        log_blocks = _journal_blocks(fs)
        return None if log_blocks is None else JournalPlace(fs.blocks, log_blocks)
    if device is not None:
        return _on_device(fs, device)
    external = superblock.journal_device or any(superblock.journal_uuid)
    what = "lies on another device and was not read" if external else "has no inode"
    fs.problems.add("journal", f"the journal {what}")
    return None


def _on_device(fs: FileSystem, device: Source) -> JournalPlace | None:
    """The log on an external device: its superblock lies behind the device's own.

    Log blocks are the device's blocks. Source: kernel fs/ext4/super.c,
    `ext4_get_journal_blkdev`; fs/jbd2/journal.c, `jbd2_journal_bmap`.
    """
    size = fs.blocks.block_size
    try:
        header = Superblock.parse(device.read(SUPERBLOCK_OFFSET, SUPERBLOCK.size))
    except AccessError as error:
        fs.problems.add("journal device", str(error))
        return None
    if header.magic != SUPERBLOCK_MAGIC or Incompat.JOURNAL_DEV not in header.features:
        fs.problems.add("journal device", "no external journal")
        return None
    if header.uuid != fs.superblock.journal_uuid:
        fs.problems.add("journal device", "belongs to another file system; it was not read")
        return None
    blocks = SourceBlocks(device, size, header.blocks_count)
    return JournalPlace(blocks, np.arange(blocks.blocks_count), SUPERBLOCK_OFFSET // size + 1)


def _journal_blocks(fs: FileSystem) -> Any:
    """The file system block of each log block, int64, or None when no log is found.

    The journal inode is used when its map is whole; else the superblock's copy of it
    (s_jnl_blocks); else what is left of the inode's map. All but the first is a problem.
    """
    inode = _from_inode(fs)
    if _is_whole(fs, inode):
        return inode
    backup = _from_backup(fs)
    if _starts(fs, backup):
        where = f"inode {fs.superblock.journal_inode}"
        what = "the journal inode is damaged; its copy in the superblock is used"
        fs.problems.add(where, what, Severity.WARNING)
        return backup
    if _starts(fs, inode):
        fs.problems.add("journal", "parts of its block map are lost; the rest is read")
        return inode
    fs.problems.add("journal", "no journal superblock where the journal inode leads")
    return None


def _from_inode(fs: FileSystem) -> Any:
    try:
        inode = fs.inode(fs.superblock.journal_inode)
        return _expanded(fs, fs.block_map(inode), inode.size)
    except (AccessError, CorruptError, RequestError) as error:
        fs.problems.add("journal", str(error))
        return np.zeros(0, np.int64)


def _from_backup(fs: FileSystem) -> Any:
    superblock = fs.superblock
    if superblock.journal_backup_type != BACKUP_BLOCKS:
        return np.zeros(0, np.int64)
    *words, size_high, size_low = superblock.journal_backup
    i_block = b"".join(word.to_bytes(4, "little") for word in words)
    by_extents = words[0] & 0xFFFF == EXTENT_MAGIC
    size = size_high << 32 | size_low
    runs = fs.block_map_of(i_block, int(InodeFlags.EXTENTS) if by_extents else 0, size)
    return _expanded(fs, runs, size)


def _expanded(fs: FileSystem, runs: Runs, size: int) -> Any:
    """One entry a log block, -1 where the map has a hole; never longer than the file system."""
    count = min(size // fs.blocks.block_size, fs.blocks.blocks_count)
    log_blocks = np.full(count, -1)
    order = np.argsort(runs.logical, kind="stable")
    logical, physical = runs.logical[order], runs.physical[order]
    limits = np.append(logical[1:], count)
    length = np.clip(np.minimum(limits, count) - logical, 0, runs.length[order])
    steps = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    log_blocks[np.repeat(logical, length) + steps] = np.repeat(physical, length) + steps
    return log_blocks


def _starts(fs: FileSystem, log_blocks: Any) -> bool:
    """Whether the first block carries the journal's magic."""
    if len(log_blocks) < 2 or log_blocks[0] <= 0:
        return False
    try:
        header = HEADER.parse(fs.blocks.read(int(log_blocks[0])))
    except AccessError:
        return False
    return bool(header.h_magic == MAGIC)


def _is_whole(fs: FileSystem, log_blocks: Any) -> bool:
    return _starts(fs, log_blocks) and bool((log_blocks > 0).all())
