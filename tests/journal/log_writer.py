"""A log written by hand, in memory: for what a kernel writes only by accident."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ext4kit.errors import AccessError
from ext4kit.journal import Log
from ext4kit.parsers.checksums import ONES, crc32c

MAGIC = 0xC03B3998
BLOCK_SIZE = 1024
LOG_START = 1000  # file system block of log block 0
UUID = bytes(range(16))


class MemoryBlocks:
    """A block reader over an array; blocks in `broken` cannot be read."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.block_size = rows.shape[1]
        self.blocks_count = len(rows)
        self.broken: set[int] = set()

    def read(self, block: int, count: int = 1) -> memoryview:
        if block < 0 or block + count > self.blocks_count:
            raise AccessError(f"block {block} lies outside")
        return memoryview(self.read_many(np.arange(block, block + count)).reshape(-1))

    def read_many(self, blocks: Any) -> Any:
        if self.broken & set(blocks.tolist()):
            raise AccessError("a broken block")
        return self.rows[blocks]


class LogWriter:
    """Writes transactions into a ring of `length - 1` blocks, with checksums v3 or none.

    `checksums`, `tag_version` (3, 2 or 0; None: 3 with checksums, else 0) and `wide` (block numbers
    of 64 bits) hold for what is written next.
    """

    tag_version: int | None = None
    wide = False
    tag_uuid = UUID  # behind the first tag; a kernel writes zeros

    def __init__(self, length: int = 64, *, checksums: bool = True) -> None:
        self.rows = np.zeros((LOG_START + length, BLOCK_SIZE), np.uint8)
        self.length = length
        self.end = length
        self.checksums = checksums
        self.head = 1
        self.seed = crc32c(ONES, UUID)

    def put(self, block: bytes, at: int | None = None) -> int:
        """Place a block at the head (or at a log block); returns its log block."""
        place = self.head if at is None else at
        self.rows[LOG_START + place] = np.frombuffer(block.ljust(BLOCK_SIZE, b"\0"), np.uint8)
        if at is None:
            self.head = place + 1 if place + 1 < self.end else 1
        return place

    def _with_checksum(self, block: bytes, offset: int) -> bytes:
        body = bytearray(block.ljust(BLOCK_SIZE, b"\0"))
        if self.checksums:
            struct.pack_into(">I", body, offset, crc32c(self.seed, body))
        return bytes(body)

    def descriptor(self, sequence: int, copies: Sequence[tuple[int, bytes]]) -> int:
        """A descriptor and its copies."""
        body = struct.pack(">III", MAGIC, 1, sequence)
        stored = []
        for number, (block, data) in enumerate(copies):
            flags = (2 if number else 0) | (8 if number == len(copies) - 1 else 0)
            copy = data.ljust(BLOCK_SIZE, b"\0")
            if copy[:4] == MAGIC.to_bytes(4, "big"):
                flags, copy = flags | 1, bytes(4) + copy[4:]
            stored.append(copy)
            body += self._tag(sequence, block, flags, copy) + (b"" if number else self.tag_uuid)
        place = self.put(self._with_checksum(body, BLOCK_SIZE - 4))
        for copy in stored:
            self.put(copy)
        return place

    @property
    def _version(self) -> int:
        if self.tag_version is None:
            return 3 if self.checksums else 0
        return self.tag_version

    def _tag(self, sequence: int, block: int, flags: int, copy: bytes) -> bytes:
        register = crc32c(self.seed, sequence.to_bytes(4, "big"))
        checksum = crc32c(register, copy) if self.checksums else 0
        low, high = block & 0xFFFF_FFFF, block >> 32
        if self._version == 3:
            return struct.pack(">IIII", low, flags, high, checksum)
        tag = struct.pack(">IHH", low, checksum & 0xFFFF, flags)
        tag += struct.pack(">I", high) if self.wide else b""
        return tag + (bytes(2) if self._version == 2 else b"")

    def revoke(self, sequence: int, blocks: Sequence[int]) -> int:
        """A revoke block."""
        width = 8 if self.wide else 4
        body = struct.pack(">IIII", MAGIC, 5, sequence, 16 + width * len(blocks))
        body += b"".join(block.to_bytes(width, "big") for block in blocks)
        return self.put(self._with_checksum(body, BLOCK_SIZE - 4))

    def commit(self, sequence: int, seconds: int = 0) -> int:
        """A commit block."""
        body = struct.pack(">III", MAGIC, 2, sequence).ljust(48, b"\0")
        return self.put(self._with_checksum(body + struct.pack(">QI", seconds or sequence, 5), 16))

    def transaction(self, sequence: int, *copies: tuple[int, bytes]) -> int:
        """A descriptor with its copies and a commit block."""
        place = self.descriptor(sequence, copies)
        self.commit(sequence)
        return place

    def log(self, sequence: int, start: int = 0, *, incompat: int = 0) -> Log:
        """The log as it would be opened, its superblock saying what is given."""
        incompat |= 0x1 | (0x2 if self.wide else 0)
        incompat |= {3: 0x10, 2: 0x8, 0: 0}[self._version]
        body = bytearray(BLOCK_SIZE)
        struct.pack_into(">III", body, 0, MAGIC, 4, 0)
        struct.pack_into(">IIIII", body, 12, BLOCK_SIZE, self.length, 1, sequence, start)
        struct.pack_into(">I", body, 0x28, incompat)
        struct.pack_into(">I", body, 0x54, self.length - self.end)
        body[0x30:0x40] = UUID
        body[0x50] = 4
        if self._version:
            struct.pack_into(">I", body, 0xFC, crc32c(ONES, body))
        self.rows[LOG_START] = np.frombuffer(body, np.uint8)
        return Log(MemoryBlocks(self.rows), self.log_blocks, needs_recovery=start != 0)

    @property
    def log_blocks(self) -> Any:
        """The file system block of each log block."""
        return np.arange(LOG_START, LOG_START + self.length)
