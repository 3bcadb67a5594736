"""Directory blocks: many are parsed in parallel, one entry of each per step.

Source: kernel Documentation/filesystems/ext4/directory.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, RowSlice
from ext4kit.fields import FileType
from ext4kit.parsers.checksums import crc32c_each
from ext4kit.parsers.layout import Layout
from ext4kit.parsers.words import Int8ul, Int16ul, Int32ul, Struct

DIRENT = Layout(
    "directory entry",
    Struct(
        "inode" / Int32ul,  # 0: not in use
        "rec_len" / Int16ul,  # to the next entry
        "name_len" / Int8ul,
        "file_type" / Int8ul,  # high byte of name_len without the filetype feature
    ),
)
DIRENT_TAIL = Layout(
    "directory block tail",
    Struct(
        "det_reserved_zero1" / Int32ul,  # reads as inode 0
        "det_rec_len" / Int16ul,  # 12
        "det_reserved_zero2" / Int8ul,
        "det_reserved_ft" / Int8ul,  # 0xDE
        "det_checksum" / Int32ul,
    ),
)
_REC_LEN_BIT = DIRENT.offset_of("rec_len") * 8
_NAME_LEN_BIT = DIRENT.offset_of("name_len") * 8
_FILE_TYPE_BIT = DIRENT.offset_of("file_type") * 8
NAMES_AT_ONCE = 1 << 14  # as many as fit into the processor's cache
_CACHE_LINE = 64  # bytes
_FEW = 16  # blocks that are faster to read one after the other
TAIL_FILE_TYPE = 0xDE
FILE_TYPES: dict[int, FileType] = {
    0: "unknown",
    1: "file",
    2: "directory",
    3: "chardev",
    4: "blockdev",
    5: "fifo",
    6: "socket",
    7: "symlink",
}
MODES = np.array([0, 8, 4, 2, 6, 1, 12, 10])  # upper bits of i_mode, by file type


@dataclass(frozen=True, slots=True)
class Names:
    """Names in one memory area.

    Attributes:
        data: the names; in packed data a newline precedes each name.
        start: byte offset of each name; length: its length in bytes.
    """

    data: bytes
    start: Int64s
    length: Int64s

    @classmethod
    def empty(cls) -> Names:
        """A table without names."""
        return cls.of([])

    @classmethod
    def of(cls, names: list[bytes]) -> Names:
        """The packed names of a list."""
        length = np.fromiter(map(len, names), np.int64, len(names))
        return cls(b"\n".join((b"", *names)), np.cumsum(length + 1) - length, length)

    @classmethod
    def concat(cls, parts: Sequence[Names]) -> Names:
        """The names of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        shifts = accumulate((len(part.data) for part in parts), initial=0)
        none = np.zeros(0, np.int64)
        starts = [part.start + shift for part, shift in zip(parts, shifts, strict=False)]
        return cls(
            b"".join(part.data for part in parts),
            np.concatenate([none, *starts]),
            np.concatenate([none, *(part.length for part in parts)]),
        )

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Rows | Bools | RowSlice) -> Names:
        """The names that `index` selects."""
        return Names(self.data, self.start[index], self.length[index])

    def tolist(self) -> list[bytes]:
        """The names as a list."""
        data, ends = self.data, self.start + self.length
        return [data[a:b] for a, b in zip(self.start.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class EntryTable(Table):
    """Directory entries as columns (n,).

    Attributes:
        block: row of the block array that the entry was read from.
        offset: byte offset of the entry in its block.
        name_length: bytes of the name, which starts 8 bytes after `offset`.
    """

    block: Int64s
    offset: Int64s
    inode: Int64s
    name_length: Int64s
    file_type: Int64s

    def names(self, blocks: Bytes2D) -> list[bytes]:
        """The names, from the blocks that the table was read from."""
        start = self.block * blocks.shape[1] + self.offset + DIRENT.size
        return Names(blocks.tobytes(), start, self.name_length).tolist()

    def packed_names(self, blocks: Bytes2D) -> Names:
        """The names, packed without the bytes between them; for many entries at once."""
        data, size = np.ascontiguousarray(blocks).reshape(-1), blocks.shape[1]
        pieces = []
        for at in range(0, len(self), NAMES_AT_ONCE):
            some = slice(at, at + NAMES_AT_ONCE)
            length = self.name_length[some] + 1  # the byte before a name never belongs to it
            first = self.block[some] * size + self.offset[some] + DIRENT.size - 1
            start = np.cumsum(length) - length
            place = np.repeat(first - start, length)
            place += np.arange(len(place))
            piece = data[place]
            piece[start] = ord("\n")
            pieces.append(piece)
        length = self.name_length
        return Names(b"".join(pieces), np.cumsum(length + 1) - length, length)


def record_length(raw: Int64s, block_size: int) -> Int64s:
    """Bytes to the next entry; 64 KiB blocks need more than the field's 16 bits."""
    if block_size < 65536:
        return raw
    whole = (raw == 65535) | (raw == 0)
    return np.where(whole, block_size, (raw & 65532) | ((raw & 3) << 16))


def parse_entries(
    blocks: Bytes2D, has_file_type: bool, start: int = 0, end: int | None = None, dots: bool = True
) -> tuple[EntryTable, Int64s]:
    """The entries in use of many blocks, parsed in parallel.

    Args:
        blocks: uint8 (n, block size).
        has_file_type: whether the filetype feature is set; without it, file types are 0.
        start: byte offset of the first entry of each block.
        end: byte offset of the end of the entries; by default, the end of the block.
        dots: include the entries `.` and `..`.

    Returns:
        (entries in use by block and offset, int64 (n,): the offset at which the chain of a
        block breaks, -1 where it is complete).
    """
    end = blocks.shape[1] if end is None else end
    headers = _Headers(blocks, has_file_type)
    is_few = len(blocks) <= _FEW and blocks.shape[1] < 65536
    follow = _follow_each if is_few else _follow_all
    row, place, raw, broken = follow(headers, start, end)
    used = (raw & 0xFFFFFFFF != 0) & (headers.name_length(raw) > 0)
    if not dots:
        used &= ~headers.are_dots(place, raw)
    return headers.entries(row[used], place[used], raw[used]), broken


def _follow_all(headers: _Headers, start: int, end: int) -> tuple[Rows, Int64s, Int64s, Int64s]:
    """(row, place, header) of each entry, and where chains break; one entry of every block a step.

    Args:
        headers: of the blocks.
        start: byte offset of the first entry of each block.
        end: byte offset of the end of the entries.
    """
    count, broken = np.zeros((2, len(headers.starts)), np.int64)
    broken -= 1
    row = np.arange(len(count) if start + DIRENT.size <= end else 0)
    place, stop = headers.starts[row] + start, headers.starts[row] + end
    last = stop - DIRENT.size  # last offset of a header
    found = []
    while len(row):
        raw = headers.raw[place >> 2]
        step, length = headers.step(raw), headers.name_length(raw)
        following = place + step
        fits = (np.maximum(length, 4) + 8 <= step) & (step & 3 == 0) & (following <= stop)
        if not fits.all():
            broken[row[~fits]] = (place - headers.starts[row])[~fits]
            columns = (row, place, stop, last, raw, following)
            row, place, stop, last, raw, following = (column[fits] for column in columns)
        found.append((row, place, raw))
        count[row] += 1
        more = following <= last
        if not more.all():
            short = ~more & (following < stop)  # not enough room for another header
            broken[row[short]] = (following - headers.starts[row])[short]
            row, following, stop, last = (each[more] for each in (row, following, stop, last))
        place = following
    return *_by_block(found, count), broken


def _follow_each(headers: _Headers, start: int, end: int) -> tuple[Rows, Int64s, Int64s, Int64s]:
    """The same as `_follow_all`, one block after the other, which is faster for few blocks."""
    raws, found = headers.raw.tolist(), []
    broken = np.full(len(headers.starts), -1)
    for row, first in enumerate(headers.starts.tolist()):
        place, stop = first + start, first + end
        while place <= stop - DIRENT.size:
            raw = raws[place >> 2]
            step, length = raw >> _REC_LEN_BIT & 0xFFFF, raw >> _NAME_LEN_BIT & 0xFF
            if max(length, 4) + 8 > step or step & 3 or place + step > stop:
                broken[row] = place - first
                break
            found.append((row, place, raw))
            place += step
            if stop - DIRENT.size < place < stop:  # not enough room for another header
                broken[row] = place - first
    rows, places, values = np.array(found, np.int64).reshape(-1, 3).T
    return rows, places, values, broken


def _by_block(
    steps: list[tuple[Rows, Int64s, Int64s]], count: Int64s
) -> tuple[Rows, Int64s, Int64s]:
    """The (row, place, header) columns of all steps, by block and offset.

    Args:
        steps: the results of each step; a block in one step is also in all steps before it.
        count: number of steps of each block.
    """
    first = np.cumsum(count) - count
    place, raw = np.empty((2, count.sum()), np.int64)
    for step, (row, places, headers) in enumerate(steps):
        at = first[row] + step
        place[at], raw[at] = places, headers
    return np.repeat(np.arange(len(count)), count), place, raw


class _Headers:
    """The entry headers at every fourth byte of the blocks, read without a copy.

    Each header is one 64-bit number (`raw`), from which its fields are extracted. A place is a byte
    offset in all blocks together; `starts` has the place of each block.
    """

    def __init__(self, blocks: Bytes2D, has_file_type: bool) -> None:
        self._block_size: int = blocks.shape[1]
        self._has_file_type = has_file_type
        # Headers at one offset in all blocks would share few lines of the processor's cache.
        width = self._block_size + -self._block_size % 4 + _CACHE_LINE
        self.starts: Int64s = np.arange(len(blocks)) * width
        apart = np.empty((len(blocks), width), np.uint8)
        apart[:, : self._block_size] = blocks
        places = max(apart.size - DIRENT.size + 4, 0) // 4
        self.raw: Int64s = np.ndarray(places, "<i8", apart, strides=(4,))
        self._bytes = apart.reshape(-1)

    def step(self, raw: Int64s) -> Int64s:
        """Bytes to the next entry."""
        return record_length(raw >> _REC_LEN_BIT & 0xFFFF, self._block_size)

    def name_length(self, raw: Int64s) -> Int64s:
        """Length of the name in bytes."""
        return raw >> _NAME_LEN_BIT & 0xFF

    def are_dots(self, place: Int64s, raw: Int64s) -> Bools:
        """True where the name is `.` or `..`."""
        length = self.name_length(raw)
        dots = length <= 2
        short, name = length[dots], place[dots] + DIRENT.size
        last = self._bytes[name + short - 1]
        dots[dots] = (short > 0) & (self._bytes[name] == ord(".")) & (last == ord("."))
        return dots

    def entries(self, row: Rows, place: Int64s, raw: Int64s) -> EntryTable:
        """The headers as a table.

        Without the feature the byte of the file type is the high byte of `name_len`: 0, or 0xDE
        in a tail.
        """
        kind = raw >> _FILE_TYPE_BIT & 0xFF if self._has_file_type else np.zeros_like(raw)
        return EntryTable(
            row, place - self.starts[row], raw & 0xFFFFFFFF, self.name_length(raw), kind
        )


def blocks_checksums_ok(seeds: Int64s, blocks: Bytes2D, rows: Rows) -> Bools:
    """True where a block has a tail that matches the inode seed of its owner.

    Args:
        seeds: int64 (n,), one for each of `rows`.
        blocks: uint8 (m, block size).
        rows: int64 (n,), indexes of the blocks to check.
    """
    tails = DIRENT_TAIL.columns(blocks[rows, -DIRENT_TAIL.size :])
    fine: Bools = tails["det_reserved_ft"] == TAIL_FILE_TYPE
    fine &= tails["det_rec_len"] == DIRENT_TAIL.size
    tailed = np.flatnonzero(fine)
    bodies = map(blocks[:, : -DIRENT_TAIL.size].__getitem__, rows[tailed].tolist())
    fine[tailed] = crc32c_each(seeds[tailed], bodies) == tails["det_checksum"][tailed]
    return fine


def parse_slack_entries(
    blocks: Bytes2D, last: int, entries: EntryTable, has_file_type: bool = True
) -> EntryTable:
    """Slack entries: deleted entries that remain between those in use.

    Linux before 5.13, and e2fsprogs, extend the entry before a deleted entry over it. If the
    deleted entry is the first one of its block, they only clear its inode number. Without the
    filetype feature, the type byte is 0. Entries that another entry has overwritten in part are
    omitted.

    Args:
        blocks: uint8 (n, block size).
        last: the highest valid inode number.
        entries: the entries in use of the same blocks.
        has_file_type: whether the filetype feature is set.
    """
    size = blocks.shape[1]
    words = np.ascontiguousarray(blocks).view("<u4")[:, :-2]
    possible = (words != 0) & (words <= last)
    possible[:, :1] |= words[:, :1] == 0
    row, word = np.nonzero(possible)
    offset = word * 4
    in_use = np.zeros(blocks.size // 4, bool)
    in_use[(entries.block * size + entries.offset) // 4] = True
    free = ~in_use[(row * size + offset) // 4]
    row, offset = row[free], offset[free]
    headers = _Headers(blocks, True)
    place = headers.starts[row] + offset
    raw = headers.raw[place >> 2]
    table, step = headers.entries(row, place, raw), headers.step(raw)
    length, kind = table.name_length, table.file_type
    fits = (step >= 12) & (step % 4 == 0) & (offset + step <= size) & (length + 8 <= step)
    fits &= (length > 0) & ((kind >= 1) & (kind <= 7) if has_file_type else kind == 0)
    table = table.take(fits)
    table = table.take(are_names(blocks, table))
    return table.take(~_are_overwritten(table, entries, size))


def _are_overwritten(slack: EntryTable, in_use: EntryTable, size: int) -> Bools:
    """True where another entry has overwritten a part of a slack entry.

    The kernel adds an entry after the name of one in use, or at the start of a block (kernel
    fs/ext4/namei.c, `ext4_insert_dentry`), so never within a deleted name whose header remains.
    Therefore, of two entries that overlap, the one at the lower offset is newer, unless the other
    one is in use.
    """
    both = EntryTable.concat([slack, in_use])
    start = both.block * size + both.offset
    end = start + DIRENT.size + both.name_length
    order = np.argsort(start, kind="stable")
    within = np.zeros(len(both), bool)
    within[order[1:]] = start[order[1:]] < np.maximum.accumulate(end[order])[:-1]
    count = len(slack)
    used = np.append(np.sort(start[count:]), np.iinfo(np.int64).max)
    following = used[np.searchsorted(used, start[:count])]
    overwritten: Bools = within[:count] | (end[:count] > following)
    return overwritten


def are_names(blocks: Bytes2D, table: EntryTable) -> Bools:
    """True where the name of an entry contains neither a slash nor a NUL."""
    width = int(table.name_length.max()) if len(table) else 0
    position = np.arange(width)
    column = np.minimum(table.offset[:, None] + DIRENT.size + position, blocks.shape[1] - 1)
    text = blocks[table.block[:, None], column]
    bad = (text == 0) | (text == ord("/"))
    named: Bools = ~(bad & (position < table.name_length[:, None])).any(axis=1)
    return named
