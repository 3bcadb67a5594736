"""Block groups: what `dumpe2fs` prints for each, and the same as records.

The ranges of free blocks and inodes come from the bitmaps, one group at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import (
    descriptors_per_block,
    first_block,
    group_overhead,
    has_superblock,
)
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.superblock import Superblock

Range = tuple[int, int]  # first and last, both included

# bg_flags in the words of dumpe2fs
_FLAG_WORDS = {0x1: "INODE_UNINIT", 0x2: "BLOCK_UNINIT", 0x4: "ITABLE_ZEROED"}


@dataclass(frozen=True, slots=True)
class Group:
    """One block group.

    Attributes:
        superblock: block of the superblock copy, None without one.
        descriptors: blocks of the copy of the group descriptors, None without one.
        reserved: blocks kept for descriptors to come.
        free_units: free blocks as counted in the descriptor; clusters with bigalloc.
        checksum_ok: None when the format stores none.
    """

    number: int
    first: int
    last: int
    flags: int
    checksum: int
    expected_checksum: int
    superblock: int | None
    descriptors: Range | None
    reserved: Range | None
    block_bitmap: int
    block_bitmap_checksum: int
    inode_bitmap: int
    inode_bitmap_checksum: int
    inode_table: Range
    free_units: int
    free_inodes_count: int
    directories: int
    unused_inodes: int
    free_blocks: list[Range]
    free_inodes: list[Range]

    @property
    def checksum_ok(self) -> bool | None:
        """Whether the descriptor's checksum fits; None when the format stores none."""
        return None if self.expected_checksum < 0 else self.checksum == self.expected_checksum

    @property
    def flag_words(self) -> list[str]:
        """The flags in the words of dumpe2fs."""
        return [word for bit, word in _FLAG_WORDS.items() if self.flags & bit]


