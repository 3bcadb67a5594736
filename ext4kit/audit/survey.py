"""Every metadata block of a log, including those that damage has made unrecognisable.

A failed checksum is explained if possible: by one word of the header, which then gives the true
type or transaction of the block, by one bit, by another seed or by another format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s
from ext4kit.audit.bit_repair import NOWHERE, find_bit_repairs
from ext4kit.journal.log import Log
from ext4kit.journal.ring import order_of
from ext4kit.journal.scan import HEADER_KINDS
from ext4kit.parsers.journal import (
    COMMIT_CHECKSUM_OFFSET,
    HEADER,
    MAGIC,
    BlockType,
    JournalIncompat,
    blocks_checksums,
    read_tags,
    stored_checksums,
    tail_offset,
)
from ext4kit.units import widen

NEAR_BITS = 4  # changed bits at most in a magic that is still recognised, without checksums
SPARE_IDS = 2  # ids next to the known ones that a damaged block may have had
UNKNOWN_TAGS = -1
NOT_STORED = -1  # no checksum field is known
SHARED_BY = 3  # blocks whose checksums match with one seed: that seed belongs to another log
TAILED = (BlockType.DESCRIPTOR, BlockType.REVOKE)


class Fault(IntEnum):
    """The defect of a metadata block."""

    NONE = 0
    BODY = 1  # the checksum fails; type and transaction are used as stored
    MAGIC = 2  # the checksum matches with the right magic
    TYPE = 3  # it matches with the right type
    SEQUENCE = 4  # it matches with the right transaction id
    REST = 5  # a commit block whose checksum matches with zeros behind its fields
    STRANGER = 6  # written with another UUID or other checksums: cannot be judged


@dataclass(frozen=True, slots=True)
class Survey(Table):
    """Metadata blocks by position.

    Attributes:
        position: int64, log block.
        kind: int64, BlockType after repair; another number where repair was not possible.
        order: int64, tid after repair.
        tags: int64, log blocks that follow as copies, -1 where that is not known.
        fault: int64, Fault.
        byte: int64, offset of the damaged byte in the block, -1 where it is not known.
        mask: int64, the changed bit of that byte.
        stored: int64, stored checksum.
        computed: int64, computed checksum.
    """

    position: Int64s
    kind: Int64s
    order: Int64s
    tags: Int64s
    fault: Int64s
    byte: Int64s
    mask: Int64s
    stored: Int64s
    computed: Int64s

    def row_at(self, positions: Any) -> Any:
        """Row of each log block, -1 where it is no metadata block."""
        return SortedIndex(self.position).rows(positions)

    @property
    def committed_orders(self) -> Any:
        """Tids of the transactions that have a commit block, damaged or not."""
        commit = (self.kind == BlockType.COMMIT) & (self.fault != Fault.STRANGER)
        return np.unique(self.order[commit])


def survey(log: Log) -> Survey:
    """Every metadata block of a log, and every block that may have been one."""
    if log.features.has_block_checksums:
        return _with_checksums(log)
    return _without_checksums(log)


def _plain(log: Log, rows: Any) -> Survey:
    """The given header rows without repair."""
    headers = log.headers
    zeros = np.zeros(len(rows), np.int64)
    return Survey(
        position=headers.position[rows],
        kind=headers.kind[rows],
        order=headers.order[rows],
        tags=headers.tags[rows],
        fault=np.where(headers.is_partial[rows], Fault.REST, Fault.NONE).astype(np.int64),
        byte=np.full(len(rows), NOWHERE),
        mask=zeros,
        stored=zeros,
        computed=zeros,
    )


def _merged(parts: list[Survey]) -> Survey:
    found = Survey.concat(parts)
    return found.take(np.argsort(found.position, kind="stable"))


# -- logs with a checksum in every metadata block ----------------------------------------------


def _with_checksums(log: Log) -> Survey:
    headers = log.headers
    known = np.isin(headers.kind, HEADER_KINDS)
    sound = headers.checksum_ok & known & ~headers.is_partial
    good = _plain(log, np.flatnonzero(sound))
    valid = log.tags.position[log.tags.valid]
    unmarked = log.unmarked[~np.isin(log.unmarked, valid)]
    doubtful = np.concatenate([headers.position[~sound], unmarked])
    marked = np.arange(len(doubtful)) < (~sound).sum()
    span = _plausible(log, good.order)
    parts = [good]
    for start in range(0, len(doubtful), log.reader.chunk):
        piece = slice(start, start + log.reader.chunk)
        parts.append(_explained(log, doubtful[piece], marked[piece], span))
    result = _merged(parts)
    result.fault[_foreign_blocks(log, result)] = Fault.STRANGER
    return result


def _plausible(log: Log, orders: Any) -> tuple[int, int]:
    """(lowest, highest) tid that a damaged block may have had."""
    if not len(orders):
        size = log.ring.end - log.ring.first
        return log.superblock.sequence - size, log.superblock.sequence + size
    return int(orders.min()) - SPARE_IDS, int(orders.max()) + SPARE_IDS


@dataclass(frozen=True, slots=True)
class _SuspectBlocks:
    """Blocks to examine: raw header words and the offset of their checksum."""

    words: Any  # int64 (n, 3)
    hole: int
    kinds: tuple[BlockType, ...]


def _explained(log: Log, positions: Any, marked: Any, span: tuple[int, int]) -> Survey:
    """Suspect blocks with their defects, without those that never were metadata."""
    rows = log.reader.read(positions)
    raw = HEADER.columns(rows)
    words = np.stack([widen(raw[name]) for name in raw.dtype.names], axis=1)
    kind, order = words[:, 1].copy(), order_of(words[:, 2], log.superblock.sequence)
    fault = np.where(marked, Fault.BODY, Fault.NONE).astype(np.int64)
    byte, stored = np.full(len(rows), NOWHERE), np.full(len(rows), NOT_STORED)
    mask, computed = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    tail = tail_offset(rows.shape[1])
    for hole, kinds in ((tail, TAILED), (COMMIT_CHECKSUM_OFFSET, (BlockType.COMMIT,))):
        sums, have = blocks_checksums(log.superblock.seed, rows, hole), stored_checksums(rows, hole)
        mends = find_bit_repairs(np.where(sums == have, 1, sums ^ have), rows.shape[1], hole)
        doubt = _SuspectBlocks(words, hole, kinds)
        mended, true_kind, true_order = _by_header(doubt, mends.words, log, span)
        mended &= sums != have
        as_it_stands = np.isin(words[:, 1], kinds)
        is_metadata = mended | (as_it_stands & marked & (fault == Fault.BODY))
        kind[mended], order[mended] = true_kind[mended], true_order[mended]
        fault[mended] = _header_faults(words, true_kind)[mended]
        byte[is_metadata], mask[is_metadata] = mends.byte[is_metadata], mends.mask[is_metadata]
        stored[is_metadata], computed[is_metadata] = have[is_metadata], sums[is_metadata]
        rest = is_metadata & (words[:, 1] == BlockType.COMMIT) & _rest_only(log, positions)
        fault[rest] = Fault.REST
    tags = np.where(kind == BlockType.DESCRIPTOR, UNKNOWN_TAGS, 0)
    found = Survey(positions, kind, order, tags, fault, byte, mask, stored, computed)
    return found.take(np.flatnonzero(fault != Fault.NONE))


def _rest_only(log: Log, positions: Any) -> Any:
    return np.isin(positions, log.headers.position[log.headers.is_partial])


def _by_header(
    doubt: _SuspectBlocks, changes: Any, log: Log, span: tuple[int, int]
) -> tuple[Any, Any, Any]:
    """(True where one header word explains the checksum, the true type, the true tid)."""
    words = doubt.words
    order = order_of(words[:, 2], log.superblock.sequence)
    has_magic, has_kind = words[:, 0] == MAGIC, np.isin(words[:, 1], doubt.kinds)
    by_magic = ~has_magic & has_kind & (words[:, 0] ^ changes[:, 0] == MAGIC)
    other_kind = words[:, 1] ^ changes[:, 1]
    by_kind = has_magic & np.isin(other_kind, doubt.kinds) & (other_kind != words[:, 1])
    other_order = order_of(words[:, 2] ^ changes[:, 2], log.superblock.sequence)
    by_order = has_magic & has_kind & (other_order >= span[0]) & (other_order <= span[1])
    by_order &= ~by_kind & (other_order != order)
    kind = np.where(by_kind, other_kind, words[:, 1])
    return by_magic | by_kind | by_order, kind, np.where(by_order, other_order, order)


def _header_faults(words: Any, kind: Any) -> Any:
    fault = np.where(words[:, 1] != kind, Fault.TYPE, Fault.SEQUENCE)
    return np.where(words[:, 0] != MAGIC, Fault.MAGIC, fault)


def _foreign_blocks(log: Log, found: Survey) -> Any:
    """Rows that another format explains: checksums with another UUID, or no checksums."""
    doubtful = found.fault == Fault.BODY
    if not doubtful.any():
        return np.zeros(0, np.int64)
    bare = _commits_without_checksum(log)
    unstamped = doubtful & np.isin(found.order, bare)
    unstamped |= doubtful & (found.stored == 0) & ~np.isin(found.order, _proven(log))
    lone = doubtful & (found.byte == NOWHERE) & (found.stored != NOT_STORED) & ~unstamped
    lone = np.flatnonzero(lone)
    seeds = _seeds(log, found.take(lone))
    _, group, count = np.unique(seeds, return_inverse=True, return_counts=True)
    unstamped[lone[count[group] > 1]] = True
    return np.flatnonzero(unstamped)


def _commits_without_checksum(log: Log) -> Any:
    """Tids of the transactions whose commit block has no checksum."""
    headers = log.headers
    bare = (headers.kind == BlockType.COMMIT) & ~headers.commit_checksum.any(axis=1)
    return headers.order[bare]


def _proven(log: Log) -> Any:
    """Tids of the transactions with a block whose checksum matches."""
    headers = log.headers
    return headers.order[headers.checksum_ok & np.isin(headers.kind, HEADER_KINDS)]


def _seeds(log: Log, found: Survey) -> Any:
    """The seed with which each block's checksum would match, int64."""
    seeds = np.zeros(len(found), np.int64)
    size = log.reader.blocks.block_size
    difference = found.stored ^ found.computed
    differs = difference != 0
    seeds[differs] = find_bit_repairs(difference[differs], size, -1).seed ^ log.superblock.seed
    return seeds


