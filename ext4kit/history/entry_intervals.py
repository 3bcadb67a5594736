"""Entry intervals: the transactions between which an entry was in a directory block.

An entry in consecutive versions of its block forms one interval. Versions are read in batches;
an interval that reaches the end of a batch continues in the next one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem.sparse import sparse_flags
from ext4kit.history.directory_blocks import (
    TID_BEFORE_LOG,
    DirBlockBatch,
    DirBlockVersions,
    DirectoryBlockHistory,
)
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.memory import release_freed_memory
from ext4kit.parsers.directory import DIRENT, EntryTable, parse_slack_entries

SLACK_ENTRY = -2  # `last_seen` of a removed entry that was not cleared


@dataclass(frozen=True, slots=True)
class EntryIntervals(Table):
    """Entry intervals as int64 columns, unsorted.

    Attributes:
        inode: inode number of the entry.
        directory: owner of the block, as in `DirBlockVersions`.
        block: block of the entry, as in `DirBlockVersions`.
        name_key: hash of the name; equal keys mean equal names.
        file_type: file type in the entry, 0 for unknown.
        valid_from: tid of the first version with the entry, TID_BEFORE_LOG if that is the first
            known version of the block.
        first_seen: tid of the first version with the entry, even if that is the first known version
            of the block.
        removed: tid of the first version without the entry, TID_ON_DISK if there is none.
        last_seen: tid of the last version with the entry, TID_BEFORE_LOG for a freed block on
            disk, SLACK_ENTRY for a removed entry that was not cleared.
        last_absent: tid of the version before the first one with the entry, TID_BEFORE_LOG if
            there is none.
        first_source: source (as in `DirBlockVersions`) of the first version with the entry.
        removal_source: source of the first version without the entry, -1 if there is none.
        source: source of the last version with the entry; at: byte offset of the entry in that
            version.
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


def find_numbers_of(blocks: DirectoryBlockHistory, name: bytes) -> Int64s:
    """Inode numbers of the entries with a name in all versions of the directory blocks."""
    text, found = np.frombuffer(name, np.uint8), [np.zeros(0, np.int64)]
    for piece in blocks.batches():
        entries = piece.entries
        rows = np.flatnonzero(entries.name_length == len(text))
        at = (entries.offset[rows] + DIRENT.size)[:, None] + np.arange(len(text))
        same = (piece.data[entries.block[rows][:, None], at] == text).all(axis=1)
        found.append(np.unique(entries.inode[rows[same]]))
    return np.unique(np.concatenate(found))


def find_entry_intervals(
    blocks: DirectoryBlockHistory, inodes: Int64s | None = None, with_slack: bool = False
) -> EntryIntervals:
    """The intervals of the entries in all versions of the directory blocks.

    Args:
        blocks: the versions.
        inodes: inode numbers whose entries are selected; by default all.
        with_slack: include removed entries that were not cleared, of all inode numbers.
    """
    fs = blocks.history.fs
    wanted = None
    if inodes is not None:
        wanted = sparse_flags(int(inodes.max(initial=0)) + 1)
        wanted[inodes] = True
    joiner = _SpanJoiner()
    parts = []
    for piece in blocks.batches():
        entries = piece.entries
        named = entries if wanted is None else entries.take(_select_inodes(wanted, entries.inode))
        parts.append(joiner.add(piece, named))
        if with_slack:
            parts.append(_slack_entries(piece, fs.superblock.inodes_count, fs.has_file_types))
    found = EntryIntervals.concat(parts)
    parts.clear()
    release_freed_memory()
    again = _also_in_journal(found)
    return found.take(np.flatnonzero(~again)) if again.any() else found


def _select_inodes(wanted: Bools, inode: Int64s) -> Bools:
    return wanted[np.minimum(inode, len(wanted) - 1)] & (inode < len(wanted))


_HASH_WEIGHTS = np.frombuffer(os.urandom(256 * 8), np.int64) >> 1 | 1


