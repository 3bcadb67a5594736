"""The Sleuth Kit's reader of partition tables (pytsk3) over any source.

This module is imported only to read a table, because loading the library delays the start. The
library parses bytes that may be hostile. Therefore it runs in a confined process, which requests
the bytes of the disk from this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import pytsk3

from ext4kit.errors import AccessError
from ext4kit.evidence.confinement import confine
from ext4kit.evidence.forked import Forked, Pipe, can_fork
from ext4kit.evidence.source import Source, peek
from ext4kit.units import SECTOR

LARGE_SECTOR = 4096
_PAGE = 64 << 10  # bytes of one request of the process
_PATIENCE = 30.0  # seconds for one step of the library
_MOST_READ = 1 << 20  # bytes; a table takes some tens of KiB
_MOST_STEPS = 1 << 16  # requests for one table
_MOST_ANSWER = 4 << 20  # bytes
Read = Callable[[int, int], bytes]
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
    """A disk for TSK; reads are short where the evidence cannot be read.

    TSK supports only sectors of 512 bytes here. If sectors are larger, it gets the first 512 bytes
    of each, because partition tables do not use the rest.

    Args:
        read: returns up to a number of bytes at an offset of the disk.
        size: size of the disk for TSK in bytes.
        sector: bytes per sector.
    """

    def __init__(self, read: Read, size: int, sector: int) -> None:
        self._read, self._size, self._sector = read, size, sector
        super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

    def close(self) -> None:
        """Do nothing: the owner of the evidence closes it."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer at the end."""
        if self._sector == SECTOR:
            return self._read(offset, size)
        first, skip = divmod(offset, SECTOR)
        seen = b""
        for number in range(first, -(-(offset + size) // SECTOR)):
            start = self._read(number * self._sector, SECTOR)
            seen += start
            if len(start) < SECTOR:
                break
        return seen[skip : skip + size]

    def get_size(self) -> int:
        """Size in bytes for TSK: of the image, or what the MBR claims for a truncated image."""
        return self._size


def _claimed_size(source: Source) -> int:
    """End of the last primary partition of an MBR, as a byte offset for TSK; 0 without one.

    TSK refuses a whole table if one of its first entries starts beyond the image. The size is not
    extended for a GPT, because its backup is at the true end.
    """
    sector = peek(source, 0, SECTOR)
    if len(sector) < SECTOR or sector[510:] != b"\x55\xaa":
        return 0
    entries = [sector[at : at + 16] for at in range(446, 510, 16)]
    if any(entry[4] == 0xEE for entry in entries):
        return 0
    ends = (
        int.from_bytes(entry[8:12], "little") + int.from_bytes(entry[12:16], "little")
        for entry in entries
        if entry[4]
    )
    return max(ends, default=0) * SECTOR


@dataclass(frozen=True, slots=True)
class PartitionTables:
    """The partition table of a disk, read with sectors of 512 and of 4,096 bytes; None for none.

    Attributes:
        insisted: if `usual` is None, the MBR in a boot sector that also names a file system.
    """

    usual: PartitionTable | None
    large: PartitionTable | None
    insisted: PartitionTable | None


def read_tables(source: Source) -> PartitionTables:
    """The partition tables at the start of a source, as TSK reads them.

    Raises:
        AccessError: the library crashed, or took too long.
    """
    sizes = {
        sector: max(source.size // sector * SECTOR, _claimed_size(source))
        for sector in (SECTOR, LARGE_SECTOR)
    }
    if not can_fork():
        return _tables(lambda offset, length: peek(source, offset, length), sizes)
    process = Forked(_answer, sizes)
    try:
        found = _served(process.pipe, source)
    finally:
        process.end()
    try:
        return PartitionTables(*(_checked(found[name]) for name in ("usual", "large", "insisted")))
    except (ValueError, LookupError, TypeError) as error:
        raise AccessError("The Sleuth Kit gives no sense of it") from error


def _checked(found: dict[str, Any] | None) -> PartitionTable | None:
    """A table from the answer of the process, checked because it may contain anything."""
    if found is None:
        return None
    entries = [
        Entry(int(one["start"]), int(one["sectors"]), str(one["description"]))
        for one in found["entries"]
    ]
    return PartitionTable(
        scheme=str(found["scheme"]),
        sector_size=max(int(found["sector_size"]), 1),
        is_backup=bool(found["is_backup"]),
        entries=tuple(entries),
        unread=tuple(map(int, found["unread"])),
    )


def _served(pipe: Pipe, source: Source) -> dict[str, Any]:
    """Serve the requests of the process for bytes of the disk, until it returns the tables."""
    try:
        for _ in range(_MOST_STEPS):
            if not pipe.waits(_PATIENCE):
                break
            said = json.loads(pipe.receive(_MOST_ANSWER))
            if isinstance(said, dict):
                return said
            offset, length = said
            pipe.send(peek(source, int(offset), min(int(length), _MOST_READ)))
    except (EOFError, OSError, ValueError, TypeError) as error:
        raise AccessError("The Sleuth Kit crashed over it") from error
    raise AccessError("The Sleuth Kit does not finish reading it")


def _answer(pipe: Pipe, sizes: dict[int, int]) -> None:
    """Main function of the process: read the tables, requesting the bytes in cached pages."""
    confine([])

    def ask(offset: int, length: int) -> bytes:
        pipe.send(json.dumps([offset, length]).encode())
        return pipe.receive(_MOST_READ)

    @cache
    def page(number: int) -> bytes:
        return ask(number * _PAGE, _PAGE)

    def read(offset: int, length: int) -> bytes:
        first, skip = divmod(offset, _PAGE)
        pages = b"".join(map(page, range(first, -(-(offset + length) // _PAGE))))
        whole = pages[skip : skip + length]
        return whole if len(whole) == length else ask(offset, length)  # part of it may be bad

    pipe.send(json.dumps(asdict(_tables(read, sizes))).encode())


def _tables(read: Read, sizes: dict[int, int]) -> PartitionTables:
    usual = _table(read, sizes[SECTOR], SECTOR)
    insisted = None
    if usual is None:
        image = _Image(read, sizes[SECTOR], SECTOR)
        insisted = _as_table(_volume_info(image, pytsk3.TSK_VS_TYPE_DOS), SECTOR)
    return PartitionTables(usual, _table(read, sizes[LARGE_SECTOR], LARGE_SECTOR), insisted)


def _table(read: Read, size: int, sector: int) -> PartitionTable | None:
    return _as_table(_open(_Image(read, size, sector)), sector)


def _as_table(info: pytsk3.Volume_Info | None, sector: int) -> PartitionTable | None:
    """TSK's table; the position of a GPT shows its sector size."""
    if info is None:
        return None
    return PartitionTable(
        scheme=_SCHEMES.get(int(info.info.vstype), "other"),
        sector_size=int(info.info.block_size) * sector // SECTOR,
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
