"""Comparison of the inodes of common names, field by field, with all rows of a field at once."""

from __future__ import annotations

import stat
from collections.abc import Callable

import numpy as np

from ext4kit.arrays.types import NO_ROW, Codes, Int64s, Rows
from ext4kit.crosscheck import causes
from ext4kit.crosscheck.answers import COLUMNS
from ext4kit.crosscheck.matching import TreePairs
from ext4kit.crosscheck.result import Difference, DifferenceGroup, Field
from ext4kit.crosscheck.sides import TIMES, TreeView
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.inode import KINDS, inode_checksums_ok
from ext4kit.units import NANOSECONDS

FIELDS: tuple[Field, ...] = ("type", "mode", "uid", "gid", "links_count", "size", *TIMES)
_LOW = 0xFFFFFFFF
_AT_ONCE = 1 << 16
_FILE = stat.S_IFREG
_EXTRA_ENDS = {"ctime": 8, "mtime": 12, "atime": 16, "crtime": 24}  # minimum `i_extra_isize`
_CRTIME_END = 20  # end of the creation time itself; its nanoseconds end 4 bytes later
_KNOWN = tuple(KINDS)  # TSK gives 0 for all other types
_Values = Callable[[int], int | str | None]


class FieldComparison:
    """Pairs of rows with the same inode, and their differences.

    Attributes:
        tsk: rows of The Sleuth Kit; now: the matching rows of ext4kit; raw: the matching rows of
            ext4kit's reading without the journal, NO_ROW where it has another inode.
        count: number of names that both readers have.
    """

    def __init__(
        self, now: TreeView, raw: TreeView | None, matches: TreePairs, is_ext4: bool
    ) -> None:
        self.now_side, self.raw_side, self.is_ext4 = now, raw, is_ext4
        values = matches.values
        self.values = {name: values[:, place] for place, name in enumerate(COLUMNS)}
        both = np.flatnonzero((matches.now != NO_ROW) & (self.values["allocated"] == 1))
        rows, number = matches.now[both], self.values["number"][both]
        same = now.number[rows] == number
        self.count = len(both)
        self._other, self._other_now = both[~same], rows[~same]
        self.tsk, self.now = both[same], rows[same]
        self.raw, self._other_raw = matches.raw[self.tsk], matches.raw[self._other]
        if raw is not None:
            same = raw.number[self.raw] == now.number[self.now]
            self.raw = np.where(same, self.raw, NO_ROW)

    def groups(self) -> list[DifferenceGroup]:
        """The differences of inode numbers, then those of each field."""
        return [self._numbers(), self._entry_types(), *map(self._field, FIELDS)]

    def _group(
        self, field: Field, cause: Codes, rows: Rows, ours: _Values, theirs: _Values
    ) -> DifferenceGroup:
        """The differences of a field in some rows, with the values of both readers."""

        def one(place: int) -> Difference:
            row = int(rows[place])
            path, number = self.now_side.path(row), int(self.now_side.number[row])
            found = causes.CAUSES[cause[place]]
            return Difference(path, field, number, ours(place), theirs(place), found)

        return DifferenceGroup(field, cause, one)

    def _numbers(self) -> DifferenceGroup:
        number, rows = self.values["number"][self._other], self._other_now
        cause = np.zeros(len(number), np.int8)
        if self.raw_side is not None:
            same = self.raw_side.number[self._other_raw] == number
            cause[same & (self._other_raw != NO_ROW)] = causes.JOURNAL.number
        ours = self.now_side.number[rows]
        return self._group(
            "inode", cause, rows, lambda place: int(ours[place]), lambda place: int(number[place])
        )

    def _entry_types(self) -> DifferenceGroup:
        """Differences of the type in the directory entry itself."""
        below = np.flatnonzero(self.now < len(self.now_side.tree))
        ours = self.now_side.tree.file_type[self.now[below]]
        theirs = self.values["name_type"][self.tsk[below]]
        differ = ours != theirs
        below, ours, theirs = below[differ], ours[differ], theirs[differ]
        cause = np.zeros(len(below), np.int8)
        raw = self.raw[below]
        if self.raw_side is not None and len(below):
            types = np.append(self.raw_side.tree.file_type, 2)
            cause[(raw != NO_ROW) & (types[raw] == theirs)] = causes.JOURNAL.number
        return self._group(
            "entry_type", cause, self.now[below],
            lambda place: int(ours[place]), lambda place: int(theirs[place]),
        )  # fmt: skip

    def _field(self, name: Field) -> DifferenceGroup:
        cause = self._causes(name, self.now_side, self.now, self.tsk)
        places = np.flatnonzero(cause >= 0)
        cause, rows, tsk = cause[places], self.now[places], self.tsk[places]
        self._explain_by_log(name, places, cause)
        self._explain_by_damage(rows, cause)
        columns = self.now_side.columns
        return self._group(
            name, cause, rows,
            lambda place: _shown(name, columns, int(rows[place])),
            lambda place: _shown(name, self.values, int(tsk[place])),
        )  # fmt: skip

    def _causes(self, name: str, side: TreeView, rows: Rows, tsk: Rows) -> Codes:
        """Per pair: -1 where the values agree, else the index of the cause in `CAUSES`."""
        if name in TIMES:
            return self._time_causes(name, side, rows, tsk)
        mode = side.columns["mode"][rows]
        kind = mode & 0xF000
        if name == "type":
            return _differ(np.where(np.isin(kind, _KNOWN), kind, 0), self.values["kind"][tsk])
        theirs = self.values[name][tsk]
        if name == "mode":
            return _differ(mode & 0o7777, theirs)
        ours = side.columns[name][rows]
        cause = _differ(ours, theirs)
        if name == "size":  # the upper half, which TSK does not read for some types
            is_read = RoCompat.LARGE_FILE in self.now_side.fs.superblock.features
            half = (ours > _LOW) & (ours & _LOW == theirs)
            cause[half & ((kind != _FILE) | (not is_read))] = causes.HIGH_SIZE.number
        return cause

    def _time_causes(self, name: str, side: TreeView, rows: Rows, tsk: Rows) -> Codes:
        seconds, rest = side.columns[name][rows], side.columns[f"{name}_ns"][rows]
        extra_isize = side.columns["extra_isize"][rows]
        tsk_rest = self.values[f"{name}_ns"][tsk]
        tsk_seconds = self.values[name][tsk] + tsk_rest // NANOSECONDS
        tsk_rest = tsk_rest % NANOSECONDS
        equal = (seconds == tsk_seconds) & (rest == tsk_rest)
        low = (seconds & _LOW) == tsk_seconds
        cause = np.zeros(len(seconds), np.int8)
        cause[low & (rest == tsk_rest)] = causes.EPOCH.number
        if not self.is_ext4:
            none = (tsk_seconds == 0 if name == "crtime" else low) & (tsk_rest == 0)
            cause[none] = causes.PLAIN_TIMES.number
        else:  # with a stored `i_extra_isize` of 0, the kernel reads all fields too
            short = (extra_isize > 0) & (extra_isize < _EXTRA_ENDS[name])
            low |= extra_isize < _CRTIME_END if name == "crtime" else False
            cause[short & low & (rest != tsk_rest)] = causes.EXTRA.number
        cause[equal] = -1
        return cause

    def _explain_by_log(self, name: str, places: Rows, cause: Codes) -> None:
        """Set the journal as the cause where the reading without it has the same value as TSK."""
        if self.raw_side is None:
            return
        rows = self.raw[places]
        some = np.flatnonzero((cause == 0) & (rows != NO_ROW))
        before = self._causes(name, self.raw_side, rows[some], self.tsk[places[some]])
        cause[some[before != 0]] = causes.JOURNAL.number

    def _explain_by_damage(self, rows: Rows, cause: Codes) -> None:
        """Set an impossible inode or a bad checksum as the cause of remaining differences."""
        fs, number = self.now_side.fs, self.now_side.number[rows]
        some = np.flatnonzero(cause == 0)
        beyond = number[some] > fs.superblock.inodes_count
        cause[some[beyond]] = causes.NO_INODE.number
        some = some[~beyond]
        if not fs.superblock.has_metadata_checksums:
            return
        for start in range(0, len(some), _AT_ONCE):
            batch = some[start : start + _AT_ONCE]
            bad = ~inode_checksums_ok(fs.inode_table(number[batch]), fs.superblock)
            cause[batch[bad]] = causes.CHECKSUM.number


def _differ(ours: Int64s, theirs: Int64s) -> Codes:
    return np.where(ours == theirs, -1, 0).astype(np.int8)


def _shown(name: str, columns: dict[str, Int64s], row: int) -> int | str | None:
    """A value for output: types as words, modes in octal, times in nanoseconds."""
    if name in TIMES:
        return int(columns[name][row]) * NANOSECONDS + int(columns[f"{name}_ns"][row])
    if name == "type":
        kind = int(columns["kind"][row]) if "kind" in columns else int(columns["mode"][row])
        return KINDS.get(stat.S_IFMT(kind), "unknown") if kind >= 0 else None
    value = int(columns[name][row])
    return f"{value & 0o7777:04o}" if name == "mode" else value
