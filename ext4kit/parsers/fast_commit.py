"""Fast commits on disk: the tags in the last blocks of the log, parsed for many blocks at once.

All values of a fast commit are little-endian. Source: kernel fs/ext4/fast_commit.h. Valid
lengths and the range of a checksum are from fs/ext4/fast_commit.c, `ext4_fc_replay_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.extents import EXTENT, MAX_INITIALISED
from ext4kit.parsers.inode import INODE as INODE_FIELDS
from ext4kit.parsers.layout import Layout
from ext4kit.parsers.words import Int16ul, Int32ul, Struct
from ext4kit.units import join, widen

TAG = Layout(
    "fast commit tag",
    Struct(
        "fc_tag" / Int16ul,  # TagKind
        "fc_len" / Int16ul,  # bytes of value after this header
    ),
)
HEAD = Layout(
    "fast commit head",
    Struct(
        "fc_features" / Int32ul,  # 0: no feature is defined
        "fc_tid" / Int32ul,  # the transaction that was open at that time
    ),
)
TAIL = Layout(
    "fast commit tail",
    Struct(
        "fc_tid" / Int32ul,  # as in the head
        "fc_crc" / Int32ul,  # crc32c, from 0, of all tags since the last tail up to fc_tid
    ),
)
ADD_RANGE = Layout(
    "fast commit range",
    Struct(
        "fc_ino" / Int32ul,
        *EXTENT.struct.subcons,  # the mapping as an extent
    ),
)
DEL_RANGE = Layout(
    "fast commit hole",
    Struct(
        "fc_ino" / Int32ul,
        "fc_lblk" / Int32ul,  # first file block without a mapping
        "fc_len" / Int32ul,  # blocks
    ),
)
DENTRY_INFO = Layout(
    "fast commit directory entry",
    Struct(
        "fc_parent_ino" / Int32ul,
        "fc_ino" / Int32ul,  # the name's bytes follow
    ),
)
INODE = Layout("fast commit inode", Struct("fc_ino" / Int32ul))  # the inode's bytes follow

CHECKED_IN_TAIL = TAG.size + TAIL.offset_of("fc_crc")  # the bytes of a tail that its crc covers
SUPPORTED_FEATURES = 0
LONGEST_NAME = 255
SHORTEST_INODE = 128


class TagKind(IntEnum):
    """Values of `fc_tag`."""

    ADD_RANGE = 1
    DEL_RANGE = 2
    CREAT = 3  # the entry of a new inode; its INODE tag precedes it
    LINK = 4
    UNLINK = 5
    INODE = 6
    PAD = 7  # padding up to the end of the block
    TAIL = 8  # ends a fast commit, and the block
    HEAD = 9  # starts the first fast commit of a transaction


KNOWN_KINDS = frozenset(map(int, TagKind))


def tag_name(kind: int) -> str:
    """Name of a tag's kind."""
    return TagKind(kind).name if kind in KNOWN_KINDS else f"0x{kind:X}"


@dataclass(frozen=True, slots=True)
class FastCommitTags(Table):
    """Tags as int64 columns (n,), in the order of (row, offset).

    Attributes:
        row: row of the block that contains the tag.
        offset: byte offset of its header in the block.
        kind: `fc_tag`.
        length: `fc_len`, bytes.
        sound: bool, True where kind and length are possible; parsing ends at any other tag.
    """

    row: Int64s
    offset: Int64s
    kind: Int64s
    length: Int64s
    sound: Bools


def read_tags(rows: Bytes2D) -> FastCommitTags:
    """The tags of many blocks, one tag of each block per step.

    A step advances by at least one header. Therefore the block size bounds the number of steps.

    Args:
        rows: uint8 (n, block size).
    """
    size = rows.shape[1]
    active = np.arange(len(rows))
    cursor = np.zeros(len(rows), np.int64)
    steps = []
    while len(active := active[cursor[active] + TAG.size <= size]):
        offset = cursor[active]
        raw = TAG.at(rows, active, offset)
        kind, length = widen(raw["fc_tag"]), widen(raw["fc_len"])
        sound = _valid(kind, length) & (offset + TAG.size + length <= size)
        steps.append(FastCommitTags(active, offset, kind, length, sound))
        cursor[active] += TAG.size + length
        active = active[sound]
    tags = FastCommitTags.concat(steps)
    return tags.take(np.lexsort((tags.offset, tags.row)))


