"""Block groups as text in the wording of `dumpe2fs`, and as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Annotated, Literal, TypedDict

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.types import Bools, Int64s, UInt8s
from ext4kit.filesystem import FileSystem, geometry
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.group import GroupFlags
from ext4kit.parsers.superblock import Superblock

BITMAP_BYTES = 1 << 20  # bytes of bitmaps that are read together
# bg_flags with the names of dumpe2fs
_FLAG_WORDS = {0x1: "INODE_UNINIT", 0x2: "BLOCK_UNINIT", 0x4: "ITABLE_ZEROED"}
Range = tuple[int, int]  # first and last, both included
Lists = Iterator[list[Range]]  # one list per group


class GroupRecord(TypedDict):
    """A block group (`info -g`)."""

    record: Literal["group"]
    group: int
    blocks: Annotated[Range, "First and last block."]
    flags: list[str]
    checksum: int | None
    checksum_ok: bool | None
    superblock: Annotated[int | None, "Block of the copy of the superblock."]
    descriptors: Annotated[Range | None, "Blocks of the copy of the group descriptors."]
    reserved: Annotated[Range | None, "Blocks reserved for future descriptors."]
    block_bitmap: int
    inode_bitmap: int
    inode_table: Range
    free_blocks_count: Annotated[int, "Number in the group descriptor; with bigalloc, clusters."]
    free_inodes_count: int
    directories: int
    unused_inodes: int
    free_blocks: Annotated[list[Range], "Ranges in the bitmap, each as [first, last]."]
    free_inodes: list[Range]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One block group: its record, and the checksums that only the text shows."""

    record: GroupRecord
    computed_checksum: int  # of the descriptor; below 0 when the format stores no checksum
    block_bitmap_checksum: int
    inode_bitmap_checksum: int


