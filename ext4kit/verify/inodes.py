"""Check of all inodes that were ever written: checksum, fields, block map, claimed blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ext4kit.arrays.lookup import is_member
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs, has_map
from ext4kit.filesystem.inodes import BAD_BLOCKS, BOOT, JOURNAL, RESIZE, ROOT
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.parsers.features import Compat, Incompat, RoCompat
from ext4kit.parsers.inode import INODE, InodeFlags, InodeTable, parse_inodes
from ext4kit.verify.context import InodesInUse, OwnedBlocks, VerifyContext, in_batches
from ext4kit.verify.extents import Found
from ext4kit.verify.findings import Words
from ext4kit.verify.inode_maps import check_maps
from ext4kit.verify.plain import InodeBatch, read_batch
from ext4kit.verify.xattrs import check_bodies

FIFO, CHARACTER, DIRECTORY, BLOCK, REGULAR, SYMLINK, SOCKET = (
    0x1000, 0x2000, 0x4000, 0x6000, 0x8000, 0xA000, 0xC000,
)  # fmt: skip
_KNOWN, _SPECIAL = np.zeros((2, 16), bool)  # by i_mode >> 12
_SPECIAL[[FIFO >> 12, CHARACTER >> 12, BLOCK >> 12, SOCKET >> 12]] = True
_KNOWN[[DIRECTORY >> 12, REGULAR >> 12, SYMLINK >> 12]] = True
_KNOWN |= _SPECIAL
BYTES_AT_ONCE = 4 << 20  # of inode tables read at once; the cache holds them during the check
FACT_BYTES = 26  # per inode in `InodesInUse` and in `InodeBatch`
BYTES_TOGETHER = 16 << 20  # of facts and special inodes that are checked together


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories in use, and their blocks as runs by row.

    Attributes:
        table: inodes of the directories.
        runs: block maps of the directories.
    """

    table: InodeTable
    runs: Runs


@dataclass(slots=True)
class Gathered:
    """Results of the inode check for the later checks, in pieces.

    Attributes:
        facts: all inodes in use.
        directories: the directories among them.
        values: the inodes that hold attribute values.
        is_cut: whether inode tables overlap, so that the last one was read already.
    """

    facts: list[InodesInUse] = field(default_factory=list)
    directories: list[Directories] = field(default_factory=list)
    values: list[InodeTable] = field(default_factory=list)
    is_cut: bool = False


def check_inodes(context: VerifyContext) -> Gathered:
    """Check all inodes, one part of the inode tables at a time."""
    gathered = Gathered()
    parts = _parts(context, gathered)
    pieces = prefetch_map(lambda numbers: read_batch(context, numbers), parts)
    for batch in in_batches(pieces, _size, BYTES_TOGETHER):
        _check_batch(context, batch, gathered)
    if gathered.is_cut:
        read = "more inodes than the evidence can hold"
        context.add("superblock-invalid", "superblock", read)
    return gathered


def _size(piece: InodeBatch) -> int:
    """Number of bytes that the rows and facts of some inodes take."""
    return piece.rows.nbytes + FACT_BYTES * len(piece.facts)


