"""The versions of one file: each state of its content that the evidence holds, oldest first.

The history of a path and that of an inode are joined: every file that had the path at some time
counts, with all its recorded states, also those under other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Int64s
from ext4kit.errors import NotFoundError, RequestError, path_text
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.directories import with_inodes
from ext4kit.history import TID_ON_DISK, History, read_history
from ext4kit.history.directory_blocks import TID_BEFORE_LOG, DirectoryBlockHistory
from ext4kit.history.entry_intervals import find_numbers_of
from ext4kit.history.paths import PathHistory
from ext4kit.journal import SharedLog
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.model import DeletedFile, Grade, TransactionTime
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.restore import is_written
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.units import Progress


class Change(StrEnum):
    """What made a version, or ended the last one of an inode."""

    FIRST_SEEN = "first seen"
    CREATED = "created"
    WRITTEN = "written"
    REWRITTEN = "rewritten"
    TRUNCATED = "truncated"
    RENAMED = "renamed"
    REPLACED = "replaced"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A state of the content of a file.

    Attributes:
        number: from 1, the oldest first.
        path: full path then, None if unknown.
        inode: the state.
        committed: the first transaction that shows it, None if no transaction does.
        changes: what made it.
        renamed_from: the path before, if it was renamed.
        ended: how the file ended after it, with the transaction; None while it exists and for
            a version that another one of the same file follows.
        replaced_by: inode number of the file that then had the path.
        grade: of the content; None for the file as it is.
        file: of an earlier or deleted version.
        content: its bytes, None if there are none.
    """

    number: int
    path: bytes | None
    inode: Inode
    committed: TransactionTime | None
    changes: tuple[Change, ...]
    renamed_from: bytes | None = None
    ended: tuple[Change, TransactionTime | None] | None = None
    replaced_by: int | None = None
    grade: Grade | None = None
    file: DeletedFile | None = None
    content: Content | None = None

    @property
    def is_live(self) -> bool:
        """Whether this is the file as it is."""
        return self.grade is None


def find_versions(
    given: FileSystem | SharedLog,
    path: bytes,
    sources: Set[SearchSource] = ALL_SOURCES,
    progress: Progress | None = None,
) -> list[FileVersion]:
    """All versions of the regular file at a path, oldest first.

    Args:
        given: the file system, opened with its journal replayed, or what shares its log.
        path: full path.
        sources: where to search, as for `find_deleted`.
        progress: as for `find_deleted`.

    Raises:
        RequestError: no file with that path was found, or it is no regular file.
    """
    path = b"/" + path.strip(b"/")
    shared = SharedLog.of(given)
    live = _live_inode(shared.fs, path)
    numbers = find_numbers_of(
        DirectoryBlockHistory(read_history(shared, directories_only=True)), path.rpartition(b"/")[2]
    )
    numbers = np.union1d(numbers, [] if live is None else [live.number]).astype(np.int64)
    found = find_deleted(shared, True, sources, progress, numbers).files
    assert isinstance(found, FoundFiles)
    return _Versions(found, path, numbers, live).listed()


def _live_inode(fs: FileSystem, path: bytes) -> Inode | None:
    """The inode at a path, None where nothing is.

    Raises:
        RequestError: it is no regular file.
    """
    try:
        inode = fs.inode(fs.lookup(path))
    except RequestError:
        return None
    if inode.kind != "file":
        raise RequestError(f"{path_text(path)} is a {inode.kind}; only files have versions")
    return inode


@dataclass(frozen=True, slots=True)
class _State:
    """Consecutive states of an instance with one content and one path.

    Attributes:
        instance: of the inode.
        tid: first one that shows it.
        first, last: rows of the history.
        path: full path, None if unknown.
    """

    instance: int
    tid: int
    first: int
    last: int
    path: bytes | None


