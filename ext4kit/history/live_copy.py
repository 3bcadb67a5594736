"""Signs that an image was copied while its file system was mounted and written.

A power cut leaves none of them: jbd2 writes a transaction to the log before its blocks go to their
home, and moves the start of the log before it overwrites older transactions.
Source: kernel fs/jbd2/checkpoint.c, `jbd2_cleanup_journal_tail`; Documentation/filesystems/
journalling.rst.
"""

from __future__ import annotations

from ext4kit.journal import Log
from ext4kit.journal.ring import order_of
from ext4kit.units import NANOSECONDS

TICK = NANOSECONDS  # more than two clocks of one kernel differ, ns


def last_commit(log: Log | None) -> int | None:
    """Time (ns) after which no inode on a disk without power can have changed; None: not known.

    Only of a file system that is marked mounted: e2fsck changes inodes without a commit. What fast
    commits changed has no commit time.
    """
    if log is None or not log.needs_recovery or log.has_fast_commits:
        return None
    newest = int(log.transactions.commit_time_ns.max(initial=-1))
    return newest + TICK if newest >= 0 else None


def is_overtaken(log: Log | None) -> bool:
    """Whether the log holds newer transactions than the one at its start, and that one no more."""
    if log is None or not log.superblock.start:
        return False
    headers, known = log.headers, log.transactions
    first = order_of(log.superblock.sequence, log.superblock.sequence)
    starts = (headers.position == log.superblock.start) & (headers.order == first)
    return not starts.any() and bool((known.committed & (known.order > first)).any())
