"""The deleted files of a file system as one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np

from ext4kit.arrays.types import Int64s, RowSlice
from ext4kit.filesystem import FileSystem
from ext4kit.known.files import KnownFiles
from ext4kit.problems import Problems
from ext4kit.recovery.columns import DeletedColumns
from ext4kit.recovery.model import DeletedFile, RemovedName
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.summary import DeletedOverview, FolderDeletions, Unselected
from ext4kit.selection import Selection, known_key


@dataclass(frozen=True, slots=True)
class _Marked(Sequence[DeletedFile]):
    """Deleted files that are compared with lists of known files when they are read."""

    files: Sequence[DeletedFile]
    lists: KnownFiles

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DeletedFile]:
        return (marked(file, self.lists) for file in self.files)

    @overload
    def __getitem__(self, place: int) -> DeletedFile: ...
    @overload
    def __getitem__(self, place: RowSlice) -> _Marked: ...
    def __getitem__(self, place: int | RowSlice) -> DeletedFile | _Marked:
        if isinstance(place, slice):
            return replace(self, files=self.files[place])
        return marked(self.files[place], self.lists)


def marked(file: DeletedFile, known: KnownFiles) -> DeletedFile:
    """A deleted file with the list that has its content."""
    match = known.match(*known_key(file))
    return replace(file, known=match.source if match else "")


@dataclass(frozen=True)
class DeletedFiles:
    """The deleted files of a file system, and the problems found.

    The record of a file may be built each time it is read, so a loop over many files should run
    only once.

    Attributes:
        unselected: what a selection left out that has no path.
    """

    fs: FileSystem
    files: Sequence[DeletedFile]
    _names: Callable[[], list[RemovedName]] | None = field(repr=False, compare=False, default=None)
    unselected: Unselected = field(compare=False, default=Unselected())

    def removed_names(self) -> list[RemovedName] | None:
        """Removed entries that are not reported as names of files; None for a lost file system."""
        return None if self._names is None else self._names()

    @cached_property
    def columns(self) -> DeletedColumns:
        """What is known of the files before their records are built."""
        files = self.files
        return files.columns() if isinstance(files, FoundFiles) else DeletedColumns.of(files)

    def at(self, places: Int64s) -> Sequence[DeletedFile]:
        """The files at some places, in the order of the places."""
        files = self.files
        if isinstance(files, FoundFiles):
            return files.take(places)
        return [files[place] for place in places.tolist()]

    def without_versions(self) -> DeletedFiles:
        """The same without earlier versions of files."""
        return replace(self, files=self.at(np.flatnonzero(~self.columns.superseded)))

    def selected(self, selection: Selection) -> DeletedFiles:
        """The selected files, and the removed names whose path and name are selected."""
        if selection.is_everything:
            return self
        names = self._names

        def removed_names() -> list[RemovedName]:
            every = names() if names else []
            return [
                one
                for one in every
                if selection.matches_name(one.name) and selection.matches_path(one.path, one.name)
            ]

        files, pathless, contents = list[DeletedFile](), 0, 0
        for file in self.files:
            if selection.selects(file):
                files.append(file)
            elif file.path is None and not file.superseded:
                contents += file.inode is None
                pathless += file.inode is not None
        others = Unselected(pathless, contents)
        return DeletedFiles(self.fs, files, removed_names if names else None, others)

    def marked(self, known: KnownFiles) -> DeletedFiles:
        """The same files, each with the list that has its content (`DeletedFile.known`)."""
        return replace(self, files=_Marked(self.files, known))

    def summary(self) -> DeletedOverview:
        """Counts of files by grade and of nameless contents by kind; reads all records."""
        return DeletedOverview.of(self.files)

    def by_folder(self) -> list[FolderDeletions]:
        """Groups of files deleted together, by folder and time, the largest group first."""
        return self.summary().by_folder()

    @property
    def problems(self) -> Problems:
        """Problems of the file system."""
        return self.fs.problems

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DeletedFile]:
        return iter(self.files)
