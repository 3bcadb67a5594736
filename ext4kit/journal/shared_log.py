"""The log of one file system, read once for all that derive something from it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.log import Log
from ext4kit.journal.recovery_pass import UNMOUNT_STEP
from ext4kit.units import NANOSECONDS

FIRST_TID = 2  # the first tid of the kernel in a journal that mke2fs created is this one or 1

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


class SharedLog:
    """A file system with its log and the copies of blocks in that, each made when first asked for.

    Args:
        fs: the file system, opened with its journal replayed.
    """

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self._copies: dict[bool, BlockHistory] = {}

    @classmethod
    def of(cls, given: FileSystem | SharedLog) -> SharedLog:
        """What shares the log already, or the file system with a log of its own."""
        return given if isinstance(given, SharedLog) else cls(given)

    @cached_property
    def log(self) -> Log | None:
        """The log; None if there is none that can be read."""
        return Log.open(self.fs)

    @cached_property
    def last_moment(self) -> int:
        """The last time that the file system tells of itself, ns since 1970.

        The later one of the last write that the superblock tells and of the newest commit.
        """
        superblock = self.fs.superblock
        last = max(superblock.write_time, superblock.mount_time) * NANOSECONDS
        if self.log is None or not len(self.log.transactions):
            return last
        return max(last, int(self.log.transactions.commit_time_ns.max()))

    @cached_property
    def period(self) -> tuple[int, int] | None:
        """The first and the last commit time in the log, ns since 1970; None without any."""
        if self.log is None:
            return None
        known = self.log.transactions
        times = known.commit_time_ns[known.committed & (known.commit_time_ns > 0)]
        return (int(times.min()), int(times.max())) if len(times) else None

    @cached_property
    def is_complete(self) -> bool:
        """Whether the log has every transaction since the file system was made."""
        if self.log is None:
            return False
        known = self.log.transactions
        orders = known.order[known.committed]
        has_first = len(orders) > 0 and orders[0] <= FIRST_TID
        return bool(has_first and (np.diff(orders) <= UNMOUNT_STEP).all())

    def copies(self, committed_only: bool = False) -> BlockHistory | None:
        """The copies of blocks in the log, of committed transactions alone or of all."""
        if self.log is None:
            return None
        if committed_only not in self._copies:
            self._copies[committed_only] = BlockHistory(self.log, committed_only)
        return self._copies[committed_only]
