"""Partition tables, read by The Sleuth Kit over any source.

pytsk3 is imported only where the bytes look like a table: an image of one file system opens
without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ext4kit.evidence.signatures import UNKNOWN, identify
from ext4kit.evidence.source import Source, Window, peek
from ext4kit.findings import Problems, Severity

# Tables within partitions: a BSD label in a slice, a disk image written to a partition.
DEPTH_LIMIT = 3
PARTITION_LIMIT = 1024

_SECTOR = 512

# (byte offset, bytes) that a partition table has; the offset counts from the end when negative.
TABLE_MAGICS = (
    (510, b"\x55\xaa"),  # MBR
    *((_SECTOR << power, b"EFI PART") for power in range(4)),  # GPT, sectors of 512 to 4096 bytes
    *((-_SECTOR << power, b"EFI PART") for power in range(4)),  # its backup
    (508, b"\xda\xbe"),  # Sun, SPARC
    (_SECTOR + 12, b"\xee\xde\x0d\x60"),  # Sun, x86
    (_SECTOR, b"WEV\x82"),  # BSD
    (_SECTOR, b"PM"),  # Apple
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of a partition table.

    Attributes:
        offset: byte offset in the whole image.
        size: bytes that the table says, whether the image has them or not.
        scheme: "mbr", "gpt", "bsd", "sun", "mac"; "mbr/bsd" for a table within a partition.
        description: the table's name or type for it.
    """

    offset: int
    size: int
    scheme: str
    description: str


def looks_partitioned(source: Source) -> bool:
    """True when a partition table's magic is at one of its places."""
    places = ((at if at >= 0 else source.size + at, magic) for at, magic in TABLE_MAGICS)
    return any(peek(source, at, len(magic)) == magic for at, magic in places)


def find_partitions(source: Source, problems: Problems) -> tuple[Partition, ...]:
    """Every partition of a disk in the order of the disk, tables within partitions included.

    Args:
        source: the whole image.
        problems: gets what is wrong with the tables.

    Returns:
        Nothing when there is no table, or one without partitions.
    """
    whole = Partition(0, source.size, "", "")
    found: list[Partition] = []
    for partition in _within(source, whole, DEPTH_LIMIT, problems):
        if len(found) == PARTITION_LIMIT:
            problems.add("partition table", f"only the first {PARTITION_LIMIT:,} entries are used")
            break
        found.append(partition)
    return tuple(found)


def _within(
    source: Source, parent: Partition, depth: int, problems: Problems
) -> Iterator[Partition]:
    """The partitions in a partition's own table, each replaced by those within it."""
    window = Window(source, parent.offset, parent.size)
    if depth == 0 or not looks_partitioned(window):
        return
    for child in _read_table(window, parent, problems):
        inner = iter(())
        if _may_hold_table(source, child):
            inner = _within(source, child, depth - 1, problems)
        first = next(inner, None)
        yield child if first is None else first
        yield from inner


def _may_hold_table(source: Source, partition: Partition) -> bool:
    return identify(Window(source, partition.offset, partition.size)).kind == UNKNOWN


# -------------------------------------------------------------------------- The Sleuth Kit


def _read_table(window: Window, parent: Partition, problems: Problems) -> list[Partition]:
    import pytsk3

    table = _open_table(pytsk3, _image_class(pytsk3)(window))
    if table is None:
        return []
    scheme = _schemes(pytsk3).get(int(table.info.vstype), "other")
    where = f"{scheme} partition table at byte {parent.offset:,}"
    if table.info.is_backup:
        text = "the first table is damaged; the backup at the end is used"
        problems.add(where, text, Severity.WARNING)
    sector = int(table.info.block_size)
    shift = _shift(table, parent.offset // sector) if scheme == "bsd" else 0
    inner = "/".join(filter(None, (parent.scheme, scheme)))
    parts = [
        Partition(
            parent.offset + (int(each.start) - shift) * sector,
            int(each.len) * sector,
            inner,
            _described(each.desc),
        )
        for each in _entries(pytsk3, table)
    ]
    return [each for each in parts if _is_smaller(each, parent)]


def _is_smaller(part: Partition, parent: Partition) -> bool:
    """False for the entry that stands for the whole disk (BSD's c), or for nothing."""
    is_whole = part.offset == parent.offset and part.size >= parent.size
    return part.size > 0 and part.offset >= parent.offset and not is_whole


def _described(raw: Any) -> str:
    return bytes(raw or b"").decode("utf-8", "backslashreplace")


def _entries(pytsk3: ModuleType, table: Any) -> list[Any]:
    return [each for each in table if int(each.flags) == int(pytsk3.TSK_VS_PART_FLAG_ALLOC)]


def _shift(table: Any, start: int) -> int:
    """Sectors to take off: older BSD labels count from the disk's start, not the slice's."""
    starts = [int(each.start) for each in table if int(each.slot_num) >= 0]
    return start if starts and min(starts) >= start else 0


def _schemes(pytsk3: ModuleType) -> dict[int, str]:
    return {
        int(pytsk3.TSK_VS_TYPE_DOS): "mbr",
        int(pytsk3.TSK_VS_TYPE_GPT): "gpt",
        int(pytsk3.TSK_VS_TYPE_BSD): "bsd",
        int(pytsk3.TSK_VS_TYPE_SUN): "sun",
        int(pytsk3.TSK_VS_TYPE_MAC): "mac",
    }


def _open_table(pytsk3: ModuleType, image: Any) -> Any:
    """The table that TSK detects, or the first that it reads when several are there.

    A protective MBR alone means that the first GPT is damaged: then the backup is asked for.
    """
    table = _volume_info(pytsk3, image, pytsk3.TSK_VS_TYPE_DETECT)
    if table is not None and not _is_protective(pytsk3, table):
        return table
    kinds = [pytsk3.TSK_VS_TYPE_GPT]
    if table is None:
        kinds += [pytsk3.TSK_VS_TYPE_BSD, pytsk3.TSK_VS_TYPE_SUN, pytsk3.TSK_VS_TYPE_MAC]
    opened = (_volume_info(pytsk3, image, kind) for kind in kinds)
    return next((each for each in opened if each is not None), table)


def _is_protective(pytsk3: ModuleType, table: Any) -> bool:
    entries = _entries(pytsk3, table)
    return len(entries) == 1 and b"(0xee)" in bytes(entries[0].desc or b"")


def _volume_info(pytsk3: ModuleType, image: Any, kind: Any) -> Any:
    try:
        return pytsk3.Volume_Info(image, kind)
    except (OSError, RuntimeError):
        return None


def _image_class(pytsk3: ModuleType) -> Any:
    """TSK's image interface over a source, made here because pytsk3 is imported late."""

    class SourceImage(pytsk3.Img_Info):  # type: ignore[misc]
        """A source as TSK sees it: short reads where the evidence cannot be read."""

        def __init__(self, source: Source) -> None:
            self._source = source
            super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

        def close(self) -> None:
            """Nothing: the evidence is closed by its owner."""

        def read(self, offset: int, size: int) -> bytes:
            """The bytes at `offset`, fewer where they end."""
            return peek(self._source, offset, size)

        def get_size(self) -> int:
            """Bytes of the image."""
            return self._source.size

    return SourceImage