def _valid(kind: Int64s, length: Int64s) -> Bools:
    """True where the kind allows the length; source: kernel `ext4_fc_value_len_isvalid`."""
    name = length - DENTRY_INFO.size
    bounds = {
        TagKind.ADD_RANGE: length == ADD_RANGE.size,
        TagKind.DEL_RANGE: length == DEL_RANGE.size,
        TagKind.CREAT: (name >= 1) & (name <= LONGEST_NAME),
        TagKind.INODE: length - INODE.size >= SHORTEST_INODE,
        TagKind.PAD: length >= 0,
        TagKind.TAIL: length >= TAIL.size,
        TagKind.HEAD: length == HEAD.size,
    }
    bounds[TagKind.LINK] = bounds[TagKind.UNLINK] = bounds[TagKind.CREAT]
    valid: Bools = np.logical_or.reduce([(kind == one) & fits for one, fits in bounds.items()])
    return valid


def read_heads(rows: Bytes2D, row: Rows, offset: Int64s) -> tuple[Int64s, Int64s]:
    """(features, stored tid) of the heads whose tags begin at `offset` in the blocks `row`."""
    raw = HEAD.at(rows, row, offset + TAG.size)
    return widen(raw["fc_features"]), widen(raw["fc_tid"])


def read_tails(rows: Bytes2D, row: Rows, offset: Int64s) -> tuple[Int64s, Int64s]:
    """(stored tid, checksum) of the tails whose tags begin at `offset` in the blocks `row`."""
    raw = TAIL.at(rows, row, offset + TAG.size)
    return widen(raw["fc_tid"]), widen(raw["fc_crc"])


@dataclass(frozen=True, slots=True)
class RangeValue:
    """ADD_RANGE (blocks from `physical` on hold file blocks from `logical` on) or DEL_RANGE.

    Attributes:
        physical: first block; -1 for a range that lost its blocks.
    """

    inode: int
    logical: int
    length: int
    physical: int = -1
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class EntryValue:
    """CREAT, LINK or UNLINK: a name in a directory."""

    parent: int
    inode: int
    name: bytes


@dataclass(frozen=True, slots=True)
class InodeValue:
    """INODE: the first bytes of an inode, at least 128."""

    inode: int
    raw: bytes

    @property
    def generation(self) -> int:
        """`i_generation`."""
        return int(INODE_FIELDS.first(self.raw).i_generation)

    @property
    def links_count(self) -> int:
        """`i_links_count`."""
        return int(INODE_FIELDS.first(self.raw).i_links_count)


Value = RangeValue | EntryValue | InodeValue | None


def parse_value(kind: int, value: bytes) -> Value:
    """The value of a valid tag; None for HEAD, TAIL and PAD.

    Raises:
        CorruptError: the value is too short for its kind.
    """
    if kind == TagKind.ADD_RANGE:
        raw = ADD_RANGE.parse(value)
        unwritten = raw.ee_len > MAX_INITIALISED
        length = raw.ee_len - unwritten * MAX_INITIALISED
        physical = join(raw.ee_start_hi, raw.ee_start_lo, 32)
        return RangeValue(raw.fc_ino, raw.ee_block, length, physical, unwritten)
    if kind == TagKind.DEL_RANGE:
        raw = DEL_RANGE.parse(value)
        return RangeValue(raw.fc_ino, raw.fc_lblk, raw.fc_len)
    if kind in (TagKind.CREAT, TagKind.LINK, TagKind.UNLINK):
        raw = DENTRY_INFO.parse(value)
        return EntryValue(raw.fc_parent_ino, raw.fc_ino, bytes(value[DENTRY_INFO.size :]))
    if kind == TagKind.INODE:
        return InodeValue(INODE.parse(value).fc_ino, bytes(value[INODE.size :]))
    return None
