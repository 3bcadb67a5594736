"""What differs from the packages of a system: when it changed, and what was there before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import cast

import numpy as np

from ext4kit.arrays.types import NO_ROW
from ext4kit.errors import Ext4kitError
from ext4kit.fields import HashName
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.history import TID_ON_DISK
from ext4kit.known.digests import Digester
from ext4kit.packages.checking import (
    Digesters,
    FileStatus,
    PackageCheck,
    check_packages,
    check_some,
)
from ext4kit.packages.database import PackageDatabase, read_packages
from ext4kit.packages.lists import DoubtfulList, compared_with, doubtful_lists, without_digests
from ext4kit.packages.owned import DIGESTS, NOT_LISTED
from ext4kit.packages.systems import PackagedSystem, system_at
from ext4kit.recovery import DeletedFile, DeletedFiles, is_written
from ext4kit.recovery.search_sources import WITH_INODES
from ext4kit.timeline import Event, EventKind, Timeline
from ext4kit.timeline.events import CODE
from ext4kit.units import Progress
from ext4kit.workspace import Workspace

_MOST_HASHED = 1 << 30  # bytes of deleted files that are compared with lists
_MOST_DATED = 100_000  # findings of which the time is looked up in the journal


class PackageFindingKind(StrEnum):
    """In what a file differs from what its package installed."""

    CHANGED = "changed"
    REPLACED = "replaced"
    MISSING = "missing"
    MODE = "mode"
    OWNER = "owner"
    FOREIGN = "foreign"
    LIST = "list"
    CONFIGURED = "configured"
    UNREADABLE = "unreadable"


_OF_STATUS = {
    FileStatus.CHANGED: PackageFindingKind.CHANGED,
    FileStatus.REPLACED: PackageFindingKind.REPLACED,
    FileStatus.MISSING: PackageFindingKind.MISSING,
    FileStatus.CONFIGURED: PackageFindingKind.CONFIGURED,
    FileStatus.UNREADABLE: PackageFindingKind.UNREADABLE,
}
NORMAL = frozenset((PackageFindingKind.CONFIGURED,))
_CONTENT_EVENTS = (
    EventKind.CREATED, EventKind.LINKED, EventKind.RENAMED, EventKind.MOVED, EventKind.SIZE,
    EventKind.TRUNCATED, EventKind.CONTENT, EventKind.TARGET,
)  # fmt: skip
_FURTHER_EVENTS = (EventKind.STATUS, EventKind.TIMES)  # as those after a write in place
_EVENTS: dict[PackageFindingKind, tuple[EventKind, ...]] = {
    PackageFindingKind.MODE: (EventKind.MODE,),
    PackageFindingKind.OWNER: (EventKind.OWNER,),
}


@dataclass(frozen=True, slots=True)
class PackageFinding:
    """A file that differs from what a package installed, or that none installed.

    Attributes:
        kind: in what it differs.
        path: on the disk, below the root directory of the system.
        package: name and version of the owner, "" for none.
        inode: its inode number; None for none.
        ctime: of the inode (ns); None for none.
        expected, found: of the list and of the disk, as text; "" for none.
        transaction: the last one that shows such a change (stored tid), None where the journal
            does not show it; time: its commit time (ns); is_exact: whether the change happened in
            it, and not perhaps in an earlier one that the journal no longer has.
        original: deleted content that is the packaged one; None for none.
    """

    kind: PackageFindingKind
    path: bytes
    package: str = ""
    inode: int | None = None
    ctime: int | None = None
    expected: str = ""
    found: str = ""
    transaction: int | None = None
    time: int | None = None
    is_exact: bool = False
    original: DeletedFile | None = None


@dataclass(frozen=True)
class PackageFindings:
    """All that differs in a system.

    Attributes:
        database: its packages, as its own database has them.
        check: the comparison, with this database or the lists from outside.
        each: what differs, by kind and path.
        system: the system.
    """

    database: PackageDatabase
    check: PackageCheck
    each: list[PackageFinding]
    system: PackagedSystem

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs but configuration files."""
        return all(one.kind in NORMAL for one in self.each)


