"""Extended attributes in the inode body and in the attribute block.

Sources: kernel Documentation/filesystems/ext4/attributes.rst, fs/ext4/xattr.h and xattr.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Array, Int8ul, Int16ul, Int32ul, Struct
from ext4kit.units import InodeNumber

XATTR_BLOCK_HEADER = Layout(
    "xattr block header",
    Struct(
        "h_magic" / Int32ul,  # MAGIC
        "h_refcount" / Int32ul,  # inodes that share the block
        "h_blocks" / Int32ul,  # always 1
        "h_hash" / Int32ul,  # hash over the entries' hashes, to find blocks to share
        "h_checksum" / Int32ul,  # crc32c(fs seed, le64 block number, block with this zeroed)
        "h_reserved" / Array(3, Int32ul),
    ),
)

XATTR_BODY_HEADER = Layout(
    "xattr header in the inode",
    Struct("h_magic" / Int32ul),  # MAGIC, after the inode's extra fields
)

XATTR_ENTRY = Layout(
    "xattr entry",
    Struct(
        "e_name_len" / Int8ul,
        "e_name_index" / Int8ul,  # PREFIXES
        "e_value_offs" / Int16ul,  # from the block's start, or from the first entry in a body
        "e_value_inum" / Int32ul,  # inode that holds the value (ea_inode), or 0
        "e_value_size" / Int32ul,  # bytes
        "e_hash" / Int32ul,  # hash of name and value; may be 0 in an inode body
    ),
)

MAGIC = 0xEA020000
GOOD_OLD_SIZE = 128  # inode bytes before the extra fields

POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT, SYSTEM, ENCRYPTION = 2, 3, 7, 9
PREFIXES = {
    1: b"user.",
    POSIX_ACL_ACCESS: b"system.posix_acl_access",
    POSIX_ACL_DEFAULT: b"system.posix_acl_default",
    4: b"trusted.",
    5: b"lustre.",
    6: b"security.",
    SYSTEM: b"system.",
    8: b"system.richacl",
    ENCRYPTION: b"",  # the encryption context: named "c" and never listed
    10: b"gnu.",  # used by the Hurd
}
LARGEST_VALUE = 1 << 24  # ext4's limit; system calls allow only 64 KiB


@dataclass(frozen=True, slots=True)
class XattrEntry:
    """One attribute, as its entry describes it.

    Attributes:
        name: name with its prefix, for example `user.comment`; an index without a known prefix
            gives `index-<n>.`.
        index: `e_name_index`.
        suffix: the stored name, without prefix.
        value: bytes of the value, or None if they are in a separate inode.
        value_inode: number of that inode, or 0.
        value_size: bytes.
        hash: stored `e_hash`.
    """

    name: bytes
    index: int
    suffix: bytes
    value: bytes | None
    value_inode: InodeNumber
    value_size: int
    hash: int


@dataclass(frozen=True, slots=True)
class XattrBlock:
    """The header of an attribute block."""

    reference_count: int
    hash: int
    checksum: int


def body_offset(extra_isize: int) -> int:
    """Byte offset of the body header in an inode with `extra_isize` bytes of extra fields."""
    return GOOD_OLD_SIZE + extra_isize


def has_body(inode_raw: Buffer, extra_isize: int) -> bool:
    """Whether the inode has attributes in its body: there is room and the magic number."""
    offset = body_offset(extra_isize)
    header = memoryview(inode_raw)[offset : offset + XATTR_BODY_HEADER.size]
    return int.from_bytes(header, "little") == MAGIC  # for every inode: not parsed


def parse_block_header(block: Buffer) -> XattrBlock:
    """The header of an attribute block.

    Raises:
        CorruptError: the magic number is wrong, or `h_blocks` is not 1.
    """
    raw = XATTR_BLOCK_HEADER.parse(block)
    if raw.h_magic != MAGIC:
        raise CorruptError(XATTR_BLOCK_HEADER.name, 0, f"magic number {raw.h_magic:#010x}")
    if raw.h_blocks != 1:
        raise CorruptError(XATTR_BLOCK_HEADER.name, 0, f"{raw.h_blocks} blocks in place of 1")
    return XattrBlock(raw.h_refcount, raw.h_hash, raw.h_checksum)


def entry_offsets(data: Buffer, start: int, end: int) -> Iterator[int]:
    """Byte offsets of the entries from `start` to the four zero bytes after the last one.

    Raises:
        CorruptError: an entry exceeds the area, or the zero bytes are missing; raised after the
            last valid entry.
    """
    view = memoryview(data)
    offset = start
    while offset + 4 <= end and bytes(view[offset : offset + 4]) != bytes(4):
        following = offset + (XATTR_ENTRY.size + view[offset] + 3 & ~3)  # with the name, padded
        if following > end:
            raise CorruptError(XATTR_ENTRY.name, offset, "the entry runs out of its area")
        yield offset
        offset = following
    if offset + 4 > end:
        raise CorruptError(XATTR_ENTRY.name, offset, "the list of entries has no end mark")


def entry_at(data: Buffer, offset: int, values_base: int, end: int) -> XattrEntry:
    """The entry at `offset`, with its value if that is stored in the same area.

    Raises:
        CorruptError: the value is outside `values_base` .. `end`, or exceeds the largest
            possible size.
    """
    raw = XATTR_ENTRY.parse(data, offset)
    view, size = memoryview(data), raw.e_value_size
    start = offset + XATTR_ENTRY.size
    suffix = bytes(view[start : start + raw.e_name_len])
    if size > LARGEST_VALUE:
        raise CorruptError(XATTR_ENTRY.name, offset, f"a value of {size:,} bytes")
    place, value = values_base + raw.e_value_offs, None
    if not raw.e_value_inum:
        if size and place + size > end:
            what = f"a value of {size:,} bytes at byte {place:,} of an area of {end:,}"
            raise CorruptError(XATTR_ENTRY.name, offset, what)
        value = bytes(view[place : place + size])
    index, inode = raw.e_name_index, InodeNumber(raw.e_value_inum)
    name = PREFIXES.get(index, b"index-%d." % index) + suffix
    return XattrEntry(name, index, suffix, value, inode, size, raw.e_hash)


def parse_entries(
    data: Buffer, entries_offset: int, values_base: int, end: int
) -> list[XattrEntry]:
    """All entries of an attribute block or inode body.

    Args:
        data: the block, or the inode's bytes.
        entries_offset: byte offset of the first entry.
        values_base: byte offset from which `e_value_offs` counts.
        end: byte offset of the area's end.

    Raises:
        CorruptError: an entry or a value exceeds the area. Callers that need the other entries
            use `entry_offsets` and `entry_at` instead.
    """
    return [entry_at(data, at, values_base, end) for at in entry_offsets(data, entries_offset, end)]


def block_checksum(seed: int, block_number: int, block: Buffer) -> int:
    """Computed `h_checksum` of a whole block; `seed` is that of the file system."""
    view = memoryview(block)
    at = XATTR_BLOCK_HEADER.offset_of("h_checksum")
    register = crc32c(seed, block_number.to_bytes(8, "little"))
    return crc32c(register, bytes(view[:at]) + bytes(4) + bytes(view[at + 4 :]))


# --- entry hashes --------------------------------------------------------------------------

WORD = 0xFFFFFFFF


def _rotate(value: int, shift: int) -> int:
    return ((value << shift) | (value >> (32 - shift))) & WORD


def entry_hash(suffix: bytes, value_words: list[int], *, signed: bool = False) -> int:
    """The hash of a name without its prefix and of a value's 32-bit words.

    Args:
        suffix: the stored name.
        value_words: the value, zero-padded to words; for a value in a separate inode, the single
            word crc32c(fs seed, value).
        signed: whether characters of the name are signed, as in x86 kernels before 6.2; this
            matters only for names with bytes above 127.
    """
    register = 0
    for byte in suffix:
        register = _rotate(register, 5) ^ ((byte - 256) & WORD if signed and byte > 127 else byte)
    for word in value_words:
        register = _rotate(register, 16) ^ word
    return register


def hash_matches(entry: XattrEntry, value_crc: int | None = None) -> bool | None:
    """Whether the stored hash matches name and value, with signed or unsigned characters.

    Args:
        entry: the entry.
        value_crc: crc32c(fs seed, value), for a value in a separate inode.

    Returns:
        None if there is nothing to compare: no hash is stored, or the value is in a separate
        inode and `value_crc` was not given.
    """
    if not entry.hash:
        return None
    if entry.value is None:
        if value_crc is None:
            return None
        words = [value_crc]
    else:
        padded = entry.value + bytes(-len(entry.value) % 4)
        words = np.frombuffer(padded, "<u4").tolist()
    return entry.hash in (
        entry_hash(entry.suffix, words),
        entry_hash(entry.suffix, words, signed=True),
    )
