"""One pass over every block of the ring: headers, tags and revokes of every lap.

The results are columns. They do not depend on the start of the log in the superblock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.journal.formats import PRESENT, FormatFinder, are_older
from ext4kit.journal.ring import LogReader, Ring, order_of
from ext4kit.journal.tables import HEADER_KINDS, Headers, Revokes, Tags
from ext4kit.journal.twins import older_twins, transaction_parts
from ext4kit.parsers.journal import (
    COMMIT,
    COMMIT_CHECKSUM_OFFSET,
    HEADER,
    MAGIC,
    BlockType,
    JournalSuperblock,
    LogFormat,
    RevokeColumns,
    TagColumns,
    TagFlags,
    blocks_checksums,
    copies_checksums,
    copy_seeds,
    read_revokes,
    read_tags,
    stored_checksums,
    tail_offset,
)
from ext4kit.problems import Problems, Severity
from ext4kit.units import NANOSECONDS, widen

TAGS_PER_BLOCK = 8  # most tags kept per block of the ring; surviving laps name it 1-2 times
REVOKES_PER_BLOCK = 32
LIMIT_FLOOR = 1 << 20
COMMIT_BYTES = 64  # the commit header with its padding
LATEST = 1 << 33  # seconds since 1970; later commit times are replaced by this one


@dataclass(slots=True)
class _Collected:
    """The results of a pass so far, with limits against a hostile log."""

    tags_left: int
    revokes_left: int
    problems: Problems
    headers: list[Headers] = field(default_factory=list)
    tags: list[Tags] = field(default_factory=list)
    revokes: list[Revokes] = field(default_factory=list)
    without_magic: list[Int64s] = field(default_factory=list)

    def add_tags(self, tags: Tags) -> None:
        if len(tags) > self.tags_left:
            self.problems.add("journal", "descriptors name more copies than fit; some are ignored")
        self.tags.append(tags.take(slice(self.tags_left)))
        self.tags_left = max(self.tags_left - len(tags), 0)

    def add_revokes(self, revokes: Revokes) -> None:
        if len(revokes) > self.revokes_left:
            self.problems.add("journal", "more revoke records than fit; some are ignored")
        self.revokes.append(revokes.take(slice(self.revokes_left)))
        self.revokes_left = max(self.revokes_left - len(revokes), 0)


@dataclass(frozen=True, slots=True)
class Tables:
    """The log as three tables.

    Attributes:
        headers: every block with the magic.
        tags: every copy that a descriptor names.
        revokes: every revoke record.
        without_magic: int64, log blocks without the magic that have the type of a header.
        of_twins: int64, metadata blocks of transactions with the same id as a newer transaction;
            they are not in the tables.
    """

    headers: Headers
    tags: Tags
    revokes: Revokes
    without_magic: Int64s
    of_twins: Int64s


def scan(reader: LogReader, superblock: JournalSuperblock, ring: Ring, blocks_count: int) -> Tables:
    """Read the whole ring, with every lap that is still in it.

    Args:
        reader: reads the log.
        superblock: the journal superblock.
        ring: the log's ring.
        blocks_count: blocks of the file system.
    """
    size = ring.end - ring.first
    finder = FormatFinder.of(superblock, blocks_count)
    found = _Collected(
        max(TAGS_PER_BLOCK * size, LIMIT_FLOOR),
        max(REVOKES_PER_BLOCK * size, LIMIT_FLOOR),
        reader.problems,
    )
    for positions, rows in reader.stream(np.arange(ring.first, ring.end)):
        _read_chunk(positions, rows, superblock, ring, finder, found)
    headers = Headers.concat(found.headers)
    if headers.has_checksum.any():
        headers = _with_bad_checksums(headers, superblock, ring, _have_lost_checksums)
    of_twins = _older_twins(headers, superblock, ring, reader.problems)
    tags, revokes = Tags.concat(found.tags), Revokes.concat(found.revokes)
    if len(of_twins):
        headers = headers.take(~np.isin(headers.position, of_twins))
        tags = tags.take(~np.isin(tags.descriptor, of_twins))
        revokes = revokes.take(~np.isin(revokes.position, of_twins))
    if superblock.features.has_block_checksums:
        headers = _with_bad_checksums(headers, superblock, ring, _are_of_another_log)
    tags = _validated(tags, headers, ring, reader, superblock)
    return Tables(headers, tags, revokes, np.concatenate(found.without_magic), of_twins)


def _older_twins(
    headers: Headers, superblock: JournalSuperblock, ring: Ring, problems: Problems
) -> Int64s:
    """Metadata blocks of the transactions that have the same id as a newer transaction."""
    sound = headers.take(headers.is_sound)
    older = older_twins(sound, superblock, ring)
    ids = np.unique(sound.order[older])
    if len(ids):
        what = f"the log has older transactions with the ids of {len(ids):,} newer ones"
        problems.add("journal", f"{what}: the order of their copies is unknown", Severity.NOTE)
    return sound.position[older]


def _read_chunk(
    positions: Int64s,
    rows: Bytes2D,
    superblock: JournalSuperblock,
    ring: Ring,
    finder: FormatFinder,
    found: _Collected,
) -> None:
    raw = HEADER.columns(rows)
    has_magic = raw["h_magic"] == MAGIC
    typed = np.isin(raw["h_blocktype"], HEADER_KINDS)
    found.without_magic.append(positions[typed & ~has_magic])
    marked = np.flatnonzero(has_magic)
    rows, raw, positions = rows[marked], raw[marked], positions[marked]
    kind = widen(raw["h_blocktype"])
    order = order_of(widen(raw["h_sequence"]), superblock.sequence)
    is_stamped, is_partial = _own_checksums(rows, kind, superblock.seed)
    formats = finder.find(rows, kind, order, is_stamped)
    has_checksum = finder.formats[PRESENT].has_checksums & (formats == PRESENT)
    has_checksum = is_stamped | (has_checksum & np.isin(kind, HEADER_KINDS))
    tags = _read_descriptors(rows, kind, formats, finder)
    revokes = _read_revoke_blocks(rows, kind, formats, finder)
    commits = COMMIT.columns(rows)
    numbers = [commits["h_chksum_type"], commits["h_chksum_size"], commits["h_chksum"][:, 0]]
    found.headers.append(
        Headers(
            position=positions,
            kind=kind,
            order=order,
            has_checksum=has_checksum,
            checksum_ok=is_stamped | ~has_checksum,
            is_partial=is_partial,
            commit_seconds=commits["h_commit_sec"].astype(np.uint64),
            commit_nanoseconds=widen(commits["h_commit_nsec"]),
            commit_checksum=np.stack([widen(number) for number in numbers], axis=1),
            tags=np.bincount(tags.descriptor, minlength=len(rows)),
            overflow=revokes.overflow,
        )
    )
    row = tags.descriptor
    bits = np.array([one.checksum_bits for one in finder.formats])[formats[row]]
    bits[~has_checksum[row]] = 0
    pending = np.zeros(len(tags), bool)
    found.add_tags(
        Tags(
            block=tags.block,
            order=order[row],
            position=ring.wrap(positions[row] + 1 + tags.ordinal),
            descriptor=positions[row],
            ordinal=tags.ordinal,
            checksum=np.where(bits > 0, tags.checksum, 0),
            checksum_bits=bits,
            escaped=tags.flags & TagFlags.ESCAPED != 0,
            matches=pending,
            valid=pending,
            committed=pending,
        )
    )
    row = revokes.row
    found.add_revokes(Revokes(revokes.block, order[row], positions[row]))


def _have_lost_checksums(headers: Headers, ring: Ring) -> Bools:
    """True for blocks without a checksum in a transaction that has checksums.

    All blocks of a transaction have one format. Therefore such a block was changed later.
    """
    part = transaction_parts(headers, ring)
    has_checksums = np.zeros(len(headers), bool)
    has_checksums[part[headers.has_checksum & headers.checksum_ok]] = True
    return has_checksums[part]


def _are_of_another_log(headers: Headers, ring: Ring) -> Bools:
    """True for blocks that may be left from an earlier log without checksums.

    A transaction belongs to another log if it was committed before a transaction that has checksums
    and a lower id. A commit block without other blocks of its transaction may belong to either log.
    """
    part = transaction_parts(headers, ring)
    ids = headers.order[np.unique(part, return_index=True)[1]]
    commit = np.flatnonzero(headers.kind == BlockType.COMMIT)
    time = np.full(len(ids), -1)
    seconds = np.minimum(headers.commit_seconds[commit], LATEST).astype(np.int64)
    time[part[commit]] = seconds * NANOSECONDS + headers.commit_nanoseconds[commit]
    has_checksums = np.zeros(len(ids), bool)
    has_checksums[part[headers.has_checksum & headers.checksum_ok]] = True
    by_id = np.argsort(ids, kind="stable")
    latest = np.empty_like(time)
    latest[by_id] = np.maximum.accumulate(np.where(has_checksums, time, -1)[by_id])
    is_early = (time >= 0) & (time < latest)
    is_lone = np.bincount(part, headers.kind != BlockType.COMMIT) == 0
    other: Bools = (is_early | is_lone)[part]
    return other


def _with_bad_checksums(
    headers: Headers,
    superblock: JournalSuperblock,
    ring: Ring,
    bad: Callable[[Headers, Ring], Bools],
) -> Headers:
    """The headers; those without a checksum count as having a bad one where `bad` is True."""
    known = np.flatnonzero(np.isin(headers.kind, HEADER_KINDS))
    some = headers.take(known)
    if some.has_checksum.all():
        return headers
    found = bad(some, ring) & ~some.has_checksum & are_older(some.order, superblock)
    has_checksum, good = headers.has_checksum.copy(), headers.checksum_ok.copy()
    has_checksum[known[found]], good[known[found]] = True, False
    return replace(headers, has_checksum=has_checksum, checksum_ok=good)


def _own_checksums(rows: Bytes2D, kind: Int64s, seed: int) -> tuple[Bools, Bools]:
    """(True where a block's checksum (v2, v3) matches, True where it matches only its fields)."""
    good, is_partial = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for kinds, offset in (
        ((BlockType.DESCRIPTOR, BlockType.REVOKE), tail_offset(rows.shape[1])),
        ((BlockType.COMMIT,), COMMIT_CHECKSUM_OFFSET),
    ):
        index = np.flatnonzero(np.isin(kind, kinds))
        blocks = rows[index]
        good[index] = blocks_checksums(seed, blocks, offset) == stored_checksums(blocks, offset)
    # A disk may have written only the first sector of a commit block; that commit is valid.
    # Source: kernel fs/jbd2/recovery.c, `jbd2_commit_block_csum_verify_partial`.
    torn = np.flatnonzero((kind == BlockType.COMMIT) & ~good)
    heads = rows[torn]
    heads[:, COMMIT_BYTES:] = 0
    computed = blocks_checksums(seed, heads, COMMIT_CHECKSUM_OFFSET)
    good[torn] = is_partial[torn] = computed == stored_checksums(heads, COMMIT_CHECKSUM_OFFSET)
    return good, is_partial


def _read_descriptors(
    rows: Bytes2D, kind: Int64s, formats: Int64s, finder: FormatFinder
) -> TagColumns:
    """The tags of all descriptors among some metadata blocks, each read in its format."""
    parts = []
    for some, log_format in _by_format(kind == BlockType.DESCRIPTOR, formats, finder):
        tags = read_tags(rows[some], log_format)
        parts.append(replace(tags, descriptor=some[tags.descriptor]))
    found = TagColumns.concat(parts)
    return found.take(np.argsort(found.descriptor, kind="stable"))


def _read_revoke_blocks(
    rows: Bytes2D, kind: Int64s, formats: Int64s, finder: FormatFinder
) -> RevokeColumns:
    """The records of all revoke blocks among some metadata blocks, each read in its format."""
    overflow = np.zeros(len(rows), bool)
    row, block = [], []
    for some, log_format in _by_format(kind == BlockType.REVOKE, formats, finder):
        records = read_revokes(rows[some], log_format)
        overflow[some] = records.overflow
        row.append(some[records.row])
        block.append(records.block)
    rows_of_records = np.concatenate(row)
    by_row = np.argsort(rows_of_records, kind="stable")
    return RevokeColumns(rows_of_records[by_row], np.concatenate(block)[by_row], overflow)


def _by_format(
    chosen: Bools, formats: Int64s, finder: FormatFinder
) -> Iterator[tuple[Rows, LogFormat]]:
    """(rows, format) of the chosen metadata blocks, per format; the present one always comes."""
    for number, log_format in enumerate(finder.formats):
        some = np.flatnonzero(chosen & (formats == number))
        if number == PRESENT or len(some):
            yield some, log_format


def _validated(
    tags: Tags, headers: Headers, ring: Ring, reader: LogReader, superblock: JournalSuperblock
) -> Tags:
    """The tags with `matches`, `valid` and `committed` filled in.

    A position belongs to the newest transaction that names it with a tag that matches the block
    there. A block with the magic is metadata of the log; a copy never starts with it, because it is
    escaped.
    """
    matches = _matches(tags, ring, reader, superblock.seed)
    candidates = matches & np.isin(tags.descriptor, headers.position[headers.checksum_ok])
    candidates &= ~np.isin(tags.position, headers.position)
    index = np.flatnonzero(candidates)
    index = index[np.lexsort((tags.order[index], tags.position[index]))]
    valid = np.zeros(len(tags), bool)
    valid[index[ends_group(tags.position[index])]] = True
    bare = tags.checksum_bits == 0
    valid[bare] &= _before_first_overwritten(tags.take(bare), valid[bare])
    good_commit = (headers.kind == BlockType.COMMIT) & headers.checksum_ok
    committed = np.isin(tags.order, headers.order[good_commit])
    return replace(tags, matches=matches, valid=valid, committed=committed)


def _matches(tags: Tags, ring: Ring, reader: LogReader, seed: int) -> Bools:
    """True where the block at the tag's position was read and has the checksum of the tag."""
    matches = ~reader.unreadable[tags.position]
    by_position = np.argsort(tags.position, kind="stable")
    by_position = by_position[tags.checksum_bits[by_position] > 0]
    starts = np.arange(ring.first, ring.end, reader.chunk)
    edges = np.searchsorted(tags.position[by_position], np.append(starts, ring.end))
    for start, first, end in zip(starts.tolist(), edges[:-1], edges[1:], strict=True):
        if first < end:
            index = by_position[first:end]
            blocks = reader.view(np.arange(start, min(start + reader.chunk, ring.end)))
            orders, which = np.unique(tags.order[index], return_inverse=True)
            seeds = copy_seeds(seed, orders % (1 << 32))[which]
            rows = map(blocks.__getitem__, (tags.position[index] - start).tolist())
            found = copies_checksums(seeds, rows, tags.checksum_bits[index])
            matches[index] = found == tags.checksum[index]
    return matches


def _before_first_overwritten(tags: Tags, valid: Bools) -> Bools:
    """False from the first lost copy of a descriptor on.

    Without checksums, a lost copy shows that a later lap has written into the copies of the
    descriptor. The number of copies that it overwrote is not known.
    """
    descriptors, row = np.unique(tags.descriptor, return_inverse=True)
    first_lost = np.full(len(descriptors), np.iinfo(np.int64).max)
    np.minimum.at(first_lost, row[~valid], tags.ordinal[~valid])
    kept: Bools = tags.ordinal < first_lost[row]
    return kept
