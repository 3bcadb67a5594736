"""Block groups with the wording of `dumpe2fs`, and as records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import (
    descriptors_per_block,
    first_block,
    group_overhead,
    has_boot_block,
    has_superblock,
)
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.superblock import Superblock
from ext4kit.report.free_ranges import FreeRanges, Range

BITMAP_BYTES = 1 << 20  # bitmaps that are read together
_STORED = {  # fields of `GroupFacts` that are columns of the table of groups
    "flags": "flags",
    "checksum": "checksum",
    "expected_checksum": "computed_checksum",
    "block_bitmap": "block_bitmap",
    "block_bitmap_checksum": "block_bitmap_checksum",
    "inode_bitmap": "inode_bitmap",
    "inode_bitmap_checksum": "inode_bitmap_checksum",
    "free_units": "free_blocks_count",
    "free_inodes_count": "free_inodes_count",
    "directories": "used_dirs_count",
    "unused_inodes": "itable_unused",
}
# bg_flags with the names of dumpe2fs
_FLAG_WORDS = {0x1: "INODE_UNINIT", 0x2: "BLOCK_UNINIT", 0x4: "ITABLE_ZEROED"}


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One block group.

    Attributes:
        superblock: block of the superblock copy, None without one.
        descriptors: blocks of the copy of the group descriptors, None without one.
        reserved: blocks reserved for future descriptors.
        free_units: number of free blocks in the descriptor; clusters with bigalloc.
        checksum_ok: None when the format stores no checksum.
    """

    number: int
    first: int
    last: int
    superblock: int | None
    descriptors: Range | None
    reserved: Range | None
    inode_table: Range
    flags: int
    checksum: int
    expected_checksum: int
    block_bitmap: int
    block_bitmap_checksum: int
    inode_bitmap: int
    inode_bitmap_checksum: int
    free_units: int
    free_inodes_count: int
    directories: int
    unused_inodes: int
    free_blocks: list[Range]
    free_inodes: list[Range]

    @property
    def checksum_ok(self) -> bool | None:
        """Whether the descriptor's checksum matches; None when the format stores none."""
        return None if self.expected_checksum < 0 else self.checksum == self.expected_checksum

    @property
    def flag_words(self) -> list[str]:
        """The flags with the names of dumpe2fs."""
        return [word for bit, word in _FLAG_WORDS.items() if self.flags & bit]


