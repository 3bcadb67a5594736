"""Matches the names in both trees, directory by directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.crosscheck.answers import COLUMNS, Listing
from ext4kit.crosscheck.second import NoAnswerError, NoTimeError, TooSlowError, TskClient
from ext4kit.crosscheck.sides import TreeView
from ext4kit.filesystem.directories import LONGEST_PATH
from ext4kit.filesystem.inodes import ROOT

_DOTS = (b".", b"..")
_KIND, _ALLOCATED, _NUMBER = (COLUMNS.index(name) for name in ("kind", "allocated", "number"))
_DIRECTORY = 0o040000


@dataclass(slots=True)
class TreePairs:
    """Rows of The Sleuth Kit and the rows of ext4kit with the same paths.

    Attributes:
        values: rows of The Sleuth Kit, (n, columns).
        now: row in ext4kit's reading, or NO_ROW; raw: likewise, in its reading without the journal.
        names: (directory, name) of the rows that are not in `now`, by row.
        failed: TSK's error message by path, for directories that it could not read.
        slow: directories that TSK did not read in time; unasked: directories for which it was not
            asked, because no time was left.
        seen: directories that TSK has read.
        again: rows of ext4kit that repeat another row, which TSK lists once.
        deleted: (path, inode number) of the names that TSK marks as deleted and that are not live.
    """

    values: Int64s
    now: Int64s
    raw: Int64s
    names: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    failed: dict[bytes, str] = field(default_factory=dict)
    slow: set[bytes] = field(default_factory=set)
    unasked: set[bytes] = field(default_factory=set)
    seen: set[bytes] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    deleted: set[tuple[bytes, int]] = field(default_factory=set)


class TreeWalk:
    """Traverses TSK's tree; directories that only TSK has are visited last.

    Args:
        second: The Sleuth Kit.
        now: ext4kit's reading.
        raw: ext4kit's reading without the changes of the journal, if there are any.
    """

    def __init__(self, second: TskClient, now: TreeView, raw: TreeView | None) -> None:
        self.tsk_client, self.now, self.raw = second, now, raw
        none = np.zeros(0, np.int64)
        self.found = TreePairs(np.zeros((0, len(COLUMNS)), np.int64), none, none)
        self.values = [self.found.values]
        self.matched: list[int] = []
        self.matched_raw: list[int] = []
        self.waiting: list[tuple[int, bytes]] = [(ROOT, b"")]
        self.later: list[tuple[int, bytes]] = []
        self.gone: list[tuple[int, bytes]] = []
        self.known: set[int] = set()

    def run(self, show: Callable[[int, int], None] | None) -> TreePairs:
        """Find each name of TSK in ext4kit's tree; `show` is called with (names done, total)."""
        for number, path in self._unread(self.waiting, self.later):
            self._folder(number, path)
            if show is not None:
                show(len(self.matched), len(self.now.number))
        for number, path in self._unread(self.gone):
            self._gone_folder(number, path)
        found = self.found
        found.values = np.concatenate(self.values)
        found.now, found.raw = np.array(self.matched, int), np.array(self.matched_raw, int)
        return found

    def _unread(self, *stacks: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """(number, path) of directories not read yet, from the first stack that is not empty."""
        while stack := next(filter(None, stacks), None):
            number, path = stack.pop()
            if number not in self.known and len(path) <= LONGEST_PATH:
                self.known.add(number)
                yield number, path

    def _folder(self, number: int, path: bytes) -> None:
        try:
            rows = self.tsk_client.listing(number)
        except NoTimeError:
            self.found.unasked.add(path)
            return
        except TooSlowError:
            self.found.slow.add(path)
            return
        except NoAnswerError as error:
            self.found.failed[path] = str(error)
            return
        self.found.seen.add(path)
        now, raw = self.now.within(path), self.raw.within(path) if self.raw else {}
        wanted = self._wanted(rows, path, now)
        for row, name in wanted:
            values = rows.values[row]
            number = int(values[_NUMBER])
            row_now = self._row(self.now, now, name, number)
            row_raw = NO_ROW if self.raw is None else self._row(self.raw, raw, name, number)
            if row_now == NO_ROW:
                self.found.names[len(self.matched)] = path, name
            self.matched.append(row_now)
            self.matched_raw.append(row_raw)
            if name not in _DOTS and values[_KIND] == _DIRECTORY and values[_ALLOCATED]:
                stack = self.later if row_now == NO_ROW else self.waiting
                stack.append((number, path + b"/" + name))
        self.values.append(rows.values[[row for row, _ in wanted]])

    def _gone_folder(self, number: int, path: bytes) -> None:
        """Record the names in a directory that TSK lists as deleted; it marks all of them so."""
        with suppress(NoAnswerError):  # TSK cannot list the directory
            rows = self.tsk_client.listing(number)
            for name, values in zip(rows.names, rows.values, strict=True):
                if name not in _DOTS:
                    self._add_deleted(values, path, name)

    def _add_deleted(self, values: Int64s, folder: bytes, name: bytes) -> None:
        number, path = int(values[_NUMBER]), folder + b"/" + name
        self.found.deleted.add((path, number))
        if values[_KIND] == _DIRECTORY:
            self.gone.append((number, path))

    def _row(self, side: TreeView, names: dict[bytes, list[int]], name: bytes, number: int) -> int:
        """Remove a name from `names` and return its row; among several, the one with that inode."""
        if name in _DOTS:
            return len(side.tree)
        rows = names.get(name)
        if not rows:
            return NO_ROW
        same = [row for row in rows if int(side.number[row]) == number]
        names[name] = [row for row in rows if row not in same] if same else rows[1:]
        if side is self.now:
            self.found.again.update(same[1:])
        return (same or rows)[0]

    def _wanted(
        self, rows: Listing, path: bytes, now: dict[bytes, list[int]]
    ) -> list[tuple[int, bytes]]:
        """Rows of live names, and of names that TSK marks as deleted but ext4kit has as live."""
        live: list[tuple[int, bytes]] = []
        deleted: list[tuple[int, bytes]] = []
        last = self.tsk_client.hello.last_inode
        columns = rows.values[:, [_ALLOCATED, _NUMBER]].tolist()
        for row, (name, (allocated, number)) in enumerate(zip(rows.names, columns, strict=True)):
            is_own = number == last and not path and name.startswith(b"$")  # TSK's own directory
            if is_own or (name in _DOTS and (path or name != b".")):
                continue
            (live if allocated else deleted).append((row, name))
        names = {name for _, name in live}
        shown = [each for each in deleted if each[1] in now and each[1] not in names]
        for row, name in deleted:
            if (row, name) not in shown:
                self._add_deleted(rows.values[row], path, name)
        return live + shown
