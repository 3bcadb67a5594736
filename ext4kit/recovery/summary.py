"""What was deleted, summed up by grade, folder and time; contents without a name by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ext4kit.bursts import Burst, BurstItem, find_bursts
from ext4kit.recovery.model import DeletedFile, Grade
from ext4kit.recovery.placing import FRAGMENTS, content_folder

MOST_GROUPED = 1_000_000  # files that are grouped by folder and time


def is_telling(file: DeletedFile) -> bool:
    """Whether a row says more than its inode number: there is a name, or content of an inode."""
    if file.inode is None:
        return False
    return file.path is not None or file.name is not None or file.grade is not Grade.OVERWRITTEN


@dataclass(frozen=True, slots=True)
class FolderDeletions:
    """Files of one folder that were deleted together.

    Attributes:
        burst: folder, times, owner and cause; its rows are places in the list of files.
        directories: how many of them are directories.
        whole: other files of which nothing is missing; bytes: of their contents.
    """

    burst: Burst
    directories: int
    whole: int
    bytes: int

    @property
    def files(self) -> int:
        """Number of files that are no directories."""
        return len(self.burst) - self.directories


@dataclass(slots=True)
class DeletedOverview:
    """Sums of deleted files, counted while they are read.

    Attributes:
        grades: deleted files by grade, without earlier versions.
        earlier: earlier versions.
        nameless: files with an inode and without path and name.
        contents: contents without an inode, by category; without fragments.
        fragments: contents that are probably parts of files.
        newest: the latest known deletion, ns; None for none.
    """

    found: Counter[Grade] = field(default_factory=Counter)
    earlier: int = 0
    nameless: int = 0
    contents: Counter[str] = field(default_factory=Counter)
    fragments: int = 0
    newest: int | None = None
    _items: list[BurstItem] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)  # -1 for what is not whole

    @classmethod
    def of(cls, files: Iterable[DeletedFile]) -> DeletedOverview:
        """The sums of some files."""
        summary = cls()
        for file in files:
            summary.add(file)
        return summary

    def counting(self, files: Iterable[DeletedFile]) -> Iterator[DeletedFile]:
        """The files, each of them counted."""
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
        """Files of each grade, in the order of the grades; without earlier versions."""
        return {grade: self.found[grade] for grade in Grade}

    @property
    def total(self) -> int:
        """Deleted files, without earlier versions."""
        return sum(self.found.values())

    def by_folder(self) -> list[FolderDeletions]:
        """Files with an inode, grouped by folder and time; the largest group first."""
        found = []
        for burst in find_bursts(self._items):
            files = [row for row in burst.rows if not self._items[row].is_directory]
            whole = [self._sizes[row] for row in files if self._sizes[row] >= 0]
            found.append(FolderDeletions(burst, len(burst) - len(files), len(whole), sum(whole)))
        return found
