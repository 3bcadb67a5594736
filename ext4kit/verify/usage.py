"""Check of bitmaps, counts and quota files against the actual usage of blocks and inodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.inodes import BAD_BLOCKS
from ext4kit.parsers.checksums import crc32c_each
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import DESCRIPTOR_64, GroupFlags
from ext4kit.parsers.quota import parse_quota
from ext4kit.verify.context import METADATA, BlockClaims, FileUsage, InodesInUse, VerifyContext
from ext4kit.verify.groups import group_starts, overheads
from ext4kit.verify.inodes import DIRECTORY

BITMAPS_AT_ONCE = 64
RUNS_TOLD = 8  # most runs of bits that a finding lists
MOST_BYTES = 1 << 28  # largest quota file that is read


def check_usage(context: VerifyContext, facts: InodesInUse) -> int:
    """Check the usage of blocks, then of inodes; return the number of blocks in use."""
    claims = _in_order(context)
    _check_twice(context, claims)
    ratio, base = context.superblock.cluster_ratio, context.superblock.first_data_block
    first = (claims.start - base) // ratio
    end = -(-(claims.start - base + claims.length) // ratio)
    used = Intervals.union(first, end - first)
    _check_blocks(context, used)
    _check_inodes(context, facts)
    return int(used.length.sum()) * ratio


def _in_order(context: VerifyContext) -> BlockClaims:
    """All claims in the file system, by start, then owner."""
    claims = BlockClaims.concat(context.claims)
    begin, end = context.superblock.first_data_block, context.blocks_count
    start = np.clip(claims.start, begin, end)
    length = np.clip(claims.start + claims.length, begin, end) - start
    order = np.argsort(start, kind="stable")  # fast for files mostly in order
    order = order[length[order] > 0]
    placed = start[order]
    if (placed[1:] == placed[:-1]).any():
        order = np.lexsort((claims.owner, start))
        order = order[length[order] > 0]
    return BlockClaims(start[order], length[order], claims.owner[order])


def _check_twice(context: VerifyContext, claims: BlockClaims) -> None:
    """Report overlapping runs; runs of one owner may share a cluster."""
    if RoCompat.SHARED_BLOCKS in context.superblock.features or not len(claims):
        return
    start, length, owner = claims.start, claims.length, claims.owner
    end = start + length
    reach = np.maximum.accumulate(end)
    over = np.flatnonzero(start[1:] < reach[:-1]) + 1
    over = over[(owner[over] != METADATA) | (owner[over - 1] != METADATA)]
    bad = owner[over] == BAD_BLOCKS  # mke2fs accepts bad blocks in copies
    if bad.any():
        superblock, groups = context.superblock, len(context.fs.groups)
        starts, lengths = group_starts(superblock, groups), overheads(superblock, groups)
        copies = Intervals.union(starts[1:], lengths[1:])
        over = over[~(bad & copies.contains(start[over], length[over]))]
    if not len(over):
        return
    new = np.concatenate([[True], end[1:] > reach[:-1]])
    holder = np.maximum.accumulate(np.where(new, np.arange(len(end)), 0))  # reaches furthest so far

    def names(row: int) -> str:
        owners = owner[[holder[row - 1], row]].tolist()
        return " and ".join(
            f"inode {o}" if o != METADATA else "file system metadata" for o in owners
        )

    inode = np.where(owner == METADATA, np.roll(owner, 1), owner)  # metadata overlaps an inode
    context.add_rows("block-claimed-twice", "block", over, names, inode=inode, block=start)


def _per_group(used: Intervals, size: int, groups: int) -> Int64s:
    """Number of members in use in each group of `size` members, int64 (groups,)."""
    edges = np.arange(groups + 1) * size
    place = np.searchsorted(used.start, edges)
    below = np.append(0, np.cumsum(used.length))[place]
    return np.diff(below - np.maximum(np.append(0, used.end)[place] - edges, 0))


def _bits_of(used: Intervals, low: int, count: int) -> UInt8s:
    """uint8 (count,): 1 for each member from `low` on that is in use."""
    first, end = used.start, used.end
    a, b = np.searchsorted(end, low, "right"), np.searchsorted(first, low + count)
    step = np.zeros(count + 1, np.int8)
    step[np.maximum(first[a:b] - low, 0)] = 1
    step[np.minimum(end[a:b] - low, count)] = -1
    return np.cumsum(step[:-1], dtype=np.int8).view(np.uint8)


def _runs_in_words(bits: Bools, low: int, ratio: int) -> str:
    """The first few runs of set bits as text, such as `5-9, 12`."""
    runs = Intervals.of_mask(bits)
    first, last = low + runs.start * ratio, low + runs.end * ratio - 1
    words = [
        f"{a}" if a == b else f"{a}-{b}"
        for a, b in zip(first[:RUNS_TOLD].tolist(), last[:RUNS_TOLD].tolist(), strict=True)
    ]
    more = len(runs) - len(words)
    return ", ".join(words) + (f" and {more:,} more" if more else "")


@dataclass(frozen=True, slots=True)
class _Bitmaps:
    """The bitmaps of blocks or inodes, and the members that they should mark.

    Attributes:
        name: "block" or "inode".
        blocks, stored: block and stored checksum of each group's bitmap.
        is_written: bool per group: False for a bitmap that was never initialised.
        size: bits per group.
        room: bits of each group that stand for members of the file system.
        used: members in use, numbered over all groups.
        numbers: number of each group's first member.
        ratio: block or inode numbers per member.
    """

    context: VerifyContext
    name: str
    blocks: Int64s
    stored: Int64s
    is_written: Bools
    size: int
    room: Int64s
    used: Intervals
    numbers: Int64s
    ratio: int = 1

    def check(self) -> None:
        """Check the initialised bitmaps: checksum, padding, bits."""
        written = np.flatnonzero(self.is_written)
        for at in range(0, len(written), BITMAPS_AT_ONCE):
            groups = written[at : at + BITMAPS_AT_ONCE]
            rows, readable = self.context.fs.fetch(self.blocks[groups])
            self.context.add_rows(
                "metadata-unreadable", f"{self.name} bitmap", ~readable,
                self.context.fs.unreadable, group=groups,
            )  # fmt: skip
            groups, rows = groups[readable], rows[readable]
            self._check_sums(groups, rows)
            for group, row in self._differing(groups, rows):
                self._report(group, row)

    def free(self) -> Int64s:
        """Number of unused members of each group."""
        return self.room - _per_group(self.used, self.size, len(self.room))

    def _check_sums(self, groups: Rows, rows: Bytes2D) -> None:
        superblock = self.context.superblock
        if not superblock.has_metadata_checksums or not len(groups):
            return
        seeds = np.full(len(groups), superblock.seed)
        found = crc32c_each(seeds, (row[: self.size // 8] for row in rows))
        if superblock.descriptor_size < DESCRIPTOR_64.size:
            found &= 0xFFFF
        stored = self.stored[groups]
        self.context.add_rows(
            f"{self.name}-bitmap-checksum", f"{self.name} bitmap",
            (found != stored) & self.context.trusted[groups],
            lambda row: f"0x{stored[row]:x}", lambda row: f"0x{found[row]:x}",
            group=groups, block=self.blocks[groups],
        )  # fmt: skip

    def _differing(self, groups: Rows, rows: Bytes2D) -> Iterator[tuple[int, UInt8s]]:
        """(group, bitmap) for each bitmap that differs from the expected one, including padding."""
        if not len(groups):
            return
        expected = np.ones((len(groups), rows.shape[1] * 8), np.uint8)
        low, high = int(groups[0]), int(groups[-1]) + 1
        if high - low <= 4 * len(groups):
            bits = _bits_of(self.used, low * self.size, (high - low) * self.size)
            expected[:, : self.size] = bits.reshape(-1, self.size)[groups - low]
        else:
            for row, group in enumerate(groups.tolist()):
                expected[row, : self.size] = _bits_of(self.used, group * self.size, self.size)
        for row in np.flatnonzero(self.room[groups] < self.size).tolist():
            expected[row, self.room[groups[row]] :] = 1
        packed = np.packbits(expected, axis=1, bitorder="little")
        for row in np.flatnonzero((packed != rows).any(axis=1)).tolist():
            yield int(groups[row]), rows[row]

    def _report(self, group: int, row: UInt8s) -> None:
        room, structure = int(self.room[group]), f"{self.name} bitmap"
        where = {"group": group, "block": int(self.blocks[group])}
        bits = np.unpackbits(row, bitorder="little")
        if not bits[room:].all():
            read = f"{int((bits[room:] == 0).sum()):,} bits not set"
            self.context.add("bitmap-padding", structure, read, **where)
        used = _bits_of(self.used, group * self.size, self.size)[:room]
        marked = bits[:room]
        for code, wrong in (("marked", marked > used), ("unmarked", marked < used)):
            if wrong.any():
                runs = _runs_in_words(wrong, int(self.numbers[group]), self.ratio)
                read = f"{self.name}s {runs}"
                self.context.add(f"{self.name}-bitmap-{code}", structure, read, **where)


def _check_blocks(context: VerifyContext, used: Intervals) -> None:
    """Check the block bitmaps and the counts of free blocks.

    Args:
        context: receives the findings.
        used: clusters in use, counted from the first data block.
    """
    superblock, groups = context.superblock, context.fs.groups
    ratio = superblock.cluster_ratio
    size = max(superblock.blocks_per_group // ratio, 1)
    total = -(-(context.blocks_count - superblock.first_data_block) // ratio)
    bitmaps = _Bitmaps(
        context, "block", groups.block_bitmap, groups.block_bitmap_checksum,
        _are_written(context, GroupFlags.BLOCK_UNINIT), size, _rooms(context, size, total), used,
        group_starts(superblock, len(groups)), ratio,
    )  # fmt: skip
    bitmaps.check()
    free = bitmaps.free()
    _compare_counts(context, "group-free-blocks", groups.free_blocks_count, free)
    total_free = int(free.sum()) * ratio
    _compare_total(context, "superblock-free-blocks", superblock.free_blocks_count, total_free)


def _check_inodes(context: VerifyContext, facts: InodesInUse) -> None:
    """Check the inode bitmaps and the counts of free inodes and of directories."""
    superblock, groups = context.superblock, context.fs.groups
    reserved = np.arange(1, min(superblock.first_usable_inode, superblock.inodes_count + 1))
    usual = facts.number[np.searchsorted(facts.number, superblock.first_usable_inode) :]
    used = Intervals.of_numbers(np.concatenate([reserved, usual]) - 1)
    size = superblock.inodes_per_group
    bitmaps = _Bitmaps(
        context, "inode", groups.inode_bitmap, groups.inode_bitmap_checksum,
        _are_written(context, GroupFlags.INODE_UNINIT), size,
        _rooms(context, size, superblock.inodes_count), used, np.arange(len(groups)) * size + 1,
    )  # fmt: skip
    bitmaps.check()
    free = bitmaps.free()
    _compare_counts(context, "group-free-inodes", groups.free_inodes_count, free)
    total_free = int(free.sum())
    _compare_total(context, "superblock-free-inodes", superblock.free_inodes_count, total_free)
    directory = (facts.mode & 0xF000) == DIRECTORY
    found = np.bincount((facts.number[directory] - 1) // size, minlength=len(groups))
    _compare_counts(context, "group-directories", groups.used_dirs_count, found[: len(groups)])


def _are_written(context: VerifyContext, flag: GroupFlags) -> Bools:
    """Per group: True where the bitmap is initialised."""
    superblock = context.superblock
    lazy = superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features
    written: Bools = (context.fs.groups.flags & int(flag) * lazy) == 0
    return written


def _rooms(context: VerifyContext, size: int, total: int) -> Int64s:
    """Per group: its number of members."""
    return np.clip(total - np.arange(len(context.fs.groups)) * size, 0, size)


def _compare_counts(context: VerifyContext, code: str, stored: Int64s, found: Int64s) -> None:
    groups = np.arange(len(stored))
    context.add_rows(code, "group descriptor", stored != found, stored, found, group=groups)


def _compare_total(context: VerifyContext, code: str, stored: int, found: int) -> None:
    """Compare a count of the superblock, which the kernel does not update while mounted."""
    if stored != found and not context.superblock.needs_recovery:
        context.add(code, "superblock", f"{stored:,}", f"{found:,}", byte=1024)


def check_quota(context: VerifyContext) -> None:
    """Compare the usage by user, group and project."""
    superblock = context.superblock
    if RoCompat.QUOTA not in superblock.features:
        return
    usage = FileUsage.concat(context.usage)
    files = [
        (superblock.user_quota_inode, usage.user),
        (superblock.group_quota_inode, usage.group),
        (superblock.project_quota_inode, usage.project),
    ]
    for kind, (number, owner) in enumerate(files):
        if number:
            _check_quota_file(context, kind, number, owner, usage)


def _check_quota_file(
    context: VerifyContext, kind: int, number: int, owner: Int64s, usage: FileUsage
) -> None:
    """Check one quota file.

    Args:
        context: receives the findings.
        kind: type of owner: user, group, project.
        number: inode number of the quota file.
        owner: owner of each inode.
        usage: usage of each inode.
    """
    try:
        inode = context.fs.inode(number)
        held = context.fs.blocks.blocks_count * context.superblock.block_size
        data = context.fs.content(inode).read(0, min(inode.size, held, MOST_BYTES))
        recorded = parse_quota(data, kind)
    except Ext4kitError as error:
        context.add("quota-file", "quota file", str(error), inode=number)
        return
    ids, place = np.unique(np.concatenate([owner, recorded[0]]), return_inverse=True)
    found, least = np.zeros((2, 2, len(ids)), np.int64)
    for row, values in enumerate((usage.space, usage.inodes)):
        np.add.at(found[row], place[: len(owner)], values)
        np.add.at(least[row], place[: len(owner)], np.where(usage.is_uncounted, 0, values))
    stored = np.zeros_like(found)
    stored[:, place[len(owner) :]] = recorded[1:]
    rows = np.flatnonzero(((stored > found) | (stored < least)).any(axis=0))
    context.add_rows(
        "quota-usage", "quota file", rows,
        lambda row: f"id {ids[row]}: {stored[0, row]:,} bytes, {stored[1, row]:,} inodes",
        lambda row: f"{found[0, row]:,} bytes, {found[1, row]:,} inodes",
        inode=number,
    )  # fmt: skip
