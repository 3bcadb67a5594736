"""Inodes of 128 bytes up to a block: one at a time and whole tables.

Source: kernel Documentation/filesystems/ext4/inodes.rst and fs/ext4/ext4.h.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, RowSlice, UInt32s
from ext4kit.fields import FileType
from ext4kit.parsers.checksums import ONES, crc32c, crc32c_each, crc32c_fits, crc32c_rows
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.superblock import Superblock
from ext4kit.parsers.words import Bytes, Int16ul, Int32sl, Int32ul, Struct
from ext4kit.units import NANOSECONDS, join, widen

INODE = Layout(
    "inode",
    Struct(
        "i_mode" / Int16ul,  # type and permissions
        "i_uid" / Int16ul,
        "i_size_lo" / Int32ul,
        "i_atime" / Int32sl,
        "i_ctime" / Int32sl,
        "i_mtime" / Int32sl,
        "i_dtime" / Int32ul,  # deletion time, or the next orphan's number
        "i_gid" / Int16ul,
        "i_links_count" / Int16ul,
        "i_blocks_lo" / Int32ul,
        "i_flags" / Int32ul,
        "i_version" / Int32ul,
        "i_block" / Bytes(60),  # extent root, block pointers, link target or inline data
        "i_generation" / Int32ul,
        "i_file_acl_lo" / Int32ul,  # block of extended attributes
        "i_size_high" / Int32ul,
        "i_obso_faddr" / Int32ul,
        "i_blocks_high" / Int16ul,
        "i_file_acl_high" / Int16ul,
        "i_uid_high" / Int16ul,
        "i_gid_high" / Int16ul,
        "i_checksum_lo" / Int16ul,
        "i_reserved" / Int16ul,
    ),
)
INODE_EXTRA = Layout(
    "inode extra fields",
    Struct(
        "i_extra_isize" / Int16ul,  # how many bytes after byte 128 are fields
        "i_checksum_hi" / Int16ul,
        "i_ctime_extra" / Int32ul,  # low 2 bits: epoch; the rest: nanoseconds
        "i_mtime_extra" / Int32ul,
        "i_atime_extra" / Int32ul,
        "i_crtime" / Int32sl,
        "i_crtime_extra" / Int32ul,
        "i_version_hi" / Int32ul,
        "i_projid" / Int32ul,
    ),
)
GOOD_OLD_SIZE = INODE.size
CRTIME_END = 24  # `i_extra_isize` from which on an inode has a creation time
COLUMN_SECONDS = (1 << 63) // NANOSECONDS - 2  # the last second of a time column, in 2262
_GENERATION = INODE.offset_of("i_generation")
_I_BLOCK_SIZE = INODE.dtype["i_block"].itemsize
I_BLOCK = slice(INODE.offset_of("i_block"), INODE.offset_of("i_block") + _I_BLOCK_SIZE)
_ROWS_AT_ONCE = 1 << 14
CHECKSUM_LOW = INODE.span("i_checksum_lo")
CHECKSUM_HIGH = INODE_EXTRA.span("i_checksum_hi", GOOD_OLD_SIZE)
_HALVES = (CHECKSUM_LOW, CHECKSUM_HIGH)


class InodeFlags(IntFlag):
    """Bits of `i_flags`, in the order of `lsattr`."""

    SECRM = 0x1
    UNRM = 0x2
    COMPR = 0x4
    SYNC = 0x8
    IMMUTABLE = 0x10
    APPEND = 0x20
    NODUMP = 0x40
    NOATIME = 0x80
    ENCRYPT = 0x800
    INDEX = 0x1000
    IMAGIC = 0x2000
    JOURNAL_DATA = 0x4000
    NOTAIL = 0x8000
    DIRSYNC = 0x10000
    TOPDIR = 0x20000
    HUGE_FILE = 0x40000
    EXTENTS = 0x80000
    VERITY = 0x100000
    EA_INODE = 0x200000
    DAX = 0x2000000
    INLINE_DATA = 0x10000000
    PROJINHERIT = 0x20000000
    CASEFOLD = 0x40000000


_INLINE_DATA = int(InodeFlags.INLINE_DATA)  # int: operators of flags are slow
_ENCRYPT = int(InodeFlags.ENCRYPT)
_NOT_IN_I_BLOCK = int(InodeFlags.EXTENTS | InodeFlags.INLINE_DATA)


@dataclass(frozen=True, slots=True)
class Inode:
    """One inode; times are integer nanoseconds since 1970.

    Attributes:
        blocks: allocated space, in 512-byte sectors.
        dtime: the raw field: deletion time in seconds, or the next orphan's inode number.
        crtime: None if the inode has no room for it.
        raw: bytes of the inode.
    """

    number: int
    mode: int
    uid: int
    gid: int
    size: int
    links_count: int
    blocks: int
    flags: int
    generation: int
    file_acl: int
    atime: int
    mtime: int
    ctime: int
    crtime: int | None
    dtime: int
    version: int
    project_id: int
    extra_isize: int
    checksum: int
    i_block: bytes
    raw: bytes

    @property
    def kind(self) -> FileType:
        """The type in one word, or "unknown"."""
        return KINDS.get(self.mode & 0xF000, "unknown")

    @property
    def is_directory(self) -> bool:
        """Whether the inode is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_inline(self) -> bool:
        """Whether the content is in the inode itself."""
        return bool(self.flags & _INLINE_DATA)

    @property
    def is_encrypted(self) -> bool:
        """Whether the content is encrypted; for a directory, whether the names in it are."""
        return bool(self.flags & _ENCRYPT)

    @property
    def is_fast_symlink(self) -> bool:
        """Whether the link target is in `i_block`."""
        in_blocks = self.flags & _NOT_IN_I_BLOCK
        return stat.S_ISLNK(self.mode) and self.size < _I_BLOCK_SIZE and not in_blocks

    @property
    def device(self) -> tuple[int, int] | None:
        """(major, minor) of a device node: old encoding in `i_block[0]`, new in `i_block[1]`."""
        if not (stat.S_ISCHR(self.mode) or stat.S_ISBLK(self.mode)):
            return None
        old = int.from_bytes(self.i_block[:4], "little")
        if old:
            return old >> 8 & 0xFF, old & 0xFF
        new = int.from_bytes(self.i_block[4:8], "little")
        return new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xFFF00


