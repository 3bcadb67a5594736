"""Partition tables, read by The Sleuth Kit over any source.

pytsk3 is imported only if the bytes look like a table. An image of a single file system does not
need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError
from ext4kit.evidence.signatures import (
    OWNERS_OF_FIRST_SECTOR,
    UNKNOWN,
    behind_first_sector,
    first_sector_kind,
    identify,
)
from ext4kit.evidence.source import Source, Window, peek, sector_size
from ext4kit.problems import Problems, Severity
from ext4kit.units import SECTOR

if TYPE_CHECKING:
    from ext4kit.evidence.sleuthkit import PartitionTable

# Tables within partitions: a BSD label in a slice, a disk image written to a partition.
DEPTH_LIMIT = 3
PARTITION_LIMIT = 1024

_BOOT_MAGIC = (510, 2)  # byte offset, bytes

# (byte offset, bytes) of partition table magics; a negative offset counts from the end.
TABLE_MAGICS = (
    (510, b"\x55\xaa"),  # MBR
    *((SECTOR << power, b"EFI PART") for power in range(4)),  # GPT, sectors of 512 to 4096 bytes
    *((-SECTOR << power, b"EFI PART") for power in range(4)),  # backup GPT
    (508, b"\xda\xbe"),  # Sun, SPARC
    (SECTOR + 12, b"\xee\xde\x0d\x60"),  # Sun, x86
    (SECTOR, b"WEV\x82"),  # BSD
    (SECTOR, b"PM"),  # Apple
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of a partition table.

    Attributes:
        offset: byte offset in the whole image.
        size: bytes according to the table, whether the image has them or not.
        scheme: "mbr", "gpt", "bsd", "sun", "mac"; "mbr/bsd" for a table within a partition.
        description: name or type of the partition according to the table.
    """

    offset: int
    size: int
    scheme: str
    description: str


def looks_partitioned(source: Source) -> bool:
    """Whether the magic of a partition table is at its offset."""
    places = ((at if at >= 0 else source.size + at, magic) for at, magic in TABLE_MAGICS)
    return any(peek(source, at, len(magic)) == magic for at, magic in places)


def find_partitions(source: Source, problems: Problems) -> tuple[Partition, ...]:
    """Every partition of a disk by offset, including those of tables within partitions.

    Args:
        source: the whole image.
        problems: collects defects of the tables.

    Returns:
        An empty tuple if there is no table, or one without partitions.
    """
    whole = Partition(0, source.size, "", "")
    found: list[Partition] = []
    for partition in _within(source, whole, DEPTH_LIMIT, problems):
        if len(found) == PARTITION_LIMIT:
            problems.add("partition table", f"only the first {PARTITION_LIMIT:,} entries are used")
            break
        found.append(partition)
    return tuple(found)


def disk_text(source: Source) -> str:
    """Evidence that a source is a disk or a volume, regardless of its first bytes; "" for none.

    A partition table counts if all its partitions are inside the source and one has a known
    signature.
    """
    behind = behind_first_sector(source, first_sector_kind(source))
    if behind is not None:
        return f"a signature of {behind.kind} at byte {behind.offset:,}"
    if not looks_partitioned(source):
        return ""
    parts = find_partitions(source, Problems())
    windows = [Window(source, each.offset, each.size) for each in parts]
    is_disk = not any(each.missing for each in windows)
    is_disk = is_disk and any(identify(each).kind != UNKNOWN for each in windows)
    return f"a partition table ({parts[0].scheme})" if is_disk else ""


def _within(
    source: Source, parent: Partition, depth: int, problems: Problems
) -> Iterator[Partition]:
    """The partitions of a table within a partition; a nested table replaces the outer partition."""
    window = Window(source, parent.offset, parent.size)
    if depth == 0 or not looks_partitioned(window):
        return
    if depth < DEPTH_LIMIT and identify(window).kind != UNKNOWN:
        return  # no table is read in a partition with a known signature
    for child in _read_table(window, parent, problems):
        inner = _within(source, child, depth - 1, problems)
        yield next(inner, child)
        yield from inner


def _read_table(window: Window, parent: Partition, problems: Problems) -> list[Partition]:
    try:
        table = _table(window)
    except AccessError as error:
        problems.add(f"partition table at byte {parent.offset:,}", f"cannot be read: {error}")
        return []
    if table is None:
        return []
    _tell(table, parent, problems)
    shift, start = 0, parent.offset // table.sector_size
    if table.scheme == "bsd" and min((each.start for each in table.entries), default=-1) >= start:
        shift = start  # older labels count from the start of the disk, not of the slice
    scheme = "/".join(filter(None, (parent.scheme, table.scheme)))
    parts = (
        Partition(
            parent.offset + (entry.start - shift) * table.sector_size,
            entry.sectors * table.sector_size,
            scheme,
            entry.description,
        )
        for entry in table.entries
    )
    return [
        each
        for each in parts  # no empty, outside or whole-disk entry (BSD's c)
        if each.size > 0
        and each.offset >= parent.offset
        and not (each.offset == parent.offset and each.size >= parent.size)
    ]


def _table(window: Window) -> PartitionTable | None:
    """The table at the start of a disk; an MBR does not record its sector size."""
    from ext4kit.evidence.sleuthkit import read_tables

    found = read_tables(window)
    table, large = found.usual, found.large
    if found.insisted is not None and identify(window).kind in OWNERS_OF_FIRST_SECTOR:
        table = found.insisted
    if peek(window, *_BOOT_MAGIC) != TABLE_MAGICS[0][1] or (table and table.scheme != "mbr"):
        return table
    return large if large and _fits_better(window, large, table) else table


def _fits_better(window: Window, large: PartitionTable, small: PartitionTable | None) -> bool:
    """Whether an MBR is plausible with sectors of 4,096 bytes, but not with those of 512.

    With large sectors all partitions and extended tables must be in the evidence. With small
    sectors no partition may have a known signature. In addition, one of these must hold: with large
    sectors, a partition has a known signature; with small sectors, extended tables are missing; or
    the disk reports large sectors.
    """
    ends = [(entry.start + entry.sectors) * large.sector_size for entry in large.entries]
    if large.scheme != "mbr" or large.unread or max(ends, default=0) > window.size:
        return False
    if small is None:
        return bool(ends)
    if identify(window).kind != UNKNOWN or _has_known(window, small):
        return False
    is_hinted = len(small.unread) > 0 or sector_size(window) == large.sector_size
    return is_hinted or _has_known(window, large)


def _has_known(window: Window, table: PartitionTable) -> bool:
    """Whether one of the partitions of a table has a known signature."""
    size = table.sector_size
    parts = (Window(window, each.start * size, each.sectors * size) for each in table.entries)
    return any(identify(part).kind != UNKNOWN for part in parts)


def _tell(table: PartitionTable, parent: Partition, problems: Problems) -> None:
    where = f"{table.scheme} partition table at byte {parent.offset:,}"
    if table.is_backup:
        text = "the first table is damaged; the backup at the end is used"
        problems.add(where, text, Severity.WARNING)
    for start in table.unread:
        at = parent.offset + start * table.sector_size
        problems.add(
            where, f"the extended table at byte {at:,} cannot be read; what it lists is missing"
        )
