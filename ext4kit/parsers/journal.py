"""The jbd2 log on disk: superblock, descriptor tags, revoke records, commit blocks.

All values of the log are big-endian. Source: kernel Documentation/filesystems/ext4/journal.rst,
include/linux/jbd2.h; the ranges of checksums are from fs/jbd2/commit.c and fs/jbd2/recovery.c.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from typing import Annotated, Self

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s, UInt32s
from ext4kit.parsers.checksums import ONES, crc32c, crc32c_each, crc32c_rows
from ext4kit.parsers.layout import Buffer, Layout, Structures, stored_values
from ext4kit.parsers.words import Array, Bytes, Int8ub, Int16ub, Int32ub, Int64ub, Struct
from ext4kit.units import Integers, join, widen

MAGIC = 0xC03B3998
MAGIC_BYTES = MAGIC.to_bytes(4, "big")
UUID_BYTES = 16  # follows a tag without SAME_UUID

HEADER = Layout(
    "journal block header",
    Struct(
        "h_magic" / Int32ub,  # 0xC03B3998; a logged block that starts with it is escaped
        "h_blocktype" / Int32ub,  # see BlockType
        "h_sequence" / Int32ub,  # stored tid of the transaction
    ),
)

SUPERBLOCK = Layout(
    "journal superblock",
    Struct(
        "s_header" / HEADER.struct,
        "s_blocksize" / Int32ub,  # bytes, the same as the file system's
        "s_maxlen" / Int32ub,  # blocks in the journal, including this one
        "s_first" / Int32ub,  # first block of the ring
        "s_sequence" / Int32ub,  # id of the first transaction expected in the log
        "s_start" / Int32ub,  # log block where replay starts; 0: nothing to replay
        "s_errno" / Int32ub,  # the error that aborted the journal
        "s_feature_compat" / Int32ub,  # this and the following fields: version 2 only
        "s_feature_incompat" / Int32ub,
        "s_feature_ro_compat" / Int32ub,
        "s_uuid" / Bytes(16),  # of the journal; checksums are seeded with it
        "s_nr_users" / Int32ub,  # number of file systems that share the log
        "s_dynsuper" / Int32ub,  # block of a copy of the dynamic superblock, unused
        "s_max_transaction" / Int32ub,  # most blocks per transaction, unused
        "s_max_trans_data" / Int32ub,  # most data blocks per transaction, unused
        "s_checksum_type" / Int8ub,  # of checksums v2 and v3; 4 is crc32c
        "s_padding2" / Bytes(3),
        "s_num_fc_blks" / Int32ub,  # fast-commit blocks at the end; 0 means 256
        "s_head" / Int32ub,  # log block at which a clean log continues
        "s_padding" / Array(40, Int32ub),
        "s_checksum" / Int32ub,  # crc32c(~0, these 1,024 bytes with this field zero)
        "s_users" / Bytes(16 * 48),  # UUIDs of the file systems that share the log
    ),
)

TAG = Layout(
    "journal tag",
    Struct(
        "t_blocknr" / Int32ub,  # home block of the copy, low 32 bits
        "t_checksum" / Int16ub,  # checksum v2: low 16 bits of the copy's checksum
        "t_flags" / Int16ub,  # see TagFlags
    ),
)

TAG_64 = Layout(
    "journal tag (64 bit)",
    Struct(
        *TAG.struct.subcons,
        "t_blocknr_high" / Int32ub,  # present with the 64bit feature only
    ),
)

TAG_V3 = Layout(
    "journal tag (checksum v3)",
    Struct(
        "t_blocknr" / Int32ub,
        "t_flags" / Int32ub,
        "t_blocknr_high" / Int32ub,  # always present, counts with the 64bit feature only
        "t_checksum" / Int32ub,  # of the copy
    ),
)

TAIL = Layout(
    "journal block tail",
    Struct("t_checksum" / Int32ub),  # of a descriptor or revoke block, checksums v2 and v3
)

REVOKE = Layout(
    "revoke header",
    Struct(
        "r_header" / HEADER.struct,
        "r_count" / Int32ub,  # bytes used in this block, this header included
    ),
)

COMMIT = Layout(
    "commit block",
    Struct(
        "h_header" / HEADER.struct,
        "h_chksum_type" / Int8ub,  # checksum v1: 1 is crc32
        "h_chksum_size" / Int8ub,  # checksum v1: 4
        "h_padding" / Bytes(2),
        "h_chksum" / Array(8, Int32ub),  # first word: of the transaction (v1) or this block
        "h_commit_sec" / Int64ub,  # seconds since 1970
        "h_commit_nsec" / Int32ub,
    ),
)

COMMIT_CHECKSUM_OFFSET = COMMIT.offset_of("h_chksum")
CHECKSUM_CRC32 = 1  # h_chksum_type of checksum v1
CHECKSUM_CRC32C = 4  # s_checksum_type
DEFAULT_FAST_COMMIT_BLOCKS = 256
MIN_RING_BLOCKS = 1024  # a log shorter than this gets no fast-commit area


class BlockType(IntEnum):
    """Values of `h_blocktype`."""

    DESCRIPTOR = 1
    COMMIT = 2
    SUPERBLOCK_V1 = 3
    SUPERBLOCK_V2 = 4
    REVOKE = 5


class TagFlags(IntFlag):
    """Bits of `t_flags`."""

    ESCAPED = 0x1  # the copy's first four bytes were the magic and are stored as zeros
    SAME_UUID = 0x2  # no UUID follows the tag
    DELETED = 0x4
    LAST = 0x8  # the descriptor's last tag


class JournalCompat(IntFlag):
    """Bits of `s_feature_compat` of the journal."""

    CHECKSUM = 0x1  # checksum v1: commit blocks hold a crc32 of their transaction


class JournalIncompat(IntFlag):
    """Bits of `s_feature_incompat` of the journal."""

    REVOKE = 0x1
    BIT64 = 0x2
    ASYNC_COMMIT = 0x4
    CSUM_V2 = 0x8
    CSUM_V3 = 0x10
    FAST_COMMIT = 0x20


KNOWN_COMPAT, KNOWN_INCOMPAT = 0x1, 0x3F  # plain integers: `~` of a flag drops unknown bits
_SPELLED = (
    (JournalCompat.CHECKSUM, "journal_checksum"),
    (JournalIncompat.REVOKE, "journal_incompat_revoke"),
    (JournalIncompat.BIT64, "journal_64bit"),
    (JournalIncompat.ASYNC_COMMIT, "journal_async_commit"),
    (JournalIncompat.CSUM_V2, "journal_checksum_v2"),
    (JournalIncompat.CSUM_V3, "journal_checksum_v3"),
    (JournalIncompat.FAST_COMMIT, "fast_commit"),
)


@dataclass(frozen=True, slots=True)
class LogFormat:
    """How the kernel wrote a descriptor, revoke or commit block.

    Attributes:
        tag_version: 3 or 2 (tags of checksum v3 or v2) or 0.
        is_wide: block numbers have 64 bits.
        has_checksums: each of these blocks and each copy has a checksum. If a mount clears the
            features, kernels 5.10 to 6.12 (but not 6.18) still write checksums, with tags of
            version 0.
    """

    tag_version: int
    is_wide: bool
    has_checksums: bool

    @property
    def tag(self) -> Layout:
        """The fields of a tag."""
        if self.tag_version == 3:
            return TAG_V3
        return TAG_64 if self.is_wide else TAG

    @property
    def tag_bytes(self) -> int:
        """Size of a tag in bytes, without the UUID that may follow it.

        Source: kernel fs/jbd2/journal.c, `journal_tag_bytes`. With checksum v2 a tag is two bytes
        longer than its fields.
        """
        return self.tag.size + 2 if self.tag_version == 2 else self.tag.size

    @property
    def revoke_bytes(self) -> int:
        """Size of a revoke record in bytes."""
        return 8 if self.is_wide else 4

    @property
    def checksum_bits(self) -> int:
        """Bits of the checksum in a tag: 32, 16, or 0 where the format has none."""
        if not self.has_checksums:
            return 0
        return 32 if self.tag_version == 3 else 16

    @property
    def tail_bytes(self) -> int:
        """Bytes of the checksum at the end of descriptor and revoke blocks."""
        return TAIL.size if self.has_checksums else 0


@dataclass(frozen=True, slots=True)
class JournalFeatures:
    """The feature words of a journal superblock."""

    compat: JournalCompat = JournalCompat(0)
    incompat: JournalIncompat = JournalIncompat(0)
    ro_compat: int = 0

    def __contains__(self, flag: object) -> bool:
        if isinstance(flag, JournalCompat):
            return bool(self.compat & flag)
        return isinstance(flag, JournalIncompat) and bool(self.incompat & flag)

    @property
    def checksum_version(self) -> int:
        """0 (none), 1 (a transaction's crc32), 2 or 3 (crc32c of every block)."""
        if JournalIncompat.CSUM_V3 in self:
            return 3
        if JournalIncompat.CSUM_V2 in self:
            return 2
        return 1 if JournalCompat.CHECKSUM in self else 0

    @property
    def has_block_checksums(self) -> bool:
        """Whether descriptor, revoke and commit blocks and all copies have checksums (v2, v3)."""
        return self.checksum_version >= 2

    @property
    def format(self) -> LogFormat:
        """The format of metadata blocks that a journal with these features has now."""
        version = self.checksum_version if self.has_block_checksums else 0
        return LogFormat(version, JournalIncompat.BIT64 in self, self.has_block_checksums)

    @property
    def unknown_incompat(self) -> int:
        """Unknown incompatible bits; a kernel refuses a log that has any."""
        return int(self.incompat) & ~KNOWN_INCOMPAT

    @property
    def names(self) -> list[str]:
        """The set features by their names in dumpe2fs; unknown bits as FEATURE_C/I/R<bit>."""
        known = [name for flag, name in _SPELLED if flag in self]
        words = {"C": int(self.compat) & ~KNOWN_COMPAT, "I": self.unknown_incompat}
        words["R"] = self.ro_compat
        bits = ((letter, bit) for letter in words for bit in range(32) if words[letter] >> bit & 1)
        return known + [f"FEATURE_{letter}{bit}" for letter, bit in bits]


@dataclass(frozen=True, slots=True)
class JournalSuperblock:
    """A journal superblock with plain names.

    Attributes:
        length: blocks in the journal, including that of the superblock.
        first: first log block of the ring.
        sequence: stored tid of the first transaction expected from `start` on.
        start: log block where a replay starts, 0 if there is nothing to replay.
        head: log block at which a cleanly unmounted log continues, 0 when not recorded.
        users: UUIDs of the file systems that share the log.
    """

    magic: int
    block_type: int
    block_size: Annotated[int, "s_blocksize"]
    length: Annotated[int, "s_maxlen"]
    first: Annotated[int, "s_first"]
    sequence: Annotated[int, "s_sequence"]
    start: Annotated[int, "s_start"]
    error: Annotated[int, "s_errno"]
    features: JournalFeatures
    uuid: Annotated[bytes, "s_uuid"]
    users_count: Annotated[int, "s_nr_users"]
    dynamic_superblock: Annotated[int, "s_dynsuper"]
    max_transaction: Annotated[int, "s_max_transaction"]
    max_transaction_data: Annotated[int, "s_max_trans_data"]
    checksum_type: Annotated[int, "s_checksum_type"]
    raw_fast_commit_blocks: Annotated[int, "s_num_fc_blks"]
    head: Annotated[int, "s_head"]
    checksum: Annotated[int, "s_checksum"]
    computed_checksum: int
    users: tuple[bytes, ...]

    @classmethod
    def parse(cls, data: Buffer, offset: int = 0) -> Self:
        """The superblock in the 1,024 bytes at `offset`, without plausibility checks.

        Raises:
            CorruptError: there are fewer than 1,024 bytes.
        """
        raw = SUPERBLOCK.first(data, offset)
        body = bytearray(bytes(data)[offset : offset + SUPERBLOCK.size])
        body[SUPERBLOCK.span("s_checksum")] = bytes(4)
        features = JournalFeatures()
        if raw.s_header.h_blocktype == BlockType.SUPERBLOCK_V2:  # version 1 ends before them
            words = JournalCompat(raw.s_feature_compat), JournalIncompat(raw.s_feature_incompat)
            features = JournalFeatures(*words, raw.s_feature_ro_compat)
        users = range(min(raw.s_nr_users, 48))
        return cls(
            **stored_values(cls, SUPERBLOCK, raw),
            magic=raw.s_header.h_magic,
            block_type=raw.s_header.h_blocktype,
            features=features,
            computed_checksum=crc32c(ONES, body),
            users=tuple(raw.s_users[16 * n : 16 * n + 16] for n in users),
        )

    @property
    def seed(self) -> int:
        """Checksum seed of the log: the crc32c start register of every block checksum."""
        return crc32c(ONES, self.uuid)

    @property
    def checksum_ok(self) -> bool | None:
        """Whether the stored checksum matches; None if the format has none."""
        if not self.features.has_block_checksums:
            return None
        return self.checksum == self.computed_checksum

    @property
    def fast_commit_blocks(self) -> int:
        """Number of blocks at the end of the log that are reserved for fast commits.

        Source: kernel include/linux/jbd2.h, `jbd2_journal_get_num_fc_blks`.
        """
        return self.fast_commit_area if JournalIncompat.FAST_COMMIT in self.features else 0

    @property
    def fast_commit_area(self) -> int:
        """Number of fast-commit blocks if the file system has the feature (see `ring_of`).

        A clean unmount clears the feature of the journal and does not change the area.
        """
        wanted = self.raw_fast_commit_blocks or DEFAULT_FAST_COMMIT_BLOCKS
        return wanted if self.length - wanted >= MIN_RING_BLOCKS else 0


def judge(superblock: JournalSuperblock, block_size: int) -> str | None:
    """Why a log cannot be read with this superblock, or None if it can."""
    kinds = (BlockType.SUPERBLOCK_V1, BlockType.SUPERBLOCK_V2)
    checks = [
        (superblock.magic == MAGIC, f"magic 0x{superblock.magic:08X}, 0x{MAGIC:08X} expected"),
        (superblock.block_type in kinds, f"block type {superblock.block_type}"),
        (superblock.block_size == block_size,
         f"block size {superblock.block_size}, the file system's is {block_size}"),
    ]  # fmt: skip
    return next((reason for fine, reason in checks if not fine), None)


@dataclass(frozen=True, slots=True)
class TagColumns(Table):
    """Tags of many descriptor blocks, in the order of (descriptor, ordinal).

    Attributes:
        descriptor: int64, row of the descriptor block that contains the tag.
        ordinal: int64, index of the tag in its descriptor, from 0.
        block: int64, home block of the copy.
        flags: int64, TagFlags.
        checksum: int64, the field of 32 bits (tags of v3) or 16; the kernel writes 0 without
            checksums.
    """

    descriptor: Int64s
    ordinal: Int64s
    block: Int64s
    flags: Int64s
    checksum: Int64s


def read_tags(rows: Bytes2D, log_format: LogFormat) -> TagColumns:
    """All tags of many descriptor blocks, one tag of each block per step.

    The tags of a block end at the LAST flag or where no complete tag fits before the tail. A step
    advances by at least one tag. Therefore the block size bounds the number of steps.

    Args:
        rows: uint8 array (descriptors, block size).
        log_format: the format of all of them.
    """
    regular, tags = _regular_tags(rows, log_format)
    irregular = np.flatnonzero(~regular)
    if not len(irregular):
        return tags
    stepped = _stepped_tags(rows[irregular], log_format)
    found = TagColumns.concat([tags, replace(stepped, descriptor=irregular[stepped.descriptor])])
    return found.take(np.argsort(found.descriptor, kind="stable"))


def _regular_tags(rows: Bytes2D, log_format: LogFormat) -> tuple[Bools, TagColumns]:
    """Tags of the blocks in the kernel's form, in which a UUID follows only the first tag.

    Returns:
        (bool per block, True where it has that form; the tags of these blocks).
    """
    layout, size = log_format.tag, log_format.tag_bytes
    start = HEADER.size + size + UUID_BYTES
    room = (rows.shape[1] - log_format.tail_bytes - start) // size
    first = rows[:, None, HEADER.size : HEADER.size + size]
    further = rows[:, start : start + room * size].reshape(len(rows), room, size)
    raw = np.ascontiguousarray(np.concatenate([first, further], axis=1)[:, :, : layout.size])
    tags = raw.view(layout.dtype)[:, :, 0]
    flags = tags["t_flags"]
    is_last = flags & TagFlags.LAST != 0
    counts = np.where(is_last.any(axis=1), is_last.argmax(axis=1), room) + 1
    wanted = np.arange(room + 1) < counts[:, None]
    alone = flags & TagFlags.SAME_UUID != 0
    regular = ~alone[:, 0] & (alone[:, 1:] | ~wanted[:, 1:]).all(axis=1)
    row, ordinal = np.nonzero(wanted & regular[:, None])
    return regular, _tag_columns(row, ordinal, tags[row, ordinal], log_format)


def _stepped_tags(rows: Bytes2D, log_format: LogFormat) -> TagColumns:
    """Tags of blocks in which a UUID may follow any tag, in the order of ordinals."""
    layout, size = log_format.tag, log_format.tag_bytes
    limit = rows.shape[1] - log_format.tail_bytes - size
    active = np.arange(len(rows))
    cursor = np.full(len(rows), HEADER.size)
    steps: list[TagColumns] = []
    while len(active := active[cursor[active] <= limit]):
        raw = layout.at(rows, active, cursor[active])
        step = _tag_columns(active, np.full(len(active), len(steps)), raw, log_format)
        steps.append(step)
        cursor[active] += size + np.where(step.flags & TagFlags.SAME_UUID, 0, UUID_BYTES)
        active = active[step.flags & TagFlags.LAST == 0]
    return TagColumns.concat(steps)


def _tag_columns(row: Rows, ordinal: Int64s, raw: Structures, log_format: LogFormat) -> TagColumns:
    block = widen(raw["t_blocknr"])
    if log_format.is_wide:
        block = join(raw["t_blocknr_high"], raw["t_blocknr"], 32)
    return TagColumns(row, ordinal, block, widen(raw["t_flags"]), widen(raw["t_checksum"]))


@dataclass(frozen=True, slots=True)
class RevokeColumns:
    """Revoke records of many blocks: row of the revoke block, revoked file system block.

    Attributes:
        overflow: bool per revoke block, True where its count exceeds the block (no record is
            read).
    """

    row: Rows
    block: Int64s
    overflow: Bools


def read_revokes(rows: Bytes2D, log_format: LogFormat) -> RevokeColumns:
    """All records of many revoke blocks.

    Source: kernel fs/jbd2/recovery.c, `scan_revoke_records`: a count that exceeds the block is an
    error, and an incomplete record is not read.

    Args:
        rows: uint8 array (revoke blocks, block size).
        log_format: the format of all of them.
    """
    dtype = np.dtype(f">u{log_format.revoke_bytes}")
    used = widen(REVOKE.columns(rows)["r_count"])
    overflow = used > rows.shape[1] - log_format.tail_bytes
    counts = np.where(overflow, 0, np.maximum(used - REVOKE.size, 0) // dtype.itemsize)
    room = (rows.shape[1] - REVOKE.size) // dtype.itemsize
    body = rows[:, REVOKE.size : REVOKE.size + room * dtype.itemsize]
    records = np.ascontiguousarray(body).view(dtype).reshape(len(rows), room)
    wanted = np.arange(room) < counts[:, None]
    return RevokeColumns(np.nonzero(wanted)[0], records[wanted].astype(np.int64), overflow)


def blocks_checksums(seed: int, rows: Bytes2D, hole: int) -> Int64s:
    """crc32c of many log blocks, computed with zeros in the four bytes at `hole`.

    Args:
        seed: `JournalSuperblock.seed`.
        rows: uint8 array (n, block size); not changed.
        hole: offset of the checksum field: `tail_offset` or `COMMIT_CHECKSUM_OFFSET`.

    Returns:
        int64 array (n,).
    """
    copies = rows.copy()
    copies[:, hole : hole + 4] = 0
    return crc32c_each(np.full(len(copies), seed), copies)


def tail_offset(block_size: int) -> int:
    """Byte offset of the checksum in a descriptor or revoke block (checksums v2 and v3)."""
    return block_size - TAIL.size


def stored_checksums(rows: Bytes2D, offset: int) -> Int64s:
    """The big-endian u32 at `offset` of each row, int64."""
    return widen(TAIL.columns(rows, offset)["t_checksum"])


def copy_seeds(seed: int, sequences: Int64s) -> UInt32s:
    """Checksum seeds (crc32c registers) of logged copies, one per transaction id.

    Source: kernel fs/jbd2/commit.c, `jbd2_block_tag_csum_set`.
    """
    numbers = np.ascontiguousarray(sequences.astype(">u4")).view(np.uint8).reshape(-1, 4)
    return crc32c_rows(seed, numbers)


def copies_checksums(seeds: Integers, rows: Bytes2D | Iterator[UInt8s], bits: Int64s) -> Int64s:
    """Checksums of logged copies in the width of their tags.

    Args:
        seeds: from `copy_seeds`, one per row.
        rows: uint8 array (n, block size) or an iterator over such rows, as stored in the log,
            with escaped copies not restored.
        bits: int64 (n,), `LogFormat.checksum_bits`; for 16, only the low bits are kept.
    """
    return crc32c_each(widen(seeds), rows) & ((1 << bits) - 1)