KINDS: dict[int, FileType] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFCHR: "chardev",
    stat.S_IFBLK: "blockdev",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def is_fast_symlink(mode: Int64s, size: Int64s, flags: Int64s) -> Bools:
    """True where a link target is in `i_block`.

    This holds for targets of fewer than 60 bytes, unless `i_flags` shows that they are in blocks or
    inline data.
    """
    found: Bools = (mode & 0xF000 == stat.S_IFLNK) & (size < _I_BLOCK_SIZE)
    found &= flags & _NOT_IN_I_BLOCK == 0
    return found


class InodeTable:
    """Many inodes as columns (n,), named as in `Inode`; `i_block` (n, 60), `raw` (n, size).

    Each column is computed on first use. `crtime` is also 0 if there is none. Times after 2262 are
    limited to `COLUMN_SECONDS`.

    Args:
        number: int64 (n,).
        raw: uint8 (n, inode size), which must not change afterwards.
        superblock: the superblock of the file system.
    """

    mode: Int64s
    uid: Int64s
    gid: Int64s
    size: Int64s
    links_count: Int64s
    blocks: Int64s
    flags: Int64s
    generation: Int64s
    file_acl: Int64s
    atime: Int64s
    mtime: Int64s
    ctime: Int64s
    crtime: Int64s
    dtime: Int64s
    version: Int64s
    project_id: Int64s
    extra_isize: Int64s
    checksum: Int64s
    i_block: Bytes2D

    def __init__(self, number: Int64s, raw: Bytes2D, superblock: Superblock) -> None:
        self.number = number
        self.raw = raw
        self._superblock = superblock

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(name)
        column = self.__dict__[name] = _FIELDS[name](self._stored)
        return column

    @cached_property
    def _stored(self) -> _Stored:
        rows, base = self.raw, INODE.columns(self.raw)
        if rows.shape[1] >= GOOD_OLD_SIZE + INODE_EXTRA.size:
            return _Stored(base, INODE_EXTRA.columns(rows, GOOD_OLD_SIZE), self._superblock)
        return _Stored(base, np.zeros(len(rows), INODE_EXTRA.dtype), self._superblock)

    def __len__(self) -> int:
        return len(self.number)

    @property
    def is_regular(self) -> Bools:
        """Per inode (bool): a regular file."""
        return self._are(stat.S_IFREG)

    @property
    def is_dir(self) -> Bools:
        """Per inode (bool): a directory."""
        return self._are(stat.S_IFDIR)

    @property
    def is_symlink(self) -> Bools:
        """Per inode (bool): a symbolic link."""
        return self._are(stat.S_IFLNK)

    def _are(self, kind: int) -> Bools:
        found: Bools = self.mode & 0xF000 == kind
        return found

    @classmethod
    def concat(cls, tables: Sequence[InodeTable]) -> InodeTable:
        """One table from one or more tables of the same file system."""
        number = np.concatenate([table.number for table in tables])
        raw = np.concatenate([table.raw for table in tables])
        return cls(number, raw, tables[0]._superblock)

    def take(self, index: Rows | Int64s | Bools | RowSlice) -> InodeTable:
        """The rows that `index` (positions or a boolean mask) selects."""
        return InodeTable(self.number[index], self.raw[index], self._superblock)

    def pieces(self) -> Iterator[InodeTable]:
        """The table in consecutive parts."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            yield InodeTable(self.number[some], self.raw[some], self._superblock)

    def i_blocks(self, rows: Rows | Int64s) -> Bytes2D:
        """`i_block` of some rows, uint8 (n, 60)."""
        found: Bytes2D = self.i_block[rows]
        return found

    def forget_columns(self) -> None:
        """Drop columns that are derived again when they are needed, if they need much memory."""

    def times(self, name: str) -> list[int]:
        """A column of times as integers, which are exact also after 2262."""
        column = getattr(self, name)
        values: list[int] = column.tolist()
        for row in np.flatnonzero(column >= COLUMN_SECONDS * NANOSECONDS).tolist():
            values[row] = getattr(self.one(row), name) or 0
        return values

    def whole_seconds(self, name: str) -> Int64s:
        """A column of times in seconds since 1970, rounded down; exact also after 2262."""
        seconds: Int64s = getattr(self, name) // NANOSECONDS
        for row in np.flatnonzero(seconds >= COLUMN_SECONDS).tolist():
            seconds[row] = (getattr(self.one(row), name) or 0) // NANOSECONDS
        return seconds

    @property
    def stored_size(self) -> npt.NDArray[np.uint64]:
        """The sizes as stored, unsigned; the kernel refuses a file of 2**63 bytes or more."""
        return self.size.view(np.uint64)

    def one(self, row: int) -> Inode:
        """One row as an `Inode` with exact times."""
        plain: dict[str, Any] = {name: int(getattr(self, name)[row]) for name in _NUMBERS}
        plain["size"] = int(self.stored_size[row])
        crtime = plain["crtime"] if plain["extra_isize"] >= CRTIME_END else None
        i_block, raw = self.i_block[row].tobytes(), self.raw[row].tobytes()
        inode = Inode(**(plain | {"crtime": crtime}), i_block=i_block, raw=raw)
        latest = max(plain["atime"], plain["mtime"], plain["ctime"], plain["crtime"])
        return self._exact(inode) if latest >= COLUMN_SECONDS * NANOSECONDS else inode

    def each(self) -> Iterator[Inode]:
        """Every row as an `Inode` with exact times."""
        latest = np.maximum.reduce([self.atime, self.mtime, self.ctime, self.crtime])
        late = set(np.flatnonzero(latest >= COLUMN_SECONDS * NANOSECONDS).tolist())
        columns = {name: getattr(self, name).tolist() for name in _NUMBERS}
        columns["size"] = self.stored_size.tolist()
        exists = (self.extra_isize >= CRTIME_END).tolist()
        pairs = zip(columns["crtime"], exists, strict=True)
        columns["crtime"] = [time if has_crtime else None for time, has_crtime in pairs]
        blocks, rows = _each_row(self.i_block), _each_row(self.raw)
        for row, values in enumerate(zip(*columns.values(), blocks, rows, strict=True)):
            inode = Inode(*values)
            yield self._exact(inode) if row in late else inode

    def _exact(self, inode: Inode) -> Inode:
        """The inode (of 256 bytes or more) with times that a column cannot hold."""
        exact = parse_inode(inode.raw, inode.number, self._superblock)
        times = {name: getattr(exact, name) for name in ("atime", "mtime", "ctime", "crtime")}
        return replace(inode, **times)


def _each_row(rows: Bytes2D) -> Iterator[bytes]:
    """The bytes of each row of a (n, size) uint8 array."""
    data, size = rows.tobytes(), rows.shape[1]
    return (data[start : start + size] for start in range(0, len(data), size))


def parse_inode(data: Buffer, number: int, superblock: Superblock) -> Inode:
    """The inode in `data`.

    Raises:
        CorruptError: `data` has fewer than 128 bytes.
    """
    base = INODE.first(data)
    room = memoryview(data).nbytes >= GOOD_OLD_SIZE + INODE_EXTRA.size
    extra = INODE_EXTRA.first(data, GOOD_OLD_SIZE) if room else _NO_EXTRA
    stored = _Stored(base, extra, superblock)
    plain = {name: read(stored) for name, read in _FIELDS.items()}
    if plain["extra_isize"] < 24:
        plain["crtime"] = None
    return Inode(number=number, **plain, raw=bytes(data))


def parse_inodes(rows: Bytes2D, numbers: Int64s, superblock: Superblock) -> InodeTable:
    """The inodes in a (n, inode size) uint8 array, which must not change afterwards."""
    return InodeTable(numbers, rows, superblock)


_NO_EXTRA = INODE_EXTRA.first(bytes(INODE_EXTRA.size))


class _Stored:
    """The stored fields of inodes, from a Container or from structured arrays."""

    def __init__(self, base: Any, extra: Any, superblock: Superblock) -> None:
        self.base, self.extra, self.superblock = base, extra, superblock

    @cached_property
    def end(self) -> Any:
        """Number of bytes of valid fields after byte 128.

        A field counts only if its end is within this number. Code multiplies by that truth value,
        which works both for integers and for columns.
        """
        return widen(self.extra["i_extra_isize"])

    def time(self, name: str, extra: str, reach: int) -> Any:
        """One of the three times of the first 128 bytes."""
        return _time(self.base[name], self.extra[extra], self.end >= reach)

    @property
    def crtime(self) -> Any:
        """Creation time in ns since 1970."""
        extra, end = self.extra, self.end
        return _time(extra["i_crtime"], extra["i_crtime_extra"], end >= 24) * (end >= 20)

    @property
    def size(self) -> Any:
        """Size in bytes; only types that can be large use the high half."""
        big = (self.base["i_mode"] & 0xF000) == stat.S_IFREG
        big = big | (Incompat.LARGE_DIR in self.superblock.features)
        return join(widen(self.base["i_size_high"]) * big, self.base["i_size_lo"], 32)


_FIELDS: dict[str, Callable[[_Stored], Any]] = {
    "mode": lambda of: widen(of.base["i_mode"]),
    "uid": lambda of: join(of.base["i_uid_high"], of.base["i_uid"], 16),
    "gid": lambda of: join(of.base["i_gid_high"], of.base["i_gid"], 16),
    "size": lambda of: of.size,
    "links_count": lambda of: widen(of.base["i_links_count"]),
    "blocks": lambda of: _sectors(of.base, of.superblock),
    "flags": lambda of: widen(of.base["i_flags"]),
    "generation": lambda of: widen(of.base["i_generation"]),
    "file_acl": lambda of: join(of.base["i_file_acl_high"], of.base["i_file_acl_lo"], 32),
    "atime": lambda of: of.time("i_atime", "i_atime_extra", 16),
    "mtime": lambda of: of.time("i_mtime", "i_mtime_extra", 12),
    "ctime": lambda of: of.time("i_ctime", "i_ctime_extra", 8),
    "crtime": lambda of: of.crtime,
    "dtime": lambda of: widen(of.base["i_dtime"]),
    "version": lambda of: join(
        widen(of.extra["i_version_hi"]) * (of.end >= 28), of.base["i_version"], 32
    ),
    "project_id": lambda of: widen(of.extra["i_projid"]) * (of.end >= 32),
    "extra_isize": lambda of: of.end,
    "checksum": lambda of: join(
        widen(of.extra["i_checksum_hi"]) * (of.end >= 4), of.base["i_checksum_lo"], 16
    ),
    "i_block": lambda of: of.base["i_block"],
}  # values by plain name, in the order of `Inode`
_NUMBERS = ("number", *_FIELDS)[:-1]
FIELD_NAMES = frozenset(_FIELDS)


def _time(seconds: Any, extra: Any, present: Any) -> Any:
    """Nanoseconds since 1970 from a signed 32-bit time and its epoch and nanosecond bits.

    Times of ext4 extend to 2446, those of an int64 column to 2262; later times are limited.
    """
    bits = widen(extra) * present
    whole = widen(seconds) + ((bits & 3) << 32)
    if isinstance(whole, np.ndarray):
        whole = np.minimum(whole, COLUMN_SECONDS)
    return whole * NANOSECONDS + (bits >> 2)


def _sectors(base: Any, superblock: Superblock) -> Any:
    if RoCompat.HUGE_FILE not in superblock.features:
        return widen(base["i_blocks_lo"])
    in_blocks = (base["i_flags"] & int(InodeFlags.HUGE_FILE)) != 0
    count = join(base["i_blocks_high"], base["i_blocks_lo"], 32)
    return count * (1 + in_blocks * (superblock.block_size // 512 - 1))


def inode_seed(superblock: Superblock, number: int, generation: int) -> int:
    """Checksum seed of an inode: the crc32c start register of its metadata."""
    register = crc32c(superblock.seed, number.to_bytes(4, "little"))
    return crc32c(register, generation.to_bytes(4, "little"))


def inode_seeds(superblock: Superblock, numbers: Int64s, generations: Int64s) -> UInt32s:
    """`inode_seed` for columns; uint32 (n,)."""
    pair = np.stack([numbers, generations], axis=1).astype("<u4")
    return crc32c_rows(superblock.seed, pair.view(np.uint8).reshape(len(pair), 8))


def seal_inode(raw: bytearray, number: int, superblock: Superblock) -> None:
    """Write the correct checksum into the bytes of an inode; do nothing without metadata_csum."""
    if not superblock.has_metadata_checksums:
        return
    rows = np.frombuffer(bytes(raw), np.uint8)[None, :]
    raw[:] = signed_inodes(rows, np.array([number]), superblock, np.ones(1, bool)).tobytes()


def inode_checksums_ok(table: InodeTable, superblock: Superblock) -> Bools:
    """True where an inode's stored checksum matches its bytes and number."""
    pieces = [inode_rows_ok(each.raw, each.number, superblock) for each in table.pieces()]
    return np.concatenate([np.zeros(0, bool), *pieces])


