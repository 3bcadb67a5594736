"""Which transaction each checksummed byte of a log belongs to: a walk of its own over the log.

Nothing of ext4kit's is used but the C library behind its crc32c. The log's blocks are those that
debugfs lists. On-disk facts as in the kernel's documentation of jbd2 and ext4's fast commits.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

from tests.journal.kernel_log import run

MAGIC = 0xC03B3998
DESCRIPTOR, COMMIT, REVOKE = 1, 2, 5
KINDS = {DESCRIPTOR: "descriptor", COMMIT: "commit", REVOKE: "revoke"}
SAME_UUID, LAST_TAG = 2, 8
CSUM_V2, CSUM_V3, BIT64 = 0x8, 0x10, 0x2
ONES = 0xFFFFFFFF
FC_TAIL, FC_HEAD = 8, 9
FC_KNOWN = range(1, 10)
ALONE = None  # the journal superblock belongs to no transaction


def register(seed: int, data: bytes) -> int:
    """The crc32c register as the kernel hands it on."""
    return int(crc32c.crc32c(data, seed ^ ONES)) ^ ONES


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that one checksum covers.

    Attributes:
        kind: what they are.
        transaction: id, None for the journal superblock.
        log_block: where they start in the log.
        spans: (first byte in the image, length) of each stretch.
    """

    kind: str
    transaction: int | None
    log_block: int
    spans: tuple[tuple[int, int], ...]

    def random_bit(self, chance: random.Random) -> tuple[int, int]:
        """(byte of the image, bit)."""
        place = chance.randrange(sum(length for _, length in self.spans))
        for start, length in self.spans:
            if place < length:
                return start + place, 1 << chance.randrange(8)
            place -= length
        raise AssertionError


class LogPlaces:
    """The checksummed pieces of an image's log whose checksum fits.

    Args:
        image: with an internal journal that has checksums v2 or v3.
    """

    def __init__(self, image: Path) -> None:
        data = image.read_bytes()
        self.size = 1024 << struct.unpack_from("<I", data, 1024 + 24)[0]
        listed = run("debugfs", "-n", "-R", "blocks <8>", image)
        self.blocks = [int(number) for number in re.findall(r"\d+", listed)]
        self.rows = [data[n * self.size : (n + 1) * self.size] for n in self.blocks]
        head = self.rows[0]
        self.first = struct.unpack_from(">I", head, 20)[0]
        self.incompat = struct.unpack_from(">I", head, 40)[0]
        length = struct.unpack_from(">I", head, 16)[0]
        has_area = struct.unpack_from("<I", data, 1024 + 92)[0] & 0x400
        self.area = (struct.unpack_from(">I", head, 84)[0] or 256) if has_area else 0
        self.end = length - self.area
        self.seed = register(ONES, head[48:64])

    def pieces(self) -> list[Piece]:
        """All of them."""
        found = [Piece("superblock", ALONE, 0, self._spans(0, 1024))]
        for at in range(self.first, self.end):
            found += self._metadata(at)
        return found + list(self._fast_commits())

    def _spans(self, at: int, length: int = 0) -> tuple[tuple[int, int], ...]:
        return ((self.blocks[at] * self.size, length or self.size),)

    def _metadata(self, at: int) -> Iterator[Piece]:
        row = self.rows[at]
        magic, kind, sequence = struct.unpack_from(">III", row)
        if magic != MAGIC or kind not in KINDS:
            return
        hole = 16 if kind == COMMIT else self.size - 4
        stored = struct.unpack_from(">I", row, hole)[0]
        if register(self.seed, row[:hole] + bytes(4) + row[hole + 4 :]) != stored:
            return
        yield Piece(KINDS[kind], sequence, at, self._spans(at))
        if kind == DESCRIPTOR:
            yield from self._copies(at, row, sequence)

    def _copies(self, at: int, row: bytes, sequence: int) -> Iterator[Piece]:
        seed = register(self.seed, struct.pack(">I", sequence))
        for checksum, mask in self._tags(row):
            at = at + 1 if at + 1 < self.end else self.first
            if register(seed, self.rows[at]) & mask == checksum:
                yield Piece("copy", sequence, at, self._spans(at))

    def _tags(self, row: bytes) -> Iterator[tuple[int, int]]:
        """(checksum, which bits of it are stored) of each tag."""
        place, wide = 12, bool(self.incompat & CSUM_V3)
        size = 16 if wide else (14 if self.incompat & BIT64 else 10)
        while place + size <= self.size - 4:
            if wide:
                flags, _, checksum = struct.unpack_from(">III", row, place + 4)
            else:
                checksum, flags = struct.unpack_from(">HH", row, place + 4)
            yield checksum, ONES if wide else 0xFFFF
            place += size + (0 if flags & SAME_UUID else 16)
            if flags & LAST_TAG:
                return

    def _fast_commits(self) -> Iterator[Piece]:
        at = self.end + 1
        while self.area and at < len(self.rows):
            piece = self._fast_commit(at)
            if piece is None:
                at += 1
                continue
            yield piece
            at += len(piece.spans)

    def _fast_commit(self, at: int) -> Piece | None:
        """The one that starts in a block, when its tail's checksum fits."""
        covered, start = b"", at
        spans: list[tuple[int, int]] = []
        while at < len(self.rows):
            row, place = self.rows[at], 0
            while place + 4 <= self.size:
                kind, length = struct.unpack_from("<HH", row, place)
                if kind not in FC_KNOWN or place + 4 + length > self.size:
                    return None
                if kind == FC_TAIL:
                    tid, stored = struct.unpack_from("<II", row, place + 4)
                    spans += self._spans(at, place + 12)
                    fits = register(0, covered + row[: place + 8]) == stored
                    return Piece("fast commit", tid, start, tuple(spans)) if fits else None
                place += 4 + length
            covered, spans, at = covered + row, [*spans, *self._spans(at)], at + 1
        return None
