"""The file system as of a transaction, from the journal copies.

The journal does not record writes outside it. A check or a change of settings while the file
system was not mounted, and fast commits that a mount replayed, leave no copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.as_of.blocks import AsOfMetadataBlocks, PointInTime, UnknownStateError, layout_blocks
from ext4kit.as_of.content_certainty import ContentCertainty, RecoveredContents
from ext4kit.as_of.range import AsOfRange, as_of_range
from ext4kit.errors import RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.grades import Grade
from ext4kit.journal.epochs import epochs_of
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.journal.shared_log import SharedLog
from ext4kit.parsers.features import Compat
from ext4kit.parsers.inode import Inode, InodeFlags, InodeTable
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock, judge
from ext4kit.problems import Problems, Severity
from ext4kit.reasons import Reason
from ext4kit.units import NANOSECONDS, Moment, TransactionId


class AsOfFileSystem(FileSystem):
    """A file system as of an earlier transaction; states without a record are reported as unknown.

    Args:
        moment: the point in time.
        now: the file system as it is now, its log replayed; its problems get unknown states too.
    """

    def __init__(self, moment: PointInTime, now: FileSystem) -> None:
        blocks = AsOfMetadataBlocks(moment, layout_blocks(moment.present))
        super().__init__(blocks, _superblock_as_of(moment, blocks), now.problems)
        self.moment = moment
        self.now = now
        self.as_of = TransactionId(moment.transaction)
        self.as_of_time = moment.range.commit_time(moment.order)
        self.unreadable = f"is not known as of transaction {self.as_of}"
        self.journal_device = moment.present.journal_device
        self._known = blocks.is_known
        self._vouching = ContentCertainty(moment, self, now)
        _report_limits(moment, now.problems)

    def fetch(self, blocks: Int64s) -> tuple[Bytes2D, Bools]:
        """(uint8 (n, block size), True where known (n,)); a block of unknown state is zeros."""
        known = self._known(blocks) if len(blocks) else np.zeros(0, bool)
        rows = np.zeros((len(blocks), self.blocks.block_size), np.uint8)
        rows[known], known[known] = super().fetch(blocks[known])
        return rows, known

    def inode_table(self, numbers: Int64s) -> InodeTable:
        """The inodes `numbers` as columns; an unknown inode is all zeros."""
        table = super().inode_table(numbers)
        self._vouching.expect_inodes(table)
        return table

    def inodes_known(self, numbers: Int64s) -> Bools:
        """True where the inode's state at that time is known, or where no such inode can exist."""
        blocks, _ = self.inode_location(numbers)
        return (blocks < 0) | self._known(blocks)

    def block_maps(self, table: InodeTable) -> list[Runs | None]:
        """None for each inode, because `content` has to decide which map was in force."""
        return [None] * len(table)

    def content(self, inode: Inode, runs: Runs | None = None) -> Content:
        """Content of a file, directory or symlink; `content_uncertainty` gives its certainty."""
        if inode.is_inline or inode.kind != "file" or inode.flags & int(InodeFlags.EA_INODE):
            return super().content(inode, runs)
        return self._vouching.judge(inode).content

    def graded_content(self, inode: Inode) -> GradedContent | None:
        """The content of a regular file as of the transaction, and its grade."""
        if inode.kind != "file":
            return None
        if inode.is_inline:
            return GradedContent(self.content(inode), Grade.INTACT)
        return self._vouching.judge(inode)

    def content_uncertainty(self, inode: Inode) -> Reason | None:
        """Why the bytes that `content` returns are uncertain; None if they are certain."""
        graded = self.graded_content(inode)
        return None if graded is None or graded.grade is Grade.INTACT else graded.reasons[0]

    def content_uncertainties(self, table: InodeTable) -> list[Reason | None]:
        """`content_uncertainty` of each inode of a table."""
        return list(map(self.content_uncertainty, table.each()))

    def vouch_by(self, recovered: RecoveredContents, is_unclean: Callable[[], bool]) -> None:
        """Grade contents that changed later as recovery does (`ContentCertainty.vouch_by`)."""
        self._vouching.vouch_by(recovered, is_unclean)

    def _lookup_child(self, number: int, name: bytes, path: bytes) -> int:
        try:
            return super()._lookup_child(number, name, path)
        except RequestError as error:
            if not self._is_complete(number):
                raise UnknownStateError(
                    f"{error}, but a part of directory inode {number} {self.unreadable}"
                ) from error
            raise

    def _is_complete(self, number: int) -> bool:
        """Whether every block of a directory is known; True for an inode of another type."""
        table = self.inode_table(np.array([number]))
        if not table.is_dir[0] or table.flags[0] & int(InodeFlags.INLINE_DATA):
            return True
        whole = not self.map_table_silently(table).damaged.any()
        return whole and bool(self._known(directory_blocks(self, table)[1]).all())


def _superblock_as_of(moment: PointInTime, blocks: AsOfMetadataBlocks) -> Superblock:
    """The journal copy of the superblock, else the present one; no orphans if it changed later."""
    now = moment.present.superblock
    block, offset = divmod(SUPERBLOCK_OFFSET, blocks.block_size)
    place = np.array([block])
    if now.group_number == 0 and blocks.copies_of(place)[0] >= 0:
        then = Superblock.parse(blocks.read(block)[offset : offset + SUPERBLOCK.size])
        is_own = then.magic == MAGIC and then.uuid == now.uuid and not judge(then)
        if is_own and then.block_size == now.block_size:
            return then
    return replace(now, last_orphan=0) if moment.changed_later(place)[0] else now


def _report_limits(moment: PointInTime, problems: Problems) -> None:
    """Report later writes that may have left no record in the journal."""
    superblock, where = moment.present.superblock, f"transaction {moment.transaction}"
    committed = moment.range.commit_time(moment.order)
    if committed >= 0 and superblock.check_time * NANOSECONDS > committed:
        what = "the file system was checked later; changes made by the check are not in the journal"
        problems.add(where, what, Severity.WARNING)
    if Compat.FAST_COMMIT in superblock.features:
        what = "fast commits that a mount replayed are not in the log"
        problems.add(where, what, Severity.WARNING)


def recorded_range(shared: SharedLog) -> AsOfRange:
    """The transactions after which the state of a file system is recorded.

    Raises:
        RequestError: there is no log.
    """
    log, history = shared.log, shared.copies()
    if log is None or history is None:
        raise RequestError("--as-of: there is no journal that can be read")
    return as_of_range(log).since(epochs_of(shared.fs, history).first_present)


def file_system_as_of(given: FileSystem | SharedLog, transaction: int | Moment) -> AsOfFileSystem:
    """The file system after a transaction.

    Args:
        given: the file system as it is now, its log replayed, or what shares its log.
        transaction: stored tid, or a time: then the last transaction that was committed by it.

    Raises:
        RequestError: there is no log, or it does not record that state; the message names the
            transactions that can be requested.
    """
    shared = SharedLog.of(given)
    now, history, reach = shared.fs, shared.copies(), recorded_range(shared)
    assert history is not None  # there is a log
    if isinstance(transaction, Moment):
        order = reach.tid_at(transaction.time)
    else:
        order = reach.tid_of(transaction)
    present = now
    if isinstance(now.blocks, ReplayedBlocks) and len(now.blocks.changed.blocks):
        present = now.with_blocks(now.blocks.before_fast_commits)
    moment = PointInTime(present, history, reach, order)
    return AsOfFileSystem(moment, now)
