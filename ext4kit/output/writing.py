"""The order in which a tree is written: files at once, symbolic links after them, folders last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from ext4kit import reasons
from ext4kit.errors import CorruptError, OutputError
from ext4kit.fields import Record
from ext4kit.grades import Grade
from ext4kit.output.interrupts import interrupts_wait, take_uninterrupted
from ext4kit.output.manifest import Manifest, interruption
from ext4kit.output.rooted import OutputDirectory
from ext4kit.output.written import UnwritableError, Written
from ext4kit.reasons import Reason

Item = TypeVar("Item")
Parts = Sequence[bytes]  # components below the output folder


def read_errors(written: Written | None) -> Iterator[Reason]:
    """The reasons of the bytes of a live file that could not be read."""
    for offset, length, why in written.lost if written else ():
        why = f"{why}; zeros were written instead"
        yield reasons.READ_ERROR.filled(length=length, offset=offset, why=why)


def grade_as_written(grade: Grade, written: Written | None) -> Grade:
    """The grade of a file, at most partial if parts of its content were unreadable."""
    is_cut = written is not None and bool(written.lost) and grade.is_whole
    return Grade.PARTIAL if is_cut else grade


class TreeWriter(ABC, Generic[Item]):
    """Writes items and a record for each, also for one that fails or is interrupted.

    Links wait until all files are there, folders until nothing is written into them any more.

    Args:
        output: where files are written.
        manifest: gets the records.
    """

    def __init__(self, output: OutputDirectory, manifest: Manifest) -> None:
        self.output, self.manifest = output, manifest
        self._links: list[tuple[Item, Parts]] = []
        self._folders: list[tuple[Item, Parts]] = []

    @abstractmethod
    def take(self, item: Item) -> None:
        """Write an item, or let it wait."""

    @abstractmethod
    def record(self, item: Item, written: Written | None, found: list[Reason]) -> Record:
        """The record of an item.

        Args:
            item: the item.
            written: what was made of it; None for nothing.
            found: why it is not complete.
        """

    @abstractmethod
    def count(self, item: Item, written: Written | None, found: list[Reason]) -> None:
        """Count an item that has its record; arguments as for `record`."""

    def make_link(self, item: Item, parts: Parts) -> Written:
        """Make a symbolic link that waited."""
        raise NotImplementedError

    def complete_folder(self, item: Item, parts: Parts) -> Written | None:
        """Give a folder that waited what it had; None where it is neither there nor to be made."""
        raise NotImplementedError

    def doubts(self, item: Item, written: Written | None) -> Iterable[Reason]:
        """Further reasons why what was written is not complete."""
        return ()

    def write_all(self, items: Iterable[Item]) -> None:
        """Write all items; whatever ends it, each item that was taken has a record."""
        with self.manifest.completed_by(self._waiting):
            take_uninterrupted(items, self.take)
            self._finish()

    def let_link_wait(self, item: Item, parts: Parts) -> None:
        """Make a symbolic link after all files."""
        self._links.append((item, parts))

    def let_folder_wait(self, item: Item, parts: Parts, is_made: bool) -> None:
        """Complete a folder at the end; make it now if `is_made`."""
        self._folders.append((item, parts))
        if is_made:
            with suppress(UnwritableError):  # `complete_folder` raises it again
                self.output.make_folder(parts)

    def put(self, item: Item, parts: Parts, make: Callable[[Item, Parts], Written | None]) -> None:
        """Make one item and its record."""
        written: Written | None = None
        found: list[Reason] = []
        count_before = self.manifest.count
        try:
            try:
                written = make(item, parts)
            except UnwritableError as error:
                self.output.abandon()
                found.append(error.reason)
            except CorruptError as error:
                found.append(reasons.CONTENT_UNREADABLE.filled(why=error))
            found += self.doubts(item, written)
            told = [*found, *(written.reasons if written else ())]
            self.manifest.append(self.record(item, written, told))
        except (OutputError, KeyboardInterrupt) as error:
            self.manifest.release()
            written = None if self.output.abandon() else written
            if self.manifest.count == count_before:
                told = [*found, *written.reasons] if written else [interruption(error)]
                self.manifest.append(self.record(item, written, told))
            raise
        self.count(item, written, found)

    def _finish(self) -> None:
        """Make the links, then complete the folders, the deepest ones first.

        An item leaves its list with its record.
        """
        self._links.reverse()
        self._folders.sort(key=lambda folder: len(folder[1]))
        for waiting, make in ((self._links, self.make_link), (self._folders, self.complete_folder)):
            while waiting:
                with interrupts_wait():
                    self.put(*waiting.pop(), make)

    def _waiting(self, reason: Reason) -> Iterator[Record]:
        """Records of the items that wait to be made, with the reason why they are not."""
        for item, _ in (*self._links, *self._folders):
            yield self.record(item, None, [reason])
