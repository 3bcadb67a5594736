"""The search for log lines: files of all states, slack, journal copies, unallocated blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node
from ext4kit.history import History
from ext4kit.journal import Log
from ext4kit.logs import binary, blocks, texts
from ext4kit.logs.blocks import LOG_BLOCKS, LogBlocks, TaggedCopies
from ext4kit.logs.findings import LogFindings
from ext4kit.logs.kinds import LOG_FILES
from ext4kit.logs.removal import Removals
from ext4kit.logs.result import FoundLines, Origin, Removal
from ext4kit.logs.sources import JOURNAL, LOGINS, TEXT, LogSource, run_content
from ext4kit.logs.stamps import Clock
from ext4kit.recovery.deletion import transaction_times
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.scan import BlockBatch, scan
from ext4kit.selection import Selection
from ext4kit.unallocated.space import UnallocatedSpace, below_replay
from ext4kit.units import Progress, ProgressStep
from ext4kit.views.deleted import DeletedNode, DeletedView
from ext4kit.workspace import Workspace
from ext4kit.zones import UTC, Zone

_KEYS_AT_ONCE = 1 << 20
_FILES = Selection(types=frozenset({"file"}))
_FORMS = ((blocks.TEXT_WITH_LINES, TEXT), (blocks.LOGINS, LOGINS), (blocks.JOURNAL, JOURNAL))


def _no_step(_title: str) -> AbstractContextManager[Progress | None]:
    return nullcontext(None)


def find_log_lines(
    workspace: Workspace,
    zone: Zone = UTC,
    paths: tuple[bytes, ...] = (),
    with_live: bool = False,
    step: ProgressStep = _no_step,
) -> LogFindings:
    """The log lines that no live log has, each once, in the order of time.

    Args:
        workspace: of the file system.
        zone: of times in lines that state none.
        paths: files that count as logs whatever their names.
        with_live: include the lines of live logs.
        step: shows progress.
    """
    search = _Search(workspace, zone, Selection(paths=paths) if paths else None)
    with step("listing logs"):
        search.add_live()
    search.add_deleted(step)
    with step("reading logs") as tell:
        lines = search.read(tell)
    with step("comparing with live logs") as tell:
        is_live = search.marks_of_live(lines, tell)
    removals = search.removals(lines)
    rows = _once(lines, ~is_live, removals.row, search.sources)
    lines, removal = lines.take(rows), removals.row[rows]
    if with_live:
        live = search.live_lines()
        lines = FoundLines.concat([lines, live])
        removal = np.concatenate([removal, np.full(len(live), -1)])
    order = np.lexsort((lines.offset, lines.source, lines.time))
    return LogFindings(
        lines.take(order), removal[order], search.sources, removals.each, len(search.live)
    )


@dataclass(frozen=True, slots=True)
class _Proven:
    """The removals, and the one of each line, -1 for none."""

    each: list[Removal]
    row: Rows


@dataclass
class _Search:
    """Collects the sources, and reads them.

    Attributes:
        sources: all of them; a line names its source by its row.
    """

    workspace: Workspace
    zone: Zone
    given: Selection | None
    sources: list[LogSource] = field(default_factory=list)
    _slack: list[Runs] = field(default_factory=list)
    _deleted: DeletedView = field(init=False)
    _history: History = field(init=False)  # held, as it is read once

    def __post_init__(self) -> None:
        self._history = self.workspace.history()

    @property
    def live(self) -> list[tuple[int, LogSource]]:
        """The live logs, with their rows."""
        each = enumerate(self.sources)
        return [(row, source) for row, source in each if source.is_live]

    @property
    def _wanted(self) -> tuple[Selection, ...]:
        """The paths that make a file a log."""
        return (LOG_FILES,) if self.given is None else (LOG_FILES, self.given)

    def is_log(self, node: Node) -> bool:
        """Whether a file is a log by one of its paths."""
        return any(each.matches_paths(node) for each in self._wanted)

    def add_live(self) -> None:
        """The live logs, and the blocks of files that are allocated and were never written."""
        fs = self.workspace.fs
        for batch in LiveView(fs).walk(_FILES):
            runs = batch.runs()
            self._slack.append(runs.take(runs.unwritten))
            if any(each.matches_path(path, None) for path in batch.paths for each in self._wanted):
                for node in filter(self.is_log, batch.nodes):
                    self._add_node(node, Origin.LIVE)

    def _add_node(self, node: Node, origin: Origin) -> None:
        inode, file = node.inode, node.file if isinstance(node, DeletedNode) else None
        path = node.path if file is None else file.path or file.name
        if inode is None:
            return
        try:
            content = node.content()
        except (AccessError, CorruptError) as error:
            self._tell(node.path, error)
            return
        if content is None:
            return
        latest = max(inode.mtime, inode.ctime)
        self.sources.append(
            LogSource(
                origin, content, latest, self.workspace.fs.problems, path, inode.number, file,
                generation=inode.generation,
            )
        )  # fmt: skip
        if origin is Origin.LIVE:
            self._add_slack(content, latest, node.path, inode.number)

    def _tell(self, path: bytes, error: Exception) -> None:
        self.workspace.fs.problems.add(path.decode("utf-8", "backslashreplace"), str(error))

    def _add_slack(self, content: Content, latest: int, path: bytes, number: int) -> None:
        """The last block of a log, if there is something after the end of the log."""
        used, reader = content.size % content.blocks.block_size, content.blocks
        if content.runs is None or not used or not len(content.runs):
            return
        rows = np.flatnonzero(
            content.runs.logical + content.runs.length > content.size // reader.block_size
        )
        if not len(rows):
            return
        run = content.runs.take(rows[:1])
        block = int(run.physical[0] + content.size // reader.block_size - run.logical[0])
        try:
            rest = bytes(reader.read(block)[used:])
        except AccessError as error:
            self._tell(path, error)
            return
        if rest.strip(b"\0"):
            last = run_content(reader, block, 1)
            problems = self.workspace.fs.problems
            self.sources.append(
                LogSource(Origin.SLACK, last, latest, problems, path, number, form=TEXT)
            )

    def add_deleted(self, step: ProgressStep) -> None:
        """Deleted files, earlier versions, and blocks without a file."""
        space = UnallocatedSpace(self._history)
        with step("searching unallocated space") as tell:
            found = LogBlocks.concat(scan(space, [LOG_BLOCKS], tell).of(LOG_BLOCKS))
        unallocated = found.take(found.in_log == 0)
        with step("searching deleted files") as tell:
            sources = frozenset(ALL_SOURCES - {SearchSource.RUNS})
            self._deleted = DeletedView(self.workspace, True, sources, tell)
            covered = self._add_files(np.unique(unallocated.block))
        covered_runs = Intervals.union(covered.physical, covered.length)
        free = space.unused.subtract(covered_runs)
        self._add_runs(Origin.UNALLOCATED, unallocated, free)
        self._add_unwritten()
        log = self.workspace.log
        if log is not None:
            self._add_journal(log, found.take(found.in_log == 1), step)

    def created_since(self, time: int) -> Iterator[tuple[bytes | None, int | None]]:
        """(path, creation) of all files that were created then or later, or at an unknown time."""
        for live in LiveView(self.workspace.fs).walk(_FILES):
            for path, file in zip(live.paths, live.nodes, strict=True):
                created = None if file.inode is None else file.inode.crtime
                if created is None or created >= time:
                    yield path, created
        for batch in self._deleted.walk(_FILES):
            for node in batch.nodes:
                created = None if node.inode is None else node.inode.crtime
                if isinstance(node, DeletedNode) and (created is None or created >= time):
                    yield node.file.path or node.file.name, created

    def _add_files(self, marked: Int64s) -> Runs:
        """Files that are named like logs, or have marked blocks; the runs of those that count."""
        parts = [Runs.empty()]
        for batch in self._deleted.walk(_FILES):
            for node in batch.nodes:
                if not isinstance(node, DeletedNode):
                    continue
                content = node.content()
                runs = None if content is None else content.runs
                is_log = self.is_log(node)
                if not is_log and (runs is None or not _have(runs, marked)):
                    continue
                superseded = node.file.superseded
                self._add_node(node, Origin.EARLIER if superseded else Origin.DELETED)
                parts += [] if runs is None else [runs]
        return Runs.concat(parts)

    def _add_runs(
        self, origin: Origin, found: LogBlocks, within: Intervals, path: bytes | None = None
    ) -> None:
        """Runs of blocks without a file."""
        fs = self.workspace.fs
        order = np.argsort(found.block, kind="stable")
        found = found.take(order)
        for kind, form in _FORMS:
            for first, count in blocks.contents(found, kind, within):
                content = run_content(below_replay(fs.blocks), first, count)
                last = self.workspace.last_moment
                self.sources.append(LogSource(origin, content, last, fs.problems, path, form=form))

    def _add_unwritten(self) -> None:
        """Blocks that are allocated to files, and keep what was in them before."""
        runs = Runs.concat([Runs.empty(), *self._slack])
        within = Intervals.union(runs.physical, runs.length)
        parts = [LogBlocks.empty()]
        most = max(blocks.BYTES_AT_ONCE // self.workspace.fs.superblock.block_size, 1)
        for start, length in zip(within.start.tolist(), within.length.tolist(), strict=True):
            for at in range(start, start + length, most):
                numbers = np.arange(at, min(at + most, start + length))
                data, readable = self.workspace.fs.fetch(numbers)
                parts.append(LOG_BLOCKS(BlockBatch(numbers[readable], data[readable])))
        self._add_runs(Origin.SLACK, LogBlocks.concat(parts), within)

    def _add_journal(self, log: Log, untagged: LogBlocks, step: ProgressStep) -> None:
        """Journal copies of blocks of logs."""
        copies, reader = self.workspace.copies(), log.reader
        if copies is None:
            return
        source = TaggedCopies(log, copies)
        with step("searching the journal") as tell:
            found = LogBlocks.concat(scan(source, [LOG_BLOCKS], tell).of(LOG_BLOCKS))
        last, problems = self.workspace.last_moment, self.workspace.fs.problems
        found = found.take((found.holds & (blocks.TEXT_WITH_LINES | blocks.LOGINS)) > 0)
        rows = copies.tag_rows[np.isin(log.tags.position[copies.tag_rows], found.block)]
        holds = dict(zip(found.block.tolist(), found.holds.tolist(), strict=True))
        known = transaction_times(self._history)
        for row, owner in zip(rows.tolist(), self._owners(log.tags.block[rows]), strict=True):
            position = int(log.tags.position[row])
            content = run_content(reader.blocks, int(reader.log_blocks[position]), 1)
            form = TEXT if holds[position] & blocks.TEXT_WITH_LINES else LOGINS
            path, number = (None, None) if owner is None else (owner.path, owner.inode)
            copy = known[int(log.tags.order[row])]
            self.sources.append(
                LogSource(Origin.JOURNAL, content, last, problems, path, number, None, form, copy)
            )
        for kind, form in _FORMS:
            for first, count in blocks.contents(untagged, kind, _everything(untagged)):
                for position in range(first, first + count):
                    content = run_content(reader.blocks, int(reader.log_blocks[position]), 1)
                    self.sources.append(
                        LogSource(Origin.JOURNAL, content, last, problems, form=form)
                    )

    def _owners(self, numbers: Int64s) -> list[LogSource | None]:
        """The live log that has each block."""
        live = [source for _, source in self.live]
        parts = [
            runs.owned_by(row)
            for row, source in enumerate(live)
            if (runs := source.content.runs) is not None
        ]
        runs = Runs.concat([Runs.empty(), *parts])
        mine, other = overlap_pairs(numbers, np.ones_like(numbers), runs.physical, runs.length)
        found: list[LogSource | None] = [None] * len(numbers)
        for row, owner in zip(mine.tolist(), runs.owner[other].tolist(), strict=True):
            found[row] = live[owner]
        return found

    def read(self, tell: Progress | None) -> FoundLines:
        """The lines of all sources but the live ones, by source."""
        parts = [FoundLines.empty()]
        for row, source in enumerate(self.sources):
            if not source.is_live:
                parts.append(self._lines_of(row, source))
            if tell is not None:
                tell(row + 1, len(self.sources))
        return FoundLines.concat(parts)

    def live_lines(self) -> FoundLines:
        """The lines of the live logs."""
        return FoundLines.concat(
            [FoundLines.empty(), *(self._lines_of(row, source) for row, source in self.live)]
        )

    def _lines_of(self, row: int, source: LogSource) -> FoundLines:
        find = texts.find if source.family == TEXT else binary.find
        return find(source, row, Clock(self.zone, source.latest))

    def keys_of(self, source: LogSource) -> Int64s:
        """The keys of the lines of a live log."""
        if source.family == TEXT:
            return np.fromiter(map(hash, texts.line_keys(source)), np.int64)
        return self._lines_of(0, source).key

    def marks_of_live(self, lines: FoundLines, tell: Progress | None) -> Bools:
        """True for lines that stand in a live log, and for torn ones of which more stands."""
        marks, torn = np.zeros(len(lines), bool), _Torn(self, lines)
        waiting: list[Int64s] = []
        live = self.live
        for done, (_, source) in enumerate(live, 1):
            waiting.append(self.keys_of(source))
            torn.compare(source)
            if sum(map(len, waiting)) > _KEYS_AT_ONCE or done == len(live):
                marks |= np.isin(lines.key, np.concatenate(waiting))
                waiting = []
            if tell is not None:
                tell(done, len(live))
        marks[torn.rows_with_more()] = True
        return marks

    def removals(self, lines: FoundLines) -> _Proven:
        """The proven removals, the best one of each line."""
        proof = Removals(self._history, self.sources, lines, self.keys_of, self.created_since)
        each, row = list[Removal](), np.full(len(lines), -1, np.intp)
        for rows, removal in proof.found():
            row[rows] = len(each)
            each.append(removal)
        return _Proven(each, row)


class _Torn:
    """Torn lines, and which of them are the start of a line that stands elsewhere."""

    def __init__(self, search: _Search, lines: FoundLines) -> None:
        self._search, self._lines = search, lines
        torn = lines.torn > 0
        self._found: set[int] = set(np.flatnonzero(torn & (lines.head == 0)).tolist())
        self._texts: dict[int, list[tuple[int, bytes]]] = {}
        for row, text in self._read(np.flatnonzero(torn & (lines.head != 0))):
            self._texts.setdefault(hash(text[: texts.HEAD]), []).append((row, text))
        for row, text in self._read(np.flatnonzero(np.isin(lines.head, list(self._texts)))):
            self._compare_line(text, row)

    def _read(self, rows: Rows) -> Iterator[tuple[int, bytes]]:
        """(row, text) of lines, which are by source."""
        lines = self._lines
        for source, some in groupby(rows.tolist(), lambda row: int(lines.source[row])):
            group = list(some)
            offsets, lengths = lines.offset[group].tolist(), lines.length[group].tolist()
            read = texts.texts(self._search.sources[source], offsets, lengths)
            yield from zip(group, read, strict=True)

    def compare(self, source: LogSource) -> None:
        """Look for them in a live log."""
        if self._texts and source.family == TEXT:
            for line in texts.line_keys(source):
                self._compare_line(line, -1)

    def _compare_line(self, line: bytes, own: int) -> None:
        for row, text in self._texts.get(hash(line[: texts.HEAD]), ()):
            longer = len(line) > len(text) or own < 0
            if row != own and longer and line.startswith(text):
                self._found.add(row)

    def rows_with_more(self) -> list[int]:
        """The rows of those that were found, and of those that are too short to tell."""
        return sorted(self._found)


def _have(runs: Runs, marked: Int64s) -> bool:
    """Whether one of the marked blocks (ascending) is in the runs."""
    low = np.searchsorted(marked, runs.physical)
    return bool((np.searchsorted(marked, runs.physical + runs.length) > low).any())


def _everything(found: LogBlocks) -> Intervals:
    last = int(found.block.max()) + 1 if len(found) else 1
    return Intervals(np.zeros(1, np.int64), np.array([last]))


def _once(lines: FoundLines, wanted: Bools, removal: Rows, sources: list[LogSource]) -> Rows:
    """One row of each line: with a proof, else of the best origin."""
    rank = np.array([list(Origin).index(source.origin) for source in sources] or [0])
    rows = np.flatnonzero(wanted)
    keys = lines.key[rows], rank[lines.source[rows]], removal[rows] < 0
    order = np.lexsort((lines.offset[rows], lines.source[rows], keys[1], keys[2], keys[0]))
    rows = rows[order]
    key = lines.key[rows]
    first = np.ones(len(rows), bool)
    first[1:] = key[1:] != key[:-1]
    return rows[first]
