"""Comparison of names: the names that only one reader has, and the causes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np

from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, UInt8s, UInt32s
from ext4kit.crosscheck import causes
from ext4kit.crosscheck.answers import COLUMNS
from ext4kit.crosscheck.matching import TreePairs
from ext4kit.crosscheck.result import NAME, CrossCheck, Difference, DifferenceGroup
from ext4kit.crosscheck.sides import TreeView
from ext4kit.filesystem.directories import directory_blocks
from ext4kit.parsers.directory import DIRENT, parse_entries
from ext4kit.parsers.htree import BLOCK_MASK
from ext4kit.parsers.inode import InodeFlags

_NUMBER, _ALLOCATED = COLUMNS.index("number"), COLUMNS.index("allocated")
_BLOCKS_AT_ONCE = 1 << 10
_SLASH = ord("/")
_SMALLEST = 12  # bytes of the smallest entry
_SLOW = "names in directories whose reading took too long"
_UNASKED = "names not read by The Sleuth Kit within the time limit"


class NameComparison:
    """The differences in names, and their evidence."""

    def __init__(self, now: TreeView, raw: TreeView | None, matches: TreePairs) -> None:
        self.now, self.raw, self.matches = now, raw, matches
        self._cuts = cache(self._find_cuts)
        self._unread = cache(self._find_unread)
        self._cause_of_folder = cache(self._find_cause_of_folder)
        self._raw_names = lru_cache(1)((raw or now).within)
        self._tsk_folders: dict[bytes, causes.Cause] = {}
        self._gone: frozenset[int] = frozenset()

    def groups(self, outcome: CrossCheck) -> Iterator[DifferenceGroup]:
        """Names only in The Sleuth Kit, names of deleted files, names only in ext4kit."""
        yield self._only_tsk()
        called_deleted = self.matches.values[:, _ALLOCATED] == 0
        rows = self.matches.now[(self.matches.now != NO_ROW) & called_deleted].tolist()
        self._gone = frozenset(rows)
        yield self._only_now(rows, [causes.SHOWN_DELETED] * len(rows))
        yield self._only_ext4kit(outcome)

    def _only_now(self, rows: list[int], why: list[causes.Cause]) -> DifferenceGroup:
        """Names in some rows of ext4kit's reading that The Sleuth Kit does not have."""

        def one(place: int) -> Difference:
            row = rows[place]
            path, number = self.now.path(row), int(self.now.number[row])
            detail = self.matches.failed.get(self.now.folder(row), "")
            return Difference(path, NAME, number, number, None, why[place], detail)

        return DifferenceGroup.of(NAME, why, one)

    # -- only in The Sleuth Kit ------------------------------------------------------------

    def _only_tsk(self) -> DifferenceGroup:
        found = list(self.matches.names.items())
        why = [self._cause_of_extra(row, folder, name) for row, (folder, name) in found]

        def one(place: int) -> Difference:
            row, (folder, name) = found[place]
            number = int(self.matches.values[row, _NUMBER])
            return Difference(folder + b"/" + name, NAME, number, None, number, why[place])

        return DifferenceGroup.of(NAME, why, one)

    def _cause_of_extra(self, row: int, folder: bytes, name: bytes) -> causes.Cause:
        number = int(self.matches.values[row, _NUMBER])
        cause = self._tsk_folders.get(folder)
        if cause is None and self.matches.raw[row] != NO_ROW:
            cause = causes.JOURNAL
        if cause is None and (name, number) in self._cuts(folder):
            cause = causes.NUL
        if cause is None:
            cause = self._unread(folder).get((name, number), causes.UNEXPLAINED)
        self._tsk_folders[folder + b"/" + name] = cause
        return cause

    def _find_cuts(self, folder: bytes) -> set[tuple[bytes, int]]:
        """ext4kit's names in a directory that contain a zero byte, cut at it, with their inodes."""
        return {
            (name.split(b"\0")[0], int(self.now.number[row]))
            for name, rows in self.now.within(folder).items()
            if b"\0" in name
            for row in rows
        }

    def _find_unread(self, folder: bytes) -> dict[tuple[bytes, int], causes.Cause]:
        """Bytes that resemble entries in the index of a directory, or after broken entries."""
        fs, row = self.now.fs, self.now.row_of_folder.get(folder)
        found: dict[tuple[bytes, int], causes.Cause] = {}
        if row is None:
            return found
        hashed = bool(self.now.columns["flags"][row] & int(InodeFlags.INDEX))
        blocks = directory_blocks(fs, fs.inode_table(self.now.number[row : row + 1]))[1]
        for at in range(0, len(blocks), _BLOCKS_AT_ONCE):
            rows, readable = fs.fetch(blocks[at : at + _BLOCKS_AT_ONCE])
            broken = parse_entries(rows, fs.has_file_types)[1]
            index = hashed & readable & _are_index_blocks(rows, first=not at)
            start = np.where(index, 0, np.where(broken < 0, rows.shape[1], broken))
            for place, each in plausible_entries(rows, start, fs.superblock.inodes_count + 1):
                found[each] = causes.INDEX if index[place] else causes.BROKEN
        return found

    # -- names of deleted files ------------------------------------------------------------

    def cause_at(self, path: bytes, number: int) -> causes.Cause | None:
        """Why an apparent name is not a deleted entry: it consists of hashes, or follows damage."""
        found = None
        for at in (at for at, byte in enumerate(path) if byte == _SLASH):  # names may contain one
            folder, name = path[:at], path[at + 1 :]
            if self._are_hashes(folder, name, number):
                return causes.INDEX
            if self._unread(folder).get((name, number)) is causes.BROKEN:
                found = causes.BROKEN
        return found

    def _are_hashes(self, folder: bytes, name: bytes, number: int) -> bool:
        """Whether all bytes in the directory that look like this entry are hashes."""
        found = []
        for view in filter(None, (self.raw, self.now)):
            row = view.row_of_folder.get(folder)
            if row is None or not view.columns["flags"][row] & int(InodeFlags.INDEX):
                continue
            fs = view.fs
            blocks = directory_blocks(fs, fs.inode_table(view.number[row : row + 1]))[1]
            for at in range(0, len(blocks), _BLOCKS_AT_ONCE):
                rows = fs.fetch(blocks[at : at + _BLOCKS_AT_ONCE])[0]
                index = _are_index_blocks(rows, first=not at)
                for block, first, end in _places_of(rows, name, number):
                    limit = len(blocks) if index[block] else 0
                    found.append(_has_hashes(rows[block], first, end, limit))
        return bool(found) and all(found)

    # -- only in ext4kit -------------------------------------------------------------------

    def _only_ext4kit(self, outcome: CrossCheck) -> DifferenceGroup:
        """Rows that TSK did not list, except those that it had no time for."""
        met = np.zeros(len(self.now.number), bool)
        met[self.matches.now[self.matches.now != NO_ROW]] = True
        met[[*self.matches.again, -1]] = True
        chosen: list[int] = []
        why: list[causes.Cause] = []
        for row in np.flatnonzero(~met).tolist():
            cause = self._cause_of_missing(row)
            if isinstance(cause, str):
                outcome.left_out[cause] += 1
            else:
                chosen.append(row)
                why.append(cause)
        return self._only_now(chosen, why)

    def _cause_of_missing(self, row: int) -> causes.Cause | str:
        """Cause why TSK does not have this row; a text if there was no time."""
        folder = self.now.folder(row)
        if folder not in self.matches.seen:
            return self._cause_of_folder(folder)
        name = self.now.tree.names.take(slice(row, row + 1)).tolist()[0]
        if self.raw is not None and name not in self._raw_names(folder):
            return causes.JOURNAL
        if int(self.now.number[row]) > self.now.fs.superblock.inodes_count:
            return causes.NO_INODE
        return causes.NUL if b"\0" in name else causes.UNEXPLAINED

    def _find_cause_of_folder(self, folder: bytes) -> causes.Cause | str:
        """Cause why TSK has not read a directory; a text if it or a parent ran out of time."""
        if folder in self.matches.slow or folder in self.matches.unasked:
            return _SLOW if folder in self.matches.slow else _UNASKED
        row = self.now.row_of_folder.get(folder)
        if row is None or row in self._gone:
            return causes.SHOWN_DELETED if row in self._gone else causes.UNEXPLAINED
        if folder in self.matches.failed:
            inline = int(self.now.columns["flags"][row]) & int(InodeFlags.INLINE_DATA)
            return causes.INLINE if inline else causes.REFUSED
        if not folder:
            return causes.UNEXPLAINED
        above = self.now.folder(row)
        if above not in self.matches.seen:
            return self._cause_of_folder(above)
        return self._cause_of_missing(row)


