"""Appearances: from when to when an entry stood in a directory block.

The appearances of one entry in consecutive versions of its block are one interval. Versions
are read in pieces, so an interval that reaches the end of a piece is kept open for the next.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.history.directory_blocks import (
    TID_BEFORE_LOG,
    DirBlockBatch,
    DirBlockVersions,
    DirectoryBlockHistory,
)
from ext4kit.history.history import TID_ON_DISK
from ext4kit.parsers.directory import EntryTable, parse_slack_entries

SLACK_ENTRY = -2  # seen only as a removed entry that was not cleared


@dataclass(frozen=True, slots=True)
class EntryIntervals(Table):
    """Intervals as int64 columns, in no order.

    Attributes:
        inode: inode number of the entry.
        directory: whose block it stood in, as in `DirBlockVersions`.
        block: the block.
        name_key: of the name: names of equal keys are equal.
        file_type: as the entry says, 0 for unknown.
        valid_from: order of the first version that shows the entry, TID_BEFORE_LOG when that is
            the first version of the block that is known.
        first_seen: order of the first version that shows it, whether there is an earlier one or
            not.
        removed: order of the first version without it, TID_ON_DISK when none shows that it went.
        last_seen: order of the last version that shows it, TID_BEFORE_LOG for a freed block on
            disk, SLACK_ENTRY for an entry that older kernels left uncleared.
        last_absent: order of the version before the first one that shows it, TID_BEFORE_LOG
            without one.
        first_source: source (as in `DirBlockVersions`) of the first version that shows it.
        removal_source: source of the version without it, -1 where there is none.
        source: source of the last version that shows it; at: byte offset of the entry in that one.
        name: the names.
    """

    inode: Int64s
    directory: Int64s
    block: Int64s
    name_key: Int64s
    file_type: Int64s
    valid_from: Int64s
    first_seen: Int64s
    removed: Int64s
    last_seen: Int64s
    last_absent: Int64s
    first_source: Int64s
    removal_source: Int64s
    source: Int64s
    at: Int64s
    name: list[bytes]


def find_entry_intervals(
    blocks: DirectoryBlockHistory, numbers: Int64s | None = None, remnants: bool = False
) -> EntryIntervals:
    """The appearances of entries in all versions of the directory blocks.

    Args:
        blocks: the versions.
        numbers: inode numbers whose entries are wanted; all by default.
        remnants: also removed entries that were not cleared, whatever number they name.
    """
    fs = blocks.history.fs
    wanted = None
    if numbers is not None:
        wanted = sparse_flags(int(numbers.max(initial=0)) + 1)
        wanted[numbers] = True
    joiner = _SpanJoiner()
    parts = []
    for piece in blocks.batches():
        entries = piece.entries
        named = entries if wanted is None else entries.take(_select_inodes(wanted, entries.inode))
        parts.append(joiner.add(piece, named))
        if remnants:
            parts.append(_slack_entries(piece, fs.superblock.inodes_count, fs.has_file_types))
    found = EntryIntervals.concat(parts)
    return found.take(np.flatnonzero(~_also_in_journal(found)))


def _select_inodes(wanted: Bools, inode: Int64s) -> Bools:
    return wanted[np.minimum(inode, len(wanted) - 1)] & (inode < len(wanted))


_HASH_WEIGHTS = np.frombuffer(os.urandom(256 * 8), np.int64) >> 1 | 1


def _hash_names(data: Bytes2D, entries: EntryTable) -> Int64s:
    """A 64-bit key of each entry's name: a random linear form of its bytes and length."""
    row, position = expand(entries.name_length)
    values = data[entries.block[row], entries.offset[row] + 8 + position].astype(np.int64)
    sums = np.zeros(len(entries) + 1, np.int64)
    ends = np.cumsum(entries.name_length)
    running = np.concatenate([[0], np.cumsum(values * _HASH_WEIGHTS[position])])
    sums[1:] = running[ends]
    keys: Int64s = np.diff(sums) ^ (entries.name_length * _HASH_WEIGHTS[-1])
    return keys


@dataclass(frozen=True, slots=True)
class _VersionSpans(Table):
    """Intervals by rows of the versions: the first and the last one that shows the entry.

    `at` is where the entry stands in the last one.
    """

    first: Int64s
    last: Int64s
    at: Int64s
    child: Int64s
    directory: Int64s
    key: Int64s
    file_type: Int64s
    name: list[bytes]


