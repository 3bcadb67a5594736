"""Appearances: from when to when an entry stood in a directory block.

The appearances of one entry in consecutive versions of its block are one interval. Versions
are read in pieces, so an interval that reaches the end of a piece is kept open for the next.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.parsers.directory import EntryTable, parse_remnants
from ext4kit.past.directories import BEFORE, DirectoryBlocks, Piece, Versions
from ext4kit.past.states import NOW

REMNANT = -2  # seen only as a removed entry that was not cleared


@dataclass(frozen=True, slots=True)
class Appearances(Table):
    """Intervals as int64 columns, in no order.

    Attributes:
        child: inode number of the entry.
        directory: whose block it stood in, as in `Versions`.
        block: the block.
        key: of the name: names of equal keys are equal.
        file_type: as the entry says, 0 for unknown.
        first: order of the first version that shows the entry, BEFORE when that is the first
            version of the block that is known.
        shown: order of the first version that shows it, whether there is an earlier one or not.
        gone: order of the first version without it, NOW when none shows that it went.
        seen: order of the last version that shows it, BEFORE for a freed block on disk, REMNANT
            for an entry that older kernels left uncleared.
        before: order of the version before the first one that shows it, BEFORE without one.
        first_source: source (as in `Versions`) of the first version that shows it.
        gone_source: source of the version without it, -1 where there is none.
        source: source of the last version that shows it; at: byte offset of the entry in that one.
        name: the names.
    """

    child: Int64s
    directory: Int64s
    block: Int64s
    key: Int64s
    file_type: Int64s
    first: Int64s
    shown: Int64s
    gone: Int64s
    seen: Int64s
    before: Int64s
    first_source: Int64s
    gone_source: Int64s
    source: Int64s
    at: Int64s
    name: list[bytes]


def find_appearances(
    blocks: DirectoryBlocks, numbers: Any = None, remnants: bool = False
) -> Appearances:
    """The appearances of entries in all versions of the directory blocks.

    Args:
        blocks: the versions.
        numbers: inode numbers whose entries are wanted; all by default.
        remnants: also removed entries that were not cleared, whatever number they name.
    """
    fs = blocks.past.fs
    wanted = None
    if numbers is not None:
        wanted = sparse_flags(int(numbers.max(initial=0)) + 1)
        wanted[numbers] = True
    joiner = _Joiner()
    parts = []
    for piece in blocks.pieces():
        entries = piece.entries
        named = entries if wanted is None else entries.take(_are_wanted(wanted, entries.inode))
        parts.append(joiner.take(piece, named))
        if remnants:
            parts.append(_remnants(piece, fs.superblock.inodes_count, fs.has_file_types))
    found = Appearances.concat(parts)
    return found.take(np.flatnonzero(~_again_in_log(found)))


def _are_wanted(wanted: Any, inode: Any) -> Any:
    return wanted[np.minimum(inode, len(wanted) - 1)] & (inode < len(wanted))


_WEIGHTS = np.frombuffer(os.urandom(256 * 8), np.int64) >> 1 | 1


def _name_keys(data: Any, entries: EntryTable) -> Any:
    """A 64-bit key of each entry's name: a random linear form of its bytes and length."""
    row, position = expand(entries.name_length)
    values = data[entries.block[row], entries.offset[row] + 8 + position].astype(np.int64)
    sums = np.zeros(len(entries) + 1, np.int64)
    ends = np.cumsum(entries.name_length)
    running = np.concatenate([[0], np.cumsum(values * _WEIGHTS[position])])
    sums[1:] = running[ends]
    return np.diff(sums) ^ (entries.name_length * _WEIGHTS[-1])


@dataclass(frozen=True, slots=True)
class _Spans(Table):
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