def free_ranges(bits: Any) -> list[Range]:
    """Runs of zeros in a bitmap, as (first, last) positions."""
    if not bits.any():  # a group where nothing is: there can be hundreds of thousands
        return [(0, len(bits) - 1)] if len(bits) else []
    edges = np.flatnonzero(np.diff(np.concatenate([[1], bits, [1]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True))


def read_group_facts(fs: FileSystem) -> Iterator[Group]:
    """Every group whose descriptor could be read."""
    for number in range(len(fs.groups)):
        yield _group(fs, number)


def _group(fs: FileSystem, number: int) -> Group:
    superblock, groups = fs.superblock, fs.groups
    first = first_block(superblock, number)
    last = min(first + superblock.blocks_per_group, superblock.blocks_count) - 1
    table = int(groups.inode_table[number])
    length = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    copy, descriptors, reserved = _copies(superblock, number, first)
    return Group(
        number=number,
        first=first,
        last=last,
        flags=int(groups.flags[number]),
        checksum=int(groups.checksum[number]),
        expected_checksum=int(groups.computed_checksum[number]),
        superblock=copy,
        descriptors=descriptors,
        reserved=reserved,
        block_bitmap=int(groups.block_bitmap[number]),
        block_bitmap_checksum=int(groups.block_bitmap_checksum[number]),
        inode_bitmap=int(groups.inode_bitmap[number]),
        inode_bitmap_checksum=int(groups.inode_bitmap_checksum[number]),
        inode_table=(table, table + length - 1),
        free_units=int(groups.free_blocks_count[number]),
        free_inodes_count=int(groups.free_inodes_count[number]),
        directories=int(groups.used_dirs_count[number]),
        unused_inodes=int(groups.itable_unused[number]),
        free_blocks=_free_blocks(fs, number, first, last),
        free_inodes=_free_inodes(fs, number),
    )


def _copies(
    superblock: Superblock, number: int, first: int
) -> tuple[int | None, Range | None, Range | None]:
    """(superblock copy, its descriptors, blocks reserved behind them) of a group."""
    copy = None
    if has_superblock(superblock, number):
        booted = number == 0 and first == 0 and superblock.block_size == 1024
        copy = first + booted
    overhead = group_overhead(superblock, number)
    start = first if copy is None else copy + 1
    own = overhead - (copy is not None)
    if own <= 0:
        return copy, None, None
    kept = 0 if _is_meta(superblock, number) else superblock.reserved_gdt_blocks
    end = start + own - kept
    reserved = (end, end + kept - 1) if kept else None
    return copy, (start, end - 1), reserved


def _is_meta(superblock: Superblock, number: int) -> bool:
    """Whether the group's descriptors lie inside its meta group."""
    if Incompat.META_BG not in superblock.features:
        return False
    return number // descriptors_per_block(superblock) >= superblock.first_meta_group


def _free_blocks(fs: FileSystem, number: int, first: int, last: int) -> list[Range]:
    ratio = fs.superblock.cluster_ratio
    clusters = -(-(last - first + 1) // ratio)
    bits = fs.bitmaps.block_bitmap(number)[:clusters]
    return [(first + a * ratio, first + b * ratio) for a, b in free_ranges(bits)]


def _free_inodes(fs: FileSystem, number: int) -> list[Range]:
    base = number * fs.superblock.inodes_per_group + 1
    return [(base + a, base + b) for a, b in free_ranges(fs.bitmaps.inode_bitmap(number))]


# -------------------------------------------------------------------------------- as text


def group_lines(group: Group, superblock: Superblock) -> list[str]:
    """A group in the words of dumpe2fs."""
    sums = superblock.has_metadata_checksums
    unit = "clusters" if RoCompat.BIGALLOC in superblock.features else "blocks"
    unused = f", {group.unused_inodes} unused inodes" if group.unused_inodes else ""
    table = _spelled(group.inode_table)
    if group.inode_table[0] != group.first:  # dumpe2fs says "(+0)" of bitmaps only
        table += _relative(group, superblock, group.inode_table[0])
    return [
        _heading(group),
        *_copy_lines(group, superblock),
        f"  Block bitmap at {group.block_bitmap}"
        + _relative(group, superblock, group.block_bitmap)
        + (f", csum 0x{group.block_bitmap_checksum:08x}" if sums else ""),
        f"  Inode bitmap at {group.inode_bitmap}"
        + _relative(group, superblock, group.inode_bitmap)
        + (f", csum 0x{group.inode_bitmap_checksum:08x}" if sums else ""),
        f"  Inode table at {table}",
        f"  {group.free_units} free {unit}, {group.free_inodes_count} free inodes, "
        f"{group.directories} directories{unused}",
        f"  Free blocks: {listed(group.free_blocks)}",
        f"  Free inodes: {listed(group.free_inodes)}",
    ]


def _heading(group: Group) -> str:
    line = f"Group {group.number}: (Blocks {_spelled((group.first, group.last))})"
    if group.checksum_ok is None:
        return line
    line += f" csum 0x{group.checksum:04x}"
    if not group.checksum_ok:
        line += f" (EXPECTED 0x{group.expected_checksum:04x})"
    words = ", ".join(group.flag_words)
    return f"{line} [{words}]" if words else line


def _copy_lines(group: Group, superblock: Superblock) -> Iterator[str]:
    parts = []
    if group.superblock is not None:
        rank = "Primary" if group.number == 0 else "Backup"
        parts.append(f"{rank} superblock at {group.superblock}")
    if group.descriptors:
        meta = _is_meta(superblock, group.number)
        where = str(group.descriptors[0]) if meta else _spelled(group.descriptors)
        parts.append(f"Group descriptor{'' if meta else 's'} at {where}")
    if parts:
        yield f"  {', '.join(parts)}"
    if group.reserved:
        yield f"  Reserved GDT blocks at {_spelled(group.reserved)}"


def _spelled(part: Range) -> str:
    return f"{part[0]}-{part[1]}"


def listed(parts: list[Range]) -> str:
    """Ranges as `5, 8-12`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _relative(group: Group, superblock: Superblock, block: int) -> str:
    if group.first <= block <= group.last:
        return f" (+{block - group.first})"
    if Incompat.FLEX_BG not in superblock.features:
        return ""
    home = (block - superblock.first_data_block) // superblock.blocks_per_group
    return f" (bg #{home % (1 << 32)} + {block - first_block(superblock, home)})"


# ------------------------------------------------------------------------------ as a record


def group_record(group: Group) -> dict[str, Any]:
    """A group with plain JSON values."""
    return {
        "record": "group",
        "group": group.number,
        "blocks": [group.first, group.last],
        "flags": group.flag_words,
        "checksum": group.checksum if group.expected_checksum >= 0 else None,
        "checksum_ok": group.checksum_ok,
        "superblock": group.superblock,
        "descriptors": group.descriptors,
        "reserved": group.reserved,
        "block_bitmap": group.block_bitmap,
        "inode_bitmap": group.inode_bitmap,
        "inode_table": group.inode_table,
        "free_blocks_count": group.free_units,
        "free_inodes_count": group.free_inodes_count,
        "directories": group.directories,
        "unused_inodes": group.unused_inodes,
        "free_blocks": group.free_blocks,
        "free_inodes": group.free_inodes,
    }
