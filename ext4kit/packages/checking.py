"""Compares the files that packages own with the files on the disk."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import cast

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows, UInt8s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import HashName
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.view import Node
from ext4kit.known.digests import Digester
from ext4kit.packages.database import PackageDatabase
from ext4kit.packages.disk import DiskFiles, DiskTree
from ext4kit.packages.foreign import ForeignFile, foreign_files, is_system_path
from ext4kit.packages.owned import DIGESTS, LISTED_KINDS, NOT_LISTED, ListedKind, OwnedPaths
from ext4kit.packages.set_ids import may_be_set_id
from ext4kit.parsers.inode import Inode
from ext4kit.units import Progress

_MAPS_AT_ONCE = 1 << 16
_SET_IDS = stat.S_ISUID | stat.S_ISGID
_FILE, _DIRECTORY, _LINK = (
    LISTED_KINDS.index(kind) for kind in (ListedKind.FILE, ListedKind.DIRECTORY, ListedKind.SYMLINK)
)
_ANY = LISTED_KINDS.index(ListedKind.ANY)
_TYPES = {
    _FILE: stat.S_IFREG,
    _DIRECTORY: stat.S_IFDIR,
    _LINK: stat.S_IFLNK,
}


class FileStatus(StrEnum):
    """What became of a file that a package owns."""

    UNCHANGED = "unchanged"
    PRESENT = "present"  # a directory, or a link or device whose target the list does not have
    NO_DIGEST = "no digest"  # a regular file of which the list has no digest
    CHANGED = "changed"
    CONFIGURED = "configured"  # a configuration file whose content differs
    REPLACED = "replaced"  # by something of another type, or a link with another target
    MISSING = "missing"
    NOT_INSTALLED = "not installed"  # missing, which the database or its configuration allows
    ELSEWHERE = "elsewhere"  # below a mount point of another file system, which is empty here
    UNREADABLE = "unreadable"  # it or its directory


STATUSES = tuple(FileStatus)
_CODE = {status: code for code, status in enumerate(STATUSES)}
BAD = frozenset((FileStatus.CHANGED, FileStatus.REPLACED, FileStatus.MISSING))


@dataclass(frozen=True, slots=True)
class CheckedPaths(Table):
    """What became of each owned path, as columns in the order of `OwnedPaths`.

    Attributes:
        place: where the path is on the disk, through symlinks of its directories.
        row: in the files of the disk, `NO_ROW` for none.
        status: index in `STATUSES`.
        is_mode_other: True where the mode differs from that of the list, or where a file is
            set-user-ID or set-group-ID that should not be.
        is_owner_other: True where the user or group differs.
    """

    place: list[bytes]
    row: Rows
    status: UInt8s
    is_mode_other: Bools
    is_owner_other: Bools


@dataclass(frozen=True)
class PackageCheck:
    """The packages of a system, compared with its disk.

    Attributes:
        database: the packages.
        tree: the files on the disk.
        checked: what became of each owned path.
        foreign: files in system directories without an owner.
        digests: digest in hex of the content, by row of an owned path whose content differs.
        hashed: number of files that were read; hashed_bytes: of all of them.
    """

    database: PackageDatabase
    tree: DiskTree
    checked: CheckedPaths
    foreign: list[ForeignFile]
    digests: dict[int, str] = field(default_factory=dict, repr=False)
    hashed: int = 0
    hashed_bytes: int = 0

    @cached_property
    def rows_at(self) -> dict[bytes, list[int]]:
        """Rows of owned paths by their place on the disk."""
        found: dict[bytes, list[int]] = {}
        for row, place in enumerate(self.checked.place):
            found.setdefault(place, []).append(row)
        return found

    def rows_of(self, path: bytes) -> Sequence[int]:
        """Rows of the owned paths that lead to a path."""
        return self.rows_at.get(self.tree.place(path), ())

    def owner_of(self, path: bytes) -> str | None:
        """Name and version of the first package that owns a path; None without one."""
        rows = self.rows_of(path)
        packages = self.database.packages
        return packages[int(self.database.paths.package[rows[0]])].title if rows else None

    def status_of(self, path: bytes) -> FileStatus | None:
        """What became of a path; None if no package owns it."""
        rows = self.rows_of(path)
        return STATUSES[int(self.checked.status[rows[0]])] if rows else None

    def is_packaged_unchanged(self, path: bytes) -> bool:
        """Whether a path is that of a packaged file whose content, mode and owner are listed."""
        rows, checked = self.rows_of(path), self.checked
        return any(
            checked.status[row] == _CODE[FileStatus.UNCHANGED]
            and not checked.is_mode_other[row]
            and not checked.is_owner_other[row]
            for row in rows
        )

    def rows_with(self, *statuses: FileStatus) -> list[int]:
        """Rows of the owned paths with one of some statuses."""
        codes = [_CODE[status] for status in statuses]
        return np.flatnonzero(np.isin(self.checked.status, codes)).tolist()

    @property
    def access_rows(self) -> list[int]:
        """Rows of the owned paths whose mode or owner differs."""
        mask = self.checked.is_mode_other | self.checked.is_owner_other
        return np.flatnonzero(mask).tolist()

    @property
    def unexplained(self) -> list[ForeignFile]:
        """The files without an owner for which no reason is known."""
        return [one for one in self.foreign if not one.reason]


def check_packages(
    fs: FileSystem,
    root: Node,
    database: PackageDatabase,
    progress: Progress | None = None,
    further: PackageDatabase | None = None,
    is_partial: bool = False,
    digesters: Digesters | None = None,
) -> PackageCheck:
    """Compare all owned paths with the disk, and find the files without an owner.

    Args:
        fs: the file system.
        root: the root directory of the system.
        database: its packages.
        progress: called with (files read, files to read).
        further: another database, whose files have an owner too.
        is_partial: whether layers of the root are not on the disk.
        digesters: keeps digests, if several roots share files.
    """
    paths = database.paths.path
    folders = {path[: path.rfind(b"/")] for path in paths}
    names = {path[path.rfind(b"/") + 1 :] for path in chain(paths, folders)}

    def is_wanted(path: bytes, name: bytes) -> bool:
        return name in names or is_system_path(path)

    if not database.packages:
        tree = DiskTree(fs, DiskFiles.empty(), {})
        return PackageCheck(database, tree, CheckedPaths.empty(), [])
    tree = DiskTree.read(fs, root, is_wanted)
    places, rows = tree.places(database.paths.path)
    comparison = _Comparison(tree, database.paths, rows, digesters or Digesters(fs))
    comparison.compare(progress)
    comparison.leave_out(places, database.mount_points)
    comparison.leave_out_unreadable(places, is_partial)
    checked = CheckedPaths(places, rows, comparison.merged(), *comparison.access())
    inodes = set(tree.files.number[rows[rows >= 0]].tolist())
    owned = set(places) | set(map(tree.place, further.paths.path if further is not None else ()))
    foreign = foreign_files(tree, owned, inodes.__contains__)
    done, size = comparison.hashed, comparison.hashed_bytes
    return PackageCheck(database, tree, checked, foreign, comparison.digests, done, size)


def check_some(
    fs: FileSystem,
    root: Node,
    database: PackageDatabase,
    paths: Iterable[bytes],
    is_partial: bool = False,
) -> PackageCheck:
    """Compare the owned paths with the last parts of some paths; no other file is read.

    Args:
        fs: the file system.
        root: the root directory of the system.
        database: its packages.
        paths: the paths.
        is_partial: whether layers of the root are not on the disk.
    """
    names = {path[path.rfind(b"/") + 1 :] for path in paths}
    listed = database.paths.path
    rows = [row for row, path in enumerate(listed) if path[path.rfind(b"/") + 1 :] in names]
    part = replace(database, paths=database.paths.take(np.array(rows, np.intp)))
    return check_packages(fs, root, part, None, database, is_partial)


class _Comparison:
    """The statuses of owned paths.

    Args:
        tree: the files on the disk.
        paths: the owned paths.
        rows: row of each on the disk, `NO_ROW` for none.
        digesters: hash contents.
    """

    def __init__(self, tree: DiskTree, paths: OwnedPaths, rows: Rows, digesters: Digesters) -> None:
        self._tree, self._paths, self._rows = tree, paths, rows
        self._digesters = digesters
        self._is_there = rows != NO_ROW
        files = tree.files
        blank = len(files) == 0
        at = np.where(self._is_there, rows, 0)
        none = np.zeros(len(rows), np.int64)
        self._kind: Int64s = none if blank else np.where(self._is_there, files.kind[at], 0)
        self._size: Int64s = none if blank else files.size[at]
        self._known: Bools = none.astype(bool) if blank else files.is_known[at]
        self._number: Int64s = none if blank else files.content[at]
        self.status: UInt8s = np.full(len(rows), _CODE[FileStatus.PRESENT], np.uint8)
        self.digests = dict[int, str]()
        self.hashed = self.hashed_bytes = 0

    def compare(self, progress: Progress | None) -> None:
        """Determine all statuses."""
        paths = self._paths
        missing = np.where(
            paths.may_miss, _CODE[FileStatus.NOT_INSTALLED], _CODE[FileStatus.MISSING]
        )
        self.status = np.where(self._is_there, self.status, missing).astype(np.uint8)
        is_file = self._is_there & (self._kind == stat.S_IFREG)
        self._set(is_file & (paths.algorithm == 0), FileStatus.NO_DIGEST)
        for kind, on_disk in _TYPES.items():
            if kind != _DIRECTORY:
                other = (paths.kind == kind) & self._is_there & (self._kind != on_disk)
                self._set(other, FileStatus.REPLACED)
        self._compare_links()
        wanted = is_file & (paths.algorithm > 0) & np.isin(paths.kind, (_FILE, _ANY))
        self._set(
            wanted & (paths.size != NOT_LISTED) & (paths.size != self._size), FileStatus.CHANGED
        )
        same = wanted & ((paths.size == NOT_LISTED) | (paths.size == self._size))
        self._compare_contents(np.flatnonzero(same & self._known), progress)
        self._set(self._is_there & ~self._known, FileStatus.UNREADABLE)
        changed = np.isin(self.status, (_CODE[FileStatus.CHANGED], _CODE[FileStatus.REPLACED]))
        self._set(changed & paths.is_config, FileStatus.CONFIGURED)
        gone = self.status == _CODE[FileStatus.MISSING]
        self._set(gone & paths.is_config, FileStatus.NOT_INSTALLED)

    def leave_out(self, places: list[bytes], elsewhere: Sequence[bytes]) -> None:
        """Mark missing paths below the mount points of other file systems.

        Args:
            places: where each path leads.
            elsewhere: the mount points.
        """
        gone = np.flatnonzero(self.status == _CODE[FileStatus.MISSING]).tolist()
        there = {places[row] for row in np.flatnonzero(self._is_there).tolist()}
        for point in elsewhere:
            start = point.rstrip(b"/") + b"/"
            below = [row for row in gone if places[row].startswith(start)]
            if below and not any(place.startswith(start) for place in there):
                self.status[below] = _CODE[FileStatus.ELSEWHERE]

    def leave_out_unreadable(self, places: list[bytes], is_partial: bool) -> None:
        """Mark missing paths in directories of which a part could not be read.

        Args:
            places: where each path leads.
            is_partial: whether layers of the root are not on the disk.
        """
        problems = self._tree.fs.problems
        told = (each.where for each in problems if "inode " in each.where)
        damaged = {where.rpartition("inode ")[2] for where in told}
        is_cut = is_partial or len(problems) > problems.limit or self._tree.fs.tree_was_cut
        for row in np.flatnonzero(self.status == _CODE[FileStatus.MISSING]).tolist():
            folder = places[row]
            while folder:
                folder = folder[: folder.rfind(b"/")]
                numbers = self._tree.directory_inodes(folder)
                if is_cut or damaged & set(map(str, numbers)):
                    self.status[row] = _CODE[FileStatus.UNREADABLE]
                if is_cut or numbers:
                    break

    def merged(self) -> UInt8s:
        """The statuses; a file that is that of one of its owners counts as unchanged for all."""
        unchanged = self.status == _CODE[FileStatus.UNCHANGED]
        right = np.zeros(len(self._tree.files) + 1, bool)
        right[self._rows[unchanged]] = True
        right[-1] = False
        changed = self.status == _CODE[FileStatus.CHANGED]
        self._set(changed & right[self._rows], FileStatus.UNCHANGED)
        return self.status

    def access(self) -> tuple[Bools, Bools]:
        """(True where the mode differs, True where the owner differs)."""
        files, paths = self._tree.files, self._paths
        if not len(files):
            return np.zeros(len(paths), bool), np.zeros(len(paths), bool)
        there = self._is_there & self._known & (self._kind != stat.S_IFLNK)
        same_type = self.status != _CODE[FileStatus.REPLACED]
        at = np.where(self._is_there, self._rows, 0)
        mode = files.mode[at] & 0o7777
        other = there & same_type & (paths.mode != NOT_LISTED) & (mode != paths.mode)
        for row in np.flatnonzero(
            there & (paths.mode == NOT_LISTED) & ((mode & _SET_IDS) != 0)
            & (self._kind == stat.S_IFREG)
        ).tolist():  # fmt: skip
            other[row] = not may_be_set_id(paths.path[row])
        owned = there & same_type & (paths.uid != NOT_LISTED) & (paths.uid != files.uid[at])
        owned |= there & same_type & (paths.gid != NOT_LISTED) & (paths.gid != files.gid[at])
        return other, owned

    def _set(self, mask: Bools, status: FileStatus) -> None:
        self.status[mask] = _CODE[status]

    def _compare_links(self) -> None:
        """Compare the targets of links that a list has, as text or (apk) as a digest."""
        paths = self._paths
        has_target = np.array([bool(one) for one in paths.target], bool)
        mask = self._is_there & (self._kind == stat.S_IFLNK) & (paths.kind == _LINK)
        for row in np.flatnonzero(mask & (has_target | (paths.algorithm > 0))).tolist():
            target = self._tree.target(int(self._rows[row]))
            if paths.target[row]:
                is_same = target == paths.target[row]
            else:
                is_same = _digest_of(target, int(paths.algorithm[row])) == paths.digest[row]
            self.status[row] = _CODE[FileStatus.UNCHANGED if is_same else FileStatus.REPLACED]

    def _compare_contents(self, rows: Rows, progress: Progress | None) -> None:
        """Hash the contents in the order of the disk, each inode once."""
        paths = self._paths
        order = np.argsort(self._number[rows], kind="stable")
        rows = rows[order]
        numbers, first = np.unique(self._number[rows], return_index=True)
        ends = [*first.tolist(), len(rows)]
        digesters, before = self._digesters, self._digesters.size
        for done, (place, inode, runs) in enumerate(_in_disk_order(self._tree.fs, numbers)):
            if progress is not None and done % 64 == 0:
                progress(done, len(numbers))
            mine = rows[ends[place] : ends[place + 1]].tolist()
            codes = tuple(sorted({int(paths.algorithm[row]) for row in mine}))
            digests = digesters.digests(codes, inode, runs)
            for row in mine:
                found = digests.get(DIGESTS[int(paths.algorithm[row])])
                is_same = found == paths.digest[row].hex()
                if found is None or not (is_same or _is_whole(self._tree.fs, inode)):
                    self.status[row] = _CODE[FileStatus.UNREADABLE]
                    continue
                self.status[row] = _CODE[FileStatus.UNCHANGED if is_same else FileStatus.CHANGED]
                if not is_same:
                    self.digests[row] = str(found)
        self.hashed, self.hashed_bytes = len(numbers), digesters.size - before


def _is_whole(fs: FileSystem, inode: Inode) -> bool:
    """Whether a content is that of the inode, which as of a transaction may not be known."""
    graded = fs.graded_content(inode)
    return graded is None or graded.grade.is_whole


def _in_disk_order(fs: FileSystem, numbers: Int64s) -> Iterator[tuple[int, Inode, Runs | None]]:
    """(place in `numbers`, inode, block map) by first block."""
    for start in range(0, len(numbers), _MAPS_AT_ONCE):
        table = fs.inode_table(numbers[start : start + _MAPS_AT_ONCE])
        maps = fs.block_maps(table)
        firsts = [int(one.physical[0]) if one is not None and len(one) else -1 for one in maps]
        for row in np.argsort(np.array(firsts), kind="stable").tolist():
            yield start + row, table.one(row), maps[row]


def _digest_of(data: bytes, algorithm: int) -> bytes:
    return hashlib.new(DIGESTS[algorithm], data, usedforsecurity=False).digest()


@dataclass(slots=True)
class Digesters:
    """Hashes contents with the algorithms that their lists have, each inode once.

    Attributes:
        size: number of bytes that were read.
    """

    fs: FileSystem
    size: int = 0
    _each: dict[tuple[int, ...], Digester] = field(default_factory=dict)

    def digests(
        self, codes: tuple[int, ...], inode: Inode, runs: Runs | None
    ) -> Mapping[str, object]:
        """The digests of a content in hex by name; {} where it cannot be read."""
        if codes not in self._each:
            names = tuple(cast(HashName, DIGESTS[each]) for each in codes)
            self._each[codes] = Digester(names, self.fs.blocks)
        try:
            found = self._each[codes].of(self.fs.content(inode, runs), inode.number)
        except (AccessError, CorruptError):
            return {}
        self.size += inode.size if found else 0
        return found
