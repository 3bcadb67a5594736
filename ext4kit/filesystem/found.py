"""File systems found by their superblocks anywhere in a source, without a partition table.

Every copy of a superblock gives the start of its file system. Copies of one file system are
grouped. A start is accepted if the descriptor after the copy refers to an inode table in which
inode 2 is a directory. Old superblocks in a log, a file or unallocated space give a start without
such a structure and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ext4kit.arrays.types import Bytes2D
from ext4kit.errors import CorruptError, Ext4kitError
from ext4kit.evidence.source import Source, Window, peek
from ext4kit.evidence.streaming import data_pieces, read_with_zeros, stream
from ext4kit.filesystem.filesystem import FileSystem
from ext4kit.filesystem.geometry import descriptor_blocks, first_block
from ext4kit.filesystem.inodes import ROOT
from ext4kit.parsers.group import parse_groups
from ext4kit.parsers.inode import inode_checksums_ok, parse_inodes
from ext4kit.parsers.superblock import SUPERBLOCK, Superblock, judge
from ext4kit.parsers.superblock_columns import SuperblockCopies, superblocks_in
from ext4kit.parsers.traces import plausible_inodes
from ext4kit.problems import Problems
from ext4kit.units import SECTOR, Progress

MOST_COPIES = 1 << 20
MOST_IDENTITIES = 1 << 12
MOST_STARTS = 1 << 10  # starts examined per file system
MOST_LOOKS = 1 << 16  # checks for a root directory in total
OLD_GROUPS = 16  # first groups that may hold a copy of revision 0


class Basis(StrEnum):
    """The evidence for the start of a file system."""

    ROOT = "root directory"  # found through the descriptors after the copy
    COPIES = "copies that agree"  # copies of several groups agree
    ONE = "superblock alone"


class Relation(StrEnum):
    """The relation of a file system to another one that covers its position."""

    IN_FILE = "in use"  # used by the other one: this one is an image in a file
    IN_FREE_SPACE = "free"  # a deleted image, or an older file system
    EARLIER = "earlier"  # overwritten by the other one, which was created later


@dataclass(frozen=True, slots=True)
class FoundFileSystem:
    """A file system found by a superblock.

    Attributes:
        offset: byte offset of its start; negative if the source starts within it.
        superblock: the best copy.
        place: byte offset of the best copy.
        copies: number of superblock copies that give the same start.
        basis: evidence for the start.
        room: bytes of the source from the start on.
        other: offset of another file system that covers this position, None without one.
        relation: relation to the file system at `other`.
    """

    offset: int
    superblock: Superblock
    place: int
    copies: int
    basis: Basis
    room: int
    other: int | None = None
    relation: Relation | None = None

    @property
    def size(self) -> int:
        """Size in bytes according to the superblock."""
        return self.superblock.blocks_count * self.superblock.block_size

    @property
    def readable(self) -> int:
        """Number of its bytes that are in the source."""
        return max(min(self.size, self.room), 0) - max(-self.offset, 0)

    @property
    def is_whole(self) -> bool:
        """Whether the source contains the whole file system."""
        return self.readable == self.size

    @property
    def block(self) -> int | None:
        """Block of the backup superblock in use; None for the primary."""
        if not self.superblock.group_number:
            return None
        return first_block(self.superblock, self.superblock.group_number)

    @property
    def end(self) -> int:
        """Byte offset of its end."""
        return self.offset + self.size


def find_file_systems(
    source: Source, problems: Problems, progress: Progress | None = None, most: int | None = None
) -> list[FoundFileSystem]:
    """The file systems with a superblock at any sector of a source, by offset.

    Each byte of data is read once; memory is bounded.

    Args:
        source: the whole image, or the part to search.
        problems: records that there are more copies than can be examined.
        progress: called with (bytes done, bytes in total).
        most: bytes of data after which to stop.
    """
    copies = _copies(source, problems, progress, most)
    _, first, identity = np.unique(copies.identity, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(identity.reshape(-1), kind="stable")
    edges = np.flatnonzero(np.diff(identity.reshape(-1)[order])) + 1
    groups = [part for part in np.split(order, edges) if len(part)]
    if len(first) > MOST_IDENTITIES:
        text = f"{len(first):,} different superblocks; {MOST_IDENTITIES:,} are looked at"
        problems.add("image", text)
    budget = [MOST_LOOKS]
    found = [
        one
        for rows in groups[:MOST_IDENTITIES]
        for one in _of_identity(source, copies.take(rows), budget)
    ]
    found.sort(key=lambda one: (one.offset, one.superblock.group_number))
    return list(_related(source, found))


def _copies(
    source: Source, problems: Problems, progress: Progress | None, most: int | None
) -> SuperblockCopies:
    """All superblock copies of a source."""

    def look(place: int, length: int) -> SuperblockCopies:
        behind = min(place + length + SUPERBLOCK.size - SECTOR, source.size)
        return superblocks_in(read_with_zeros(source, place, behind - place), place, length)

    parts, total = [superblocks_in(np.zeros(0, np.uint8), 0, 0)], 0
    for part in stream(list(data_pieces(source, SECTOR, most)), look, progress):
        room = MOST_COPIES - total
        if len(part) > room:
            problems.add("image", f"more than {MOST_COPIES:,} superblocks; the rest is ignored")
            part = part.take(slice(room))
        total += len(part)
        parts += [part] if len(part) else []
    return SuperblockCopies.concat(parts)


# ------------------------------------------------------------------------- one file system


def _of_identity(
    source: Source, copies: SuperblockCopies, budget: list[int]
) -> list[FoundFileSystem]:
    """The file systems of these copies, which have equal UUID and geometry.

    There are several if the file system was copied as a whole. Once a start is accepted, copies
    that give a start without a file system are ignored.
    """
    starts, row = np.unique(copies.start, return_inverse=True)
    pairs = np.unique(np.stack([row.reshape(-1), copies.group], axis=1), axis=0)
    agreeing = np.bincount(pairs[:, 0], minlength=len(starts))
    chosen = np.lexsort((starts, -agreeing))[:MOST_STARTS]
    members = np.argsort(row.reshape(-1), kind="stable")
    edges = np.searchsorted(row.reshape(-1)[members], np.arange(len(starts) + 1))
    found: list[tuple[FoundFileSystem, _Rank]] = []
    for at in chosen.tolist():
        own = copies.take(members[edges[at] : edges[at + 1]])
        start = _read_start(source, own, int(agreeing[at]), budget)
        found += [] if start is None else [start]
    for basis in (Basis.ROOT, Basis.COPIES):
        believed = [one for one, _ in found if one.basis is basis]
        if believed:
            return believed
    shifted = _of_revision_0(source, copies, budget) if copies.is_old.any() else None
    if shifted is not None:
        return [shifted]
    return [max(found, key=lambda start: start[1])[0]] if found else []


# Rank of a superblock copy: whether the source holds the whole file system that it describes (for
# copies in a log, the start is wrong); whether it is valid; last write; low offset.
_Rank = tuple[bool, bool, int, int]


def _read_start(
    source: Source, copies: SuperblockCopies, agreeing: int, budget: list[int]
) -> tuple[FoundFileSystem, _Rank] | None:
    """The file system at a start on which some copies agree, with the rank of the best copy."""
    rank = np.lexsort((-copies.written, copies.group > 0, ~copies.is_sound))
    best = copies.take(rank[:1])
    place, offset = int(best.place[0]), int(best.start[0])
    superblock = _superblock_at(source, place)
    if superblock is None:
        return None
    basis = Basis.COPIES if agreeing > 1 else Basis.ONE
    if budget[0] > 0:
        budget[0] -= 1
        basis = Basis.ROOT if _has_root(source, offset, superblock) else basis
    if basis is Basis.ONE and not best.is_sound[0]:
        return None
    one = FoundFileSystem(offset, superblock, place, len(copies), basis, source.size - offset)
    is_whole = one.is_whole and offset >= 0
    return one, (is_whole, bool(best.is_sound[0]), int(best.written[0]), -place)


def _superblock_at(source: Source, place: int) -> Superblock | None:
    try:
        found = Superblock.parse(peek(source, place, SUPERBLOCK.size))
    except CorruptError:
        return None
    return None if judge(found) else found


def _of_revision_0(
    source: Source, copies: SuperblockCopies, budget: list[int]
) -> FoundFileSystem | None:
    """The file system of a backup without a group number, with the start that leads to a root."""
    place = int(copies.place[0])
    superblock = _superblock_at(source, place)
    if superblock is None:
        return None
    for group in range(1, min(superblock.groups_count, OLD_GROUPS + 1)):
        one = replace(superblock, group_number=group)
        offset = place - first_block(one, group) * one.block_size
        budget[0] -= 1
        if budget[0] > 0 and _has_root(source, offset, one):
            room = source.size - offset
            return FoundFileSystem(offset, one, place, len(copies), Basis.ROOT, room)
    return None


def _has_root(source: Source, offset: int, superblock: Superblock) -> bool:
    """Whether the descriptor after a superblock copy refers to the inode of a root directory."""
    size = superblock.block_size
    block = int(descriptor_blocks(superblock, superblock.group_number, 1)[0])
    row = peek(source, offset + block * size, superblock.descriptor_size)
    if len(row) < superblock.descriptor_size:
        return False
    table = int(parse_groups(_as_rows(row), superblock).inode_table[0])
    if not 0 < table < superblock.blocks_count:
        return False
    length = superblock.inode_size
    inode = peek(source, offset + table * size + (ROOT - 1) * length, length)
    if len(inode) < length or not len(plausible_inodes(_as_rows(inode))):
        return False
    root = parse_inodes(_as_rows(inode), np.array([ROOT]), superblock)
    if superblock.has_metadata_checksums and not inode_checksums_ok(root, superblock)[0]:
        return False
    return root.one(0).is_directory


def _as_rows(data: bytes) -> Bytes2D:
    return np.frombuffer(data, np.uint8).reshape(1, -1)


# ------------------------------------------------------------------- file systems in each other


def _related(source: Source, found: list[FoundFileSystem]) -> Iterator[FoundFileSystem]:
    """The file systems, each with its relation to the innermost other one at its position."""
    start = np.array([one.offset for one in found], np.int64)
    end = np.array([one.end for one in found], np.int64)
    believed = np.array([one.basis is not Basis.ONE for one in found], bool)
    opened: dict[int, FileSystem | None] = {}
    for at, one in enumerate(found):
        around = believed & (start <= one.offset) & (one.offset < end)
        around[at] = False
        inner = np.flatnonzero(believed & (start > one.offset) & (start < one.end))
        relation, other = None, None
        for row in np.flatnonzero(around)[::-1].tolist():
            if not _is_later(found[at], found[row]):
                relation, other = _relation(source, one, found[row], opened), found[row].offset
                break
        for row in inner.tolist() if relation is None else ():
            if _is_later(found[row], one):
                relation, other = Relation.EARLIER, found[row].offset
                break
        yield replace(one, relation=relation, other=other)


def _is_later(one: FoundFileSystem, other: FoundFileSystem) -> bool:
    """Whether a file system was created after the last write to the other one."""
    if one.offset == other.offset and (one.block is None) != (other.block is None):
        return one.block is None
    return one.superblock.mkfs_time > other.superblock.write_time


def _relation(
    source: Source,
    one: FoundFileSystem,
    other: FoundFileSystem,
    opened: dict[int, FileSystem | None],
) -> Relation:
    """Relation of a file system to the one that contains it, by the latter's block bitmap."""
    if one.offset == other.offset:
        return Relation.EARLIER
    if other.place not in opened:
        window, fs = Window(source, other.offset, other.size), None
        with suppress(Ext4kitError):
            fs = FileSystem.from_source(window, other.block) if other.offset >= 0 else None
        opened[other.place] = fs
    fs = opened[other.place]
    if fs is None:
        return Relation.IN_FILE
    block = (one.place - other.offset) // fs.superblock.block_size
    used = bool(fs.bitmaps.blocks_in_use(np.array([block]))[0])
    return Relation.IN_FILE if used else Relation.IN_FREE_SPACE
