"""The search for log lines: files of all states, slack, journal copies, unallocated blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem import FileSystem
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
from ext4kit.logs.logins import login_files
from ext4kit.logs.removal import Removals, can_be_emptied
from ext4kit.logs.result import FoundLines, Origin, Removal
from ext4kit.logs.sources import JOURNAL, LOGINS, TEXT, LogSource, run_content
from ext4kit.logs.stamps import Clock
from ext4kit.logs.zeroed import ZeroedRecords, zeroed_records
from ext4kit.recovery.deletion import transaction_times
from ext4kit.recovery.search_sources import JOURNAL_ONLY, WITH_INODES
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
    files: Selection | None = None,
    with_live: bool = False,
    step: ProgressStep = _no_step,
) -> LogFindings:
    """The log lines that no live log has, each once, in the order of time.

    Args:
        workspace: of the file system.
        zone: of times in lines that state none.
        files: paths of files that count as logs whatever their names.
        with_live: include the lines of live logs.
        step: shows progress.
    """
    search = _Search(workspace, zone, files)
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
        lines.take(order), removal[order], search.sources, removals.each, len(search.live),
        search.zeroed(),
    )  # fmt: skip


def find_removed_lines(
    workspace: Workspace, zone: Zone = UTC, step: ProgressStep = _no_step
) -> LogFindings:
    """The lines whose removal from a log is proven, in the order of time.

    Only files are compared, and journal copies of blocks of live logs: unallocated blocks prove
    nothing, and are not read.

    Args:
        workspace: of the file system.
        zone: of times in lines that state none.
        step: shows progress.
    """
    search = _Search(workspace, zone, None)
    with step("listing logs"):
        search.add_live(with_slack=False)
    with step("searching deleted logs") as tell:
        search.add_deleted_logs(tell)
    lines = search.read(None) if search.may_lack_lines() else FoundLines.empty()
    removals = search.removals(lines)
    rows = np.flatnonzero(removals.row >= 0)
    lines, removal = lines.take(rows), removals.row[rows]
    if len(lines):
        with step("comparing with live logs") as tell:
            is_live = search.marks_of_live(lines, tell)
        rows = _once(lines, ~is_live, removal, search.sources)
        rows = rows[np.lexsort((lines.offset[rows], lines.source[rows], lines.time[rows]))]
        lines, removal = lines.take(rows), removal[rows]
    return LogFindings(lines, removal, search.sources, removals.each, len(search.live))


def find_zeroed_records(fs: FileSystem) -> list[ZeroedRecords]:
    """The logs of logins in their usual folders with records that were filled with zeros."""
    search = _Search(Workspace(fs), UTC, None)
    for node in login_files(fs):
        search.add_node(node, Origin.LIVE, False)
    return search.zeroed()


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

    @cached_property
    def _history(self) -> History:
        return self.workspace.history()  # held, as it is read once

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

    def add_live(self, with_slack: bool = True) -> None:
        """The live logs, and the blocks of files that are allocated and were never written."""
        fs = self.workspace.fs
        for batch in LiveView(fs).walk(_FILES):
            if with_slack:
                runs = batch.runs()
                self._slack.append(runs.take(runs.unwritten))
            if any(each.matches_path(path, None) for path in batch.paths for each in self._wanted):
                for node in filter(self.is_log, batch.nodes):
                    self.add_node(node, Origin.LIVE, with_slack)

    def zeroed(self) -> list[ZeroedRecords]:
        """The live logs of logins with records that were filled with zeros."""
        found = (zeroed_records(source) for _, source in self.live)
        return [each for each in found if each is not None]

    def add_node(self, node: Node, origin: Origin, with_slack: bool = True) -> None:
        """A live log with its slack, or a deleted one."""
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
                generation=inode.generation, uid=inode.uid,
            )
        )  # fmt: skip
        if origin is Origin.LIVE and with_slack:
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
            self._deleted = DeletedView(self.workspace, True, WITH_INODES, tell)
            covered = self._add_files(np.unique(unallocated.block))
        covered_runs = Intervals.union(covered.physical, covered.length)
        free = space.unused.subtract(covered_runs)
        self._add_runs(Origin.UNALLOCATED, unallocated, free)
        self._add_unwritten()
        log = self.workspace.log
        if log is not None:
            self._add_journal(log, found.take(found.in_log == 1), step)

    def add_deleted_logs(self, tell: Progress | None) -> None:
        """Deleted logs and earlier versions of logs, and journal copies of blocks of live logs."""
        self._deleted = DeletedView(self.workspace, True, JOURNAL_ONLY, tell)
        for file in self._deleted.files:
            if file.kind != "file" or file.inode is None or file.path is None:
                continue
            if any(LOG_FILES.matches_path(path, None) for path in (file.path, *file.former_paths)):
                below = self._deleted
                node = DeletedNode(file.identity, file.path, file.inode, file=file, below=below)
                self.add_node(node, Origin.EARLIER if file.superseded else Origin.DELETED)
        log, copies = self.workspace.log, self.workspace.copies()
        if log is None or copies is None:
            return
        rows = copies.tag_rows
        owners = self._owners(log.tags.block[rows])
        some = [row for row, owner in zip(rows.tolist(), owners, strict=True) if owner is not None]
        self._add_tagged(log, np.array(some, np.int64), {})

    def created_since(self, time: int) -> Iterator[tuple[bytes | None, int | None]]:
        """(path, creation) of all files that were created then or later, or at an unknown time."""
        for live in LiveView(self.workspace.fs).walk(_FILES):
            for path, node in zip(live.paths, live.nodes, strict=True):
                created = None if node.inode is None else node.inode.crtime
                if created is None or created >= time:
                    yield path, created
        for file in self._deleted.files:
            if file.kind == "file" and file.inode is not None:
                created = file.inode.crtime
                if created is None or created >= time:
                    yield file.path or file.name, created

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
                self.add_node(node, Origin.EARLIER if superseded else Origin.DELETED)
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
        self._add_tagged(log, rows, holds)
        for kind, form in _FORMS:
            for first, count in blocks.contents(untagged, kind, _everything(untagged)):
                for position in range(first, first + count):
                    content = run_content(reader.blocks, int(reader.log_blocks[position]), 1)
                    self.sources.append(
                        LogSource(Origin.JOURNAL, content, last, problems, form=form)
                    )

    def _add_tagged(self, log: Log, rows: Rows, holds: dict[int, int]) -> None:
        """Journal copies, by the rows of their tags.

        Args:
            log: the journal.
            rows: of the copies.
            holds: position in the journal -> what it holds; that of its owner if it is missing.
        """
        last, problems = self.workspace.last_moment, self.workspace.fs.problems
        known, reader = transaction_times(log), log.reader
        for row, owner in zip(rows.tolist(), self._owners(log.tags.block[rows]), strict=True):
            position = int(log.tags.position[row])
            content = run_content(reader.blocks, int(reader.log_blocks[position]), 1)
            form = owner.family if position not in holds and owner is not None else TEXT
            if holds.get(position, 0) & blocks.LOGINS:
                form = LOGINS
            path, number = (None, None) if owner is None else (owner.path, owner.inode)
            copy = known[int(log.tags.order[row])]
            self.sources.append(
                LogSource(Origin.JOURNAL, content, last, problems, path, number, None, form, copy)
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

    def may_lack_lines(self) -> bool:
        """Whether a former state of a log has lines of which other contents have some, not all.

        Or none, if it is a log that can have been emptied. Lines are compared without their forms,
        which is much faster than to parse them.
        """
        former = [row for row, each in enumerate(self.sources) if not each.is_live]
        keys = {row: self._plain_keys(self.sources[row]) for row in former}
        names = {_stem(self.sources[row].path) for row in former}
        for row, source in self.live:
            if any(name in (source.path or b"") for name in names):
                keys[row] = self._plain_keys(source)
        for row in former:
            mine, source = keys[row], self.sources[row]
            others = [some for other, some in keys.items() if other != row]
            stands = np.isin(mine, np.concatenate([np.zeros(0, np.int64), *others]))
            if (stands.any() or can_be_emptied(source)) and not stands.all():
                return True
        return False

    def _plain_keys(self, source: LogSource) -> Int64s:
        if source.family != TEXT:
            return self._lines_of(0, source).key
        return np.fromiter((hash(each) for each in texts.line_keys(source) if each), np.int64)

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
        proof = Removals(
            self.workspace.log, lambda: self._history.gaps, self.sources, lines, self.keys_of,
            self.created_since,
        )  # fmt: skip
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


def _stem(path: bytes | None) -> bytes:
    """The part of the name of a log that rotation keeps."""
    return (path or b"").rpartition(b"/")[2].split(b".")[0]


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