class _SpanJoiner:
    """Turns pieces into intervals; keeps those that the next piece goes on with."""

    def __init__(self) -> None:
        self._open: _VersionSpans | None = None

    def add(self, piece: DirBlockBatch, entries: EntryTable) -> EntryIntervals:
        """The intervals that end within a piece."""
        spans = _spans_in_batch(piece, entries)
        if piece.repeats_last and self._open is not None:
            again = np.flatnonzero(spans.first == piece.start)
            spans.first[again] = self._open.first
            for row, name in zip(again.tolist(), self._open.name, strict=True):
                spans.name[row] = name
        end = piece.start + len(piece.data)
        goes_on = (
            end < len(piece.versions) and piece.versions.block[end] == piece.versions.block[end - 1]
        )
        held = (spans.last == end - 1) & bool(goes_on)
        self._open = spans.take(np.flatnonzero(held))
        return _to_intervals(piece.versions, spans.take(np.flatnonzero(~held)))


def _spans_in_batch(piece: DirBlockBatch, entries: EntryTable) -> _VersionSpans:
    """The intervals within one piece, by (block, inode, key, directory).

    One of another type is another's: it got the number and the name of the one before.
    """
    versions = piece.own_versions
    key = _hash_names(piece.data, entries)
    block, directory = versions.block[entries.block], versions.directory[entries.block]
    sort = np.lexsort((entries.block, directory, key, entries.inode, block))
    entries, key = entries.take(sort), key[sort]
    block, directory = block[sort], directory[sort]
    follows = (
        (block[1:] == block[:-1])
        & (entries.inode[1:] == entries.inode[:-1])
        & (key[1:] == key[:-1])
        & (directory[1:] == directory[:-1])
        & (entries.file_type[1:] == entries.file_type[:-1])
        & (entries.block[1:] == entries.block[:-1] + 1)
    )
    start = np.concatenate([[0], np.flatnonzero(~follows) + 1])[: len(block)]
    last = np.append(start[1:], len(block))[: len(start)] - 1
    return _VersionSpans(
        entries.block[start] + piece.start,
        entries.block[last] + piece.start,
        entries.offset[last],
        entries.inode[start],
        directory[start],
        key[start],
        entries.file_type[start],
        entries.take(start).names(piece.data),
    )


def _to_intervals(versions: DirBlockVersions, spans: _VersionSpans) -> EntryIntervals:
    """Spans told in orders of transactions, as they stand: keys of names differ in each run."""
    spans = spans.take(np.lexsort((spans.last, spans.at, spans.first)))
    first, last = spans.first, spans.last
    before = np.maximum(first - 1, 0)
    has_earlier = (first > 0) & (versions.block[first] == versions.block[before])
    has_earlier &= versions.order[before] != TID_BEFORE_LOG
    after = np.minimum(last + 1, len(versions) - 1)
    has_later = (last + 1 < len(versions)) & (versions.block[last] == versions.block[after])
    return EntryIntervals(
        spans.child,
        spans.directory,
        versions.block[first],
        spans.key,
        spans.file_type,
        np.where(has_earlier, versions.order[first], TID_BEFORE_LOG),
        versions.order[first],
        np.where(has_later, versions.order[after], TID_ON_DISK),
        versions.order[last],
        np.where(has_earlier, versions.order[before], TID_BEFORE_LOG),
        versions.source[first],
        np.where(has_later, versions.source[after], -1),
        versions.source[last],
        spans.at,
        spans.name,
    )


def _also_in_journal(found: EntryIntervals) -> Bools:
    """Per interval (bool): of a freed block, and the log has the same entry in that block.

    The log has every version of a block since it first shows the block: one that holds such
    an entry is the one on disk, and tells better when that was.
    """
    freed = (found.last_seen == TID_BEFORE_LOG).astype(np.int64)
    again = np.zeros(len(found), bool)
    if not freed.any():
        return again
    same = (found.directory, found.name_key, found.inode, found.block)
    rank = np.lexsort((-freed, *same))
    follows = np.ones(len(rank) - 1, bool)
    for column in same:
        follows &= column[rank[1:]] == column[rank[:-1]]
    again[rank[:-1]] = follows & (found.last_seen[rank[:-1]] == TID_BEFORE_LOG)
    return again


def _slack_entries(piece: DirBlockBatch, last: int, has_file_type: bool) -> EntryIntervals:
    """Removed entries that were not cleared: gone by the time of the version they stand in."""
    versions = piece.own_versions
    entries = parse_slack_entries(piece.data, last, piece.entries, has_file_type)
    entries = entries.take(entries.block >= int(piece.repeats_last))
    count = len(entries)
    order = versions.order[entries.block]
    before = np.full(count, TID_BEFORE_LOG)
    return EntryIntervals(
        entries.inode,
        versions.directory[entries.block],
        versions.block[entries.block],
        _hash_names(piece.data, entries),
        entries.file_type,
        before,
        order,
        order,
        np.full(count, SLACK_ENTRY),
        before,
        versions.source[entries.block],
        versions.source[entries.block],
        versions.source[entries.block],
        entries.offset,
        entries.names(piece.data),
    )
