"""Context of all checks: the file system, the findings, and results for later checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from ext4kit.arrays.grouping import first_occurrence
from ext4kit.arrays.lookup import SortedIndex, is_member
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int32s, Int64s, Keys, Rows, UInt16s, UInt32s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import MOST_BLOCKS
from ext4kit.parsers.superblock import Superblock
from ext4kit.verify.findings import Findings, Words, text_of

SPARSEST = 16  # a table of all inode numbers is built up to this many per used inode
Piece = TypeVar("Piece")
METADATA = 0  # owner of blocks that belong to no inode


@dataclass(frozen=True, slots=True)
class BlockClaims(Table):
    """Runs of blocks and the inode numbers of their owners."""

    start: Int64s
    length: Int64s
    owner: Int64s


@dataclass(frozen=True, slots=True)
class OwnedBlocks(Table):
    """Blocks and their owners: inode numbers, or rows of a table of inodes."""

    owner: Int64s
    block: Int64s


@dataclass(frozen=True, slots=True)
class ValueReferences(Table):
    """Attributes whose value is in a separate inode: owner, that inode, and size of the value."""

    owner: Int64s
    value_inode: Int64s
    size: Int64s


@dataclass(slots=True)
class VisitedBlocks:
    """Tree blocks that were read; each is read only once, even if it has several owners.

    The number of blocks in the image therefore bounds the work. The visited blocks are stored as
    sorted pieces, each at least twice as long as the next one.
    """

    pieces: list[Int64s] = field(default_factory=list)

    def visit(self, blocks: Int64s) -> Bools:
        """Per block: True where it was not visited before, in this call or an earlier one."""
        fresh = first_occurrence(blocks)
        for piece in self.pieces:
            fresh &= ~is_member(blocks, piece)
        if fresh.any():
            self.pieces.append(np.sort(blocks[fresh]))
        while len(self.pieces) > 1 and len(self.pieces[-2]) < 2 * len(self.pieces[-1]):
            last = self.pieces.pop()
            self.pieces[-1] = np.sort(np.concatenate([self.pieces[-1], last]))
        return fresh


@dataclass(frozen=True, slots=True)
class FileUsage(Table):
    """Usage of the files that quotas count.

    Attributes:
        user, group, project: owner of each file.
        space, inodes: bytes and inodes of each file, including the values of its attributes.
        is_uncounted: True where e2fsck omits a file that the kernel counts (inline links).
    """

    user: Int64s
    group: Int64s
    project: Int64s
    space: Int64s
    inodes: Int64s
    is_uncounted: Bools


@dataclass(frozen=True)  # without slots: it has a cached property
class InodesInUse(Table):
    """Inodes in use, sorted by number.

    Attributes:
        number: inode numbers.
        mode, links_count, flags, size: as in the inode.
        is_bad: True where fields or map are so wrong that e2fsck would clear the inode.
    """

    number: Int64s
    mode: UInt16s
    links_count: UInt16s
    flags: UInt32s
    size: Int64s
    is_bad: Bools

    def rows_of(self, numbers: Int64s) -> Rows:
        """Row of each inode number, NO_ROW where it is not in use."""
        if self._row_by_number is None:
            return SortedIndex(self.number).rows(numbers)
        return np.take(self._row_by_number, numbers, mode="clip").astype(np.int64)

    @cached_property
    def _row_by_number(self) -> Int32s | None:
        """The row of each inode number, then NO_ROW; None if the array would be too long."""
        number = self.number
        if not len(number) or number[-1] > SPARSEST * len(number):
            return None
        rows = np.full(int(number[-1]) + 2, NO_ROW, np.int32)
        rows[number] = np.arange(len(number), dtype=np.int32)
        return rows


def in_batches(
    pieces: Iterable[Piece], size: Callable[[Piece], int], least: int
) -> Iterator[list[Piece]]:
    """Neighbouring pieces in lists of total size `least` or more; the last may be smaller."""
    batch, total = list[Piece](), 0
    for piece in pieces:
        batch.append(piece)
        total += size(piece)
        if total >= least:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class VerifyContext:
    """State of a check.

    Attributes:
        fs: the file system.
        findings: receives the findings.
        claims: blocks and their owners, in pieces.
        nodes: tree blocks and indirect blocks that were read.
        xattr_blocks: attribute blocks, in pieces.
        value_references: references to inodes that hold values, in pieces.
        contexts: attribute blocks that must hold the encryption context of an inode, in pieces.
        usage: usage of files that quotas count, in pieces; only with quotas.
        trusted: bool per group: True where its descriptor is reliable.
        orphans: inodes on the orphan list or in the orphan file, ascending.
    """

    fs: FileSystem
    findings: Findings = field(default_factory=Findings)
    claims: list[BlockClaims] = field(default_factory=list)
    nodes: VisitedBlocks = field(default_factory=VisitedBlocks)
    xattr_blocks: list[OwnedBlocks] = field(default_factory=list)
    value_references: list[ValueReferences] = field(default_factory=list)
    contexts: list[OwnedBlocks] = field(default_factory=list)
    usage: list[FileUsage] = field(default_factory=list)
    trusted: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    orphans: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def superblock(self) -> Superblock:
        """The superblock of the file system."""
        return self.fs.superblock

    @property
    def blocks_count(self) -> int:
        """Number of blocks of the file system, within the range of int64."""
        return min(self.superblock.blocks_count, MOST_BLOCKS)

    def claim(self, start: Int64s, length: Int64s | int, owner: Int64s | int) -> None:
        """Add runs of blocks; a single length or owner applies to all runs."""
        columns = (np.broadcast_to(column, start.shape) for column in (length, owner))
        self.claims.append(BlockClaims(start, *columns))

    def add(
        self, code: str, structure: str, read: str = "", expected: str = "", /, **where: int
    ) -> None:
        """Record a finding; its byte offset is computed from a given block and offset in it."""
        if "block" in where:
            offset = where.pop("offset", 0)
            where["byte"] = where["block"] * self.superblock.block_size + offset
        self.findings.add(code, structure, read, expected, **where)

    def add_checksum(
        self, code: str, structure: str, stored: int, computed: int, **where: int
    ) -> None:
        """Record a finding for a checksum that does not match."""
        self.add(code, structure, f"0x{stored:08x}", f"0x{computed:08x}", **where)

    def add_rows(
        self, code: str, structure: str, rows: Rows | Bools,
        read: Words = "", expected: Words = "", /, **where: Keys | int,
    ) -> None:  # fmt: skip
        """Record a finding for each of some rows.

        Args:
            code: key of `CODES`.
            structure: the structure, in ext4 terms.
            rows: row numbers or a mask.
            read: stored values, texts by row.
            expected: expected values, texts by row.
            where: the other arguments of `add`, each by row or one for all rows.
        """
        for row in self.findings.shown(code, rows):
            places = {
                name: value if isinstance(value, int) else int(value[row])
                for name, value in where.items()
            }
            self.add(code, structure, text_of(read, row), text_of(expected, row), **places)

    def inode_place(self, number: int) -> dict[str, int]:
        """`inode`, `block` and `offset` of an inode, as `add` takes them."""
        block, offset = self.fs.inode_location(np.array([number]))
        return {"inode": number, "block": int(block[0]), "offset": int(offset[0])}

    def add_inodes(
        self, code: str, numbers: Int64s, rows: Rows | Bools | None = None,
        read: Words = "", expected: Words = "",
    ) -> None:  # fmt: skip
        """Record a finding for each of some inodes.

        Args:
            code: key of `CODES`.
            numbers: inode numbers by row.
            rows: row numbers or a mask; all rows by default.
            read: stored values, texts by row.
            expected: expected values, texts by row.
        """
        for row in self.findings.shown(code, np.arange(len(numbers)) if rows is None else rows):
            place = self.inode_place(int(numbers[row]))
            self.add(code, "inode", text_of(read, row), text_of(expected, row), **place)
