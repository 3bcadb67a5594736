"""A small reader of its own for the truth: inode slots and block maps, nothing shared.

It does not lean on the package under test: geometry from the superblock's bytes, the places
of the inode tables from dumpe2fs.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sample_images.recipes.machine import dumpe2fs

EXTENT_MAGIC = 0xF30A
EXTENTS_FLAG = 0x80000
INLINE_FLAG = 0x10000000
MAX_TREE_BLOCKS = 100_000
UNWRITTEN_FROM = 32768  # an extent length above this means preallocated, not yet written


@dataclass(frozen=True, slots=True)
class Slot:
    """One inode as its table has it.

    Attributes:
        raw: the whole slot, 128 bytes or more.
    """

    raw: bytes

    def _u16(self, offset: int) -> int:
        return int(struct.unpack_from("<H", self.raw, offset)[0])

    def _u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.raw, offset)[0])

    @property
    def mode(self) -> int:
        """File type and permissions."""
        return self._u16(0)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._u32(4) | self._u32(108) << 32

    @property
    def links(self) -> int:
        """Count of names."""
        return self._u16(26)

    @property
    def flags(self) -> int:
        """i_flags."""
        return self._u32(32)

    @property
    def generation(self) -> int:
        """i_generation."""
        return self._u32(100)

    @property
    def map_bytes(self) -> bytes:
        """i_block, 60 bytes."""
        return self.raw[40:100]

    @property
    def signature(self) -> bytes:
        """What has to agree for two slots to give the same content: map, size, generation.

        Content inside the inode goes on behind its fields, so there that part counts too.
        """
        inline = bool(self.flags & INLINE_FLAG) and len(self.raw) > 128
        rest = self.raw[128 + self._u16(128) :] if inline else b""
        return self.map_bytes + struct.pack("<QI", self.size, self.generation) + rest


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """One block of a map's tree: where it is, and the digest of its bytes that matter."""

    block: int
    length: int
    sha256: str


Extent = tuple[int, int, int, bool]  # first file block, first block, blocks, unwritten


@dataclass(frozen=True, slots=True)
class Map:
    """Where a file's content is, and the tree blocks that say so."""

    extents: list[Extent]
    tree: list[TreeBlock]


class Disk:
    """A file system's bytes, from an image or from the device under a mounted one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        head = os.pread(self._file, 1024, 1024)
        self.block_size = 1024 << struct.unpack_from("<I", head, 24)[0]
        self.inodes_per_group = int(struct.unpack_from("<I", head, 40)[0])
        self.inode_size = int(struct.unpack_from("<H", head, 88)[0])
        self.has_journal = bool(struct.unpack_from("<I", head, 92)[0] & 4)
        tables = re.findall(r"Inode table at (\d+)", dumpe2fs(path))
        self._tables = [int(block) for block in tables]

    def __enter__(self) -> Disk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def read(self, block: int, count: int = 1) -> bytes:
        """So many blocks; short or empty behind the end of the device."""
        return os.pread(self._file, count * self.block_size, block * self.block_size)

    def slot_place(self, number: int) -> tuple[int, int]:
        """Where an inode's slot is: (block, byte offset in it)."""
        group, index = divmod(number - 1, self.inodes_per_group)
        block, offset = divmod(index * self.inode_size, self.block_size)
        return self._tables[group] + block, offset

    def slot(self, number: int) -> Slot:
        """An inode's slot as the device has it now."""
        block, offset = self.slot_place(number)
        return Slot(self.read(block)[offset : offset + self.inode_size])

    def map(self, slot: Slot) -> Map:
        """Follow an inode's map: its extents and the blocks of its tree."""
        found = Map([], [])
        if slot.flags & INLINE_FLAG:
            return found
        if slot.flags & EXTENTS_FLAG:
            self._extents(slot.map_bytes, None, found)
        else:
            self._pointers(slot.map_bytes, found)
        return found

    def _extents(self, node: bytes, block: int | None, found: Map) -> None:
        magic, entries, _, depth = struct.unpack_from("<4H", node)
        if magic != EXTENT_MAGIC or len(found.tree) > MAX_TREE_BLOCKS:
            return
        if block is not None:
            used = node[: 12 + 12 * entries]
            found.tree.append(TreeBlock(block, len(used), hashlib.sha256(used).hexdigest()))
        for place in range(12, 12 + 12 * entries, 12):
            if depth == 0:
                logical, length, high, low = struct.unpack_from("<IHHI", node, place)
                unwritten = length > UNWRITTEN_FROM
                count = length - UNWRITTEN_FROM if unwritten else length
                found.extents.append((logical, low | high << 32, count, unwritten))
            else:
                child = leaf_of(node, place)
                self._extents(self.read(child), child, found)

    def _pointers(self, map_bytes: bytes, found: Map) -> None:
        pointers = struct.unpack("<15I", map_bytes)
        found.extents.extend(
            (at, block, 1, False) for at, block in enumerate(pointers[:12]) if block
        )
        each = self.block_size // 4
        logical = 12
        for depth in (1, 2, 3):
            self._indirect(pointers[11 + depth], depth, logical, found)
            logical += each**depth

    def _indirect(self, block: int, depth: int, logical: int, found: Map) -> None:
        if not block or len(found.tree) > MAX_TREE_BLOCKS:
            return
        node = self.read(block)
        found.tree.append(TreeBlock(block, len(node), hashlib.sha256(node).hexdigest()))
        span = (self.block_size // 4) ** (depth - 1)
        for at, (child,) in enumerate(struct.iter_unpack("<I", node)):
            if child and depth == 1:
                found.extents.append((logical + at, child, 1, False))
            elif child:
                self._indirect(child, depth - 1, logical + at * span, found)


def leaf_of(node: bytes, place: int) -> int:
    """The child block in the index entry at byte `place` of an extent tree node."""
    low, high = struct.unpack_from("<IH", node, place + 4)
    return int(low) | int(high) << 32


def merged(extents: list[Extent]) -> list[Extent]:
    """The same map in as few extents as can be."""
    joined: list[Extent] = []
    for logical, block, count, unwritten in sorted(extents):
        if joined:
            last = joined[-1]
            follows = (last[0] + last[2], last[1] + last[2], last[3]) == (logical, block, unwritten)
            if follows:
                joined[-1] = (last[0], last[1], last[2] + count, unwritten)
                continue
        joined.append((logical, block, count, unwritten))
    return joined


def content_digest(disk: Disk, extents: list[Extent], size: int) -> str:
    """SHA-256 of the `size` bytes that a map gives, zeros for holes and unwritten blocks."""
    digest = hashlib.sha256()
    for chunk in _content(disk, extents, size):
        digest.update(chunk)
    return digest.hexdigest()


def _content(disk: Disk, extents: list[Extent], size: int) -> Iterator[bytes]:
    position = 0
    for logical, block, count, unwritten in sorted(extents):
        start = min(logical * disk.block_size, size)
        yield bytes(start - position)
        end = min(start + count * disk.block_size, size)
        yield bytes(end - start) if unwritten else disk.read(block, count)[: end - start]
        position = end
    yield bytes(size - position)