# -- logs without ------------------------------------------------------------------------------


def _without_checksums(log: Log) -> Survey:
    headers = log.headers
    found = _plain(log, np.arange(len(headers)))
    found.fault[~np.isin(headers.kind, HEADER_KINDS)] = Fault.TYPE
    stamped = _with_checksum(log)
    found.fault[stamped] = Fault.STRANGER
    found.tags[stamped & (found.kind == BlockType.DESCRIPTOR)] = UNKNOWN_TAGS
    found.tags[_of_other_width(log, found)] = UNKNOWN_TAGS
    taken = log.tags.position[log.tags.valid]
    unmarked = log.unmarked[~np.isin(log.unmarked, taken)]
    span = _plausible(log, found.order[(found.fault == Fault.NONE)])
    return _merged([found, *_near_magic(log, unmarked, span)])


def _with_checksum(log: Log) -> Any:
    """True where a header has a checksum: from an earlier time of this log, or from another log.

    The checksum matches with the log's seed, or with a seed that several blocks share.
    """
    headers, seed = log.headers, log.superblock.seed
    stored, computed = np.zeros(len(headers), np.int64), np.zeros(len(headers), np.int64)
    for start in range(0, len(headers), log.reader.chunk):
        piece = slice(start, start + log.reader.chunk)
        rows = log.reader.read(headers.position[piece])
        is_commit = headers.kind[piece] == BlockType.COMMIT
        for hole, chosen in (
            (tail_offset(rows.shape[1]), ~is_commit),
            (COMMIT_CHECKSUM_OFFSET, is_commit),
        ):
            index = np.flatnonzero(chosen)
            computed[start + index] = blocks_checksums(seed, rows[index], hole)
            stored[start + index] = stored_checksums(rows[index], hole)
    stamped = stored == computed
    rest = np.flatnonzero(~stamped & (stored != 0))
    size = log.reader.blocks.block_size
    changes = find_bit_repairs(stored[rest] ^ computed[rest], size, NOWHERE).seed
    _, group, count = np.unique(changes, return_inverse=True, return_counts=True)
    stamped[rest[count[group] >= SHARED_BY]] = True
    return stamped


