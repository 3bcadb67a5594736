"""The Sleuth Kit's reader of partition tables (pytsk3) over any source.

This module is imported only to read a table, because loading the library delays the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytsk3

from ext4kit.evidence.source import Source, peek

_SECTOR = 512
_SCHEMES = {
    int(pytsk3.TSK_VS_TYPE_DOS): "mbr",
    int(pytsk3.TSK_VS_TYPE_GPT): "gpt",
    int(pytsk3.TSK_VS_TYPE_BSD): "bsd",
    int(pytsk3.TSK_VS_TYPE_SUN): "sun",
    int(pytsk3.TSK_VS_TYPE_MAC): "mac",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A partition in sectors from the start of the source."""

    start: int
    sectors: int
    description: str


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """A partition table.

    Attributes:
        scheme: "mbr", "gpt", "bsd", "sun" or "mac".
        sector_size: bytes per sector.
        is_backup: whether it was read from the copy at the end of the disk (GPT).
        entries: the partitions by offset.
        unread: start sectors of extended partitions whose table could not be read.
    """

    scheme: str
    sector_size: int
    is_backup: bool
    entries: tuple[Entry, ...]
    unread: tuple[int, ...]


class _Image(pytsk3.Img_Info):  # type: ignore[misc]
    """A source for TSK; reads are short where the evidence cannot be read.

    TSK supports only sectors of 512 bytes here. Of larger sectors it gets the first 512 bytes,
    because a partition table uses no others.

    Args:
        source: the disk.
        sector: bytes per sector.
    """

    def __init__(self, source: Source, sector: int) -> None:
        self._source, self._sector = source, sector
        self._size = max(source.size // sector * _SECTOR, _claimed_size(source))
        super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

    def close(self) -> None:
        """Do nothing: the owner of the evidence closes it."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer at the end."""
        if self._sector == _SECTOR:
            return peek(self._source, offset, size)
        first, skip = divmod(offset, _SECTOR)
        seen = b""
        for number in range(first, -(-(offset + size) // _SECTOR)):
            start = peek(self._source, number * self._sector, _SECTOR)
            seen += start
            if len(start) < _SECTOR:
                break
        return seen[skip : skip + size]

    def get_size(self) -> int:
        """Size of the image for TSK in bytes, or of its MBR: an image may be truncated."""
        return self._size


def _claimed_size(source: Source) -> int:
    """End of the last primary partition of an MBR, as a byte offset for TSK.

    TSK refuses a whole table if one of its first entries starts beyond the image. A GPT is not
    extended, because its backup is at the true end.
    """
    sector = peek(source, 0, _SECTOR)
    if len(sector) < _SECTOR or sector[510:] != b"\x55\xaa":
        return 0
    entries = [sector[at : at + 16] for at in range(446, 510, 16)]
    if any(entry[4] == 0xEE for entry in entries):
        return 0
    ends = (
        int.from_bytes(entry[8:12], "little") + int.from_bytes(entry[12:16], "little")
        for entry in entries
        if entry[4]
    )
    return max(ends, default=0) * _SECTOR


def read_table(
    source: Source, sector: int = _SECTOR, is_mbr: bool = False
) -> PartitionTable | None:
    """The partition table at the start of a source, or None if TSK finds none.

    Args:
        source: the disk.
        sector: sector size of the table in bytes; the position of a GPT shows it.
        is_mbr: read an MBR and nothing else, also from a boot sector that names a file system.
    """
    image = _Image(source, sector)
    info = _volume_info(image, pytsk3.TSK_VS_TYPE_DOS) if is_mbr else _open(image)
    if info is None:
        return None
    return PartitionTable(
        scheme=_SCHEMES.get(int(info.info.vstype), "other"),
        sector_size=int(info.info.block_size) * sector // _SECTOR,
        is_backup=bool(info.info.is_backup),
        entries=tuple(_entries(info)),
        unread=_unread(info),
    )


def _open(image: _Image) -> pytsk3.Volume_Info | None:
    """The table that TSK detects, or the first that it can read if there are several.

    A protective MBR alone means that the first GPT is damaged; the backup is read then.
    """
    found = _volume_info(image, pytsk3.TSK_VS_TYPE_DETECT)
    if found is not None and not _is_protective(found):
        return found
    kinds = [pytsk3.TSK_VS_TYPE_GPT]
    if found is None:
        kinds += [pytsk3.TSK_VS_TYPE_BSD, pytsk3.TSK_VS_TYPE_SUN, pytsk3.TSK_VS_TYPE_MAC]
    opened = (_volume_info(image, kind) for kind in kinds)
    return next((each for each in opened if each is not None), found)


def _volume_info(image: _Image, kind: int) -> pytsk3.Volume_Info | None:
    try:
        return pytsk3.Volume_Info(image, kind)
    except (OSError, RuntimeError):
        return None


def _is_protective(info: pytsk3.Volume_Info) -> bool:
    entries = _entries(info)
    return len(entries) == 1 and "(0xee)" in entries[0].description


def _entries(info: pytsk3.Volume_Info) -> list[Entry]:
    allocated = int(pytsk3.TSK_VS_PART_FLAG_ALLOC)
    return [
        Entry(int(each.start), int(each.len), _described(each))
        for each in info
        if int(each.flags) == allocated
    ]


def _described(part: pytsk3.TSK_VS_PART_INFO) -> str:
    return bytes(part.desc or b"").decode("utf-8", "backslashreplace")


def _unread(info: pytsk3.Volume_Info) -> tuple[int, ...]:
    """Start sectors of extended partitions without a table at their start, from TSK."""
    meta = int(pytsk3.TSK_VS_PART_FLAG_META)
    found = [(int(each.start), _described(each)) for each in info if int(each.flags) == meta]
    read = {start for start, text in found if text.startswith("Extended Table")}
    wanted = {start for start, text in found if "Extended (0x" in text}
    return tuple(sorted(wanted - read))