def read_group_facts(fs: FileSystem) -> Iterator[GroupFacts]:
    """All groups whose descriptor is readable."""
    free, step = FreeRanges(fs), max(BITMAP_BYTES // fs.superblock.block_size, 1)
    for start in range(0, len(fs.groups), step):
        yield from _read_batch(fs, range(start, min(start + step, len(fs.groups))), free)


def _read_batch(fs: FileSystem, numbers: range, free: FreeRanges) -> Iterator[GroupFacts]:
    superblock, groups = fs.superblock, fs.groups
    ratio, per_group = superblock.cluster_ratio, superblock.inodes_per_group
    table = -(-per_group * superblock.inode_size // superblock.block_size)
    starts = [geometry.first_block(superblock, number) for number in numbers]
    ends = [min(at + superblock.blocks_per_group, superblock.blocks_count) for at in starts]
    meta = Incompat.META_BG in superblock.features
    overheads = [  # tested first, because most groups have neither a superblock nor descriptors
        geometry.group_overhead(superblock, number)
        if meta or geometry.has_superblock(superblock, number)
        else 0
        for number in numbers
    ]
    clusters = [-(-(end - start) // ratio) for start, end in zip(starts, ends, strict=True)]
    spaces = zip(free.clusters(numbers, clusters, overheads), free.inodes(numbers), strict=True)
    for row, (blocks, inodes) in enumerate(spaces):
        number, start = numbers[row], starts[row]
        flags, expected = int(groups.flags[number]), int(groups.computed_checksum[number])
        checksum, at = int(groups.checksum[number]), int(groups.inode_table[number])
        copy, descriptors, reserved = _copies(superblock, number, start, overheads[row])
        base = number * per_group + 1
        record: GroupRecord = {
            "record": "group",
            "group": number,
            "blocks": (start, ends[row] - 1),
            "flags": [word for bit, word in _FLAG_WORDS.items() if flags & bit],
            "checksum": checksum if expected >= 0 else None,
            "checksum_ok": checksum == expected if expected >= 0 else None,
            "superblock": copy,
            "descriptors": descriptors,
            "reserved": reserved,
            "block_bitmap": int(groups.block_bitmap[number]),
            "inode_bitmap": int(groups.inode_bitmap[number]),
            "inode_table": (at, at + table - 1),
            "free_blocks_count": int(groups.free_blocks_count[number]),
            "free_inodes_count": int(groups.free_inodes_count[number]),
            "directories": int(groups.used_dirs_count[number]),
            "unused_inodes": int(groups.itable_unused[number]),
            "free_blocks": [(start + a * ratio, start + b * ratio) for a, b in blocks],
            "free_inodes": [(base + a, base + b) for a, b in inodes],
        }
        sums = (groups.block_bitmap_checksum[number], groups.inode_bitmap_checksum[number])
        yield GroupFacts(record, expected, *map(int, sums))


def _copies(
    superblock: Superblock, number: int, first: int, overhead: int
) -> tuple[int | None, Range | None, Range | None]:
    """(superblock copy, descriptors, reserved blocks) of a group, each None if it is absent."""
    copy, boots = None, number == 0 and geometry.has_boot_block(superblock)
    if not overhead:
        return None, None, None
    if geometry.has_superblock(superblock, number):
        copy = first + boots
    start = first if copy is None else copy + 1
    own = overhead - boots - (copy is not None)
    if own <= 0:
        return copy, None, None
    kept = 0 if _is_meta(superblock, number) else superblock.reserved_gdt_blocks
    end = start + own - kept
    reserved = (end, end + kept - 1) if kept else None
    return copy, (start, end - 1), reserved


def _is_meta(superblock: Superblock, number: int) -> bool:
    """Whether the group's descriptors are stored in its meta group (`META_BG`)."""
    if Incompat.META_BG not in superblock.features:
        return False
    return number // geometry.descriptors_per_block(superblock) >= superblock.first_meta_group


def free_ranges(bits: UInt8s) -> list[list[Range]]:
    """Runs of zeros in each row of bits (n, count), one byte per bit."""
    row, edge = np.nonzero(np.diff(bits != 0, axis=1, prepend=True, append=True))
    ranges = list(zip(edge[::2].tolist(), (edge[1::2] - 1).tolist(), strict=True))
    edges = row_bounds(row[::2], len(bits)).tolist()
    return [ranges[start:end] for start, end in pairwise(edges)]


class FreeRanges:
    """The free clusters and inodes of groups, counted from the start of each group.

    Most groups of a large file system were never written: their bitmaps are not on disk. Such a
    group is entirely free, except for the file system's own blocks in it. An unreadable bitmap is
    reported as a problem.
    """

    def __init__(self, fs: FileSystem) -> None:
        features = fs.superblock.features
        self._fs = fs
        self._lazy = RoCompat.METADATA_CSUM in features or RoCompat.UNINIT_BG in features
        self._has_metadata = _with_metadata(fs)

    def clusters(self, numbers: range, counts: list[int], overheads: list[int]) -> Lists:
        """Free clusters of groups, given their numbers of clusters and of blocks for metadata."""
        groups, part = self._fs.groups, slice(numbers.start, numbers.stop)
        bare = ~self._has_metadata[part] & (np.array(overheads) == 0)
        unwritten = self._uninitialised(part, GroupFlags.BLOCK_UNINIT)
        whole = np.array(counts) == self._fs.superblock.bits_per_group
        found = self._read_bitmaps(
            groups.block_bitmap[part], self._fs.superblock.bits_per_group, whole & ~unwritten
        )
        load = self._fs.bitmaps.block_bitmap
        return map(_free_in_group, numbers, counts, found, unwritten & bare, repeat(load))

    def inodes(self, numbers: range) -> Lists:
        """Free inodes of each of some groups."""
        groups, part = self._fs.groups, slice(numbers.start, numbers.stop)
        count, load = self._fs.superblock.inodes_per_group, self._fs.bitmaps.inode_bitmap
        unwritten = self._uninitialised(part, GroupFlags.INODE_UNINIT)
        found = self._read_bitmaps(groups.inode_bitmap[part], count, ~unwritten)
        return map(_free_in_group, numbers, repeat(count), found, unwritten, repeat(load))

    def _uninitialised(self, part: slice, flag: GroupFlags) -> Bools:
        """Per group: True where its bitmap was never written."""
        unwritten: Bools = self._lazy & ((self._fs.groups.flags[part] & int(flag)) != 0)
        return unwritten

    def _read_bitmaps(self, places: Int64s, count: int, wanted: Bools) -> list[list[Range] | None]:
        """The runs of zeros in stored bitmaps; None where a bitmap is unwanted or unreadable."""
        found: list[list[Range] | None] = [None] * len(places)
        some = np.flatnonzero(wanted)
        rows, readable = self._fs.fetch(places[some])
        bits = np.unpackbits(rows[readable], axis=1, count=count, bitorder="little")
        many = free_ranges(bits)
        for at, ranges in zip(some[readable].tolist(), many, strict=True):
            found[at] = ranges
        return found


def _free_in_group(
    number: int,
    count: int,
    found: list[Range] | None,
    is_all_free: bool,
    load: Callable[[int], UInt8s],
) -> list[Range]:
    if found is not None:
        return found
    return [(0, count - 1)] if is_all_free else free_ranges(load(number)[None, :count])[0]


def _with_metadata(fs: FileSystem) -> Bools:
    """Per group: True where it contains a bitmap or inode table, its own or of another group."""
    superblock, groups = fs.superblock, fs.groups
    count, size = len(groups), max(superblock.blocks_per_group, 1)
    table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    step = np.zeros(count + 1, np.int64)
    kinds = ((groups.block_bitmap, 1), (groups.inode_bitmap, 1), (groups.inode_table, table))
    for places, length in kinds:
        first = places - superblock.first_data_block
        np.add.at(step, np.clip(first // size, 0, count), 1)
        np.add.at(step, np.clip((first + length - 1) // size + 1, 0, count), -1)
    return np.cumsum(step)[:-1] > 0


def group_lines(superblock: Superblock, group: GroupFacts) -> list[str]:
    """The lines of one group in the wording of dumpe2fs."""
    record = group.record
    unused = f", {record['unused_inodes']} unused inodes" if record["unused_inodes"] else ""
    unit = "clusters" if RoCompat.BIGALLOC in superblock.features else "blocks"
    table = _range_text(record["inode_table"])
    if record["inode_table"][0] != record["blocks"][0]:  # dumpe2fs writes "(+0)" only for bitmaps
        table += _relative(superblock, record, record["inode_table"][0])
    bitmaps = []
    for name, block, checksum in (
        ("Block", record["block_bitmap"], group.block_bitmap_checksum),
        ("Inode", record["inode_bitmap"], group.inode_bitmap_checksum),
    ):
        stored = f", csum 0x{checksum:08x}" if superblock.has_metadata_checksums else ""
        place = _relative(superblock, record, block)
        bitmaps.append(f"  {name} bitmap at {block}{place}{stored}")
    return [
        _heading(group),
        *_copy_lines(record, superblock),
        *bitmaps,
        f"  Inode table at {table}",
        f"  {record['free_blocks_count']} free {unit}, {record['free_inodes_count']} free"
        f" inodes, {record['directories']} directories{unused}",
        f"  Free blocks: {ranges_text(record['free_blocks'])}",
        f"  Free inodes: {ranges_text(record['free_inodes'])}",
    ]


def _relative(superblock: Superblock, group: GroupRecord, block: int) -> str:
    first, last = group["blocks"]
    if first <= block <= last:
        return f" (+{block - first})"
    if Incompat.FLEX_BG not in superblock.features:
        return ""
    home = (block - superblock.first_data_block) // superblock.blocks_per_group
    return f" (bg #{home % (1 << 32)} + {block - geometry.first_block(superblock, home)})"


def _heading(group: GroupFacts) -> str:
    record = group.record
    line = f"Group {record['group']}: (Blocks {_range_text(record['blocks'])})"
    if record["checksum"] is None:
        return line
    line += f" csum 0x{record['checksum']:04x}"
    if not record["checksum_ok"]:
        line += f" (EXPECTED 0x{group.computed_checksum:04x})"
    words = ", ".join(record["flags"])
    return f"{line} [{words}]" if words else line


def _copy_lines(group: GroupRecord, superblock: Superblock) -> Iterator[str]:
    parts = []
    if group["superblock"] is not None:
        rank = "Primary" if group["group"] == 0 else "Backup"
        parts.append(f"{rank} superblock at {group['superblock']}")
    if group["descriptors"]:
        meta = _is_meta(superblock, group["group"])
        where = str(group["descriptors"][0]) if meta else _range_text(group["descriptors"])
        parts.append(f"Group descriptor{'' if meta else 's'} at {where}")
    if parts:
        yield f"  {', '.join(parts)}"
    if group["reserved"]:
        yield f"  Reserved GDT blocks at {_range_text(group['reserved'])}"


def _range_text(part: Range) -> str:
    return f"{part[0]}-{part[1]}"


def ranges_text(parts: list[Range]) -> str:
    """Ranges as `5, 8-12`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
