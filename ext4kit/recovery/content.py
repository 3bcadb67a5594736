"""Content of a file: its blocks up to its size, without reused blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.intervals import Intervals, common_parts
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.history import History
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.candidates import STALE_INDEX, Candidates
from ext4kit.recovery.intervals import subtract_parts
from ext4kit.recovery.maps.ends import sizes_to_last_nonzero
from ext4kit.recovery.maps.rebuilt import RebuiltMaps
from ext4kit.recovery.model import ReusedRange


class LostPiece(NamedTuple):
    """Blocks of a file whose bytes are lost.

    Attributes:
        start, length: blocks.
        owner: the later owner, or the cause of the loss.
    """

    start: int
    length: int
    owner: str


# ------------------------------------------------------------------------- of all candidates


def clip_to_size(history: History, candidates: Candidates) -> Runs:
    """The blocks of each candidate up to its size; all blocks if the size is unknown."""
    runs, block_size = candidates.runs, history.fs.superblock.block_size
    size = history.states.table.size[candidates.state_row][runs.owner]
    left = -(-size // block_size) - runs.logical
    unknown = candidates.size_unknown[runs.owner]
    length = np.where(unknown, runs.length, np.minimum(left, runs.length))
    return replace(runs, length=length).take(length > 0)


def content_sizes(
    history: History, candidates: Candidates, runs: Runs, maps: RebuiltMaps
) -> Int64s:
    """Bytes of each candidate: from its inode or rebuilt map, else up to the last nonzero byte.

    Args:
        history: the states.
        candidates: the candidates.
        runs: their blocks.
        maps: the rebuilt maps.
    """
    size: Int64s = history.states.table.size[candidates.state_row]
    stale = candidates.map_source == STALE_INDEX
    mine = runs.take(stale[runs.owner])
    row = np.cumsum(stale) - 1
    numbered = replace(mine, owner=row[mine.owner])
    size[stale] = sizes_to_last_nonzero(history.fs, numbered, int(stale.sum()))
    rebuilt = candidates.rebuilt_row != NO_ROW
    size[rebuilt] = maps.size[candidates.rebuilt_row[rebuilt]]
    return size


# ------------------------------------------------------------------------------ of one file


def total_blocks(pieces: Sequence[LostPiece]) -> int:
    """Blocks of all pieces."""
    return sum(piece.length for piece in pieces)


def drop_overlaps(pieces: Sequence[LostPiece]) -> list[LostPiece]:
    """The pieces by start, without the blocks of an earlier piece."""
    kept: list[LostPiece] = []
    end = 0
    for start, length, owner in sorted(pieces, key=lambda piece: piece.start):
        stop = start + length
        start = max(start, end)
        if stop > start:
            kept.append(LostPiece(start, stop - start, owner))
            end = stop
    return kept


def blocks_without_copy(pieces: Sequence[LostPiece], copied: Int64s) -> list[LostPiece]:
    """The pieces less single blocks, which ascend."""
    kept: list[LostPiece] = []
    for start, length, owner in pieces:
        low, high = np.searchsorted(copied, [start, start + length]).tolist()
        edges = [start - 1, *copied[low:high].tolist(), start + length]
        for before, after in pairwise(edges):
            if after > before + 1:
                kept.append(LostPiece(before + 1, after - before - 1, owner))
    return kept


def open_content(
    fs: FileSystem,
    reader: BlockReader,
    inode: Inode,
    runs: Runs,
    lost: Sequence[LostPiece],
    size: int,
) -> Content:
    """Content of a file; lost blocks read as holes.

    Args:
        fs: the file system.
        reader: reads blocks from journal copies or from disk.
        inode: holds inline data and the targets of short links.
        runs: blocks of the file.
        lost: its lost blocks.
        size: bytes.
    """
    if inode.is_inline or inode.is_fast_symlink:
        return Content(fs.blocks, size, inline=_inline_bytes(fs, inode))
    return Content(reader, size, _without_blocks(runs, lost))


def _inline_bytes(fs: FileSystem, inode: Inode) -> bytes:
    """The content that the inode itself holds; its start where attributes are broken."""
    try:
        return fs.content(inode).inline
    except CorruptError:
        return inode.i_block


def _without_blocks(runs: Runs, lost: Sequence[LostPiece]) -> Runs:
    if not lost:
        return runs
    table = np.array([(piece.start, piece.length) for piece in lost], np.int64)
    listed = Intervals.union(table[:, 0], table[:, 1])
    shared = common_parts(runs.physical, runs.length, listed.start, listed.length)
    return subtract_parts(runs, *shared)


def link_target(content: Content) -> bytes | None:
    """Target of a symbolic link; None if it cannot be read."""
    try:
        return content.read(0, content.size)
    except AccessError:
        return None


def reused_ranges(
    runs: Runs, lost: Sequence[LostPiece], size: int, block_size: int
) -> tuple[ReusedRange, ...]:
    """Lost blocks as byte ranges of the file, by offset."""
    found = []
    for start, length, owner in lost:
        inside = (runs.physical <= start) & (start < runs.physical + runs.length)
        for row in np.flatnonzero(inside).tolist():
            at = int(runs.logical[row] + start - runs.physical[row]) * block_size
            found.append(ReusedRange(at, min(length * block_size, size - at), owner))
    return tuple(sorted(found, key=lambda piece: piece.offset))
