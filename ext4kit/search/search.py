"""The search: one pass over the volume in disk order, then whose the matches are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, split
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import read_run_or_zeros
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.live_view import LiveBatch, LiveView
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.filesystem.view import Node, WalkBatch
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.journal.replay import replayed_blocks
from ext4kit.known.files import KnownFiles
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.search_sources import WITH_INODES
from ext4kit.roots.layers import NO_ROOTS, LayerRoots
from ext4kit.search.engine import Engine
from ext4kit.search.file_scans import FileScans, FileSearch
from ext4kit.search.hits import AREAS, Area, HitColumns, Hits, area_of, match_of
from ext4kit.search.owners import HitOwners
from ext4kit.search.patterns import Pattern
from ext4kit.selection import Selection
from ext4kit.unallocated.space import below_replay, blocks_with_data
from ext4kit.units import Progress
from ext4kit.views.deleted import DeletedView
from ext4kit.workspace import Workspace

BYTES_AT_ONCE = 8 << 20
_BITS_AT_ONCE = 1 << 20
ALL_AREAS = frozenset(Area)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: by area, then by path or place.
        bytes_read: of the volume, without what was read again for single files.
        unreadable: bytes that could not be read.
        cut: pieces of the volume with so many matches that not all of them are listed.
        scans: what was searched file by file.
        owners: of the blocks of hits; None where deleted files were not looked at.
        roots: the Linux roots within the image.
    """

    hits: Hits
    bytes_read: int
    unreadable: int
    cut: int
    scans: FileScans
    owners: HitOwners | None = None
    roots: LayerRoots = NO_ROOTS


class KnownFilter(NamedTuple):
    """Lists of known files.

    Attributes:
        files: compares files with the lists.
        wanted: True for hits in known files alone, False for the others, None for all.
    """

    files: KnownFiles
    wanted: bool | None


@dataclass(frozen=True, slots=True)
class _Matches:
    """Matches in the volume, as columns by start.

    Attributes:
        pattern: row of the pattern.
        start, end: bytes of the volume.
        is_owned: bool, set where a file has the match or its start.
    """

    pattern: Int64s
    start: Int64s
    end: Int64s
    is_owned: Bools


def search(
    workspace: Workspace,
    patterns: Sequence[Pattern],
    areas: frozenset[Area] = ALL_AREAS,
    selection: Selection | None = None,
    progress: Progress | None = None,
    scanned: FileSearch | None = None,
    known: KnownFilter | None = None,
) -> SearchResult:
    """Find patterns in everything that a volume holds.

    Args:
        workspace: of the file system.
        patterns: at least one, if there are neither YARA rules nor hashes.
        areas: which hits are wanted.
        selection: conditions for files, and paths below which they lie; only these files are
            searched then, and no free space.
        progress: called with (bytes done, total bytes).
        scanned: what is searched file by file; by default nothing.
        known: lists of known files, which mark or leave out hits.

    Raises:
        RequestError: a pattern is refused.
        UnsupportedError: the patterns need the extra `search`.
    """
    search_by_file = scanned or FileSearch()
    run = _Search(workspace, Engine(patterns), areas, selection, search_by_file, known)
    return run.run(progress)