def _of_other_width(log: Log, found: Survey) -> Any:
    """Descriptors written when block numbers had another width; their tags cannot be read.

    A descriptor counts as one if the other width, and not that of the log, leads to the next
    metadata block of its transaction. All older descriptors then count as well.
    """
    rows = np.flatnonzero((found.kind == BlockType.DESCRIPTOR) & (found.fault == Fault.NONE))
    rows = rows[rows + 1 < len(found)]
    room = found.position[rows + 1] - found.position[rows] - 1
    misled = (room != found.tags[rows]) & (found.order[rows + 1] == found.order[rows])
    rows, room = rows[misled], room[misled]
    features = log.features
    other = replace(features, incompat=features.incompat ^ JournalIncompat.BIT64)
    newest = np.iinfo(np.int64).min
    for start in range(0, len(rows), log.reader.chunk):
        piece = rows[start : start + log.reader.chunk]
        tags = read_tags(log.reader.read(found.position[piece]), other)
        counts = np.bincount(tags.descriptor, minlength=len(piece))
        proven = found.order[piece][counts == room[start : start + len(piece)]]
        newest = max(newest, int(proven.max(initial=newest)))
    return np.flatnonzero((found.kind == BlockType.DESCRIPTOR) & (found.order <= newest))


def _near_magic(log: Log, positions: Any, span: tuple[int, int]) -> list[Survey]:
    """Blocks with a nearly correct magic and a transaction id of this log."""
    parts = []
    for start in range(0, len(positions), log.reader.chunk):
        places = positions[start : start + log.reader.chunk]
        raw = HEADER.columns(log.reader.read(places))
        wrong = widen(raw["h_magic"]) ^ MAGIC
        order = order_of(widen(raw["h_sequence"]), log.superblock.sequence)
        near = (_bit_counts(wrong) <= NEAR_BITS) & (order >= span[0]) & (order <= span[1])
        index = np.flatnonzero(near)
        bits = wrong[index]
        place = (32 - _highest_bit(bits)) // 8
        single = bits & (bits - 1) == 0
        kind, zeros = widen(raw["h_blocktype"])[index], np.zeros(len(index), np.int64)
        parts.append(
            Survey(
                position=places[index],
                kind=kind,
                order=order[index],
                tags=np.where(kind == BlockType.DESCRIPTOR, UNKNOWN_TAGS, 0),
                fault=np.full(len(index), Fault.MAGIC),
                byte=np.where(single, place, NOWHERE),
                mask=np.where(single, bits >> (24 - 8 * place), 0),
                stored=zeros,
                computed=zeros,
            )
        )
    return parts


def _bit_counts(numbers: Any) -> Any:
    octets = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
    return np.unpackbits(octets, axis=1).sum(axis=1)


def _highest_bit(numbers: Any) -> Any:
    """Index of the highest set bit, from 1."""
    return np.frexp(numbers.astype(np.float64))[1]
