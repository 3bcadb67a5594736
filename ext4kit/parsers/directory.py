"""Directory blocks: many of them read in step, one entry of each at a time.

Source: kernel Documentation/filesystems/ext4/directory.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from construct import Int8ul, Int16ul, Int32ul, Struct

from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.units import widen

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
TAIL_FILE_TYPE = 0xDE
FILE_TYPES = {
    0: "unknown",
    1: "file",
    2: "directory",
    3: "chardev",
    4: "blockdev",
    5: "fifo",
    6: "socket",
    7: "symlink",
}


@dataclass(frozen=True, slots=True)
class EntryTable:
    """Directory entries as columns (n,).

    Attributes:
        block: row of the block array that the entry was read from.
        offset: byte offset of the entry in its block.
        name_length: bytes of name, which starts 8 bytes behind `offset`.
    """

    block: Any
    offset: Any
    inode: Any
    name_length: Any
    file_type: Any

    def __len__(self) -> int:
        return len(self.inode)

    def take(self, index: Any) -> EntryTable:
        """The rows that `index` selects."""
        return EntryTable(
            self.block[index],
            self.offset[index],
            self.inode[index],
            self.name_length[index],
            self.file_type[index],
        )

    def are_dots(self, blocks: Any) -> Any:
        """Per entry (bool): its name is `.` or `..`."""
        start = self.offset + DIRENT.size
        second = blocks[self.block, np.minimum(start + 1, blocks.shape[1] - 1)]
        fits = (self.name_length == 1) | ((self.name_length == 2) & (second == ord(".")))
        return fits & (blocks[self.block, start] == ord("."))

    def names(self, blocks: Any) -> list[bytes]:
        """The names, read from the blocks that the table was read from."""
        data = blocks.tobytes()
        starts = self.block * blocks.shape[1] + self.offset + DIRENT.size
        ends = starts + self.name_length
        return [data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def record_length(raw: Any, block_size: int) -> Any:
    """Bytes to the next entry; 64 KiB blocks need more than the field's 16 bits."""
    if block_size < 65536:
        return raw
    whole = (raw == 65535) | (raw == 0)
    return np.where(whole, block_size, (raw & 65532) | ((raw & 3) << 16))


def parse_entries(
    blocks: Any, has_file_type: bool, start: int = 0, end: int | None = None
) -> tuple[EntryTable, Any]:
    """Read the entries of all blocks in step.

    Args:
        blocks: uint8 (n, block size).
        has_file_type: the filetype feature; else file types come out as 0.
        start: where the first entry of each block lies.
        end: where entries end; the block's end by default.

    Returns:
        The entries in use in order of block and offset, and int64 (n,): the offset at which
        a block's chain breaks, -1 where it does not.
    """
    end = blocks.shape[1] if end is None else end
    headers = _Headers(blocks, has_file_type)
    broken = np.full(len(blocks), -1)
    row = np.arange(len(blocks) if start + DIRENT.size <= end else 0)
    cursor = np.full(len(row), start)
    found: list[tuple[Any, ...]] = []
    while len(row):
        inode, step, length, kind = headers.at(row, cursor)
        fits = (step >= 12) & (step % 4 == 0) & (cursor + step <= end) & (length + 8 <= step)
        broken[row[~fits]] = cursor[~fits]
        used = fits & (inode != 0) & (length > 0)
        found.append(tuple(column[used] for column in (row, cursor, inode, length, kind)))
        cursor = cursor + step
        more = fits & (cursor + DIRENT.size <= end)
        row, cursor = row[more], cursor[more]
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    if not columns:
        columns = [np.zeros(0, np.int64)] * 5
    table = EntryTable(*columns)
    key = table.block * blocks.shape[1] + table.offset
    return table.take(np.argsort(key, kind="stable")), broken


class _Headers:
    """The entry headers that begin at every fourth byte of the blocks, read where they lie."""

    def __init__(self, blocks: Any, has_file_type: bool) -> None:
        self.block_size = blocks.shape[1]
        self._has_file_type = has_file_type
        padded = np.ascontiguousarray(blocks)
        if self.block_size % 4:
            padded = np.pad(blocks, ((0, 0), (0, -self.block_size % 4)))
        self._width = padded.shape[1]
        count = max(padded.size - DIRENT.size + 4, 0) // 4
        self._raw: Any = np.ndarray(count, DIRENT.dtype, padded, strides=(4,))

    def at(self, row: Any, offset: Any) -> tuple[Any, ...]:
        """(inode, record length, name length, file type) at `offset` of the blocks `row`."""
        raw = self._raw[(row * self._width + offset) >> 2]
        length, kind = widen(raw["name_len"]), widen(raw["file_type"])
        if not self._has_file_type:  # a high byte that is always 0, but 0xDE in a checksum tail
            kind = np.zeros_like(kind)
        step = record_length(widen(raw["rec_len"]), self.block_size)
        return widen(raw["inode"]), step, length, kind


def block_checksum_ok(seed: int, block: Buffer) -> bool | None:
    """Whether a directory leaf's tail fits its owner's inode seed; None without a tail."""
    offset = memoryview(block).nbytes - DIRENT_TAIL.size
    tail = DIRENT_TAIL.parse(block, offset)
    if tail.det_reserved_ft != TAIL_FILE_TYPE or tail.det_rec_len != DIRENT_TAIL.size:
        return None
    return bool(tail.det_checksum == crc32c(seed, memoryview(block)[:offset]))


def parse_remnants(blocks: Any, wanted: Any, entries: EntryTable) -> EntryTable:
    """Removed entries that still stand between those in use.

    Linux before 5.13, and e2fsprogs, let the entry in front grow over a removed one and clear
    nothing. Only with the filetype feature, whose type byte makes an entry recognisable.

    Args:
        blocks: uint8 (n, block size).
        wanted: bool, by inode number: entries that name another number are passed over.
        entries: the entries in use of the same blocks.
    """
    size = blocks.shape[1]
    words = np.ascontiguousarray(blocks).view("<u4")[:, :-2].astype(np.int64)
    row, word = np.nonzero(wanted[np.minimum(words, len(wanted) - 1)] & (words < len(wanted)))
    offset = word * 4
    in_use = np.isin(row * size + offset, entries.block * size + entries.offset)
    row, offset = row[~in_use], offset[~in_use]
    inode, step, length, kind = _Headers(blocks, True).at(row, offset)
    fits = (step >= 12) & (step % 4 == 0) & (offset + step <= size) & (length + 8 <= step)
    fits &= (length > 0) & (kind >= 1) & (kind <= 7)
    table = EntryTable(row, offset, inode, length, kind).take(fits)
    return table.take(_are_names(blocks, table))


def _are_names(blocks: Any, table: EntryTable) -> Any:
    """Per entry (bool): its name holds neither a slash nor a NUL."""
    width = int(table.name_length.max()) if len(table) else 0
    position = np.arange(width)
    column = np.minimum(table.offset[:, None] + DIRENT.size + position, blocks.shape[1] - 1)
    text = blocks[table.block[:, None], column]
    bad = (text == 0) | (text == ord("/"))
    return ~(bad & (position < table.name_length[:, None])).any(axis=1)
