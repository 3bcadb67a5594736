"""The format in which each metadata block of the log was written.

The features of a journal determine whether its blocks have checksums, and the size of tags and
revoke records. After `tune2fs` or `resize2fs` has changed the features of the file system, the next
mount sets the features of the journal accordingly, but does not rewrite older blocks of the log.
The format of these blocks is found from their checksums and from what the kernel can have written.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.journal import (
    CHECKSUM_CRC32,
    COMMIT,
    HEADER,
    REVOKE,
    UUID_BYTES,
    BlockType,
    JournalSuperblock,
    LogFormat,
    TagFlags,
    read_revokes,
    read_tags,
)
from ext4kit.units import widen

PRESENT = 0  # row of the present format in `formats`
NARROW_BLOCKS = 1 << 32  # a file system with more blocks has the 64bit feature
_ALL_FLAGS = 2 * TagFlags.LAST - 1


def are_older(orders: Int64s, superblock: JournalSuperblock) -> Bools:
    """True for tids below the first one that a recovery would read.

    Blocks with later tids have the present format, because a recovery would read them in it. If the
    log was closed cleanly, such blocks belong to another file system.
    """
    older: Bools = orders < superblock.sequence
    return older


@dataclass(frozen=True, slots=True)
class FormatFinder:
    """Finds the format of metadata blocks of one log.

    Attributes:
        superblock: the journal superblock.
        formats: the formats that the blocks can have, the present one first.
        limit: upper bound (exclusive) of the block numbers in tags and revoke records.
    """

    superblock: JournalSuperblock
    formats: tuple[LogFormat, ...]
    limit: int

    @classmethod
    def of(cls, superblock: JournalSuperblock, blocks_count: int) -> Self:
        """The finder for a log.

        Args:
            superblock: the journal superblock.
            blocks_count: blocks of the file system.
        """
        present = superblock.features.format
        widths = present.is_wide, not present.is_wide
        kinds = ((3, True), (2, True), (0, True), (0, False))
        others = [LogFormat(version, wide, has) for wide, (version, has) in product(widths, kinds)]
        formats = tuple(dict.fromkeys([present, *others]))
        return cls(superblock, formats, max(blocks_count, NARROW_BLOCKS))

    def find(self, rows: Bytes2D, kind: Int64s, order: Int64s, stamped: Bools) -> Int64s:
        """Row in `formats` of each block: the first format that explains it, else the present one.

        Args:
            rows: uint8 (n, block size).
            kind: int64 (n,), BlockType.
            order: int64 (n,), tid.
            stamped: bool (n,), True where the block's own checksum matches.
        """
        found = np.full(len(rows), PRESENT)
        older = are_older(order, self.superblock)
        checks = (
            (BlockType.DESCRIPTOR, self._are_descriptors),
            (BlockType.REVOKE, self._are_revoke_blocks),
            (BlockType.COMMIT, self._are_commit_blocks),
        )
        for of_kind, explains in checks:
            left = np.flatnonzero(older & (kind == of_kind))
            for number, one in enumerate(self.formats):
                some = left[self._are_possible(stamped[left], one)]
                if not len(some):
                    continue
                explained = some[explains(rows, some, one)]
                found[explained] = number
                left = np.setdiff1d(left, explained)
        return found

    def _are_possible(self, stamped: Bools, one: LogFormat) -> Bools:
        """True where the checksum of a block allows a format.

        In a log that has no checksums now, older checksums may have another seed.
        """
        possible: Bools = stamped == one.has_checksums
        return possible if self.formats[PRESENT].has_checksums else possible | ~stamped

    def _are_descriptors(self, rows: Bytes2D, some: Rows, one: LogFormat) -> Bools:
        """True where a tag has the last-tag flag and the kernel can have written each tag so.

        The kernel clears the block first, and writes a UUID of zeros after the first tag.
        Source: kernel fs/jbd2/commit.c, `jbd2_journal_commit_transaction`; fs/jbd2/journal.c,
        `jbd2_journal_get_descriptor_buffer`.
        """
        rows = rows[some]
        tags = read_tags(rows, one)
        own_uuid = tags.flags & TagFlags.SAME_UUID == 0
        total = np.cumsum(one.tag_bytes + UUID_BYTES * own_uuid)
        starts, is_end = starts_group(tags.descriptor), ends_group(tags.descriptor)
        before = np.append(0, total[:-1])
        ends = HEADER.size + total - np.maximum.accumulate(np.where(starts, before, 0))
        sound = (tags.flags <= _ALL_FLAGS) & (tags.block < self.limit)
        sound &= (tags.checksum == 0) | one.has_checksums
        sound &= (tags.flags & TagFlags.LAST != 0) == is_end
        sound &= ends <= rows.shape[1] - one.tail_bytes
        with_uuid = np.flatnonzero(own_uuid & sound)
        places = ends[with_uuid][:, None] + np.arange(-UUID_BYTES, 0)
        uuids = rows[tags.descriptor[with_uuid][:, None], places]
        is_own = (uuids == np.frombuffer(self.superblock.uuid, np.uint8)).all(axis=1)
        sound[with_uuid] = is_own | ~uuids.any(axis=1)
        fine: Bools = np.zeros(len(rows), bool)
        fine[tags.descriptor] = True
        fine[tags.descriptor[~sound]] = False
        used = np.full(len(rows), HEADER.size)
        used[tags.descriptor[is_end]] = ends[is_end]
        return fine & _are_zero(rows, used, one)

    def _are_revoke_blocks(self, rows: Bytes2D, some: Rows, one: LogFormat) -> Bools:
        """True where the records fill the stated size and the kernel can have written each so."""
        rows = rows[some]
        records = read_revokes(rows, one)
        used = widen(REVOKE.columns(rows)["r_count"])
        counts = np.bincount(records.row, minlength=len(rows))
        fine: Bools = ~records.overflow & (REVOKE.size + counts * one.revoke_bytes == used)
        sound = (records.block > 0) & (records.block < self.limit)
        fine[records.row[~sound]] = False
        return fine & _are_zero(rows, used, one)

    def _are_commit_blocks(self, rows: Bytes2D, some: Rows, one: LogFormat) -> Bools:
        """True where a block fits; without block checksums, it may have one of v1 or none."""
        if one.has_checksums:
            return np.ones(len(some), bool)
        raw = COMMIT.columns(rows[some])
        of_v1 = (raw["h_chksum_type"] == CHECKSUM_CRC32) & (raw["h_chksum_size"] == 4)
        of_none = (raw["h_chksum_type"] == 0) & (raw["h_chksum_size"] == 0)
        fine: Bools = of_v1 | (of_none & (raw["h_chksum"][:, 0] == 0))
        return fine


def _are_zero(rows: Bytes2D, start: Int64s, one: LogFormat) -> Bools:
    """True where a block is zero from byte `start` (per row, even) to the checksum at its end."""
    used = rows[:, : rows.shape[1] - one.tail_bytes].view(np.uint16) != 0
    zeros = used[:, ::-1].argmax(axis=1)  # trailing zeros; the magic precedes them
    zero: Bools = 2 * (used.shape[1] - zeros) <= start
    return zero
