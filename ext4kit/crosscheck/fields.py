"""Comparison of the inodes of common names, field by field, with all rows of a field at once."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Any

import numpy as np

from ext4kit.arrays.types import NO_ROW
from ext4kit.crosscheck.answers import COLUMNS
from ext4kit.crosscheck.causes import (
    CAUSES,
    CHECKSUM,
    EPOCH,
    EXTRA,
    HIGH_SIZE,
    JOURNAL,
    NO_INODE,
    NUMBER,
    PLAIN_TIMES,
)
from ext4kit.crosscheck.matching import TreePairs
from ext4kit.crosscheck.result import Difference, DifferenceGroup, Field
from ext4kit.crosscheck.sides import TIMES, TreeView
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.inode import KINDS, inode_checksums_ok
from ext4kit.units import NANOSECONDS

FIELDS: tuple[Field, ...] = ("type", "mode", "uid", "gid", "links_count", "size", *TIMES)
_LOW = 0xFFFFFFFF
_AT_ONCE = 1 << 16
_FILE = stat.S_IFREG
_EXTRA_ENDS = {"ctime": 8, "mtime": 12, "atime": 16, "crtime": 24}  # minimum `i_extra_isize`
_CRTIME_END = 20  # end of the creation time itself; its nanoseconds end 4 bytes later
_KNOWN = tuple(KINDS)  # TSK has 0 for all other types


class FieldComparison:
    """Pairs of rows with the same inode, and their differences.

    Attributes:
        tsk: rows of The Sleuth Kit; now: matching rows of ext4kit; raw: those without the journal,
            NO_ROW where that view has another inode there.
    """

    def __init__(
        self, now: TreeView, raw: TreeView | None, matches: TreePairs, is_ext4: bool
    ) -> None:
        self.now_side, self.raw_side, self.is_ext4 = now, raw, is_ext4
        values = matches.values
        self.values = {name: values[:, place] for place, name in enumerate(COLUMNS)}
        self._all = np.flatnonzero((matches.now != NO_ROW) & (self.values["allocated"] == 1))
        rows, number = matches.now[self._all], self.values["number"][self._all]
        same = now.number[rows] == number
        self._other, self._other_now = self._all[~same], rows[~same]
        self.tsk, self.now = self._all[same], rows[same]
        self.raw = np.full(len(self.tsk), NO_ROW)
        self._other_raw = np.full(len(self._other), NO_ROW)
        if raw is not None:
            raw_rows = matches.raw[self.tsk]
            fits = (raw_rows != NO_ROW) & (raw.number[raw_rows] == now.number[self.now])
            self.raw = np.where(fits, raw_rows, NO_ROW)
            self._other_raw = matches.raw[self._other]

    @property
    def count(self) -> int:
        """Number of names that both readers have."""
        return len(self._all)

    def groups(self) -> Iterator[DifferenceGroup]:
        """Different inode numbers, then the differences of each field."""
        yield self._numbers()
        yield self._entry_types()
        for name in FIELDS:
            yield self._field(name)

    def _numbers(self) -> DifferenceGroup:
        number = self.values["number"][self._other]
        causes = np.zeros(len(number), np.int8)
        if self.raw_side is not None:
            has_raw = self._other_raw != NO_ROW
            same = has_raw & (self.raw_side.number[self._other_raw] == number)
            causes[same] = NUMBER[JOURNAL.code]
        rows = self._other_now

        def one(place: int) -> Difference:
            row, cause = int(rows[place]), CAUSES[causes[place]]
            ours = int(self.now_side.number[row])
            path = self.now_side.path(row)
            return Difference(path, "inode", ours, ours, int(number[place]), cause)

        return DifferenceGroup("inode", causes, one)

    def _entry_types(self) -> DifferenceGroup:
        """Differences of the type in the directory entry itself."""
        below = self.now < len(self.now_side.tree)
        tsk, now = self.tsk[below], self.now[below]
        tsk_types, ours = self.values["name_type"][tsk], self.now_side.tree.file_type[now]
        places = np.flatnonzero(tsk_types != ours)
        causes = np.zeros(len(places), np.int8)
        raw = self.raw[below][places]
        if self.raw_side is not None and len(places):
            types = np.append(self.raw_side.tree.file_type, 2)
            causes[(raw != NO_ROW) & (types[raw] == tsk_types[places])] = NUMBER[JOURNAL.code]

        def one(place: int) -> Difference:
            at = places[place]
            path, number = self.now_side.path(int(now[at])), int(self.now_side.number[now[at]])
            cause = CAUSES[causes[place]]
            return Difference(path, "entry_type", number, int(ours[at]), int(tsk_types[at]), cause)

        return DifferenceGroup("entry_type", causes, one)

    def _field(self, name: Field) -> DifferenceGroup:
        causes = self._causes(name, self.now_side, self.now, self.tsk)
        places = np.flatnonzero(causes >= 0)
        causes = causes[places]
        self._explain_by_log(name, places, causes)
        self._explain_by_damage(places, causes)

        def one(place: int) -> Difference:
            at = int(places[place])
            row = int(self.now[at])
            ours = _shown(name, self.now_side.columns, row)
            theirs = _shown(name, self.values, int(self.tsk[at]))
            path, number = self.now_side.path(row), int(self.now_side.number[row])
            return Difference(path, name, number, ours, theirs, CAUSES[causes[place]])

        return DifferenceGroup(name, causes, one)

    def _causes(self, name: str, side: TreeView, rows: Any, tsk: Any) -> Any:
        """Per pair: -1 where the values agree, else the index of the cause in `CAUSES`."""
        ours, theirs = side.columns, self.values
        if name not in TIMES:
            column = "mode" if name in ("type", "mode") else name
            mine = ours[column][rows]
            if name == "type":
                return _differ(np.where(np.isin(mine & 0xF000, _KNOWN), mine & 0xF000, 0),
                           theirs["kind"][tsk])  # fmt: skip
            causes = _differ(mine & 0o7777 if name == "mode" else mine, theirs[column][tsk])
            if name == "size":
                causes[self._half(mine, theirs[name][tsk], ours["mode"][rows])] = NUMBER[
                    HIGH_SIZE.code
                ]
            return causes
        times = (ours[name][rows], ours[f"{name}_ns"][rows])
        return self._time_causes(
            times, (theirs[name][tsk], theirs[f"{name}_ns"][tsk]), name, ours["extra_isize"][rows]
        )

    def _half(self, size: Any, tsk_size: Any, mode: Any) -> Any:
        """Whether a size lacks its upper half, for an inode type of which TSK does not read it."""
        read = RoCompat.LARGE_FILE in self.now_side.fs.superblock.features
        skipped = (mode & 0xF000 != _FILE) | (not read)
        return skipped & (size > _LOW) & (size & _LOW == tsk_size)

    def _time_causes(
        self, ours: tuple[Any, Any], theirs: tuple[Any, Any], name: str, extra_isize: Any
    ) -> Any:
        (seconds, rest), (tsk_seconds, tsk_rest) = ours, theirs
        tsk_seconds, tsk_rest = tsk_seconds + tsk_rest // NANOSECONDS, tsk_rest % NANOSECONDS
        equal = (seconds == tsk_seconds) & (rest == tsk_rest)
        low = (seconds & _LOW) == tsk_seconds
        causes = np.zeros(len(seconds), np.int8)
        causes[low & (rest == tsk_rest)] = NUMBER[EPOCH.code]
        if not self.is_ext4:
            none = (
                (tsk_seconds == 0) & (tsk_rest == 0) if name == "crtime" else low & (tsk_rest == 0)
            )
            causes[none] = NUMBER[PLAIN_TIMES.code]
        else:  # a size of 0 means that none is stored; the kernel then reads all fields too
            short = (extra_isize > 0) & (extra_isize < _EXTRA_ENDS[name])
            low |= extra_isize < _CRTIME_END if name == "crtime" else False
            causes[short & low & (rest != tsk_rest)] = NUMBER[EXTRA.code]
        causes[equal] = -1
        return causes

    def _explain_by_log(self, name: str, places: Any, causes: Any) -> None:
        """Set the journal as cause where the view without the journal has the same value as TSK."""
        if self.raw_side is None:
            return
        rows = self.raw[places]
        some = np.flatnonzero((causes == 0) & (rows != NO_ROW))
        before = self._causes(name, self.raw_side, rows[some], self.tsk[places[some]])
        causes[some[before != 0]] = NUMBER[JOURNAL.code]

    def _explain_by_damage(self, places: Any, causes: Any) -> None:
        """Set a cause for the remaining differences: an impossible inode or a bad checksum."""
        fs: FileSystem = self.now_side.fs
        some = np.flatnonzero(causes == 0)
        beyond = self.now_side.number[self.now[places[some]]] > fs.superblock.inodes_count
        causes[some[beyond]] = NUMBER[NO_INODE.code]
        some = some[~beyond]
        if not fs.superblock.has_metadata_checksums:
            return
        for start in range(0, len(some), _AT_ONCE):
            batch = some[start : start + _AT_ONCE]
            table = fs.inode_table(self.now_side.number[self.now[places[batch]]])
            bad = ~inode_checksums_ok(table, fs.superblock)
            causes[batch[bad]] = NUMBER[CHECKSUM.code]


def _differ(ours: Any, theirs: Any) -> Any:
    return np.where(ours == theirs, -1, 0).astype(np.int8)


def _shown(name: str, columns: dict[str, Any], row: int) -> int | str | None:
    """A value for output: types as words, modes in octal, times in nanoseconds."""
    if name in TIMES:
        return int(columns[name][row]) * NANOSECONDS + int(columns[f"{name}_ns"][row])
    if name == "type":
        kind = int(columns["kind"][row]) if "kind" in columns else int(columns["mode"][row])
        return KINDS.get(stat.S_IFMT(kind), "unknown") if kind >= 0 else None
    value = int(columns[name][row])
    return f"{value & 0o7777:04o}" if name == "mode" else value