class PackageComparison:
    """Compares the packaged files of systems with their databases.

    A file that several systems share is read once, and the journal too.

    Args:
        workspace: of the file system.
        is_quick: leave out times in the journal and originals in deleted files.
    """

    def __init__(self, workspace: Workspace, is_quick: bool = False) -> None:
        self._workspace, self._is_quick = workspace, is_quick
        self._digesters = Digesters(workspace.fs)

    @cached_property
    def _timeline(self) -> Timeline:
        return self._workspace.timeline()

    @cached_property
    def _deleted(self) -> DeletedFiles:
        return self._workspace.deleted(True, WITH_INODES)

    def findings(
        self,
        system: PackagedSystem,
        outside: PackageDatabase | None = None,
        progress: Progress | None = None,
    ) -> PackageFindings:
        """What differs in a system.

        Args:
            system: the system.
            outside: lists that count in place of its own.
            progress: called with (files read, files to read).
        """
        files = system.files
        database = read_packages(files)
        check = check_packages(
            system.fs, system.node, outside or database, progress, database, system.is_partial,
            self._digesters,
        )  # fmt: skip
        doubts = [*doubtful_lists(files, database)]
        doubts += without_digests(
            database, check.rows_with(FileStatus.NO_DIGEST) if outside is None else ()
        )
        doubts += [] if outside is None else compared_with(database, outside)
        found = [*_of_check(check), *map(_of_list, doubts)]
        order = list(PackageFindingKind)
        found.sort(key=lambda one: (order.index(one.kind), one.path))
        if not self._is_quick and any(one.kind not in NORMAL for one in found):
            found = self._with_originals(system, check, self._dated(found))
        return PackageFindings(database, check, found, system)

    def _dated(self, found: list[PackageFinding]) -> list[PackageFinding]:
        """The findings with the transactions in which the files changed."""
        workspace = self._workspace
        if workspace.fs.state != LIVE or workspace.log is None or len(found) > _MOST_DATED:
            return found
        timeline = self._timeline
        events = timeline.events
        numbers = sorted({one.inode for one in found if one.inode is not None})
        known = (_CONTENT_EVENTS, _FURTHER_EVENTS, *_EVENTS.values())
        kinds = {kind for some in known for kind in some}
        mask = np.isin(events.number, np.array(numbers, np.int64))
        mask &= np.isin(events.kind, [CODE[kind] for kind in kinds]) & (events.order < TID_ON_DISK)
        rows = np.flatnonzero(mask)
        last: dict[tuple[int, EventKind], tuple[int, Event]] = {}
        for place, event in enumerate(timeline.events_at(rows)):
            if event.transaction is not None:
                last[event.inode, event.kind] = place, event
        return [_with_event(one, last) for one in found]

    def _with_originals(
        self, system: PackagedSystem, check: PackageCheck, found: list[PackageFinding]
    ) -> list[PackageFinding]:
        """The findings with deleted contents that have the digests of their lists."""
        kinds = (
            PackageFindingKind.CHANGED,
            PackageFindingKind.REPLACED,
            PackageFindingKind.MISSING,
        )
        wanted = {one.expected: one for one in found if one.kind in kinds and " " in one.expected}
        if not wanted or system.fs.state != LIVE:
            return found
        above = (system.node.layer_path or system.node.path).rstrip(b"/")
        names = {one.path.rpartition(b"/")[2] for one in wanted.values()}
        paths = {above + one.path for one in wanted.values()}
        algorithms = {expected.partition(" ")[0] for expected in wanted}
        sizes = {
            int(check.database.paths.size[row])
            for row in check.rows_with(*_OF_STATUS) if check.database.paths.size[row] != NOT_LISTED
        }  # fmt: skip
        names_of_digests = tuple(cast(HashName, name) for name in sorted(algorithms))
        digester = Digester(names_of_digests, system.fs.blocks)
        left, originals = _MOST_HASHED, dict[str, DeletedFile]()
        files = [one for one in self._deleted.files
                 if one.kind == "file" and one.size and is_written(one)]  # fmt: skip
        files.sort(
            key=lambda one: (one.path not in paths, one.name not in names, one.size not in sizes)
        )
        for file in files:
            size = file.size or 0
            if size <= left:
                left -= size
                for name, digest in _digests(digester, file).items():
                    originals.setdefault(f"{name} {digest}", file)
        return [replace(one, original=originals.get(one.expected)) if one.kind in kinds else one
                for one in found]  # fmt: skip


def package_findings(
    workspace: Workspace,
    path: bytes = b"/",
    outside: PackageDatabase | None = None,
    is_quick: bool = False,
    progress: Progress | None = None,
) -> PackageFindings:
    """Compare the packaged files below one directory with their database.

    Args:
        workspace: of the file system.
        path: the root directory of the system.
        outside: lists that count in place of the system's own.
        is_quick: leave out times in the journal and originals in deleted files.
        progress: called with (files read, files to read).

    Raises:
        NotFoundError: there is no such directory.
    """
    comparison = PackageComparison(workspace, is_quick)
    return comparison.findings(system_at(workspace.fs, path), outside, progress)


