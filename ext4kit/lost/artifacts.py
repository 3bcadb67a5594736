"""Artifacts of any ext file system, found in one pass over all bytes of a volume.

No superblock is needed, because structures are recognised by their content. They are searched at
every multiple of 1 KiB, the smallest block size.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.evidence.source import Source
from ext4kit.evidence.streaming import data_pieces, read_with_zeros, stream
from ext4kit.parsers.inode import GOOD_OLD_SIZE
from ext4kit.parsers.journal import MAGIC_BYTES as JOURNAL_MAGIC
from ext4kit.parsers.journal import JournalSuperblock
from ext4kit.parsers.journal import judge as judge_log
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, Superblock, judge
from ext4kit.parsers.traces import (
    find_dirblock_tails,
    find_dot_entries,
    first_blocks,
    inline_extents,
    plausible_inodes,
)
from ext4kit.units import Progress

UNIT = 1024  # bytes; all structures begin at a multiple of this
SMALLEST_LOG = 1 << 20  # bytes; the smallest journal has 1,024 blocks of 1 KiB
MOST_SUPERBLOCKS = 1 << 12  # any more are from images within files
Triple = tuple[Int64s, Int64s, Int64s]


@dataclass(frozen=True, slots=True)
class FsArtifacts:
    """Artifacts of a volume; places are byte offsets in the volume, ascending, int64.

    Attributes:
        inode_units: units with a plausible inode in use.
        directory_inodes: (place, first block, generation) of plausible directory inodes; the first
            block is a number in blocks of unknown size.
        dot_blocks: (place, inode, parent) of blocks that begin with `.` and `..`.
        dirblock_tails: end offsets of blocks that end with a directory block checksum tail.
        superblocks: (place, superblock) of valid superblocks.
        journals: (place, journal superblock) of journals.
        journal_runs: (byte offset, length) of the runs of these journals.
        has_file_types: whether a `.` entry has a file type, as with the filetype feature.
    """

    inode_units: Int64s
    directory_inodes: Triple
    dot_blocks: Triple
    dirblock_tails: Int64s
    superblocks: tuple[tuple[int, Superblock], ...]
    journals: tuple[tuple[int, JournalSuperblock], ...]
    has_file_types: bool
    journal_runs: tuple[tuple[int, int], ...]

    def in_journals(self, places: Int64s) -> Bools:
        """Per place (bool): True where it is in one of the journals."""
        inside = np.zeros(len(places), bool)
        for start, length in self.journal_runs:
            inside |= (places >= start) & (places < start + length)
        return inside


@dataclass(frozen=True, slots=True)
class _ScanPiece:
    """Artifacts of a part of the volume, as in `FsArtifacts`, but only the places of superblocks.

    Attributes:
        large: (place, first block, generation) of inodes of large files, such as the journal.
    """

    tables: Int64s
    folders: Triple
    dots: Triple
    tails: Int64s
    superblocks: Int64s
    journals: Int64s
    large: Triple
    typed: bool


def scan_for_artifacts(source: Source, progress: Progress | None = None) -> FsArtifacts:
    """Scan all parts of the volume that have data.

    Args:
        source: the volume.
        progress: called with (bytes done, total bytes).
    """
    ranges = list(data_pieces(source, UNIT))
    pieces = list(
        stream(ranges, lambda place, length: _scan_piece(source, place, length), progress)
    )
    superblocks = np.concatenate([_NONE, *(piece.superblocks for piece in pieces)])
    places = np.concatenate([_NONE, *(piece.journals for piece in pieces)])
    journals = tuple(_journals(source, places[:MOST_SUPERBLOCKS].tolist()))
    large = _make([piece.large for piece in pieces])
    return FsArtifacts(
        np.concatenate([_NONE, *(piece.tables for piece in pieces)]),
        _make([piece.folders for piece in pieces]),
        _make([piece.dots for piece in pieces]),
        np.concatenate([_NONE, *(piece.tails for piece in pieces)]),
        tuple(_superblocks(source, superblocks[:MOST_SUPERBLOCKS].tolist())),
        journals,
        any(piece.typed for piece in pieces),
        tuple(piece for log in journals for piece in _journal_runs(source, log, large)),
    )


_NONE = np.zeros(0, np.int64)


def _make(parts: list[Triple]) -> Triple:
    first, second, third = zip(*[(_NONE, _NONE, _NONE), *parts], strict=True)
    return np.concatenate(first), np.concatenate(second), np.concatenate(third)


def _scan_piece(source: Source, place: int, length: int) -> _ScanPiece:
    units = read_with_zeros(source, place, length).reshape(-1, UNIT)
    begins = np.ascontiguousarray(units[:, :60]).view("<u2")
    superblocks = np.flatnonzero(begins[:, SUPERBLOCK.offset_of("s_magic") // 2] == MAGIC)
    magic = np.frombuffer(JOURNAL_MAGIC, "<u2")
    journals = np.flatnonzero((begins[:, : len(magic)] == magic).all(axis=1))
    row, number, parent, typed = find_dot_entries(units)
    slots = units.reshape(-1, GOOD_OLD_SIZE)
    found = plausible_inodes(slots)
    tables = np.unique(found * GOOD_OLD_SIZE // UNIT)
    folder, block, generation = first_blocks(slots, found, stat.S_IFDIR)
    large, *of_large = first_blocks(slots, found, stat.S_IFREG, SMALLEST_LOG)
    return _ScanPiece(
        tables * UNIT + place,
        (folder * GOOD_OLD_SIZE + place, block, generation),
        (row * UNIT + place, number, parent),
        (find_dirblock_tails(units) + 1) * UNIT + place,
        superblocks * UNIT + place,
        journals * UNIT + place,
        (large * GOOD_OLD_SIZE + place, of_large[0], of_large[1]),
        typed,
    )


def _superblocks(source: Source, places: list[int]) -> Iterator[tuple[int, Superblock]]:
    for place in places:
        try:
            found = Superblock.parse(source.read(place, SUPERBLOCK.size))
        except (AccessError, CorruptError):
            continue
        if judge(found) is None and found.checksum_ok is not False:
            yield place, found


def _journals(source: Source, places: list[int]) -> Iterator[tuple[int, JournalSuperblock]]:
    for place in places:
        try:
            found = JournalSuperblock.parse(source.read(place, UNIT))
        except (AccessError, CorruptError):
            continue
        sound = found.block_type in _JOURNAL_KINDS and found.block_size in _BLOCK_SIZES
        if sound and not judge_log(found, found.block_size):
            yield place, found


_JOURNAL_KINDS = (3, 4)  # journal superblock version 1 and 2
_BLOCK_SIZES = tuple(1 << shift for shift in range(10, 17))


def _journal_runs(
    source: Source, found: tuple[int, JournalSuperblock], large: Triple
) -> list[tuple[int, int]]:
    """(byte offset, length) of the runs of a journal, from an inode that maps it.

    Without such an inode the journal is assumed to be contiguous.
    """
    place, log = found
    size, length = log.block_size, log.length * log.block_size
    inodes = large[0][large[1] == place // size]
    for inode in inodes.tolist() if place % size == 0 else ():
        runs = inline_extents(source.read(inode, GOOD_OLD_SIZE))
        if sum(count for _, count in runs) * size == length:
            return [(start * size, count * size) for start, count in runs]
    return [(place, length)]
