"""The search: one pass over the volume in disk order, then whose the hits are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, split
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader, read_blocks_or_zeros
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node, View, WalkBatch
from ext4kit.search.engine import Engine, Matches
from ext4kit.search.hits import Area, Hit
from ext4kit.search.patterns import Pattern
from ext4kit.selection import Selection
from ext4kit.unallocated.space import below_replay, blocks_with_data
from ext4kit.units import Progress
from ext4kit.views.deleted import DeletedView
from ext4kit.filesystem.live_view import LiveView
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.workspace import Workspace

BYTES_AT_ONCE = 8 << 20
ALL_AREAS = frozenset(Area)
_WITH_INODES = ALL_SOURCES - {SearchSource.RUNS}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: by area, then by path or place.
        bytes_read: of the volume.
        unreadable: bytes that could not be read.
        cut: pieces of the volume with so many matches that not all of them are listed.
    """

    hits: Sequence[Hit]
    bytes_read: int
    unreadable: int
    cut: int


@dataclass(slots=True)
class _Raw:
    """Matches in the volume, as columns by start.

    Attributes:
        pattern, start, end: as in `Matches`, bytes of the volume.
        owned: bool, True where some file has the match or its start.
    """

    pattern: Int64s
    start: Int64s
    end: Int64s
    owned: Bools


def search(
    workspace: Workspace,
    patterns: Sequence[Pattern],
    areas: frozenset[Area] = ALL_AREAS,
    selection: Selection | None = None,
    start: str | bytes | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Find patterns in everything that a volume holds.

    Args:
        workspace: of the file system.
        patterns: at least one.
        areas: which hits are wanted.
        selection: conditions for files; only these are searched then, no free space.
        start: a directory; only what is below it is searched then.
        progress: called with (bytes done, total bytes).

    Raises:
        NotFoundError: there is no such directory in any of the views.
        RequestError: a pattern is refused.
        UnsupportedError: the patterns need the extra `search`.
    """
    return _Search(workspace, Engine(patterns), areas, selection, start).run(progress)


class _Search:
    """One run of `search`; arguments as there."""

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        areas: frozenset[Area],
        selection: Selection | None,
        start: str | bytes | None,
    ) -> None:
        self._workspace, self._engine, self._areas = workspace, engine, areas
        self._selection, self._start = selection, start
        self._fs = workspace.fs
        self._blocks = below_replay(self._fs.blocks)
        self._size = self._blocks.block_size
        self._hits: list[Hit] = []
        self._unreadable = self._cut = 0

    def run(self, progress: Progress | None) -> SearchResult:
        """All of it."""
        is_narrow = self._start is not None or self._selection is not None
        wanted = self._of_files() if is_narrow else blocks_with_data(self._blocks)
        raw = self._scan(wanted, progress)
        for batch in self._batches():
            _OwnedHits(self, batch, raw).add()
        if not is_narrow:
            self._add_ownerless(raw)
        found = [hit for hit in self._hits if hit.area in self._areas]
        found.sort(key=_order)
        return SearchResult(found, int(wanted.length.sum()) * self._size, self._unreadable, self._cut)

    def _views(self) -> Iterator[View]:
        """The views whose files can have wanted hits."""
        areas = self._areas
        if areas & {Area.LIVE, Area.SLACK, Area.METADATA, Area.UNALLOCATED}:
            yield LiveView(self._fs)
        if areas & {Area.DELETED, Area.EARLIER, Area.UNALLOCATED}:
            yield DeletedView(self._workspace, Area.EARLIER in areas, _WITH_INODES)
