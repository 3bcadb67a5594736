"""Names that only one of the two has, and why."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from ext4kit.crosscheck.answers import COLUMNS
from ext4kit.crosscheck.causes import (
    INDEX,
    INLINE,
    JOURNAL,
    NUL,
    NUMBER,
    REFUSED,
    SHOWN_DELETED,
    UNEXPLAINED,
    Cause,
)
from ext4kit.crosscheck.matching import NOWHERE, Matches
from ext4kit.crosscheck.result import NAME, CrossCheck, Difference, Group
from ext4kit.crosscheck.sides import Side
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.parsers.inode import InodeFlags

_NUMBER, _ALLOCATED = COLUMNS.index("number"), COLUMNS.index("allocated")
_MOST_BLOCKS = 1 << 16  # of one directory that are looked at for an index


class Names:
    """The differences in names, and what they rest on."""

    def __init__(self, now: Side, raw: Side | None, matches: Matches) -> None:
        self.now, self.raw, self.matches = now, raw, matches
        self._folder_causes: dict[bytes, Cause | None] = {}
        self._cut: dict[bytes, set[tuple[bytes, int]]] = {}
        self._index: dict[bytes, bytes] = {}
        self._tsk_folders: dict[bytes, Cause] = {}

    def groups(self, outcome: CrossCheck) -> Iterator[Group]:
        """What only The Sleuth Kit has, what it calls deleted, what only ext4kit has."""
        yield self._only_tsk()
        gone = np.flatnonzero(
            (self.matches.now != NOWHERE) & (self.matches.values[:, _ALLOCATED] == 0)
        )
        causes = np.full(len(gone), NUMBER[SHOWN_DELETED.code], np.int8)
        rows = self.matches.now[gone]
        yield Group(NAME, causes, lambda place: self._ours(int(rows[place]), SHOWN_DELETED))
        yield self._only_ext4kit(outcome)

    # -- what only The Sleuth Kit has ------------------------------------------------------

    def _only_tsk(self) -> Group:
        found = list(self.matches.names.items())
        causes = [self._cause_of_extra(row, folder, name) for row, (folder, name) in found]

        def one(place: int) -> Difference:
            row, (folder, name) = found[place]
            number = int(self.matches.values[row, _NUMBER])
            path = folder + b"/" + name
            return Difference(path, NAME, number, None, number, causes[place])

        return Group(NAME, _numbers(causes), one)

    def _cause_of_extra(self, row: int, folder: bytes, name: bytes) -> Cause:
        number = int(self.matches.values[row, _NUMBER])
        cause = self._tsk_folders.get(folder)
        if cause is None and self.matches.raw[row] != NOWHERE:
            cause = JOURNAL
        if cause is None and (name, number) in self._cuts(folder):
            cause = NUL
        if cause is None:
            cause = INDEX if self._is_in_index(folder, name, number) else UNEXPLAINED
        self._tsk_folders[folder + b"/" + name] = cause
        return cause

    def _cuts(self, folder: bytes) -> set[tuple[bytes, int]]:
        """ext4kit's names with a zero byte in a folder, cut there, with their inodes."""
        if folder not in self._cut:
            names = self.now.within(folder).items()
            self._cut[folder] = {
                (name.split(b"\0")[0], int(self.now.number[row]))
                for name, rows in names
                if b"\0" in name
                for row in rows
            }
        return self._cut[folder]

    def _is_in_index(self, folder: bytes, name: bytes, number: int) -> bool:
        """Whether bytes that look like this entry stand in an index block of the folder."""
        if folder not in self._index:
            self._index[folder] = self._index_blocks(folder)
        head = re.escape(struct.pack("<I", number & 0xFFFFFFFF))
        pattern = head + b"[^\0].{3}" + re.escape(name)  # a name may have been cut at a zero byte
        return re.search(pattern, self._index[folder], re.DOTALL) is not None

    def _index_blocks(self, folder: bytes) -> bytes:
        """The blocks of a hashed directory that hold its index and no entries."""
        fs, row = self.now.fs, self.now.row_of_folder(folder)
        if row is None or not self.now.columns["flags"][row] & int(InodeFlags.INDEX):
            return b""
        table = fs.inode_table(self.now.number[row : row + 1])
        blocks = directory_blocks(fs, table)[1][:_MOST_BLOCKS]
        rows, readable = fs.fetch(blocks)
        heads = np.ascontiguousarray(rows[:, :8]).view("<u4")
        length = heads[:, 1] & 0xFFFF  # an index block begins with one empty entry over all of it
        whole = (length == fs.superblock.block_size) | (length == 0xFFFF) | (length == 0)
        index = readable & (heads[:, 0] == 0) & whole & (heads[:, 1] >> 16 == 0)
        index[:1] = True
        return bytes(rows[index])

    # -- what only ext4kit has -------------------------------------------------------------

    def _only_ext4kit(self, outcome: CrossCheck) -> Group:
        """Rows that were not met; those in folders that were too slow are left out."""
        met = np.zeros(len(self.now.number), bool)
        met[self.matches.now[self.matches.now != NOWHERE]] = True
        met[[*self.matches.again, -1]] = True
        rows = np.flatnonzero(~met)
        chosen: list[int] = []
        causes: list[Cause] = []
        for row in rows.tolist():
            cause = self._cause_of_missing(row)
            if cause is None:
                outcome.left_out["names in folders that took too long"] += 1
            else:
                chosen.append(row)
                causes.append(cause)
        return Group(NAME, _numbers(causes), lambda place: self._ours(chosen[place], causes[place]))

    def _cause_of_missing(self, row: int) -> Cause | None:
        """Why TSK has not this one; None when it was not asked in time."""
        folder = self.now.folder(row)
        if folder not in self.matches.seen:
            return self._cause_of_folder(folder)
        name = self.now.tree.names.take(slice(row, row + 1)).tolist()[0]
        if self.raw is not None and name not in self._raw_names(folder):
            return JOURNAL
        return NUL if b"\0" in name else UNEXPLAINED

    def _raw_names(self, folder: bytes) -> dict[bytes, list[int]]:
        if self.raw is None or self._last[0] == folder:
            return self._last[1]
        self._last = folder, self.raw.within(folder)
        return self._last[1]

    _last: tuple[bytes | None, dict[bytes, list[int]]] = (None, {})

    def _cause_of_folder(self, folder: bytes) -> Cause | None:
        """Why TSK has not read a folder; None for lack of time, also higher up."""
        if folder not in self._folder_causes:
            self._folder_causes[folder] = self._found_cause(folder)
        return self._folder_causes[folder]

    def _found_cause(self, folder: bytes) -> Cause | None:
        if folder in self.matches.slow:
            return None
        row = self.now.row_of_folder(folder)
        if row is None:
            return UNEXPLAINED
        if folder in self.matches.failed:
            inline = int(self.now.columns["flags"][row]) & int(InodeFlags.INLINE_DATA)
            return INLINE if inline else REFUSED
        if not folder:
            return UNEXPLAINED
        above = self.now.folder(row)
        if above not in self.matches.seen:
            return self._cause_of_folder(above)
        return self._cause_of_missing(row)

    def _ours(self, row: int, cause: Cause) -> Difference:
        path, number = self.now.path(row), int(self.now.number[row])
        detail = self.matches.failed.get(self.now.folder(row), "")
        return Difference(path, NAME, number, number, None, cause, detail)


def _numbers(causes: list[Cause]) -> Any:
    return np.array([NUMBER[cause.code] for cause in causes], np.int8)