class _Search:
    """One run of `search`; arguments as there."""

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        areas: frozenset[Area],
        selection: Selection | None,
        scanned: FileSearch,
        known: KnownFilter | None,
    ) -> None:
        self._workspace, self._engine, self._areas = workspace, engine, areas
        self._selection, self._known = selection, known
        self._fs = workspace.fs
        self._blocks = below_replay(self._fs.blocks)
        self._size = self._blocks.block_size
        self._nodes: list[Node] = []
        self._found: list[HitColumns] = []
        self._files = FileScans(self._blocks, engine, *scanned)
        self._owned: list[Intervals] = []
        self._unreadable = self._cut = 0
        self._owners: HitOwners | None = None

    def run(self, progress: Progress | None) -> SearchResult:
        """All of it."""
        with_data, batches = blocks_with_data(self._blocks), self._batches()
        wanted = with_data if self._engine.patterns else Intervals.empty()
        if self._selection is not None:
            chosen = list(batches)
            every = Runs.concat([Runs.empty(), *(runs for _, runs, _ in chosen)])
            wanted = wanted.intersect(Intervals.union(every.physical, every.length))
            batches = iter(chosen)
        found = self._scan(wanted, progress)
        for batch, runs, apart in batches:
            self._add_in_runs(batch, runs, found)
            for row in apart.tolist():
                node = batch.node(row)
                if content := node.readable():
                    self._add_in_content(node, content, 0, content.stored_end, set())
            if self._files.is_wanted:
                self._add_by_file(batch, runs, apart)
        if self._selection is None:
            self._add_ownerless(found)
            self._add_by_rules(with_data)
        columns = HitColumns.concat([_columns([]), *self._found])
        wanted_areas = [AREAS.index(area) for area in self._areas]
        double = self._files.is_double(self._nodes, columns.node, columns.pattern, columns.offset)
        columns = columns.take(np.isin(columns.area, wanted_areas) & ~(double & ~columns.is_broken))
        columns = columns.take(self._is_kept(columns))
        known = None if self._known is None else self._known.files
        hits = Hits(
            columns, self._files.patterns, self._nodes, self._blocks, known, self._files.hashes
        )
        tally, read = self._files.tally, int(wanted.length.sum()) * self._size
        unreadable, cut = self._unreadable + tally.unreadable, self._cut + tally.cut
        return SearchResult(hits, read, unreadable, cut, self._files, self._owners)

    def _is_kept(self, columns: HitColumns) -> Bools:
        """Which hits the lists of known files leave (bool); slack is not part of its file."""
        if self._known is None or self._known.wanted is None:
            return np.ones(len(columns), bool)
        is_content = (columns.node != NO_ROW) & (columns.area != AREAS.index(Area.SLACK))
        is_known = np.zeros(len(self._nodes) + 1, bool)
        for row in np.unique(columns.node[is_content]).tolist():
            is_known[row] = match_of(self._known.files, self._nodes[row]) is not None
        kept: Bools = (is_content & is_known[columns.node]) == self._known.wanted
        return kept

    # -- the files --------------------------------------------------------------------------

    def _batches(self) -> Iterator[tuple[WalkBatch, Runs, Rows]]:
        """Files that can have wanted hits, or tell whose a hit is not: batches of each view.

        Yields:
            (batch, runs of its files as they lie in the volume, rows of files that are read by
            themselves: content in inodes, in copies of the journal, or changed by its replay is
            not what the blocks of the volume have).
        """
        if self._areas & {Area.LIVE, Area.SLACK, Area.METADATA}:
            for batch in LiveView(self._fs).walk(self._selection):
                yield batch, *self._live_runs(batch)
        free = bool(self._areas & {Area.UNALLOCATED, Area.JOURNAL}) and self._selection is None
        if free or self._areas & {Area.DELETED, Area.EARLIER}:
            versions = free or Area.EARLIER in self._areas
            view = DeletedView(self._workspace, versions, WITH_INODES)
            for some in view.walk(self._selection):
                yield some, *self._runs_of_nodes(some)
            if isinstance(view.files, FoundFiles):
                self._owners = HitOwners(self._workspace, view.files)

    def _live_runs(self, batch: LiveBatch) -> tuple[Runs, Rows]:
        table, runs = batch.table, batch.runs()
        apart: Bools = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
        replayed = replayed_blocks(self._fs.blocks)
        low = np.searchsorted(replayed, runs.physical)
        changed = np.searchsorted(replayed, runs.physical + runs.length) > low
        apart[runs.owner[changed]] = True
        return _joined(runs.take(~apart[runs.owner])), np.flatnonzero(apart)

    def _runs_of_nodes(self, batch: WalkBatch) -> tuple[Runs, Rows]:
        parts, apart = [Runs.empty()], []
        for row, node in enumerate(batch.nodes):
            content = node.readable()
            if content is None:
                continue
            if content.runs is None or _is_elsewhere(content):
                apart.append(row)
            else:
                parts.append(content.runs.owned_by(row))
        return _joined(Runs.concat(parts)), np.array(apart, np.int64)

    # -- the pass over the volume -----------------------------------------------------------

    def _scan(self, wanted: Intervals, progress: Progress | None) -> _Matches:
        """All matches in the blocks of the volume that are wanted."""
        most = max(BYTES_AT_ONCE // self._size, 1)
        row, position, length = split(wanted.length, most)
        start = wanted.start[row] + position
        spare = -(-self._engine.reach // self._size)
        after = np.minimum(wanted.end[row] - start - length, spare)
        pieces = list(zip(start.tolist(), length.tolist(), after.tolist(), strict=True))
        read = (self._read(first, count + more) for first, count, more in pieces)
        columns: list[list[Int64s]] = [[], [], []]
        ends: dict[int, int] = {}  # of the last match of each pattern
        done, total = 0, int(length.sum()) * self._size
        searched = prefetch_map(self._engine.matches, read)
        for (first, count, _), found in zip(pieces, searched, strict=True):
            self._cut += found.is_cut
            inside = found.start < count * self._size
            base = first * self._size
            for column, part in zip(columns, found[:3], strict=True):
                column.append(part[inside] + (0 if part is found.pattern else base))
            done += count * self._size
            if progress is not None:
                progress(done, total)
        pattern, begin, end = (np.concatenate([np.zeros(0, np.int64), *part]) for part in columns)
        kept = np.ones(len(pattern), bool)
        for at, (one, low, high) in enumerate(
            zip(pattern.tolist(), begin.tolist(), end.tolist(), strict=True)
        ):
            if low < ends.get(one, 0):
                kept[at] = False  # it goes on over the border of two pieces
            else:
                ends[one] = high
        owned = np.zeros(int(kept.sum()), bool)
        return _Matches(pattern[kept], begin[kept], end[kept], owned)

    def _read(self, first: int, count: int) -> memoryview:
        data, lost = read_run_or_zeros(self._blocks, first, count)
        self._unreadable += lost * self._size
        return data

    # -- whose they are ---------------------------------------------------------------------

    def _add_in_runs(self, batch: WalkBatch, runs: Runs, found: _Matches) -> None:
        """Add the matches in the files of a batch, and mark them as owned."""
        size = self._size
        low = np.searchsorted(found.start, runs.physical * size)
        high = np.searchsorted(found.start, (runs.physical + runs.length) * size)
        run, position = expand(high - low)
        hit = low[run] + position
        found.is_owned[hit] = True
        offset = found.start[hit] + (runs.logical - runs.physical)[run] * size
        length = (found.end - found.start)[hit]
        owner = runs.owner[run]
        end = batch.sizes[owner]
        in_run = found.end[hit] <= (runs.physical + runs.length)[run] * size
        is_slack = runs.unwritten[run] | (offset >= end)
        is_whole = ~is_slack & in_run & (offset + length <= end)
        rows, place = np.unique(owner, return_inverse=True)
        nodes = [batch.node(row) for row in rows.tolist()]
        area = np.array([AREAS.index(area_of(node)) for node in nodes], np.int64)
        self._found.append(
            HitColumns(
                found.pattern[hit],
                np.where(is_slack, AREAS.index(Area.SLACK), area[place]),
                len(self._nodes) + place,
                found.start[hit],
                offset,
                length,
                ~(is_whole | (is_slack & in_run)),
            )
        )
        self._nodes += nodes
        self._add_at_borders(batch, runs, found, (owner, found.pattern[hit], offset, is_whole))

    def _add_at_borders(
        self,
        batch: WalkBatch,
        runs: Runs,
        found: _Matches,
        whole: tuple[Rows, Rows, Int64s, Bools],
    ) -> None:
        """Add matches of files that go on in another run, or that a stranger's bytes hid.

        Args:
            batch: the files.
            runs: their runs, joined.
            found: what the pass over the volume found.
            whole: (row of the file, pattern, offset, whether it is whole) of what is added.
        """
        size, reach = self._size, self._engine.reach
        follows = np.zeros(len(runs), bool)
        follows[:-1] = (runs.owner[1:] == runs.owner[:-1]) & (
            runs.logical[1:] == (runs.logical + runs.length)[:-1]
        )
        follows &= ~runs.unwritten
        follows[:-1] &= ~runs.unwritten[1:]
        crossed = np.unique(found.end[found.start // size != (found.end - 1) // size] // size)
        begins, ends = np.isin(runs.physical, crossed), runs.physical + runs.length
        closes = np.isin(ends, crossed)
        looked_at = np.flatnonzero((follows | begins | closes) & ~runs.unwritten)
        known: dict[int, set[tuple[int, int]]] = {row: set() for row in runs.owner[looked_at]}
        for row, one, offset, is_whole in zip(*(column.tolist() for column in whole), strict=True):
            if is_whole and row in known:
                known[row].add((one, offset))
        for at in looked_at.tolist():
            row = int(runs.owner[at])
            node, mine = batch.node(row), known[row]
            content = node.readable()
            if content is None:
                continue
            first = int(runs.logical[at]) * size
            if begins[at]:
                self._add_in_content(node, content, first, first + reach, mine)
            if follows[at] or closes[at]:
                border = first + int(runs.length[at]) * size
                self._add_in_content(node, content, border - reach + 1, border + reach - 1, mine)

    def _add_in_content(
        self, node: Node, content: Content, start: int, end: int, known: set[tuple[int, int]]
    ) -> None:
        """Add the matches in a range of a file that are not known.

        Args:
            node: the file.
            content: its bytes.
            start: first byte of the range.
            end: end of the range, which is cut to the size.
            known: (pattern, offset) of matches that are added; the new ones are entered.
        """
        start, end = max(start, 0), min(end, content.size)
        reach, rows = self._engine.reach, []
        while start < end:
            stop = min(start + BYTES_AT_ONCE, end)
            try:
                data = content.read(start, min(stop + reach, end) - start)
            except AccessError:
                self._unreadable += stop - start
                start = stop
                continue
            for one, low, high in zip(*self._engine.matches(data)[:3], strict=True) if data else ():
                key = int(one), start + int(low)
                if start + low < stop and key not in known:
                    known.add(key)
                    rows.append((key[0], len(self._nodes), -1, key[1], int(high - low)))
            start = stop
        if rows:
            self._found.append(_columns(rows, area_of(node)))
            self._nodes.append(node)

    def _add_by_file(self, batch: WalkBatch, runs: Runs, apart: Rows) -> None:
        """Add what is found in the members of files, and by rules and hashes in whole files."""
        self._owned.append(Intervals.union(runs.physical, runs.length))
        is_apart = frozenset(apart.tolist())
        for row in self._files.rows(batch, runs, apart):
            node = batch.node(row)
            area = area_of(node)
            content = node.readable() if node.kind == "file" and area in self._areas else None
            if content is None:
                continue
            for owner, hits in self._files.hits(node, content, row in is_apart):
                rows = [(one[0], len(self._nodes), *one[1:]) for one in hits]
                self._found.append(_columns(rows, area))
                self._nodes.append(owner)

    def _add_by_rules(self, wanted: Intervals) -> None:
        """Add what rules find in blocks that no file has, those of each area by themselves."""
        if self._files.rules is None:
            return
        owned = Intervals.concat([Intervals.empty(), *self._owned])
        free = wanted.subtract(Intervals.union(owned.start, owned.length))
        log = self._workspace.log
        logged = np.zeros(0, np.int64) if log is None else np.unique(log.reader.log_blocks)
        journal = Intervals.of_numbers(logged[logged >= 0])
        in_use = self._in_use(free)
        for area, blocks in (
            (Area.JOURNAL, free.intersect(journal)),
            (Area.METADATA, in_use.subtract(journal)),
            (Area.UNALLOCATED, free.subtract(in_use).subtract(journal)),
        ):
            if area in self._areas:
                hits = self._files.hits_in_blocks(Intervals.union(blocks.start, blocks.length))
                self._found.append(_columns([(one[0], NO_ROW, *one[1:]) for one in hits], area))

    def _in_use(self, runs: Intervals) -> Intervals:
        """The blocks of some runs that the bitmaps mark as used."""
        parts = [Intervals.empty()]
        row, position, length = split(runs.length, _BITS_AT_ONCE)
        for first, count in zip(
            (runs.start[row] + position).tolist(), length.tolist(), strict=True
        ):
            used = Intervals.of_mask(self._fs.bitmaps.blocks_in_use(first + np.arange(count)))
            parts.append(Intervals(used.start + first, used.length))
        return Intervals.concat(parts)

    def _add_ownerless(self, found: _Matches) -> None:
        """Add the matches that no file has: in the journal, in free blocks, in metadata."""
        rows = np.flatnonzero(~found.is_owned)
        block = found.start[rows] // self._size
        log = self._workspace.log
        in_log = np.zeros(len(rows), bool) if log is None else np.isin(block, log.reader.log_blocks)
        in_use = self._fs.bitmaps.blocks_in_use(block)
        kind = np.where(in_use, AREAS.index(Area.METADATA), AREAS.index(Area.UNALLOCATED))
        nowhere = np.full(len(rows), -1)
        self._found.append(
            HitColumns(
                found.pattern[rows],
                np.where(in_log, AREAS.index(Area.JOURNAL), kind),
                np.full(len(rows), NO_ROW),
                found.start[rows],
                nowhere,
                (found.end - found.start)[rows],
                np.zeros(len(rows), bool),
            )
        )


def _columns(rows: list[tuple[int, int, int, int, int]], area: Area = Area.LIVE) -> HitColumns:
    """(pattern, node, start, offset, length) of hits in one area."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    pattern, node, start, offset, length = table.T
    areas = np.full(len(table), AREAS.index(area))
    return HitColumns(pattern, areas, node, start, offset, length, np.zeros(len(table), bool))


def _joined(runs: Runs) -> Runs:
    """The runs, those that go on in file and volume joined."""
    order = np.lexsort((runs.logical, runs.owner))
    runs = runs.take(order)
    goes_on = np.zeros(len(runs), bool)
    goes_on[1:] = (
        (runs.owner[1:] == runs.owner[:-1])
        & (runs.unwritten[1:] == runs.unwritten[:-1])
        & (runs.logical[1:] == (runs.logical + runs.length)[:-1])
        & (runs.physical[1:] == (runs.physical + runs.length)[:-1])
    )
    first = np.flatnonzero(~goes_on)
    if not len(first):
        return runs
    length = np.add.reduceat(runs.length, first)
    kept = runs.take(first)
    return Runs(kept.owner, kept.logical, length, kept.physical, kept.unwritten)


def _is_elsewhere(content: Content) -> bool:
    """Whether some of its blocks are read from copies in the journal."""
    reader, runs = content.blocks, content.runs
    assert runs is not None
    row, position = expand(runs.length)
    blocks = runs.physical[row] + position
    while isinstance(reader, JournalOverlay):
        if (reader.copies_of(blocks) >= 0).any():
            return True
        reader = reader.base
    return False