def _are_index_blocks(rows: Bytes2D, first: bool) -> Bools:
    """Per block of a hashed directory (bool): True where one empty entry covers all of it.

    Index blocks below the root begin in the same way. The root is the first block of the directory.
    """
    heads = np.ascontiguousarray(rows[:, :8]).view("<u4")
    length = heads[:, 1] & 0xFFFF
    whole = (length == rows.shape[1]) | (length == 0xFFFF) | (length == 0)
    index: Bools = (heads[:, 0] == 0) & whole & (heads[:, 1] >> 16 == 0)
    index[:1] |= first
    return index


def _places_of(rows: Bytes2D, name: bytes, number: int) -> Iterator[tuple[int, int, int]]:
    """(block, first byte, end) of bytes that look like an entry with a name and number."""
    words, seems = _plausible(rows)
    seems &= words[:, :-1] == number
    for block, word in zip(*(each.tolist() for each in np.nonzero(seems)), strict=True):
        start, end = _name_bounds(rows[block], 4 * word)
        if bytes(rows[block, start:end]).split(b"\0")[0] == name:
            yield block, 4 * word, end


def _has_hashes(block: UInt8s, first: int, end: int, blocks: int) -> bool:
    """Whether ascending hashes are in some bytes of a block of a hashed directory.

    In an index block, each hash is followed by a block number of the directory. The slack of a new
    leaf contains the hashes by which the kernel sorted the entries of the block that it split, each
    with the offset and size of an entry (struct dx_map_entry in fs/ext4/namei.c). In both cases,
    they begin at multiples of 8 bytes.

    Args:
        block: bytes of the block.
        first: first byte of the range.
        end: end of the range.
        blocks: for an index block, the number of blocks of the directory; else 0.
    """
    first += 4 * (not block[first : first + 4].any())  # skip a zero before the first hash
    pairs = block[first // 8 * 8 : -(-end // 8) * 8].view("<u4").reshape(-1, 2)
    hashes, values = pairs[:, 0], pairs[:, 1]
    place, size = (values & 0xFFFF).astype(np.int64) * 4, values >> 16
    is_map = (place + size <= len(block)) & (size >= _SMALLEST) & (size % 4 == 0)
    are_valid = values & BLOCK_MASK < blocks if blocks else is_map
    return bool(are_valid.all() and (hashes[1:] >= hashes[:-1]).all())


def plausible_entries(
    rows: Bytes2D, start: Int64s, last_inode: int
) -> Iterator[tuple[int, tuple[bytes, int]]]:
    """Entries that The Sleuth Kit finds when it looks for one at every fourth byte.

    Args:
        rows: the blocks, (n, block size).
        start: byte offset in each block at which it starts to look; a multiple of 4.
        last_inode: the largest inode number that it accepts.

    Yields:
        The row of the block, and (name up to a zero byte, inode number) of the entry.
    """
    words, seems = _plausible(rows)
    seems &= words[:, :-1] <= last_inode
    seems &= np.arange(0, rows.shape[1] - 4, 4) >= start[:, None]
    for row, word in zip(*(each.tolist() for each in np.nonzero(seems)), strict=True):
        name = bytes(rows[row, slice(*_name_bounds(rows[row], 4 * word))])
        yield row, (name.split(b"\0")[0], int(words[row, word]))


def _plausible(rows: Bytes2D) -> tuple[UInt32s, Bools]:
    """(32-bit words of each block; for all but the last, True where an entry could begin)."""
    size = rows.shape[1]
    words = np.ascontiguousarray(rows).view("<u4")
    length, name_length = words[:, 1:] & 0xFFFF, words[:, 1:] >> 16 & 0xFF
    offset = np.arange(0, size - 4, 4)
    seems: Bools = (name_length > 0) & (length % 4 == 0)
    seems &= (length >= (name_length + 11) // 4 * 4) & (offset + length <= size)
    return words, seems


def _name_bounds(block: UInt8s, first: int) -> tuple[int, int]:
    """(first byte, end) of the name of the entry that starts at byte `first` of a block."""
    start = first + DIRENT.size
    return start, start + int(block[first + 6])
