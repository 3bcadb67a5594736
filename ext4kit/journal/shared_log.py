"""The log of one file system, read once and shared by all users."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.log import Log
from ext4kit.journal.recovery_pass import UNMOUNT_STEP
from ext4kit.scan import KeptScan
from ext4kit.units import NANOSECONDS

FIRST_TID = 2  # first tid that the kernel writes to a new journal: this one, or 1

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


class SharedLog:
    """A file system with its log and the block copies in the log, each read at first use.

    Args:
        fs: the file system, opened with its journal replayed.
        kept_scan: an earlier scan of its unallocated space, to be used instead of a new one.
    """

    def __init__(self, fs: FileSystem, kept_scan: KeptScan | None = None) -> None:
        self.fs = fs
        self.kept_scan = kept_scan
        self._copies: dict[bool, BlockHistory] = {}

    @classmethod
    def of(cls, given: FileSystem | SharedLog) -> SharedLog:
        """`given` if it is a `SharedLog`, else a new `SharedLog` for the file system."""
        return given if isinstance(given, SharedLog) else cls(given)

    @cached_property
    def log(self) -> Log | None:
        """The log; None if there is no readable log."""
        return Log.open(self.fs)

    @cached_property
    def last_moment(self) -> int:
        """The last time that the file system records, ns since 1970.

        This is the last write time of the superblock or the newest commit time, whichever is later.
        """
        superblock = self.fs.superblock
        last = max(superblock.write_time, superblock.mount_time) * NANOSECONDS
        if self.log is None or not len(self.log.transactions):
            return last
        return max(last, int(self.log.transactions.commit_time_ns.max()))

    @cached_property
    def period(self) -> tuple[int, int] | None:
        """The first and the last commit time in the log, ns since 1970; None if there is none."""
        if self.log is None:
            return None
        known = self.log.transactions
        times = known.commit_time_ns[known.committed & (known.commit_time_ns > 0)]
        return (int(times.min()), int(times.max())) if len(times) else None

    @cached_property
    def is_complete(self) -> bool:
        """Whether the log has every transaction since the file system was created."""
        if self.log is None:
            return False
        known = self.log.transactions
        orders = known.order[known.committed]
        has_first = len(orders) > 0 and orders[0] <= FIRST_TID
        return bool(has_first and (np.diff(orders) <= UNMOUNT_STEP).all())

    def copies(self, committed_only: bool = False) -> BlockHistory | None:
        """The copies of blocks in the log, of committed transactions only or of all of them."""
        if self.log is None:
            return None
        if committed_only not in self._copies:
            self._copies[committed_only] = BlockHistory(self.log, committed_only)
        return self._copies[committed_only]
