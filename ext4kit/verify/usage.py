"""Bitmaps and counts against the actual usage by inodes and the file system itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.parsers.checksums import crc32c_each
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import DESCRIPTOR_64, GroupFlags
from ext4kit.verify.inodes import DIRECTORY
from ext4kit.verify.places import group_starts, overheads
from ext4kit.verify.scene import METADATA, InodesInUse, VerifyContext

BITMAPS_AT_ONCE = 64
RUNS_TOLD = 8  # runs of bits in one finding
BAD_BLOCKS = 1


def check_usage(scene: VerifyContext, facts: InodesInUse) -> int:
    """Check blocks, then inodes; return the number of blocks in use."""
    start, length, owner = _in_order(scene)
    _check_twice(scene, start, length, owner)
    first, end = _clusters(scene, start, length)
    used = Intervals.union(first, end - first)
    _Blocks(scene, used.start, used.end).check()
    _Inodes(scene, facts).check()
    return int(used.length.sum()) * scene.superblock.cluster_ratio


def _in_order(scene: VerifyContext) -> tuple[Int64s, Int64s, Int64s]:
    """(start, length, owner) of all claims in the file system, by start, then owner."""
    start, length, owner = scene.claims.columns()
    start, length = _inside(scene, start, length)
    order = np.argsort(start, kind="stable")  # fast: files are mostly in order
    order = order[length[order] > 0]
    placed = start[order]
    if (placed[1:] == placed[:-1]).any():
        order = np.lexsort((owner, start))
        order = order[length[order] > 0]
    return start[order], length[order], owner[order]


def _clusters(scene: VerifyContext, start: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """(first cluster, one past the last), counted from the first data block."""
    ratio, base = scene.superblock.cluster_ratio, scene.superblock.first_data_block
    return (start - base) // ratio, -(-(start - base + length) // ratio)


def _inside(scene: VerifyContext, start: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """The part of each run that lies in the file system."""
    begin, end = scene.superblock.first_data_block, scene.blocks_count
    low = np.clip(start, begin, end)
    high = np.clip(start + length, begin, end)
    return low, high - low


def _check_twice(scene: VerifyContext, start: Int64s, length: Int64s, owner: Int64s) -> None:
    """Report overlapping runs (sorted); clusters of one owner may be shared."""
    if RoCompat.SHARED_BLOCKS in scene.superblock.features or not len(start):
        return
    end = start + length
    reach = np.maximum.accumulate(end)
    over = np.flatnonzero(start[1:] < reach[:-1]) + 1
    over = over[(owner[over] != METADATA) | (owner[over - 1] != METADATA)]
    if not len(over):
        return
    bad = owner[over] == BAD_BLOCKS  # mke2fs accepts bad blocks in copies
    over = over[~(bad & _copies(scene).contains(start[over], length[over]))]
    if not len(over):
        return
    place = _reacher(end, reach, over)
    scene.add_rows(
        "block-claimed-twice", "block", over, block=start,
        inode=np.where(owner == METADATA, owner[np.maximum(np.arange(len(owner)) - 1, 0)], owner),
        read=_Names(owner, over, place),
    )  # fmt: skip


def _copies(context: VerifyContext) -> Intervals:
    """Blocks of superblocks and descriptors and the blocks reserved for them, without group 0."""
    superblock, groups = context.superblock, len(context.fs.groups)
    start, length = group_starts(superblock, groups), overheads(superblock, groups)
    return Intervals.union(start[1:], length[1:])


def _reacher(end: Int64s, reach: Int64s, over: Rows) -> Rows:
    """For each of the runs `over`, an earlier run that overlaps it."""
    new = np.concatenate([[True], end[1:] > reach[:-1]])
    holder = np.maximum.accumulate(np.where(new, np.arange(len(end)), 0))
    return holder[over - 1]


class _Names:
    """Texts for the two owners, by row."""

    def __init__(self, owner: Int64s, over: Rows, other: Rows) -> None:
        self._owner = owner
        self._other = dict(zip(over[:1000].tolist(), other.tolist(), strict=False))

    def __call__(self, row: int) -> str:
        return f"{_who(int(self._owner[self._other[row]]))} and {_who(int(self._owner[row]))}"


def _who(owner: int) -> str:
    return f"inode {owner}" if owner != METADATA else "file system metadata"


def _per_group(first: Int64s, end: Int64s, size: int, groups: int) -> Int64s:
    """int64 (groups,): members of disjoint runs in each group of `size`."""
    edges = np.arange(groups + 1) * size
    before = np.concatenate([[0], np.cumsum(end - first)])
    place = np.searchsorted(first, edges, "right") - 1
    inside = np.zeros(groups + 1, np.int64)
    hit = place >= 0
    inside[hit] = np.minimum(edges[hit], end[place[hit]]) - first[place[hit]]
    total = before[np.maximum(place, 0)] + np.maximum(inside, 0)
    return np.diff(np.where(hit, total, 0))


def _bits_of(first: Int64s, end: Int64s, low: int, count: int) -> UInt8s:
    """uint8 (count,): 1 for each member of the disjoint runs, from `low` on."""
    a, b = np.searchsorted(end, low, "right"), np.searchsorted(first, low + count)
    step = np.zeros(count + 1, np.int8)
    step[np.maximum(first[a:b] - low, 0)] = 1
    step[np.minimum(end[a:b] - low, count)] = -1
    return np.cumsum(step[:-1], dtype=np.int8).view(np.uint8)


def _runs_in_words(bits: UInt8s | Bools, low: int, ratio: int = 1) -> str:
    """The first few runs of set bits as text, such as `5-9, 12`."""
    places = np.flatnonzero(bits)
    cut = np.flatnonzero(np.diff(places) > 1)
    starts = places[np.concatenate([[0], cut + 1])][:RUNS_TOLD]
    ends = places[np.append(cut, len(places) - 1)][:RUNS_TOLD]
    words = [
        f"{low + a * ratio}"
        if a == b and ratio == 1
        else f"{low + a * ratio}-{low + (b + 1) * ratio - 1}"
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    more = len(cut) + 1 - len(words)
    return ", ".join(words) + (f" and {more:,} more" if more > 0 else "")


class _Bitmaps:
    """Common parts of block and inode bitmaps.

    Attributes:
        name: "block" or "inode".
        size: bits per group.
        first, end: disjoint runs of members in use, counted through all groups.
        total: members of the whole file system.
    """

    name = ""

    def __init__(
        self, context: VerifyContext, size: int, total: int, first: Int64s, end: Int64s
    ) -> None:
        self.context, self.groups = context, context.fs.groups
        self.size, self.total = size, total
        self.first, self.end = first, end
        features = context.superblock.features
        self.lazy = context.superblock.has_metadata_checksums or RoCompat.UNINIT_BG in features
        count = len(self.groups)
        self.used = _per_group(first, end, size, count)
        self.room = np.clip(total - np.arange(count) * size, 0, size)

    def written(self, flag: GroupFlags) -> Rows:
        """The groups whose bitmap is initialised, ascending."""
        absent = self.lazy & ((self.groups.flags & int(flag)) != 0)
        return np.flatnonzero(~absent)

    def compare(self, groups: Rows, places: Int64s, stored: Int64s) -> None:
        """Check the initialised bitmaps: checksum, padding, bits.

        Args:
            groups: the groups.
            places: block of each group's bitmap.
            stored: checksum of each group's bitmap.
        """
        for at in range(0, len(groups), BITMAPS_AT_ONCE):
            some = groups[at : at + BITMAPS_AT_ONCE]
            rows, readable = self.context.fs.fetch(places[some])
            structure = f"{self.name} bitmap"
            for group in some[~readable].tolist():
                words = self.context.fs.unreadable
                self.context.add("metadata-unreadable", structure, group=group, read=words)
            self._check_sums(some[readable], rows[readable], places, stored)
            for group, row in self._differing(some[readable], rows[readable]):
                self._report(group, row, int(places[group]))

    def _check_sums(self, groups: Rows, rows: Bytes2D, places: Int64s, stored: Int64s) -> None:
        superblock = self.context.superblock
        if not superblock.has_metadata_checksums or not len(groups):
            return
        seeds = np.full(len(groups), superblock.seed)
        found = crc32c_each(seeds, (row[: self.size // 8] for row in rows))
        if superblock.descriptor_size < DESCRIPTOR_64.size:
            found &= 0xFFFF
        trusted = self.context.trusted[groups]
        for row in np.flatnonzero((found != stored[groups]) & trusted).tolist():
            group = int(groups[row])
            self.context.add(
                f"{self.name}-bitmap-checksum", f"{self.name} bitmap", group=group,
                block=int(places[group]), read=f"0x{stored[group]:x}", expected=f"0x{found[row]:x}",
            )  # fmt: skip

    def _differing(self, groups: Rows, rows: Bytes2D) -> Iterator[tuple[int, UInt8s]]:
        """(group, its bitmap) of bitmaps that differ from the expected one, including padding."""
        if not len(groups):
            return
        width = rows.shape[1] * 8
        expected = np.ones((len(groups), width), np.uint8)
        low, high = int(groups[0]), int(groups[-1]) + 1
        if high - low <= 4 * len(groups):
            bits = _bits_of(self.first, self.end, low * self.size, (high - low) * self.size)
            expected[:, : self.size] = bits.reshape(-1, self.size)[groups - low]
        else:
            for row, group in enumerate(groups.tolist()):
                at = group * self.size
                expected[row, : self.size] = _bits_of(self.first, self.end, at, self.size)
        short = np.flatnonzero(self.room[groups] < self.size)
        for row in short.tolist():
            expected[row, self.room[groups[row]] :] = 1
        packed = np.packbits(expected, axis=1, bitorder="little")
        for row in np.flatnonzero((packed != rows).any(axis=1)).tolist():
            yield int(groups[row]), rows[row]

    def _report(self, group: int, row: UInt8s, block: int) -> None:
        bits = np.unpackbits(row, bitorder="little")
        room = int(self.room[group])
        where = {"group": group, "block": block}
        structure = f"{self.name} bitmap"
        if not bits[room:].all():
            read = f"{int((bits[room:] == 0).sum()):,} bits not set"
            self.context.add("bitmap-padding", structure, **where, read=read)
        used = _bits_of(self.first, self.end, group * self.size, self.size)[:room]
        marked = bits[:room]
        for code, wrong in (("marked", marked > used), ("unmarked", marked < used)):
            if wrong.any():
                read = self.words(group, wrong)
                self.context.add(f"{self.name}-bitmap-{code}", structure, **where, read=read)

    def words(self, group: int, wrong: Bools) -> str:
        """Text for the members of some bits of a group."""
        raise NotImplementedError

    def compare_counts(self, code: str, stored: Int64s, found: Int64s) -> None:
        """Compare a count of each group."""
        for group in np.flatnonzero(stored != found)[: self.context.findings.room(code)].tolist():
            self.context.findings.add(
                code, "group descriptor", group=group,
                read=f"{stored[group]:,}", expected=f"{found[group]:,}",
            )  # fmt: skip
        self.context.findings.count(code, int((stored != found).sum()) - self._kept(code))

    def _kept(self, code: str) -> int:
        return sum(finding.code == code for finding in self.context.findings.kept)

    def compare_total(self, code: str, stored: int, found: int) -> None:
        """Compare the superblock's count, which the kernel does not update while mounted."""
        if stored != found and not self.context.superblock.needs_recovery:
            self.context.findings.add(
                code, "superblock", byte=1024, read=f"{stored:,}", expected=f"{found:,}"
            )


