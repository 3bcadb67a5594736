"""Every metadata block of a log, including those that damage has made unrecognisable.

If possible, a failed checksum is explained: by a damaged word of the header (the checksum then
gives the true type or transaction of the block), by one changed bit, by another seed or by another
format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.audit.bit_repair import NOWHERE, changed_bits, find_bit_repairs
from ext4kit.journal.log import Log
from ext4kit.journal.ring import order_of
from ext4kit.journal.tables import HEADER_KINDS
from ext4kit.parsers.journal import (
    COMMIT_CHECKSUM_OFFSET,
    HEADER,
    MAGIC,
    BlockType,
    blocks_checksums,
    stored_checksums,
    tail_offset,
)
from ext4kit.units import widen

NEAR_BITS = 4  # most changed bits of a magic that is still recognised without checksums
SPARE_IDS = 2  # number of ids beyond the known ones that a damaged block may have had
UNKNOWN_TAGS = -1
NOT_STORED = -1  # the block has no known checksum field
SHARED_BY = 3  # blocks that must share a foreign seed to show another log
TAILED = (BlockType.DESCRIPTOR, BlockType.REVOKE)


class Fault(IntEnum):
    """The defect of a metadata block."""

    NONE = 0
    BODY = 1  # the checksum fails; type and transaction are used as stored
    MAGIC = 2  # the checksum matches with the right magic
    TYPE = 3  # the checksum matches with the right type
    SEQUENCE = 4  # the checksum matches with the right transaction id
    REST = 5  # a commit block whose checksum matches with zeros after its fields
    STRANGER = 6  # written with another UUID or other checksums: cannot be judged


@dataclass(frozen=True, slots=True)
class Survey(Table):
    """Metadata blocks by position.

    Attributes:
        position: log block.
        kind: BlockType after repair; another number where repair was not possible.
        order: tid after repair.
        tags: log blocks that follow as copies, -1 where that is not known.
        has_checksum: True where the block was written with its own checksum.
        fault: Fault.
        byte: offset of the damaged byte in the block, -1 where it is not known.
        mask: the changed bit of that byte.
        stored: stored checksum.
        computed: computed checksum.
    """

    position: Int64s
    kind: Int64s
    order: Int64s
    tags: Int64s
    has_checksum: Bools
    fault: Int64s
    byte: Int64s
    mask: Int64s
    stored: Int64s
    computed: Int64s

    def row_at(self, positions: Int64s) -> Rows:
        """Row of each log block, -1 where it is no metadata block."""
        return SortedIndex(self.position).rows(positions)

    @property
    def committed_orders(self) -> Int64s:
        """Tids of the transactions that have a commit block, damaged or not."""
        commit = (self.kind == BlockType.COMMIT) & (self.fault != Fault.STRANGER)
        return np.unique(self.order[commit])


def survey(log: Log) -> Survey:
    """Every metadata block of a log, and every block that may be a damaged one, by position."""
    headers = log.headers
    sound = headers.is_sound & ~headers.is_partial
    plain = _plain(log, np.flatnonzero(sound))
    if not log.features.has_block_checksums:
        _mark_strangers(log, plain)
    span = _plausible(log, plain.order[plain.fault == Fault.NONE])
    unmarked = _unmarked(log)
    parts = [plain, *_explained(log, headers.position[~sound], unmarked, span)]
    if not plain.has_checksum.all():
        known = np.concatenate([part.position for part in parts])
        parts += _near_magic(log, unmarked[~np.isin(unmarked, known)], span)
    found = Survey.concat(parts)
    found = found.take(np.argsort(found.position, kind="stable"))
    found.fault[_foreign_blocks(log, found)] = Fault.STRANGER
    return found


def _plain(log: Log, rows: Rows) -> Survey:
    """The given header rows without repair."""
    headers = log.headers.take(rows)
    zeros = np.zeros(len(rows), np.int64)
    return Survey(
        position=headers.position,
        kind=headers.kind,
        order=headers.order,
        tags=headers.tags,
        has_checksum=headers.has_checksum,
        fault=np.where(headers.is_partial, Fault.REST, Fault.NONE).astype(np.int64),
        byte=np.full(len(rows), NOWHERE),
        mask=zeros,
        stored=zeros,
        computed=zeros,
    )


def _unmarked(log: Log) -> Int64s:
    """Log blocks that may be metadata with a damaged magic: no valid tag names them."""
    named = log.tags.position[log.tags.valid]
    unmarked: Int64s = log.unmarked[~np.isin(log.unmarked, named)]
    return unmarked


# -- blocks with a checksum --------------------------------------------------------------------


def _plausible(log: Log, orders: Int64s) -> tuple[int, int]:
    """(lowest, highest) tid that a damaged block may have had."""
    if not len(orders):
        size = log.ring.end - log.ring.first
        return log.superblock.sequence - size, log.superblock.sequence + size
    return int(orders.min()) - SPARE_IDS, int(orders.max()) + SPARE_IDS


def _explained(
    log: Log, doubtful: Int64s, unmarked: Int64s, span: tuple[int, int]
) -> Iterator[Survey]:
    """Suspect blocks with their defects; blocks that never were metadata are omitted.

    Args:
        log: the log.
        doubtful: int64, log blocks with the magic.
        unmarked: int64, log blocks without the magic.
        span: lowest and highest plausible tid.
    """
    positions = np.concatenate([doubtful, unmarked])
    marked = np.arange(len(positions)) < len(doubtful)
    for start in range(0, len(positions), log.reader.chunk):
        piece = slice(start, start + log.reader.chunk)
        yield _explained_chunk(log, positions[piece], marked[piece], span)


def _explained_chunk(log: Log, positions: Int64s, marked: Bools, span: tuple[int, int]) -> Survey:
    rows = log.reader.read(positions)
    raw = HEADER.columns(rows)
    fields = ("h_magic", "h_blocktype", "h_sequence")
    words = np.stack([widen(raw[name]) for name in fields], axis=1)
    kind, order = words[:, 1].copy(), order_of(words[:, 2], log.superblock.sequence)
    known = np.isin(kind, HEADER_KINDS)
    fault = np.where(known, Fault.BODY, Fault.TYPE).astype(np.int64)
    fault[~marked] = Fault.NONE
    byte, stored = np.full(len(rows), NOWHERE), np.full(len(rows), NOT_STORED)
    mask, computed = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    is_partial = np.isin(positions, log.headers.position[log.headers.is_partial])
    tail = tail_offset(rows.shape[1])
    for hole, kinds in ((tail, TAILED), (COMMIT_CHECKSUM_OFFSET, (BlockType.COMMIT,))):
        sums, have = blocks_checksums(log.superblock.seed, rows, hole), stored_checksums(rows, hole)
        mends = find_bit_repairs(np.where(sums == have, 1, sums ^ have), rows.shape[1], hole)
        mended, true_kind, true_order = _by_header(log, words, kinds, mends.words, span)
        mended &= sums != have
        as_it_stands = np.isin(words[:, 1], kinds)
        is_metadata = mended | (as_it_stands & marked & (fault == Fault.BODY))
        header_fault = np.where(words[:, 1] != true_kind, Fault.TYPE, Fault.SEQUENCE)
        header_fault[words[:, 0] != MAGIC] = Fault.MAGIC
        kind[mended], order[mended] = true_kind[mended], true_order[mended]
        fault[mended] = header_fault[mended]
        byte[is_metadata], mask[is_metadata] = mends.byte[is_metadata], mends.mask[is_metadata]
        stored[is_metadata], computed[is_metadata] = have[is_metadata], sums[is_metadata]
        fault[is_metadata & (words[:, 1] == BlockType.COMMIT) & is_partial] = Fault.REST
    tags = np.where(kind == BlockType.DESCRIPTOR, UNKNOWN_TAGS, 0)
    has_checksum = np.ones(len(rows), bool)
    found = Survey(positions, kind, order, tags, has_checksum, fault, byte, mask, stored, computed)
    return found.take(fault != Fault.NONE)


def _by_header(
    log: Log, words: Int64s, kinds: tuple[BlockType, ...], changes: Int64s, span: tuple[int, int]
) -> tuple[Bools, Int64s, Int64s]:
    """(True where one header word explains the checksum, the true type, the true tid).

    Args:
        log: the log.
        words: (n, 3), header words of the blocks.
        kinds: block types that have their checksum at the examined offset.
        changes: (n, 3), the bits to change in each word to make the checksum match.
        span: lowest and highest plausible tid.
    """
    order = order_of(words[:, 2], log.superblock.sequence)
    has_magic, has_kind = words[:, 0] == MAGIC, np.isin(words[:, 1], kinds)
    by_magic = ~has_magic & has_kind & (words[:, 0] ^ changes[:, 0] == MAGIC)
    other_kind = words[:, 1] ^ changes[:, 1]
    by_kind = has_magic & np.isin(other_kind, kinds) & (other_kind != words[:, 1])
    other_order = order_of(words[:, 2] ^ changes[:, 2], log.superblock.sequence)
    by_order = has_magic & has_kind & (other_order >= span[0]) & (other_order <= span[1])
    by_order &= ~by_kind & (other_order != order)
    kind = np.where(by_kind, other_kind, words[:, 1])
    return by_magic | by_kind | by_order, kind, np.where(by_order, other_order, order)


def _foreign_blocks(log: Log, found: Survey) -> Rows:
    """Rows that are valid in another format: with checksums of another UUID, or with none."""
    headers, doubtful = log.headers, found.fault == Fault.BODY
    bare = (headers.kind == BlockType.COMMIT) & ~headers.commit_checksum.any(axis=1)
    proven = headers.is_sound & headers.has_checksum
    unstamped = np.isin(found.order, headers.order[bare]) | (found.stored == 0)
    unstamped &= doubtful & ~np.isin(found.order, headers.order[proven])
    lone = doubtful & (found.byte == NOWHERE) & (found.stored != NOT_STORED) & ~unstamped
    rows = np.flatnonzero(lone)
    difference = found.stored[rows] ^ found.computed[rows]
    alike = _sharing_a_seed(difference, log.reader.blocks.block_size)
    return np.concatenate([np.flatnonzero(unstamped), rows[alike >= 2]])


def _sharing_a_seed(difference: Int64s, size: int) -> Int64s:
    """Per block: the number of blocks whose checksums match with the same seed as its own.

    Args:
        difference: stored ^ computed checksum, none of them 0.
        size: bytes per block.
    """
    seeds = find_bit_repairs(difference, size, NOWHERE).seed
    _, group, count = np.unique(seeds, return_inverse=True, return_counts=True)
    return count[group]


# -- blocks without a checksum -----------------------------------------------------------------


def _mark_strangers(log: Log, found: Survey) -> None:
    """Mark blocks with checksums of another seed, in a log that has no checksums now.

    Several blocks share such a seed: it belongs to an earlier UUID or to another log. The tags of
    descriptors among these blocks are not used.
    """
    size, bare = log.reader.blocks.block_size, np.flatnonzero(~found.has_checksum)
    differences = []
    for start in range(0, len(bare), log.reader.chunk):
        piece = bare[start : start + log.reader.chunk]
        rows = log.reader.read(found.position[piece])
        is_commit = found.kind[piece] == BlockType.COMMIT
        difference = np.zeros(len(piece), np.int64)
        for hole, chosen in ((tail_offset(size), ~is_commit), (COMMIT_CHECKSUM_OFFSET, is_commit)):
            stored = stored_checksums(rows[chosen], hole)
            computed = blocks_checksums(log.superblock.seed, rows[chosen], hole)
            difference[chosen] = np.where(stored == 0, 0, stored ^ computed)
        differences.append(difference)
    difference = np.concatenate([np.zeros(0, np.int64), *differences])
    bare, difference = bare[difference != 0], difference[difference != 0]
    strangers = bare[_sharing_a_seed(difference, size) >= SHARED_BY]
    found.fault[strangers] = Fault.STRANGER
    found.tags[strangers[found.kind[strangers] == BlockType.DESCRIPTOR]] = UNKNOWN_TAGS


def _near_magic(log: Log, positions: Int64s, span: tuple[int, int]) -> list[Survey]:
    """Blocks with a nearly correct magic and a transaction id of this log."""
    parts = []
    for start in range(0, len(positions), log.reader.chunk):
        places = positions[start : start + log.reader.chunk]
        raw = HEADER.columns(log.reader.read(places))
        wrong = widen(raw["h_magic"]) ^ MAGIC
        order = order_of(widen(raw["h_sequence"]), log.superblock.sequence)
        near = (_bit_counts(wrong) <= NEAR_BITS) & (order >= span[0]) & (order <= span[1])
        index = np.flatnonzero(near)
        byte, mask = changed_bits(wrong[index], 0)
        kind, zeros = widen(raw["h_blocktype"])[index], np.zeros(len(index), np.int64)
        parts.append(
            Survey(
                position=places[index],
                kind=kind,
                order=order[index],
                tags=np.where(kind == BlockType.DESCRIPTOR, UNKNOWN_TAGS, 0),
                has_checksum=np.zeros(len(index), bool),
                fault=np.full(len(index), Fault.MAGIC),
                byte=byte,
                mask=mask,
                stored=zeros,
                computed=zeros,
            )
        )
    return parts


def _bit_counts(numbers: Int64s) -> Int64s:
    octets = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
    counts: Int64s = np.unpackbits(octets, axis=1).sum(axis=1)
    return counts
