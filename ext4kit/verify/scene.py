"""Context of all checks: the file system, the findings, and results for later checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import first_occurrence
from ext4kit.arrays.lookup import SortedIndex, is_member
from ext4kit.arrays.types import Bools, Int32s, Int64s, Rows, UInt16s, UInt32s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import MOST_BLOCKS
from ext4kit.parsers.superblock import Superblock
from ext4kit.verify.findings import Findings

SPARSEST = 16  # inode numbers per inode in use, up to which a table of all is built
METADATA = 0  # owner of blocks that belong to no inode


@dataclass(slots=True)
class BlockClaims:
    """Runs of blocks and their owners, collected in pieces."""

    starts: list[Int64s] = field(default_factory=list)
    lengths: list[Int64s] = field(default_factory=list)
    owners: list[Int64s] = field(default_factory=list)

    def add(self, start: Int64s | int, length: Int64s | int, owner: Int64s | int) -> None:
        """Add runs; columns, or one integer for all of `length` and `owner`."""
        starts = np.asarray(start, np.int64).reshape(-1)
        self.starts.append(starts)
        self.lengths.append(np.broadcast_to(np.asarray(length, np.int64), starts.shape))
        self.owners.append(np.broadcast_to(np.asarray(owner, np.int64), starts.shape))

    def columns(self) -> tuple[Int64s, Int64s, Int64s]:
        """(start, length, owner)."""
        none = np.zeros(0, np.int64)
        parts = (self.starts, self.lengths, self.owners)
        start, length, owner = (np.concatenate([none, *part]) for part in parts)
        return start, length, owner


@dataclass(slots=True)
class VisitedBlocks:
    """Tree blocks that were read; each is read only once, from whichever owner.

    The blocks of the image therefore bound the work. The blocks are kept as sorted pieces, each at
    least twice as long as the next one.
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
class InodesInUse:
    """The inodes in use, as columns sorted by number.

    Attributes:
        number: inode numbers.
        mode, links_count, flags, size: as in the inode.
        is_bad: True where fields or map are so wrong that e2fsck would clear the inode.
        places: `row_places` of the numbers.
    """

    number: Int64s
    mode: UInt16s
    links_count: UInt16s
    flags: UInt32s
    size: Int64s
    is_bad: Bools
    places: Int32s | None = None

    def rows_of(self, numbers: Int64s) -> Rows:
        """Row of each inode number, -1 where it is not in use."""
        if self.places is not None:
            return np.take(self.places, numbers, mode="clip").astype(np.int64)
        return SortedIndex(self.number).rows(numbers)


def row_places(numbers: Int64s) -> Int32s | None:
    """The row of each inode number as a table, -1 for none and after the last one.

    Args:
        numbers: int64, ascending.

    Returns:
        None where the table would be much longer than the numbers.
    """
    if not len(numbers) or numbers[-1] > SPARSEST * len(numbers):
        return None
    places = np.full(int(numbers[-1]) + 2, -1, np.int32)
    places[numbers] = np.arange(len(numbers), dtype=np.int32)
    return places


@dataclass(slots=True)
class VerifyContext:
    """State of a check.

    Attributes:
        fs: the file system.
        findings: receives the findings.
        claims: blocks and their owners.
        nodes: tree blocks and indirect blocks that were read.
        xattr_blocks: (inode, block) columns of attribute blocks, in pieces.
        value_references: (inode, value inode, value size) columns, in pieces.
        contexts: (inode, attribute block) columns of encrypted inodes whose encryption context can
            only be in the block, in pieces.
        usage: (user, group, project, bytes, inodes, inline link) columns of files, in pieces; only
            with quotas.
        trusted: bool per group: True where its descriptor is reliable.
        orphans: inodes on the orphan list or in the orphan file.
    """

    fs: FileSystem
    findings: Findings = field(default_factory=Findings)
    claims: BlockClaims = field(default_factory=BlockClaims)
    nodes: VisitedBlocks = field(default_factory=VisitedBlocks)
    xattr_blocks: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    value_references: list[tuple[Int64s, Int64s, Int64s]] = field(default_factory=list)
    contexts: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    usage: list[tuple[Int64s | Bools, ...]] = field(default_factory=list)
    trusted: Any = None
    orphans: frozenset[int] = frozenset()

    @property
    def superblock(self) -> Superblock:
        """The superblock of the file system."""
        return self.fs.superblock

    @property
    def blocks_count(self) -> int:
        """Number of blocks of the file system, within the range of int64."""
        return min(self.superblock.blocks_count, MOST_BLOCKS)

    def byte(self, block: int, offset: int = 0) -> int:
        """Byte offset in the volume of a byte of a block."""
        return block * self.superblock.block_size + offset

    def add(self, code: str, structure: str, **where: Any) -> None:
        """Record a finding; its byte offset is computed from a given block."""
        block = where.get("block")
        if block is not None:
            where["byte"] = self.byte(block, where.pop("offset", 0))
        self.findings.add(code, structure, **where)

    def add_rows(self, code: str, structure: str, rows: Any, **columns: Any) -> None:
        """Record a finding for each position; see `Findings.add_rows`."""
        if "block" in columns:
            block, size = columns["block"], self.superblock.block_size
            offset = columns.pop("offset", 0)
            columns["byte"] = block * size + offset
        self.findings.add_rows(code, structure, rows, **columns)

    def inode_place(self, number: int) -> dict[str, int]:
        """`block` and `offset` of an inode, as `add` takes them."""
        block, offset = self.fs.inode_location(np.array([number]))
        return {"inode": number, "block": int(block[0]), "offset": int(offset[0])}

    def add_inodes(self, code: str, numbers: Any, read: Any = "", expected: Any = "") -> None:
        """Record a finding for each inode number.

        Args:
            code: key of `CODES`.
            numbers: int64.
            read: a text; or texts or numbers by position, or a function that gives them.
            expected: the same.
        """
        shown = numbers[: self.findings.room(code)]
        for row, number in enumerate(shown.tolist()):
            words = {"read": _word(read, row), "expected": _word(expected, row)}
            self.add(code, "inode", **self.inode_place(number), **words)
        self.findings.count(code, len(numbers) - len(shown))


def _word(words: Any, row: int) -> str:
    if isinstance(words, str):
        return words
    value = words(row) if callable(words) else words[row]
    return value if isinstance(value, str) else f"{int(value):,}"
