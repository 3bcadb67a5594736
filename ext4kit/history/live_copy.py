"""Evidence that an image was acquired while its file system was mounted and written.

An unclean shutdown leaves none of it: jbd2 writes a transaction to the log before the home blocks,
and moves the start of the log before it overwrites older transactions.
Source: kernel fs/jbd2/checkpoint.c, `jbd2_cleanup_journal_tail`; Documentation/filesystems/
journalling.rst.
"""

from __future__ import annotations

from ext4kit.journal import Log
from ext4kit.journal.ring import order_of
from ext4kit.parsers.inode import InodeTable
from ext4kit.units import NANOSECONDS

TIME_TOLERANCE = NANOSECONDS  # ns; more than the difference between two clocks of one kernel


def last_commit(log: Log | None) -> int | None:
    """Time (ns) after which no inode can have changed on a disk at rest; None if unknown.

    Defined only for a file system marked for recovery, because e2fsck changes inodes without a
    commit, and without fast commits, because their changes have no commit time.
    """
    if log is None or not log.needs_recovery or log.has_fast_commits:
        return None
    newest = int(log.transactions.commit_time_ns.max(initial=-1))
    return newest + TIME_TOLERANCE if newest >= 0 else None


def start_is_overwritten(log: Log | None) -> bool:
    """Whether newer transactions overwrote the first one that the journal superblock names."""
    if log is None or not log.superblock.start:
        return False
    headers, known = log.headers, log.transactions
    first = order_of(log.superblock.sequence, log.superblock.sequence)
    starts = (headers.position == log.superblock.start) & (headers.order == first)
    return not starts.any() and bool((known.committed & (known.order > first)).any())


def count_changed(table: InodeTable, after: int) -> int:
    """Number of inodes changed after a time (ns)."""
    return int(((table.ctime > after) & (table.mode != 0)).sum())
