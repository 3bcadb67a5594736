"""Counts of deleted files by grade, folder and time, and of nameless contents by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ext4kit.bursts import Burst, BurstItem, find_bursts
from ext4kit.recovery.model import DeletedFile, Grade
from ext4kit.recovery.placing import FRAGMENTS, content_folder

MOST_GROUPED = 1_000_000  # maximum files that are grouped by folder and time


def is_telling(file: DeletedFile) -> bool:
    """Whether a file has more than an inode number: a name, or content of an inode."""
    if file.inode is None:
        return False
    return file.path is not None or file.name is not None or file.grade is not Grade.OVERWRITTEN


class Unselected(NamedTuple):
    """Deleted files that are not selected, and that no path can select.

    Attributes:
        pathless: number of files with an inode and without a known path.
        contents: number of contents without an inode.
    """

    pathless: int = 0
    contents: int = 0


@dataclass(frozen=True, slots=True)
class FolderDeletions:
    """Files of one folder that were deleted together.

    Attributes:
        burst: folder, times, owner and cause; its `rows` are indices in the list of files.
        directories: number of directories among the files.
        whole: number of other files of which nothing is missing; bytes: total size of these.
    """

    burst: Burst
    directories: int
    whole: int
    bytes: int

    @property
    def files(self) -> int:
        """Number of files that are not directories."""
        return len(self.burst) - self.directories


@dataclass(slots=True)
class DeletedOverview:
    """Counts of deleted files, made while the files are read.

    Attributes:
        grades: number of deleted files by grade, without earlier versions.
        earlier: number of earlier versions.
        nameless: number of files with an inode but without path and name.
        contents: number of contents without an inode by category, without fragments.
        fragments: number of contents that are probably parts of files.
        newest: time of the latest known deletion, ns; None for none.
    """

    found: Counter[Grade] = field(default_factory=Counter)
    earlier: int = 0
    nameless: int = 0
    contents: Counter[str] = field(default_factory=Counter)
    fragments: int = 0
    newest: int | None = None
    _items: list[BurstItem] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)  # -1 for a file that is not whole

    @classmethod
    def of(cls, files: Iterable[DeletedFile]) -> DeletedOverview:
        """The counts of some files."""
        summary = cls()
        for file in files:
            summary.add(file)
        return summary

    def counting(self, files: Iterable[DeletedFile]) -> Iterator[DeletedFile]:
        """Yield the files and count each one."""
        for file in files:
            self.add(file)
            yield file

    def add(self, file: DeletedFile) -> None:
        """Count a file."""
        self.earlier += file.superseded
        self.found[file.grade] += not file.superseded
        if file.inode is None:
            folder = content_folder(file)
            self.fragments += folder == FRAGMENTS
            self.contents[folder] += folder != FRAGMENTS
            return
        self.nameless += file.path is None and file.name is None
        time = file.deletion_time
        if time is not None and not file.superseded:
            self.newest = time if self.newest is None else max(self.newest, time)
        if len(self._items) < MOST_GROUPED and not file.superseded:
            is_directory = file.kind == "directory"
            row = len(self._items)
            self._items.append(BurstItem(row, time or 0, file.path, is_directory, file.uid))
            self._sizes.append((file.size or 0) if file.grade.is_whole else -1)

    @property
    def grades(self) -> dict[Grade, int]:
        """Number of files of each grade, in the order of the grades, without earlier versions."""
        return {grade: self.found[grade] for grade in Grade}

    @property
    def nameless_contents(self) -> int:
        """Number of contents without an inode, which `grades` and `total` count too."""
        return sum(self.contents.values()) + self.fragments

    @property
    def total(self) -> int:
        """Number of deleted files, without earlier versions."""
        return sum(self.found.values())

    def by_folder(self) -> list[FolderDeletions]:
        """Files with an inode, grouped by folder and time; the largest group first."""
        found = []
        for burst in find_bursts(self._items):
            files = [row for row in burst.rows if not self._items[row].is_directory]
            whole = [self._sizes[row] for row in files if self._sizes[row] >= 0]
            found.append(FolderDeletions(burst, len(burst) - len(files), len(whole), sum(whole)))
        return found
