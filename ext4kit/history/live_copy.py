"""Evidence that an image was acquired while its file system was mounted and written.

An unclean shutdown leaves no such evidence: jbd2 writes a transaction to the log before it writes
the home blocks, and moves the start of the log before it overwrites older transactions. Source:
kernel fs/jbd2/checkpoint.c, `jbd2_cleanup_journal_tail`; Documentation/filesystems/
journalling.rst.
"""

from __future__ import annotations

from ext4kit.journal import Log
from ext4kit.journal.ring import order_of
from ext4kit.parsers.inode import InodeTable
from ext4kit.units import NANOSECONDS

TIME_TOLERANCE = NANOSECONDS  # ns; larger than the difference between two clocks of one kernel


def last_commit(log: Log | None) -> int | None:
    """Latest time (ns) of an inode change if the file system was not in use; None if unknown.

    It is known only if the file system is marked for recovery, because e2fsck changes inodes
    without a commit, and only without fast commits, because their changes have no commit time.
    """
    if log is None or not log.needs_recovery or log.has_fast_commits:
        return None
    newest = int(log.transactions.commit_time_ns.max(initial=-1))
    return newest + TIME_TOLERANCE if newest >= 0 else None


def start_is_overwritten(log: Log | None) -> bool:
    """Whether newer transactions overwrote the transaction at which the log starts (`s_start`)."""
    if log is None or not log.superblock.start:
        return False
    headers, known = log.headers, log.transactions
    first = order_of(log.superblock.sequence, log.superblock.sequence)
    starts = (headers.position == log.superblock.start) & (headers.order == first)
    return not starts.any() and bool((known.committed & (known.order > first)).any())


def count_changed(table: InodeTable, after: int) -> int:
    """Number of inodes changed after a time (ns)."""
    return int(((table.ctime > after) & (table.mode != 0)).sum())
