"""The bytes of unallocated blocks, of slack, and of files, as pieces of a stream with a map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem.content import Content
from ext4kit.journal.block_types import BlockRole
from ext4kit.journal.overlay import stored_at
from ext4kit.output.mapped_stream import Piece
from ext4kit.owners.present import PresentRuns
from ext4kit.unallocated.space import UnallocatedSpace

_BLOCKS_AT_ONCE = 1 << 16
_WITH_SLACK = (BlockRole.FILE_DATA, BlockRole.SYMLINK)


def unallocated_pieces(space: UnallocatedSpace) -> Iterator[Piece]:
    """The unallocated blocks, by block.

    Runs that a sparse image does not store are zeros; groups of which it stores nothing are left
    out. Runs beyond the end of the image cannot be read.
    """
    size, end = space.blocks.block_size, space.blocks.blocks_count
    count = max(space.fs.superblock.blocks_count - end, 0)
    missing = Intervals.union(np.array([end]), np.array([count]))
    beyond, stored = space.unused.intersect(missing), space.runs_with_data
    holes = space.unused.subtract(stored).subtract(missing)
    every = Intervals.concat([stored, beyond, holes])
    for row in np.argsort(every.start, kind="stable").tolist():
        first, length = int(every.start[row]) * size, int(every.length[row]) * size
        if row < len(stored) + len(beyond):
            yield Piece(length, "unallocated", first, first)
        else:
            yield Piece(length, "unallocated, a hole of the image", None, first)


def slack_pieces(runs: PresentRuns, block_size: int) -> Iterator[Piece]:
    """The bytes of file blocks from the end of the content on, by block.

    Blocks beyond the end of a file are slack as a whole. Of a block that several files share each
    has its own slack.

    Args:
        runs: of all inodes in use (`BlockOwners.runs`).
        block_size: bytes.
    """
    kept = np.isin(runs.role, _WITH_SLACK) & (runs.file_block >= 0)
    runs = runs.take(kept)
    used: Int64s = np.clip(runs.size - runs.file_block * block_size, 0, runs.length * block_size)
    rows = np.flatnonzero(used < runs.length * block_size)
    first = runs.start * block_size + used
    length = runs.length * block_size - used
    columns = first[rows].tolist(), length[rows].tolist(), runs.inode[rows].tolist()
    for place, count, inode in zip(*columns, strict=True):
        yield Piece(count, f"slack of inode {inode}", place, place)


def file_pieces(content: Content) -> Iterator[Piece]:
    """The bytes of a file, in order; holes and blocks that were never written are zeros."""
    if content.runs is None:
        data = content.inline[: content.size]
        if data:
            yield Piece(len(data), "content in the inode", data=data)
        yield from _hole(content.size - len(data))
        return
    position = 0
    for offset, length, place in content.segments():
        yield from _hole(offset - position)
        if place is None:
            yield Piece(length, "allocated, never written")
        else:
            yield from _stored_pieces(content, length, place)
        position = offset + length
    yield from _hole(content.size - position)


def _hole(length: int) -> Iterator[Piece]:
    if length > 0:
        yield Piece(length, "hole")


def _stored_pieces(content: Content, length: int, place: int) -> Iterator[Piece]:
    """A run of a file, cut where blocks are read from copies in the journal."""
    size = content.blocks.block_size
    while length > 0:
        first, skip = divmod(place, size)
        count = min(-(-(skip + length) // size), _BLOCKS_AT_ONCE)
        blocks = np.arange(first, first + count)
        stored = stored_at(content.blocks, blocks)
        cuts = np.flatnonzero((np.diff(stored) != 1) & (stored[1:] + stored[:-1] != -2)) + 1
        edges = [0, *cuts.tolist(), count]
        for begin, end in zip(edges, edges[1:], strict=False):
            part = min((end - begin) * size - skip, length)
            at = int(stored[begin])
            is_copy = at != first + begin
            what = (
                f"content, a copy of block {first + begin} in the journal" if is_copy else "content"
            )
            yield Piece(part, what, place, None if at < 0 else at * size + skip)
            place, length, skip = place + part, length - part, 0
