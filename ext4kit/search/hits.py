"""What a search found, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from io import BufferedReader
from typing import NamedTuple, Self

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.view import Node
from ext4kit.known.files import KnownFiles, KnownMatch
from ext4kit.search.patterns import HashPattern, Pattern

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


class HitBytes(NamedTuple):
    """Bytes around a hit: before it, its own, after it."""

    before: bytes
    own: bytes
    after: bytes


class StreamMatch(NamedTuple):
    """A match in a stream.

    Attributes:
        pattern: row of the pattern.
        offset: byte in the stream.
        length: bytes.
        span: these and the bytes around them.
    """

    pattern: int
    offset: int
    length: int
    span: HitBytes


@dataclass(frozen=True)
class MemberNode(Node):
    """Something in a packed file: a member, or a cell of a database.

    Attributes:
        outer: the file.
        inside: names from the file on to the member.
        spans: (byte in the member, number of bytes) of each hit -> the bytes around it.
    """

    outer: Node = field(kw_only=True)
    inside: str = field(kw_only=True)
    spans: Mapping[tuple[int, int], HitBytes] = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, outer: Node, inside: str, found: Iterable[StreamMatch]) -> Self:
        """A member of a file, with what was found in it."""
        spans = {(one.offset, one.length): one.span for one in found}
        return cls(outer.id, outer.path, outer.inode, outer=outer, inside=inside, spans=spans)

    @property
    def grade(self) -> str | None:
        """Grade of the file."""
        return self.outer.grade

    def span(self, hit: Hit, context: int) -> HitBytes:
        """The bytes around a hit."""
        span = self.spans[hit.offset or 0, hit.length]
        return HitBytes(
            span.before[max(len(span.before) - context, 0) :], span.own, span.after[:context]
        )


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
        known: the hash of the file in a list, of a hit by hashes or where lists are asked.
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
    known: KnownMatch | None = None

    @property
    def block(self) -> int | None:
        """The block in which it starts."""
        return None if self.start is None else self.start // self.blocks.block_size

    @property
    def inside(self) -> str | None:
        """Where in the file it is, if that is packed."""
        return self.node.inside if isinstance(self.node, MemberNode) else None

    def around(self, context: int = CONTEXT) -> HitBytes:
        """The matched bytes and some on each side; empty where they cannot be read."""
        if isinstance(self.node, MemberNode):
            return self.node.span(self, context)
        start = self.start if self.stream is None else self.offset
        if start is None:
            return HitBytes(b"", b"", b"")
        low = max(start - context, 0)
        length = start - low + self.length + context
        try:
            if self.stream is None:
                data = self._raw(low, length)
            else:
                self.stream.seek(low)
                data = self.stream.read(length)
        except AccessError:
            return HitBytes(b"", b"", b"")
        own = start - low
        return HitBytes(data[:own], data[own : own + self.length], data[own + self.length :])

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
        known: lists that are asked for each file with a hit.
        hashes: lists of the hits by hashes.
    """

    def __init__(
        self,
        columns: HitColumns,
        patterns: Sequence[Pattern],
        nodes: Sequence[Node],
        blocks: BlockReader,
        known: KnownFiles | None = None,
        hashes: KnownFiles | None = None,
    ) -> None:
        self._known, self._hashes = known, hashes
        self._patterns, self._nodes, self._blocks = patterns, nodes, blocks
        self._opened: tuple[int, BufferedReader | None] = NO_ROW, None
        ranks = {path: rank for rank, path in enumerate(sorted({node.path for node in nodes}))}
        rank = np.array([*(ranks[node.path] for node in nodes), NO_ROW])[columns.node]
        place = np.where(columns.node == NO_ROW, columns.start, columns.offset)
        is_member = np.array([*(isinstance(node, MemberNode) for node in nodes), False])
        member = np.where(is_member[columns.node], columns.node, NO_ROW)
        order = np.lexsort((place, member, rank, columns.area))
        self.columns, self._rank = columns.take(order), rank[order]

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, at: int) -> Hit:  # type: ignore[override]
        one = self.columns
        node, start, area = int(one.node[at]), int(one.start[at]), AREAS[int(one.area[at])]
        in_volume = node == NO_ROW or area is Area.SLACK or bool(one.is_broken[at])
        in_volume |= node != NO_ROW and isinstance(self._nodes[node], MemberNode)
        pattern = self._patterns[int(one.pattern[at])]
        lists = self._hashes if isinstance(pattern, HashPattern) else self._known
        is_own = lists is not None and node != NO_ROW and area is not Area.SLACK
        return Hit(
            pattern,
            area,
            self._blocks,
            None if start < 0 else start,
            int(one.length[at]),
            None if node == NO_ROW else self._nodes[node],
            None if node == NO_ROW else int(one.offset[at]),
            bool(one.is_broken[at]),
            None if in_volume else self._stream_of(node),
            match_of(lists, self._nodes[node]) if lists is not None and is_own else None,
        )

    def _stream_of(self, row: int) -> BufferedReader | None:
        """What reads a file, kept for the next hit in it."""
        if self._opened[0] != row:
            content = self._nodes[row].readable()
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


def area_of(node: Node) -> Area:
    """Where the hits of a file stand."""
    return Area(node.file_state)


def match_of(lists: KnownFiles, node: Node) -> KnownMatch | None:
    """The list that has the content of a file; of a member, that of the file."""
    file = node.outer if isinstance(node, MemberNode) else node
    return lists.match(file.identity, file.content)