class _Blocks(_Bitmaps):
    name = "block"

    def __init__(self, scene: VerifyContext, first: Int64s, end: Int64s) -> None:
        superblock = scene.superblock
        ratio = superblock.cluster_ratio
        size = max(superblock.blocks_per_group // ratio, 1)
        total = -(-(scene.blocks_count - superblock.first_data_block) // ratio)
        super().__init__(scene, size, total, first, end)

    def check(self) -> None:
        groups, superblock = self.groups, self.context.superblock
        written = self.written(GroupFlags.BLOCK_UNINIT)
        self.compare(written, groups.block_bitmap, groups.block_bitmap_checksum)
        free = self.room - self.used
        self.compare_counts("group-free-blocks", groups.free_blocks_count, free)
        total = int(free.sum()) * superblock.cluster_ratio
        self.compare_total("superblock-free-blocks", superblock.free_blocks_count, total)

    def words(self, group: int, wrong: Bools) -> str:
        starts = group_starts(self.context.superblock, group + 1)
        ratio = self.context.superblock.cluster_ratio
        return "blocks " + _runs_in_words(wrong, int(starts[group]), ratio)


class _Inodes(_Bitmaps):
    name = "inode"

    def __init__(self, scene: VerifyContext, facts: InodesInUse) -> None:
        superblock = scene.superblock
        reserved = np.arange(1, superblock.first_usable_inode)
        reserved = reserved[reserved <= superblock.inodes_count]
        usual = facts.number[np.searchsorted(facts.number, superblock.first_usable_inode) :]
        number = np.concatenate([reserved, usual]) - 1
        edge = np.diff(number, prepend=-2, append=superblock.inodes_count + 1) != 1
        first, end = number[edge[:-1]], number[edge[1:]] + 1
        size = superblock.inodes_per_group
        super().__init__(scene, size, superblock.inodes_count, first, end)
        self.facts = facts

    def check(self) -> None:
        groups, superblock = self.groups, self.context.superblock
        written = self.written(GroupFlags.INODE_UNINIT)
        self.compare(written, groups.inode_bitmap, groups.inode_bitmap_checksum)
        free = self.room - self.used
        self.compare_counts("group-free-inodes", groups.free_inodes_count, free)
        self.compare_total("superblock-free-inodes", superblock.free_inodes_count, int(free.sum()))
        directory = (self.facts.mode & 0xF000) == DIRECTORY
        group = (self.facts.number[directory] - 1) // self.size
        found = np.bincount(group, minlength=len(groups))[: len(groups)]
        self.compare_counts("group-directories", groups.used_dirs_count, found)

    def words(self, group: int, wrong: Bools) -> str:
        return "inodes " + _runs_in_words(wrong, group * self.size + 1)
