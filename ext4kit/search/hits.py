"""What a search found, and whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from io import BufferedReader
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node
from ext4kit.search.patterns import Pattern

CONTEXT = 32  # bytes on each side


class Area(StrEnum):
    """Where a hit stands."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"
    SLACK = "slack"
    UNALLOCATED = "unallocated"
    JOURNAL = "journal"
    METADATA = "metadata"


AREAS = tuple(Area)


class Span(NamedTuple):
    """Bytes around a hit: before it, its own, after it."""

    before: bytes
    own: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Hit:
    """One match of a pattern.

    Attributes:
        pattern: the pattern.
        area: where it stands.
        blocks: reads the volume.
        start: byte in the volume; None where the bytes are not stored in blocks of their own, or
            not in one piece.
        length: bytes.
        node: the file; in slack the file whose last block it is.
        offset: byte in the file; in slack beyond its size.
        is_broken: it stands across the border of two strangers' blocks: no file has it so.
        stream: reads the file, for all its hits; None where its bytes are those of the volume.
    """

    pattern: Pattern
    area: Area
    blocks: BlockReader
    start: int | None
    length: int
    node: Node | None = None
    offset: int | None = None
    is_broken: bool = False
    stream: BufferedReader | None = None

    @property
    def block(self) -> int | None:
        """The block in which it starts."""
        return None if self.start is None else self.start // self.blocks.block_size

    def around(self, context: int = CONTEXT) -> Span:
        """The matched bytes and some on each side; empty where they cannot be read."""
        start = self.start if self.stream is None else self.offset
        if start is None:
            return Span(b"", b"", b"")
        low = max(start - context, 0)
        length = start - low + self.length + context
        try:
            if self.stream is None:
                data = self._raw(low, length)
            else:
                self.stream.seek(low)
                data = self.stream.read(length)
        except AccessError:
            return Span(b"", b"", b"")
        own = start - low
        return Span(data[:own], data[own : own + self.length], data[own + self.length :])

    def _raw(self, start: int, length: int) -> bytes:
        size = self.blocks.block_size
        first, skip = divmod(start, size)
        end = min(-(-(start + length) // size), self.blocks.blocks_count)
        return bytes(self.blocks.read(first, max(end - first, 1)))[skip : skip + length]


@dataclass(frozen=True, slots=True)
class HitColumns(Table):
    """Hits as columns.

    Attributes:
        pattern: row of the pattern.
        area: place in `Area`.
        node: row of the file, NO_ROW for none.
        start: byte in the volume, -1 as for None in `Hit`.
        offset: byte in the file.
        length: bytes.
        is_broken: bool, as in `Hit`.
    """

    pattern: Rows
    area: Int64s
    node: Rows
    start: Int64s
    offset: Int64s
    length: Int64s
    is_broken: Bools


class Hits(Sequence[Hit]):
    """Hits by area, then by path and place; each is made when it is asked for.

    Args:
        columns: in any order.
        patterns: the patterns.
        nodes: the files.
        blocks: reads the volume.
    """

    def __init__(
        self,
        columns: HitColumns,
        patterns: Sequence[Pattern],
        nodes: Sequence[Node],
        blocks: BlockReader,
    ) -> None:
        self._patterns, self._nodes, self._blocks = patterns, nodes, blocks
        self._opened: tuple[int, BufferedReader | None] = NO_ROW, None
        ranks = {path: rank for rank, path in enumerate(sorted({node.path for node in nodes}))}
        rank = np.array([*(ranks[node.path] for node in nodes), NO_ROW])[columns.node]
        place = np.where(columns.node == NO_ROW, columns.start, columns.offset)
        order = np.lexsort((place, rank, columns.area))
        self.columns, self._rank = columns.take(order), rank[order]

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, at: int) -> Hit:  # type: ignore[override]
        one = self.columns
        node, start, area = int(one.node[at]), int(one.start[at]), AREAS[int(one.area[at])]
        in_volume = node == NO_ROW or area is Area.SLACK or bool(one.is_broken[at])
        return Hit(
            self._patterns[int(one.pattern[at])],
            area,
            self._blocks,
            None if start < 0 else start,
            int(one.length[at]),
            None if node == NO_ROW else self._nodes[node],
            None if node == NO_ROW else int(one.offset[at]),
            bool(one.is_broken[at]),
            None if in_volume else self._stream_of(node),
        )

    def _stream_of(self, row: int) -> BufferedReader | None:
        """What reads a file, kept for the next hit in it."""
        if self._opened[0] != row:
            content = _content_of(self._nodes[row])
            self._opened = row, None if content is None else content.open()
        return self._opened[1]

    def by_pattern(self) -> Iterator[tuple[Pattern, int]]:
        """(pattern, number of its hits) of the patterns that have any."""
        counts = np.bincount(self.columns.pattern, minlength=len(self._patterns))
        for row in np.flatnonzero(counts).tolist():
            yield self._patterns[row], int(counts[row])

    @cached_property
    def _files(self) -> tuple[Rows, Int64s]:
        """(first row, number of hits) of each file in each area, in order."""
        first = np.flatnonzero(starts_group(self.columns.area, self._rank))
        counts = np.diff(first, append=len(self))
        is_file = self.columns.node[first] != NO_ROW
        return first[is_file], counts[is_file]

    @property
    def file_count(self) -> int:
        """Number of files with hits, those in each area by themselves."""
        return len(self._files[0])

    def by_file(self) -> Iterator[tuple[Area, Node, int]]:
        """(area, file, number of its hits) of the files that have any, in order."""
        for row, count in zip(*(column.tolist() for column in self._files), strict=True):
            node = self._nodes[int(self.columns.node[row])]
            yield AREAS[int(self.columns.area[row])], node, count


def _content_of(node: Node) -> Content | None:
    """The content of a file; None where it cannot be read."""
    try:
        return node.content()
    except (AccessError, CorruptError):
        return None