def _hash_names(data: Bytes2D, entries: EntryTable) -> Int64s:
    """A 64-bit hash of each name: a random linear form of its bytes and length."""
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
    """Intervals by rows of the versions: the `first` and the `last` one with the entry.

    `at` is the byte offset of the entry in the last one.
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
    """Converts batches to intervals; an interval that reaches the end of a batch stays open."""

    def __init__(self) -> None:
        self._open: _VersionSpans | None = None

    def add(self, piece: DirBlockBatch, entries: EntryTable) -> EntryIntervals:
        """The intervals that end within a batch."""
        versions = piece.own_versions
        key = _hash_names(piece.data, entries)
        block, directory = versions.block[entries.block], versions.directory[entries.block]
        sort = np.lexsort((entries.block, directory, key, entries.inode, block))
        entries, key = entries.take(sort), key[sort]
        block, directory = block[sort], directory[sort]
        # A change of the file type starts a new interval because number and name were reused.
        begins = starts_group(block, entries.inode, key, directory, entries.file_type)
        begins[1:] |= entries.block[1:] != entries.block[:-1] + 1
        start = np.flatnonzero(begins)
        last = np.append(start[1:], len(block))[: len(start)] - 1
        spans = _VersionSpans(
            entries.block[start] + piece.start,
            entries.block[last] + piece.start,
            entries.offset[last],
            entries.inode[start],
            directory[start],
            key[start],
            entries.file_type[start],
            entries.take(start).names(piece.data),
        )
        if piece.repeats_last and self._open is not None:
            again = np.flatnonzero(spans.first == piece.start)
            spans.first[again] = self._open.first
            for row, name in zip(again.tolist(), self._open.name, strict=True):
                spans.name[row] = name
        end = piece.start + len(piece.data)
        blocks = piece.versions.block
        goes_on = end < len(blocks) and blocks[end] == blocks[end - 1]
        held = (spans.last == end - 1) & bool(goes_on)
        self._open = spans.take(np.flatnonzero(held))
        return _to_intervals(piece.versions, spans.take(np.flatnonzero(~held)))


def _to_intervals(versions: DirBlockVersions, spans: _VersionSpans) -> EntryIntervals:
    """Spans converted to intervals of tids.

    They are sorted by position, because name keys differ between runs of the program.

    A freed block on disk can be newer than the first copy in the log. That the freed block has an
    entry therefore does not show that the entry existed before the copy.
    """
    spans = spans.take(np.lexsort((spans.last, spans.at, spans.first)))
    first, last = spans.first, spans.last
    first = first + ((versions.tid[first] == TID_BEFORE_LOG) & (first < last))
    before = np.maximum(first - 1, 0)
    has_earlier = (first > 0) & (versions.block[first] == versions.block[before])
    has_earlier &= versions.tid[before] != TID_BEFORE_LOG
    after = np.minimum(last + 1, len(versions) - 1)
    has_later = (last + 1 < len(versions)) & (versions.block[last] == versions.block[after])
    return EntryIntervals(
        spans.child,
        spans.directory,
        versions.block[first],
        spans.key,
        spans.file_type,
        np.where(has_earlier, versions.tid[first], TID_BEFORE_LOG),
        versions.tid[first],
        np.where(has_later, versions.tid[after], TID_ON_DISK),
        versions.tid[last],
        np.where(has_earlier, versions.tid[before], TID_BEFORE_LOG),
        versions.source[first],
        np.where(has_later, versions.source[after], -1),
        versions.source[last],
        spans.at,
        spans.name,
    )


def _also_in_journal(found: EntryIntervals) -> Bools:
    """True for an interval of a freed block whose entry the log also has in that block.

    The log has every version of a block since its first copy. If a copy has the same entry, the
    version on disk is therefore one of the copies, and the copy gives its time.
    """
    freed = (found.last_seen == TID_BEFORE_LOG).astype(np.int64)
    again = np.zeros(len(found), bool)
    if not freed.any():
        return again
    same = (found.directory, found.name_key, found.inode, found.block)
    rank = np.lexsort((-freed, *same))
    follows = ~starts_group(*(column[rank] for column in same))[1:]
    again[rank[:-1]] = follows & (found.last_seen[rank[:-1]] == TID_BEFORE_LOG)
    return again


def _slack_entries(piece: DirBlockBatch, last: int, has_file_type: bool) -> EntryIntervals:
    """Intervals of the removed entries in slack; `removed` is the tid of the version itself."""
    versions = piece.own_versions
    entries = parse_slack_entries(piece.data, last, piece.entries, has_file_type)
    entries = entries.take(entries.block >= int(piece.repeats_last))
    count = len(entries)
    tid = versions.tid[entries.block]
    before = np.full(count, TID_BEFORE_LOG)
    return EntryIntervals(
        entries.inode,
        versions.directory[entries.block],
        versions.block[entries.block],
        _hash_names(piece.data, entries),
        entries.file_type,
        before,
        tid,
        tid,
        np.full(count, SLACK_ENTRY),
        before,
        versions.source[entries.block],
        versions.source[entries.block],
        versions.source[entries.block],
        entries.offset,
        entries.names(piece.data),
    )