def read_group_facts(fs: FileSystem) -> Iterator[GroupFacts]:
    """All groups whose descriptor is readable."""
    free, step = FreeRanges(fs), max(BITMAP_BYTES // fs.superblock.block_size, 1)
    for start in range(0, len(fs.groups), step):
        yield from _read_batch(fs, range(start, min(start + step, len(fs.groups))), free)


def _read_batch(fs: FileSystem, numbers: range, free: FreeRanges) -> Iterator[GroupFacts]:
    superblock, groups = fs.superblock, fs.groups
    part, ratio = slice(numbers.start, numbers.stop), superblock.cluster_ratio
    table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    starts = [first_block(superblock, number) for number in numbers]
    ends = [min(at + superblock.blocks_per_group, superblock.blocks_count) for at in starts]
    overheads = list(geometry(superblock, numbers))
    clusters = [-(-(end - start) // ratio) for start, end in zip(starts, ends, strict=True)]
    places = zip(numbers, starts, ends, overheads, groups.inode_table[part].tolist(), strict=True)
    stored = zip(*(getattr(groups, name)[part].tolist() for name in _STORED.values()), strict=True)
    spaces = zip(free.clusters(numbers, clusters, overheads), free.inodes(numbers), strict=True)
    for place, values, (blocks, inodes) in zip(places, stored, spaces, strict=True):
        number, start, end, overhead, at = place
        base = number * superblock.inodes_per_group + 1
        yield GroupFacts(
            number,
            start,
            end - 1,
            *_copies(superblock, number, start, overhead),
            (at, at + table - 1),
            free_blocks=[(start + a * ratio, start + b * ratio) for a, b in blocks],
            free_inodes=[(base + a, base + b) for a, b in inodes],
            **dict(zip(_STORED, values, strict=True)),
        )


def geometry(superblock: Superblock, numbers: range) -> Iterator[int]:
    """`group_overhead` of each group; most are 0, which is tested first."""
    meta = Incompat.META_BG in superblock.features
    for number in numbers:
        own = meta or has_superblock(superblock, number)
        yield group_overhead(superblock, number) if own else 0


def _copies(
    superblock: Superblock, number: int, first: int, overhead: int
) -> tuple[int | None, Range | None, Range | None]:
    """(superblock copy, its descriptors, reserved blocks after them) of a group."""
    copy, boots = None, number == 0 and has_boot_block(superblock)
    if not overhead:
        return None, None, None
    if has_superblock(superblock, number):
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
    """Whether the group's descriptors are inside its meta group."""
    if Incompat.META_BG not in superblock.features:
        return False
    return number // descriptors_per_block(superblock) >= superblock.first_meta_group


# -------------------------------------------------------------------------------- as text


class GroupText:
    """Groups with the wording of dumpe2fs."""

    def __init__(self, superblock: Superblock) -> None:
        self._superblock = superblock
        self._has_sums = superblock.has_metadata_checksums
        self._is_flexible = Incompat.FLEX_BG in superblock.features
        self._unit = "clusters" if RoCompat.BIGALLOC in superblock.features else "blocks"

    def lines(self, group: GroupFacts) -> list[str]:
        """The lines of one group."""
        unused = f", {group.unused_inodes} unused inodes" if group.unused_inodes else ""
        table = _range_text(group.inode_table)
        if group.inode_table[0] != group.first:  # dumpe2fs writes "(+0)" only for bitmaps
            table += self._relative(group, group.inode_table[0])
        return [
            _heading(group),
            *_copy_lines(group, self._superblock),
            f"  Block bitmap at {group.block_bitmap}"
            + self._relative(group, group.block_bitmap)
            + self._checksum_text(group.block_bitmap_checksum),
            f"  Inode bitmap at {group.inode_bitmap}"
            + self._relative(group, group.inode_bitmap)
            + self._checksum_text(group.inode_bitmap_checksum),
            f"  Inode table at {table}",
            f"  {group.free_units} free {self._unit}, {group.free_inodes_count} free inodes, "
            f"{group.directories} directories{unused}",
            f"  Free blocks: {ranges_text(group.free_blocks)}",
            f"  Free inodes: {ranges_text(group.free_inodes)}",
        ]

    def _checksum_text(self, checksum: int) -> str:
        return f", csum 0x{checksum:08x}" if self._has_sums else ""

    def _relative(self, group: GroupFacts, block: int) -> str:
        if group.first <= block <= group.last:
            return f" (+{block - group.first})"
        if not self._is_flexible:
            return ""
        superblock = self._superblock
        home = (block - superblock.first_data_block) // superblock.blocks_per_group
        return f" (bg #{home % (1 << 32)} + {block - first_block(superblock, home)})"


def _heading(group: GroupFacts) -> str:
    line = f"Group {group.number}: (Blocks {_range_text((group.first, group.last))})"
    if group.checksum_ok is None:
        return line
    line += f" csum 0x{group.checksum:04x}"
    if not group.checksum_ok:
        line += f" (EXPECTED 0x{group.expected_checksum:04x})"
    words = ", ".join(group.flag_words)
    return f"{line} [{words}]" if words else line


def _copy_lines(group: GroupFacts, superblock: Superblock) -> Iterator[str]:
    parts = []
    if group.superblock is not None:
        rank = "Primary" if group.number == 0 else "Backup"
        parts.append(f"{rank} superblock at {group.superblock}")
    if group.descriptors:
        meta = _is_meta(superblock, group.number)
        where = str(group.descriptors[0]) if meta else _range_text(group.descriptors)
        parts.append(f"Group descriptor{'' if meta else 's'} at {where}")
    if parts:
        yield f"  {', '.join(parts)}"
    if group.reserved:
        yield f"  Reserved GDT blocks at {_range_text(group.reserved)}"


def _range_text(part: Range) -> str:
    return f"{part[0]}-{part[1]}"


def ranges_text(parts: list[Range]) -> str:
    """Ranges as `5, 8-12`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


# ------------------------------------------------------------------------------ as a record


class GroupRecord(TypedDict):
    """A block group (`info -g`)."""

    record: Literal["group"]
    group: int
    blocks: Annotated[Range, "First and last."]
    flags: list[str]
    checksum: int | None
    checksum_ok: bool | None
    superblock: Annotated[int | None, "Block of the copy of the superblock."]
    descriptors: Annotated[Range | None, "Blocks of the copy of the group descriptors."]
    reserved: Annotated[Range | None, "Blocks kept for descriptors to come."]
    block_bitmap: int
    inode_bitmap: int
    inode_table: Range
    free_blocks_count: Annotated[int, "As the descriptor says; clusters with bigalloc."]
    free_inodes_count: int
    directories: int
    unused_inodes: int
    free_blocks: Annotated[list[Range], "As the bitmap says, [first, last] each."]
    free_inodes: list[Range]


def group_record(group: GroupFacts) -> GroupRecord:
    """A group as a record."""
    return {
        "record": "group",
        "group": group.number,
        "blocks": (group.first, group.last),
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