class _Joiner:
    """Turns pieces into intervals; keeps those that the next piece goes on with."""

    def __init__(self) -> None:
        self._open: _Spans | None = None

    def take(self, piece: Piece, entries: EntryTable) -> Appearances:
        """The intervals that end within a piece."""
        spans = _spans(piece, entries)
        if piece.overlaps and self._open is not None:
            again = np.flatnonzero(spans.first == piece.start)
            spans.first[again] = self._open.first
            for row, name in zip(again.tolist(), self._open.name, strict=True):
                spans.name[row] = name
        end = piece.start + len(piece.data)
        goes_on = end < len(piece.all) and piece.all.block[end] == piece.all.block[end - 1]
        held = (spans.last == end - 1) & bool(goes_on)
        self._open = spans.take(np.flatnonzero(held))
        return _appearances(piece.all, spans.take(np.flatnonzero(~held)))


def _spans(piece: Piece, entries: EntryTable) -> _Spans:
    """The intervals within one piece, by (block, inode, key, directory).

    One of another type is another's: it got the number and the name of the one before.
    """
    versions = piece.versions
    key = _name_keys(piece.data, entries)
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
    return _Spans(
        entries.block[start] + piece.start,
        entries.block[last] + piece.start,
        entries.offset[last],
        entries.inode[start],
        directory[start],
        key[start],
        entries.file_type[start],
        entries.take(start).names(piece.data),
    )


def _appearances(versions: Versions, spans: _Spans) -> Appearances:
    """Spans told in orders of transactions, as they stand: keys of names differ in each run."""
    spans = spans.take(np.lexsort((spans.last, spans.at, spans.first)))
    first, last = spans.first, spans.last
    before = np.maximum(first - 1, 0)
    has_earlier = (first > 0) & (versions.block[first] == versions.block[before])
    has_earlier &= versions.order[before] != BEFORE
    after = np.minimum(last + 1, len(versions) - 1)
    has_later = (last + 1 < len(versions)) & (versions.block[last] == versions.block[after])
    return Appearances(
        spans.child,
        spans.directory,
        versions.block[first],
        spans.key,
        spans.file_type,
        np.where(has_earlier, versions.order[first], BEFORE),
        versions.order[first],
        np.where(has_later, versions.order[after], NOW),
        versions.order[last],
        np.where(has_earlier, versions.order[before], BEFORE),
        versions.source[first],
        np.where(has_later, versions.source[after], -1),
        versions.source[last],
        spans.at,
        spans.name,
    )


def _again_in_log(found: Appearances) -> Any:
    """Per interval (bool): of a freed block, and the log has the same entry in that block.

    The log has every version of a block since it first shows the block: one that holds such
    an entry is the one on disk, and tells better when that was.
    """
    freed = (found.seen == BEFORE).astype(np.int64)
    again = np.zeros(len(found), bool)
    if not freed.any():
        return again
    same = (found.directory, found.key, found.child, found.block)
    rank = np.lexsort((-freed, *same))
    follows = np.ones(len(rank) - 1, bool)
    for column in same:
        follows &= column[rank[1:]] == column[rank[:-1]]
    again[rank[:-1]] = follows & (found.seen[rank[:-1]] == BEFORE)
    return again


def _remnants(piece: Piece, last: int, has_file_type: bool) -> Appearances:
    """Removed entries that were not cleared: gone by the time of the version they stand in."""
    versions = piece.versions
    entries = parse_remnants(piece.data, last, piece.entries, has_file_type)
    entries = entries.take(entries.block >= int(piece.overlaps))
    count = len(entries)
    order = versions.order[entries.block]
    before = np.full(count, BEFORE)
    return Appearances(
        entries.inode,
        versions.directory[entries.block],
        versions.block[entries.block],
        _name_keys(piece.data, entries),
        entries.file_type,
        before,
        order,
        order,
        np.full(count, REMNANT),
        before,
        versions.source[entries.block],
        versions.source[entries.block],
        versions.source[entries.block],
        entries.offset,
        entries.names(piece.data),
    )