def packaged_unchanged(
    workspace: Workspace, paths: Collection[bytes], path: bytes = b"/"
) -> set[bytes]:
    """Those of some paths at which a packaged file is as its package installed it.

    Only these files are read.

    Args:
        workspace: of the file system.
        paths: below the root directory of the system.
        path: this root directory.

    Raises:
        NotFoundError: there is no such directory.
    """
    system = system_at(workspace.fs, path)
    check = check_some(system.fs, system.node, read_packages(system.files), paths)
    return set(filter(check.is_packaged_unchanged, paths))


def _of_check(check: PackageCheck) -> Iterator[PackageFinding]:
    for status, kind in _OF_STATUS.items():
        for row in check.rows_with(status):
            yield _of_row(check, row, kind)
    for row in check.access_rows:
        if check.checked.is_mode_other[row]:
            yield _of_row(check, row, PackageFindingKind.MODE)
        if check.checked.is_owner_other[row]:
            yield _of_row(check, row, PackageFindingKind.OWNER)
    files = check.tree.files
    for one in check.unexplained:
        number, ctime = int(files.number[one.row]), int(files.ctime[one.row])
        target = one.target.decode("utf-8", "backslashreplace")
        yield PackageFinding(PackageFindingKind.FOREIGN, one.path, "", number, ctime, "", target)


def _of_row(check: PackageCheck, row: int, kind: PackageFindingKind) -> PackageFinding:
    paths, files = check.database.paths, check.tree.files
    at = int(check.checked.row[row])
    title = check.database.packages[int(paths.package[row])].title
    expected, found = _texts(check, row, at, kind)
    number = ctime = None
    if at != NO_ROW:
        number, ctime = int(files.number[at]), int(files.ctime[at])
    return PackageFinding(kind, check.checked.place[row], title, number, ctime, expected, found)


def _texts(check: PackageCheck, row: int, at: int, kind: PackageFindingKind) -> tuple[str, str]:
    """(what the list says, what the disk has)."""
    paths, files = check.database.paths, check.tree.files
    if kind is PackageFindingKind.MODE:
        mode = int(paths.mode[row])
        expected = "" if mode == NOT_LISTED else f"{mode:04o}"
        return expected, f"{int(files.mode[at]) & 0o7777:04o}"
    if kind is PackageFindingKind.OWNER:
        listed = [int(paths.uid[row]), int(paths.gid[row])]
        there = [int(files.uid[at]), int(files.gid[at])]
        same = [
            each if each != NOT_LISTED else one for each, one in zip(listed, there, strict=True)
        ]
        return f"{same[0]}:{same[1]}", f"{there[0]}:{there[1]}"
    if paths.algorithm[row]:
        digest = f"{DIGESTS[int(paths.algorithm[row])]} {paths.digest[row].hex()}"
        return digest, check.digests.get(row, _size_text(check, row, at))
    return paths.target[row].decode("utf-8", "backslashreplace"), ""


def _size_text(check: PackageCheck, row: int, at: int) -> str:
    size = int(check.database.paths.size[row])
    if at == NO_ROW or size in (NOT_LISTED, int(check.tree.files.size[at])):
        return ""
    return f"{int(check.tree.files.size[at])} bytes, not {size}"


def _of_list(doubt: DoubtfulList) -> PackageFinding:
    return PackageFinding(
        PackageFindingKind.LIST, doubt.path, doubt.package, doubt.inode, doubt.ctime, "",
        str(doubt.doubt),
    )  # fmt: skip


def _with_event(
    one: PackageFinding, last: Mapping[tuple[int, EventKind], tuple[int, Event]]
) -> PackageFinding:
    """A finding with the last event of its inode that explains it."""
    if one.kind in NORMAL or one.inode is None:
        return one
    for wanted in (_EVENTS.get(one.kind, _CONTENT_EVENTS), _FURTHER_EVENTS):
        each = [last[one.inode, kind] for kind in wanted if (one.inode, kind) in last]
        if each:
            event = max(each, key=lambda item: item[0])[1]
            exact = event.exact and wanted is not _FURTHER_EVENTS
            return replace(one, transaction=event.transaction, time=event.time, is_exact=exact)
    return one


def _digests(digester: Digester, file: DeletedFile) -> Mapping[str, object]:
    """The digests of a deleted file by name; none where it cannot be read whole."""
    try:
        return digester.of(file.content())
    except Ext4kitError:
        return {}