class _Versions:
    """Joins the states of all files that had a path.

    Args:
        found: all deleted files and earlier versions.
        path: the path.
        numbers: inode numbers that had its name.
        live: the inode that has it now.
    """

    def __init__(self, found: FoundFiles, path: bytes, numbers: Int64s, live: Inode | None) -> None:
        self._found, self._path, self._live = found, path, live
        self._history: History = found.blocks.history
        self._paths: PathHistory = found.names.paths
        self._fs = self._history.fs
        self._numbers = numbers
        places = enumerate(found.rows.tolist())
        self._at = {
            int(found.blocks.candidates.state_row[row]): at for at, row in places if row >= 0
        }

    def listed(self) -> list[FileVersion]:
        """The versions, numbered.

        Raises:
            RequestError: there is none.
        """
        instances = np.flatnonzero(np.isin(self._history.number, self._numbers)).tolist()
        states = [state for one in instances for state in self._states_of(one)]
        chosen = {state.instance for state in states if self._had_path(state)}
        if self._live is not None:
            is_live = self._history.is_allocated & (self._history.number == self._live.number)
            chosen |= set(np.flatnonzero(is_live).tolist())
        states = [state for state in states if state.instance in chosen]
        states.sort(key=lambda state: (state.tid, self._tid(state.last)))
        versions = [self._version(state, states) for state in states]
        if self._live is not None and not any(one.is_live for one in versions):
            versions.append(self._as_it_is(self._live, (Change.FIRST_SEEN,), self._path))
        if not versions:
            raise NotFoundError(
                self._path,
                "neither the file system nor the evidence of deleted files has this path",
            )
        return [replace(one, number=at) for at, one in enumerate(versions, 1)]

    def _tid(self, row: int) -> int:
        return int(self._history.states.tid[row])

    def _had_path(self, state: _State) -> bool:
        if state.path == self._path:
            return True
        file = self._file(state)
        return file is not None and self._path in (file.path, *file.further_paths)

    def _file(self, state: _State) -> DeletedFile | None:
        at = self._at.get(state.last)
        return None if at is None else self._found[at]

    def _states_of(self, instance: int) -> Iterator[_State]:
        """The states of an instance that differ in content or path."""
        states = self._history.states
        first, end = np.searchsorted(states.instance, [instance, instance + 1]).tolist()
        rows = np.arange(first, end)
        kept = states.describes_content[rows] & states.table.is_regular[rows]
        kept &= (states.tid[rows] != TID_ON_DISK) | self._history.is_allocated[instance]
        rows = rows[kept]
        # Two renames within a tick of the clock leave one state of the inode.
        names = self._paths.names.table.valid_from[self._paths.rows_of(instance)]
        renamed = names[(names > states.tid[rows[:1]].min(initial=TID_ON_DISK))]
        tids = np.unique(np.concatenate([states.tid[rows], renamed]))
        rows = rows[np.searchsorted(states.tid[rows], tids, side="right") - 1]
        tids = np.minimum(tids, TID_ON_DISK - 1)
        paths = self._paths_at(instance, tids, states.table.ctime[rows])
        open_state: _State | None = None
        for row, tid, path in zip(rows.tolist(), tids.tolist(), paths, strict=True):
            if open_state is not None and self._is_same(open_state, row, path):
                open_state = replace(open_state, last=row, path=path or open_state.path)
                continue
            if open_state is not None:
                yield open_state
            open_state = _State(instance, tid, row, row, path)
        if open_state is not None:
            yield open_state

    def _paths_at(self, instance: int, tids: Int64s, times: Int64s) -> list[bytes | None]:
        """The path of an instance as of each tid, None where it is unknown.

        Args:
            instance: of the inode.
            tids: any.
            times: ctime of the state as of each tid, ns.
        """
        found: list[bytes | None] = [None] * len(tids)
        rows = self._paths.name_rows_at(np.full(len(tids), instance), tids)
        named = np.flatnonzero(rows >= 0)
        places = self._paths.places_at(rows[named], tids[named], times[named])
        for at, place in zip(named.tolist(), places, strict=True):
            found[at] = None if place is None else place.path
        return found

    def _is_same(self, state: _State, row: int, path: bytes | None) -> bool:
        """Whether a later state has the same content and path."""
        table = self._history.states.table
        if None not in (state.path, path) and state.path != path:
            return False
        same = table.size[state.last] == table.size[row]
        same &= table.mtime[state.last] == table.mtime[row]
        if not same or (table.i_block[state.last] == table.i_block[row]).all():
            return bool(same)
        mapped, shared = _shared_blocks(self._history, state.last, row)
        return mapped == shared  # its blocks were allocated or written out, no more

    def _version(self, state: _State, states: list[_State]) -> FileVersion:
        """The version of a state; `states` are those of all files that had the path."""
        own = [one for one in states if one.instance == state.instance]
        before = own[: own.index(state)]
        changes, renamed_from = self._changes(state, before[-1] if before else None)
        history, instance = self._history, state.instance
        if state is own[-1] and history.is_allocated[instance]:
            inode = history.states.table.one(state.last)
            path: bytes | None = self._path
            if self._live is None or self._live.number != inode.number:
                path = self._present_path(inode.number) or state.path
            if state.path not in (None, path):  # moved without the journal, as e2fsck does
                changes, renamed_from = (*changes, Change.RENAMED), state.path
            version = self._as_it_is(inode, changes, path)
        else:
            file = self._file(state)
            inode = history.states.table.one(state.last)
            version = FileVersion(
                0, state.path or (file.path if file else None), inode, None, changes,
                grade=file.grade if file else Grade.OVERWRITTEN, file=file,
                content=file.content() if file and is_written(file) else None,
            )  # fmt: skip
        committed = self._found.blocks.transactions.get(state.tid)
        version = replace(version, committed=committed, renamed_from=renamed_from)
        if state is own[-1] and not history.is_allocated[instance]:
            return self._with_end(version, state, states)
        return version

    def _present_path(self, number: int) -> bytes | None:
        """A path at which an inode is now, None where it has none."""
        numbers = np.array([number])
        tree = self._fs.tree(only=with_inodes(numbers))
        rows = np.flatnonzero(tree.inode == number)[:1]
        return tree.paths_of(rows)[0] if len(rows) else None

    def _as_it_is(
        self, inode: Inode, changes: tuple[Change, ...], path: bytes | None
    ) -> FileVersion:
        return FileVersion(0, path, inode, None, changes, content=self._fs.content(inode))

    def _changes(
        self, state: _State, before: _State | None
    ) -> tuple[tuple[Change, ...], bytes | None]:
        """What led from the state before to this one, and its former path if that changed."""
        table, history = self._history.states.table, self._history
        if before is None:
            first = min(history.commit_times.values(), default=int(TID_ON_DISK))
            named = self._paths.names.table.valid_from[self._paths.rows_of(state.instance)]
            created = int(table.crtime[state.first]) > first
            created |= bool(len(named) and (named > TID_BEFORE_LOG).all())  # the log shows it come
            return (Change.CREATED if created else Change.FIRST_SEEN,), None
        changes, renamed_from = [], None
        old, new = before.last, state.first
        if table.size[new] < table.size[old]:
            changes.append(Change.TRUNCATED)
        if table.size[new] and (table.i_block[new] != table.i_block[old]).any():
            if table.size[old] and not _shared_blocks(history, old, new)[1]:
                changes = [Change.REWRITTEN]
            elif table.size[new] >= table.size[old]:
                changes.append(Change.WRITTEN)
        elif table.size[new] >= table.size[old] and table.mtime[new] != table.mtime[old]:
            changes.append(Change.WRITTEN)
        if None not in (before.path, state.path) and before.path != state.path:
            changes.append(Change.RENAMED)
            renamed_from = before.path
        return tuple(changes or [Change.WRITTEN]), renamed_from

    def _with_end(self, version: FileVersion, state: _State, states: list[_State]) -> FileVersion:
        """The last version of a deleted file, with how it ended."""
        after = None if version.file is None else version.file.deleted_between[1]
        following = [
            one
            for one in states
            if one.instance != state.instance and one.path == self._path
            and one.tid > self._tid(state.last)
        ]  # fmt: skip
        known = self._found.blocks.transactions
        for one in following:
            if after is not None and known.get(one.tid) == after:
                number = int(self._history.number[one.instance])
                return replace(version, ended=(Change.REPLACED, after), replaced_by=number)
        return replace(version, ended=(Change.DELETED, after))


def _shared_blocks(history: History, old: int, new: int) -> tuple[int, int]:
    """(blocks of the older state of an inode, those of them that the newer one maps too)."""
    runs = history.map_states(np.array([old, new])).runs
    before, after = runs.take(runs.owner == 0), runs.take(runs.owner == 1)
    mine, other = overlap_pairs(before.physical, before.length, after.physical, after.length)
    end = np.minimum(
        (before.physical + before.length)[mine], (after.physical + after.length)[other]
    )
    start = np.maximum(before.physical[mine], after.physical[other])
    return int(before.length.sum()), int((end - start).sum())