def inode_rows_ok(rows: Bytes2D, numbers: Int64s, superblock: Superblock) -> Bools:
    """As `inode_checksums_ok`, for inodes in their on-disk form, uint8 (n, inode size)."""
    heads = np.empty((len(rows), 2), "<u4")
    heads[:, 0], heads[:, 1] = numbers, _field(rows, _GENERATION, 4)
    heads, wide = heads.view(np.uint8), _has_wide_checksum(rows)
    stored = _field(rows, CHECKSUM_LOW.start, 2).astype(np.int64)
    if wide.any():
        stored += _field(rows, CHECKSUM_HIGH.start, 2).astype(np.int64) * wide << 16
    if wide.all():
        return crc32c_fits(superblock.seed, rows, stored, _HALVES, heads)
    fine = np.zeros(len(rows), bool)
    fine[wide] = crc32c_fits(superblock.seed, rows[wide], stored[wide], _HALVES, heads[wide])
    rows, seeds = rows[~wide], crc32c_rows(superblock.seed, heads[~wide]).astype(np.int64)
    rows[:, CHECKSUM_LOW] = 0
    fine[~wide] = crc32c_each(seeds, rows) & 0xFFFF == stored[~wide]
    return fine


def signed_inodes(rows: Bytes2D, numbers: Int64s, superblock: Superblock, right: Bools) -> Bytes2D:
    """Inodes with new checksums, correct or incorrect as requested.

    Args:
        rows: uint8 (n, inode size).
        numbers: int64 (n,).
        superblock: has the seed.
        right: bool (n,), True where the new checksum must be correct.
    """
    rows, wide = rows.copy(), _has_wide_checksum(rows)
    rows[:, CHECKSUM_LOW] = 0
    rows[wide, CHECKSUM_HIGH] = 0
    seeds = inode_seeds(superblock, numbers, _field(rows, _GENERATION, 4).astype(np.int64))
    values = crc32c_each(seeds.astype(np.int64), rows) ^ np.where(right, 0, ONES)
    parts = values.astype("<u4").view(np.uint8).reshape(-1, 4)
    rows[:, CHECKSUM_LOW] = parts[:, :2]
    if wide.any():
        rows[wide, CHECKSUM_HIGH] = parts[wide, 2:]
    return rows


def _has_wide_checksum(rows: Bytes2D) -> Bools:
    """True where an inode has room for a checksum of 32 bits."""
    if rows.shape[1] < GOOD_OLD_SIZE + INODE_EXTRA.size:
        return np.zeros(len(rows), bool)
    return _field(rows, GOOD_OLD_SIZE, 2) >= 4


def _field(rows: Bytes2D, offset: int, size: int) -> UInt32s:
    """An unsigned field of each row, at a multiple of its size."""
    return rows.view(f"<u{size}")[:, offset // size]
