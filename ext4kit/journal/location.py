"""The location of a file system's log.

The log is in the journal inode, of which the superblock holds a copy, or on an external device. A
file with the content of the journal inode can be given instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, RequestError
from ext4kit.evidence.source import Source, peek
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.parsers.features import Compat, Incompat
from ext4kit.parsers.inode import InodeFlags
from ext4kit.parsers.journal import HEADER, MAGIC, MAGIC_BYTES, SUPERBLOCK, JournalSuperblock
from ext4kit.parsers.superblock import MAGIC as SUPERBLOCK_MAGIC
from ext4kit.parsers.superblock import SUPERBLOCK as DEVICE_SUPERBLOCK
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET, Superblock
from ext4kit.problems import Severity

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.filesystem.block_maps import Runs

BACKUP_BLOCKS = 1  # s_jnl_backup_type: s_jnl_blocks holds the journal inode's map and size
EXTENT_MAGIC = 0xF30A


@dataclass(frozen=True, slots=True)
class JournalLocation:
    """The location of a log.

    Attributes:
        blocks: block reader of the file system, or of the external journal device.
        log_blocks: int64, block of each log block in `blocks`, -1 where the map has a hole.
        superblock_at: log block of the journal superblock.
    """

    blocks: BlockReader
    log_blocks: Int64s
    superblock_at: int = 0


def locate_journal(fs: FileSystem, device: Source | None = None) -> JournalLocation | None:
    """Location of the log of a file system, or None; defects become problems of `fs`.

    Args:
        fs: the file system.
        device: the external journal device, or a file with the content of the journal inode, which
            is then read instead of the inode.
    """
    superblock = fs.superblock
    if Compat.HAS_JOURNAL not in superblock.features:
        if device is not None:
            _not_read(fs, "the file system has no journal", Severity.WARNING)
        return None
    place = _external(fs, device) if device is not None else None
    if place is not None:
        return place
    if superblock.journal_inode:
        log_blocks = _journal_blocks(fs)
        return None if log_blocks is None else JournalLocation(fs.blocks, log_blocks)
    if device is not None:
        return None
    if not superblock.journal_device and not any(superblock.journal_uuid):
        fs.problems.add("journal", "the journal has no inode")
        return None
    what = f"is on another device (UUID {UUID(bytes=superblock.journal_uuid)}) and was not read"
    if superblock.needs_recovery:
        fs.problems.add("journal", f"{what}; the newest changes are missing", Severity.ERROR)
    else:
        fs.problems.add("journal", what, Severity.NOTE)
    return None


def _not_read(fs: FileSystem, why: str, severity: Severity = Severity.ERROR) -> None:
    fs.problems.add("journal device", f"{why}; it was not read", severity)


def _external(fs: FileSystem, device: Source) -> JournalLocation | None:
    """The log in the given journal source, None if it is not a log of this file system."""
    try:
        if peek(device, 0, len(MAGIC_BYTES)) == MAGIC_BYTES:
            return _exported(fs, device)
        return _on_device(fs, device)
    except (AccessError, CorruptError) as error:
        _not_read(fs, str(error))
        return None


def _exported(fs: FileSystem, device: Source) -> JournalLocation | None:
    """The log in a copy of a journal inode, or of a journal device from its journal superblock on.

    The superblock of a journal inode has the UUID that its file system had at mkfs.
    """
    found = JournalSuperblock.parse(device.read(0, SUPERBLOCK.size))
    known = {fs.superblock.uuid, fs.superblock.journal_uuid}
    if fs.superblock.journal_inode and found.uuid != fs.superblock.uuid:
        own = _journal_blocks(fs)  # read only if the UUID of the file system has changed
        if own is not None:
            known.add(JournalSuperblock.parse(fs.blocks.read(int(own[0]))).uuid)
    if found.uuid not in known:
        _not_read(fs, f"belongs to another file system (UUID {UUID(bytes=found.uuid)})")
        return None
    size = fs.blocks.block_size
    blocks = SourceBlocks(device, size, device.size // size)
    at = 0 if fs.superblock.journal_inode else _superblock_at(size)
    return JournalLocation(blocks, np.arange(-at, blocks.blocks_count), at)


def _superblock_at(block_size: int) -> int:
    """Block of the journal superblock on an external device: after the ext4 superblock.

    Source: kernel fs/ext4/super.c, `ext4_get_journal_blkdev`.
    """
    return SUPERBLOCK_OFFSET // block_size + 1


def _on_device(fs: FileSystem, device: Source) -> JournalLocation | None:
    """The log on an external device; its superblock follows the ext4 superblock.

    Log blocks are the blocks of the device. Source: kernel fs/ext4/super.c,
    `ext4_get_journal_blkdev`; fs/jbd2/journal.c, `jbd2_journal_bmap`.
    """
    header = Superblock.parse(device.read(SUPERBLOCK_OFFSET, DEVICE_SUPERBLOCK.size))
    wanted = fs.superblock.journal_uuid
    is_one = header.magic == SUPERBLOCK_MAGIC and Incompat.JOURNAL_DEV in header.features
    checks = [
        (is_one, "not an external journal"),
        (not fs.superblock.journal_inode, "the file system has an internal journal"),
        (header.checksum_ok is not False, "bad checksum of the device's superblock"),
        (header.uuid == wanted,
         f"belongs to another file system (UUID {header.uuid_text}, not {UUID(bytes=wanted)})"),
    ]  # fmt: skip
    reason = next((reason for fine, reason in checks if not fine), "")
    if reason:
        _not_read(fs, reason)
        return None
    size = fs.blocks.block_size
    blocks = SourceBlocks(device, size, header.blocks_count)
    return JournalLocation(blocks, np.arange(blocks.blocks_count), _superblock_at(size))


def _journal_blocks(fs: FileSystem) -> Int64s | None:
    """The file system block of each log block, int64, or None if no log is found.

    The map of the journal inode is used if it is complete, else the superblock's copy of that map
    (`s_jnl_blocks`), else the readable part of the inode's map. The last two cases are reported as
    problems.
    """
    inode = _from_inode(fs)
    if _is_complete(fs, inode):
        return inode
    backup = _from_backup(fs)
    if _has_magic(fs, backup):
        where = f"inode {fs.superblock.journal_inode}"
        what = "the journal inode is damaged; its copy in the superblock is used"
        fs.problems.add(where, what, Severity.WARNING)
        return backup
    if _has_magic(fs, inode):
        fs.problems.add(
            "journal", "its block map has holes or duplicate blocks; read up to the first of them"
        )
        return inode
    fs.problems.add("journal", "no journal superblock in the blocks of the journal inode")
    return None


def _from_inode(fs: FileSystem) -> Int64s:
    try:
        inode = fs.inode(fs.superblock.journal_inode)
        return _expanded(fs, fs.block_map(inode), inode.size)
    except (AccessError, CorruptError, RequestError) as error:
        fs.problems.add("journal", str(error))
        return np.zeros(0, np.int64)


def _from_backup(fs: FileSystem) -> Int64s:
    superblock = fs.superblock
    if superblock.journal_backup_type != BACKUP_BLOCKS:
        return np.zeros(0, np.int64)
    *words, size_high, size_low = superblock.journal_backup
    i_block = b"".join(word.to_bytes(4, "little") for word in words)
    by_extents = words[0] & 0xFFFF == EXTENT_MAGIC
    size = size_high << 32 | size_low
    runs = fs.block_map_from(i_block, int(InodeFlags.EXTENTS) if by_extents else 0, size)
    return _expanded(fs, runs, size)


def _expanded(fs: FileSystem, runs: Runs, size: int) -> Int64s:
    """One entry per log block, -1 where the map has a hole; never longer than the file system."""
    count = min(size // fs.blocks.block_size, fs.blocks.blocks_count)
    log_blocks = np.full(count, -1)
    runs = runs.take(np.argsort(runs.logical, kind="stable"))
    limits = np.minimum(np.append(runs.logical[1:], count), count)
    row, step = expand(np.clip(limits - runs.logical, 0, runs.length))
    log_blocks[runs.logical[row] + step] = runs.physical[row] + step
    return log_blocks


def _has_magic(fs: FileSystem, log_blocks: Int64s) -> bool:
    """Whether the first block has the journal's magic."""
    if len(log_blocks) < 2 or log_blocks[0] <= 0:
        return False
    try:
        header = HEADER.first(fs.blocks.read(int(log_blocks[0])))
    except AccessError:
        return False
    return bool(header.h_magic == MAGIC)


def _is_complete(fs: FileSystem, log_blocks: Int64s) -> bool:
    """Whether every log block is mapped, each to a different block."""
    if not _has_magic(fs, log_blocks) or not (log_blocks > 0).all():
        return False
    return bool((np.diff(np.sort(log_blocks)) > 0).all())
