"""The superblocks of file system and journal after a recovery, which record its completion.

Source: kernel fs/jbd2/recovery.c, `jbd2_journal_recover`; fs/ext4/super.c, `ext4_load_journal`;
e2fsck/journal.c, `recover_ext3_journal`, `e2fsck_check_ext3_journal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError, CorruptError
from ext4kit.journal.location import locate_journal
from ext4kit.journal.log import Log
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.journal import SUPERBLOCK as JOURNAL_SUPERBLOCK
from ext4kit.parsers.journal import JournalIncompat
from ext4kit.parsers.recovery import emptied_journal_superblock, recovered_superblock
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class Patch:
    """New bytes at a byte offset."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PostRecovery:
    """Patches that a recovery writes in addition to the replayed blocks.

    Attributes:
        volume: patches of the file system's volume.
        journal: patches of the source of the log, if it is outside the volume.
    """

    volume: tuple[Patch, ...] = ()
    journal: tuple[Patch, ...] = ()


def post_recovery_patches(fs: FileSystem, replayed: ReplayedBlocks) -> PostRecovery:
    """The superblocks after a recovery; no patches if no recovery was necessary.

    A failed recovery also ends with an empty log. It clears the valid mark of the file system,
    and a full check follows.

    Args:
        fs: the file system as it is on disk.
        replayed: the blocks of the file system after the recovery.
    """
    log = replayed.log
    if not log.needs_recovery or log.refusal:
        return PostRecovery()
    plan = replayed.plan
    failed = bool(plan.walk.refusal or plan.damaged)
    # With async commit and checksums v2 or v3, no bad commit block is recorded as an error.
    asynchronous = JournalIncompat.ASYNC_COMMIT in log.features
    recorded = plan.walk.is_corrupt and not (asynchronous and log.features.has_block_checksums)
    errors = log.superblock.error != 0 or (not failed and recorded)
    mine = _superblock(fs, replayed, failed=failed, errors=errors)
    emptied = _empty_log_patch(log, None if failed else plan.walk.end_order + 1)
    if log.reader.blocks is fs.blocks:
        return PostRecovery((*mine, emptied))
    return PostRecovery((*mine, *_unused_log_patches(fs, plan.walk.end_order)), (emptied,))


def _superblock(
    fs: FileSystem, replayed: ReplayedBlocks, *, failed: bool, errors: bool
) -> tuple[Patch, ...]:
    """Patch of the primary superblock; none if it cannot be read."""
    first, size = SUPERBLOCK_OFFSET // fs.blocks.block_size, SUPERBLOCK.size
    start = SUPERBLOCK_OFFSET % fs.blocks.block_size
    try:
        before, after = (
            bytes(blocks.read(first)[start : start + size]) for blocks in (fs.blocks, replayed)
        )
    except AccessError as error:
        fs.problems.add("superblock", f"remains marked for recovery: {error}", Severity.WARNING)
        return ()
    if Superblock.parse(after).magic != MAGIC:
        what = "the primary is damaged and was not repaired"
        fs.problems.add("superblock", what, Severity.WARNING)
        return ()
    data = recovered_superblock(after, before, failed=failed, errors=errors)
    return (Patch(SUPERBLOCK_OFFSET, data),)


def _empty_log_patch(log: Log, sequence: int | None) -> Patch:
    """The journal superblock of an empty log whose next id is `sequence`.

    A recovery skips one id. Therefore no block of the old log can appear to continue the new one.
    """
    block = log.superblock_block
    data = log.reader.blocks.read(block)[: JOURNAL_SUPERBLOCK.size]
    return Patch(block * log.reader.blocks.block_size, emptied_journal_superblock(data, sequence))


def _unused_log_patches(fs: FileSystem, end_order: int) -> tuple[Patch, ...]:
    """Patches that empty the journal inode's own log after a replay of another log."""
    place = locate_journal(fs) if fs.superblock.journal_inode else None
    if place is None:
        return ()
    try:
        log = Log(place.blocks, place.log_blocks, problems=Problems())
        newest = int(log.headers.order.max(initial=end_order))
        return (_empty_log_patch(log, newest + 1),)
    except (AccessError, CorruptError) as error:
        fs.problems.add("journal inode", f"its journal was not changed: {error}", Severity.WARNING)
        return ()
