"""A small walk of its own over the whole log, for the truth: which blocks have copies there.

Every log block is looked at, replayed long ago or not.  On-disk facts as in the kernel's
documentation of jbd2 (Documentation/filesystems/ext4/journal.rst).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from sample_images.recipes.ondisk import Disk

MAGIC = 0xC03B3998
DESCRIPTOR = 1
ESCAPED, SAME_UUID, LAST_TAG = 1, 2, 8
JOURNAL_INODE = 8
INCOMPAT_64BIT, INCOMPAT_CSUM_V2, INCOMPAT_CSUM_V3 = 0x2, 0x8, 0x10


@dataclass(frozen=True, slots=True)
class Copies:
    """What the log holds.

    Attributes:
        described: file system block -> its copies, for which a descriptor still speaks.
        undescribed: log blocks that are neither the log's own nor described.
    """

    described: dict[int, list[bytes]] = field(default_factory=dict)
    undescribed: list[bytes] = field(default_factory=list)


def copies_in_log(disk: Disk) -> Copies:
    """Walk the log of a file system; empty when it has none."""
    found = Copies()
    if not disk.has_journal:
        return found
    blocks = _log_blocks(disk)
    first, length = struct.unpack_from(">I", blocks[0], 20)[0], len(blocks)
    taken: set[int] = set()
    for at in range(first, length):
        if _own_type(blocks[at]) == DESCRIPTOR:
            _take_described(blocks, at, first, found, taken)
    for at in range(first, length):
        if at not in taken and not _own_type(blocks[at]) and any(blocks[at]):
            found.undescribed.append(blocks[at])
    return found


def _log_blocks(disk: Disk) -> list[bytes]:
    extents = disk.map(disk.slot(JOURNAL_INODE)).extents
    blocks: list[bytes] = []
    for _, block, count, _ in sorted(extents):
        run = disk.read(block, count)
        blocks += [run[at : at + disk.block_size] for at in range(0, len(run), disk.block_size)]
    return blocks[: struct.unpack_from(">I", blocks[0], 16)[0]]


def _own_type(block: bytes) -> int:
    magic, kind = struct.unpack_from(">II", block)
    return int(kind) if magic == MAGIC else 0


def _take_described(
    blocks: list[bytes], at: int, first: int, found: Copies, taken: set[int]
) -> None:
    place = at
    for target, escaped in _tags(blocks[0], blocks[at]):
        place = place + 1 if place + 1 < len(blocks) else first
        if _own_type(blocks[place]):
            return  # overwritten by later log blocks: what follows is not this one's
        data = blocks[place]
        copy = struct.pack(">I", MAGIC) + data[4:] if escaped else data
        found.described.setdefault(target, []).append(copy)
        taken.add(place)


def _tags(superblock: bytes, descriptor: bytes) -> Iterator[tuple[int, bool]]:
    incompat = struct.unpack_from(">I", superblock, 40)[0]
    size = _tag_size(incompat)
    place, end = 12, len(descriptor) - 4
    while place + size <= end:
        block, flags = struct.unpack_from(">II", descriptor, place)
        if not incompat & INCOMPAT_CSUM_V3:
            flags &= 0xFFFF  # the upper half is a checksum there
        if incompat & INCOMPAT_64BIT:
            block |= struct.unpack_from(">I", descriptor, place + 8)[0] << 32
        yield block, bool(flags & ESCAPED)
        place += size + (0 if flags & SAME_UUID else 16)
        if flags & LAST_TAG:
            return


def _tag_size(incompat: int) -> int:
    if incompat & INCOMPAT_CSUM_V3:
        return 16
    size = 12 if incompat & INCOMPAT_64BIT else 8
    return size + 2 if incompat & INCOMPAT_CSUM_V2 else size