def _parts(context: VerifyContext, gathered: Gathered) -> Iterator[Int64s]:
    """All inode numbers, in parts that are read together."""
    size = context.superblock.inode_size
    room = context.fs.blocks.blocks_count * context.superblock.block_size // size
    step = max(BYTES_AT_ONCE // size, 1)
    for numbers in context.fs.inode_numbers():
        room -= len(numbers)
        if room < 0:
            gathered.is_cut = True
            return
        yield from (numbers[at : at + step] for at in range(0, len(numbers), step))


def _check_batch(context: VerifyContext, batch: list[InodeBatch], gathered: Gathered) -> None:
    context.fs.tell_unreadable(np.concatenate([piece.lost for piece in batch]))
    context.add_inodes("inode-checksum", np.concatenate([piece.unsealed for piece in batch]))
    facts = InodesInUse.concat([piece.facts for piece in batch])
    special_rows = np.flatnonzero(np.concatenate([piece.is_special for piece in batch]))
    rows = np.concatenate([piece.rows for piece in batch])
    table = parse_inodes(rows, facts.number[special_rows], context.superblock)
    used = _in_use(context, table)
    if used.any():
        table = table if used.all() else table.take(used)
        facts.is_bad[special_rows[used]] = _check_used(context, table, gathered)
    if not used.all():
        kept = np.ones(len(facts), np.bool_)
        kept[special_rows[~used]] = False
        facts = facts.take(kept)
    gathered.facts.append(facts)
    context.claims += [piece.claims for piece in batch]


def _check_used(context: VerifyContext, table: InodeTable, gathered: Gathered) -> Bools:
    """Check inodes in use; per row: True where the inode is so wrong that e2fsck would clear it."""
    bad = _Fields(context, table).check()
    bodies = check_bodies(context, table)
    found = check_maps(context, table, bodies)
    _keep(table, found, gathered)
    rows = np.flatnonzero(table.file_acl != 0)
    context.xattr_blocks.append(OwnedBlocks(table.number[rows], table.file_acl[rows]))
    return bad | found.bad


def _in_use(context: VerifyContext, table: InodeTable) -> Bools:
    """Per row: True where the inode is in use; reports unused ones without a deletion time."""
    is_linked = table.links_count > 0
    reserved = table.number < context.superblock.first_usable_inode
    orphan = is_member(table.number, context.orphans)
    left = ~is_linked & ~reserved & (table.mode != 0) & (table.dtime == 0) & ~orphan
    context.add_inodes("inode-deleted-no-dtime", table.number, left)
    waiting = ~is_linked & orphan & (table.mode != 0)
    context.add_inodes("inode-orphan-waiting", table.number, waiting)
    bad_blocks = (table.number == BAD_BLOCKS) & table.i_block.any(axis=1)
    used: Bools = (is_linked & ~reserved) | (reserved & (table.mode != 0)) | waiting | bad_blocks
    return used


class _Fields:
    """Tests the fields of inodes in use; each test reports findings and returns unusable inodes."""

    def __init__(self, context: VerifyContext, table: InodeTable) -> None:
        self.context, self.table = context, table
        self.features = context.superblock.features
        self.kind = table.mode & 0xF000
        self.reserved = table.number < context.superblock.first_usable_inode
        self.special = _SPECIAL[table.mode >> 12] & ~self.reserved
        self.bad = np.zeros(len(table), bool)

    def check(self) -> Bools:
        """Run all tests; per row: True where a test found the inode unusable."""
        self._types()
        self._reserved()
        self._times()
        self._zeros()
        self._flags()
        self._special()
        return self.bad

    def _report(self, code: str, wrong: Bools, read: Words = "", expected: str = "") -> None:
        self.context.add_inodes(code, self.table.number, wrong, read, expected)

    def _flag(self, flag: InodeFlags) -> Bools:
        has: Bools = (self.table.flags & int(flag)) != 0
        return has

    def _types(self) -> None:
        wrong = ~_KNOWN[self.table.mode >> 12] & ~self.reserved
        self._report("inode-type", wrong, lambda row: f"mode 0{self.table.mode[row]:o}")
        self.bad |= wrong

    def _reserved(self) -> None:
        table, superblock = self.table, self.context.superblock
        root = table.number == ROOT
        self._report("root-inode", root & (self.kind != DIRECTORY), "not a directory")
        self._report("root-inode", root & (table.dtime != 0), "has a deletion time")
        own = {superblock.journal_inode, superblock.user_quota_inode,
               superblock.group_quota_inode, superblock.project_quota_inode,
               superblock.orphan_file_inode, RESIZE, BOOT}  # fmt: skip
        known = np.isin(table.number, np.array(sorted(own), np.int64))
        file = self.kind == REGULAR
        boot = (table.number == BOOT) & (self.kind != DIRECTORY)
        wrong = self.reserved & known & ~file & (table.mode != 0) & ~boot
        named = self.reserved & ~known & ~root & (table.mode != 0)
        left = np.isin(table.number, (3, 4, JOURNAL)) & named
        words = lambda row: f"mode 0{table.mode[row]:o}"  # noqa: E731
        self._report("reserved-inode", wrong | (named & ~left), words)
        self._report("reserved-inode-left", left, words)

    def _times(self) -> None:
        table = self.table
        released = (table.dtime != 0) & ~self.reserved & (table.links_count > 0)
        orphan = released & (table.dtime < self.context.superblock.inodes_count)
        linked = is_member(table.number, self.context.orphans)
        self._report("inode-orphan", orphan & ~linked, lambda row: f"next {table.dtime[row]}")
        self._report("inode-dtime", released & ~orphan, lambda row: f"dtime {table.dtime[row]}")

    def _zeros(self) -> None:
        table, features = self.table, self.features
        raw, directory = INODE.columns(table.raw), self.kind == DIRECTORY
        tests = [
            ("i_faddr", raw["i_obso_faddr"] != 0),
            ("i_size_high", directory & (Incompat.LARGE_DIR not in features)
             & (raw["i_size_high"] != 0)),
            ("i_file_acl_high", (raw["i_file_acl_high"] != 0) & (Incompat.BIT64 not in features)),
            ("i_blocks_high", (raw["i_blocks_high"] != 0) & (RoCompat.HUGE_FILE not in features)),
        ]  # fmt: skip
        if self.context.superblock.creator_os:
            tests = tests[:2]  # the Hurd has other fields at these offsets
        tests.append(("i_file_acl", (table.file_acl != 0) & (Compat.EXT_ATTR not in features)))
        for name, wrong in tests:
            self._report("inode-field", wrong & ~self.reserved, f"{name} is not zero", "0")

    def _flags(self) -> None:
        features = self.features
        kind, directory = self.kind, self.kind == DIRECTORY
        extents, inline = self._flag(InodeFlags.EXTENTS), self._flag(InodeFlags.INLINE_DATA)
        held = self.special | (kind == SYMLINK)
        fixed = self._flag(InodeFlags.IMMUTABLE | InodeFlags.APPEND)
        index = self._flag(InodeFlags.INDEX)
        folded = self._flag(InodeFlags.CASEFOLD)
        mapped = has_map(self.table.mode, self.table.size, self.table.flags)
        pointing = mapped & self.table.i_block.any(axis=1)
        tests = [
            ("extents without the feature", extents & (Incompat.EXTENT not in features)),
            ("inline data without the feature", inline & (Incompat.INLINE_DATA not in features)),
            ("inline data and extents", inline & extents),
            ("a special file with extents or inline data", self.special & (extents | inline)),
            ("a special file or link that is immutable or append-only", held & fixed),
            ("imagic without the feature", self._flag(InodeFlags.IMAGIC)
             & (Compat.IMAGIC_INODES not in features)),
            ("an index without the feature", index & directory
             & (Compat.DIR_INDEX not in features)),
            ("an index, but not a directory", index & ~directory),
            ("an index and inline data", index & inline),
            ("an attribute value, but not a regular file", self._flag(InodeFlags.EA_INODE)
             & (kind != REGULAR)),
            ("casefold without the feature or on a non-directory", folded
             & (~directory | (Incompat.CASEFOLD not in features))),
            ("blocks without extents on bigalloc", ~extents & ~inline
             & (RoCompat.BIGALLOC in features) & pointing),
        ]  # fmt: skip
        for words, wrong in tests:
            self._report("inode-flags", wrong & ~self.reserved, words)

    def _special(self) -> None:
        table = self.table
        self._report(
            "inode-size", self.special & (table.size != 0),
            lambda row: f"{table.size[row]:,} bytes in a special file", "0",
        )  # fmt: skip
        if not self.special.any():
            return
        device = ((self.kind == CHARACTER) | (self.kind == BLOCK)) & self.special
        wrong = device & table.i_block[:, 16:].any(axis=1)
        wrong |= self.special & ~device & table.i_block[:, 8:].any(axis=1)
        self._report("inode-device", wrong)
        self.bad |= wrong


def _keep(table: InodeTable, found: Found, gathered: Gathered) -> None:
    """Keep the directories and the inodes that hold attribute values."""
    directory = table.is_dir
    if directory.any():
        runs = found.all_runs()
        runs = runs.take(directory[runs.owner])
        runs = replace(runs, owner=(np.cumsum(directory) - 1)[runs.owner])
        gathered.directories.append(Directories(table.take(directory), runs))
    values = (table.flags & int(InodeFlags.EA_INODE)) != 0
    if values.any():
        gathered.values.append(table.take(values))
