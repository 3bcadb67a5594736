"""Inode states as columns, and special tids for states that are in no transaction of the log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.parsers.inode import InodeFlags, InodeTable

TID_ON_DISK = np.int64(1) << 62  # tid of the present disk, after every transaction
# Tid of the disk before fast commits. Intermediate states have the tids after it, one for each fast
# commit.
TID_PRE_FAST_COMMIT = int(TID_ON_DISK) - 1000
TID_NONE = -1
NO_NUMBERS: Int64s = np.zeros(0, np.int64)


@dataclass(frozen=True)
class InodeStates(Table):
    """Inode states as columns, sorted by (instance, tid).

    Attributes:
        table: the inodes.
        tid: first transaction with the state, TID_ON_DISK for the one on disk.
        instance: number of the instance, ascending.
        untagged: True where the state is from an untagged log block or an unallocated block.
    """

    table: InodeTable
    tid: Int64s
    instance: Int64s
    untagged: Bools

    @classmethod
    def by_instance(cls, table: InodeTable, tid: Int64s, untagged: Bools) -> InodeStates:
        """A table of states given in any order, sorted here."""
        _, instance = np.unique(table.number << 32 | table.generation, return_inverse=True)
        sort = np.lexsort((~untagged, tid, instance))
        return cls(table.take(sort), tid[sort], instance[sort], untagged[sort])

    @cached_property
    def is_linked(self) -> Bools:
        """True where `i_links_count > 0`."""
        linked: Bools = (self.table.mode != 0) & (self.table.links_count > 0)
        return linked

    @cached_property
    def describes_content(self) -> Bools:
        """True where the state maps the content: linked, or unlinked but not truncated."""
        table = self.table
        inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
        by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
        roots = [
            ((piece.i_block[:, 2] > 0) | (piece.i_block[:, 3] > 0), piece.i_block.any(axis=1))
            for piece in table.pieces()
        ]
        none = np.zeros(0, bool)
        entries, pointers = (
            np.concatenate(part) for part in zip((none, none), *roots, strict=True)
        )
        described = np.where(by_extents, entries, pointers) | inline
        shown: Bools = self.is_linked | ((table.mode != 0) & (table.size > 0) & described)
        return shown
